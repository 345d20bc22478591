//! Makes one binary COPY stream of several nodes': their headers and trailers go, the client gets one of each.
//!
//! Messages keep their bounds, because clients rely on a row being one CopyData message, and on the header being in
//! the message of the first.

use super::binary::{self, BINARY_HEADER, BINARY_TRAILER, Tuple, TupleScanner};
use super::error::CopyError;

/// The streams of nodes on their way to be one.
pub struct BinaryJoin {
    nodes: Vec<Node>,
    /// The client has got the header.
    begun: bool,
}

/// What the client gets for a node's message: the two together as one message, or none if both are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined<'a> {
    pub header: &'static [u8],
    pub rows: &'a [u8],
}

struct Node {
    state: State,
    scanner: TupleScanner,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    Rows,
    Trailer,
}

impl BinaryJoin {
    /// Data of so many nodes, of which none has sent anything yet.
    pub fn new(nodes: usize) -> Self {
        let node = || Node { state: State::Header, scanner: TupleScanner::new(None, &[]) };
        BinaryJoin { nodes: (0..nodes).map(|_| node()).collect(), begun: false }
    }

    /// Takes a CopyData message of a node.
    pub fn push<'a>(&mut self, node: usize, data: &'a [u8]) -> Result<Joined<'a>, CopyError> {
        let rows = self.nodes[node].rows(data)?;
        let header: &'static [u8] = if rows.is_empty() || self.begun { &[] } else { &BINARY_HEADER };
        self.begun |= !rows.is_empty();
        Ok(Joined { header, rows })
    }

    /// All nodes have ended: the client's last message.
    pub fn finish(self) -> Result<Vec<u8>, CopyError> {
        if self.nodes.iter().any(|node| node.state != State::Trailer) {
            return Err(CopyError::UnexpectedEof);
        }
        let header: &[u8] = if self.begun { &[] } else { &BINARY_HEADER };
        Ok([header, &BINARY_TRAILER].concat())
    }
}

impl Node {
    /// The part of the message that is rows. PostgreSQL never cuts one in two (`CopySendEndOfRow` in copyto.c); rows of
    /// several nodes could not be mixed then.
    fn rows<'a>(&mut self, data: &'a [u8]) -> Result<&'a [u8], CopyError> {
        let mut rest = data;
        if self.state == State::Header {
            let length = binary::header_length(rest)?.filter(|&length| length <= rest.len());
            rest = &rest[length.ok_or_else(|| binary::header_cut_off(data))?..];
            self.state = State::Rows;
        }
        let rows = rest;
        while !rest.is_empty() {
            if self.state == State::Trailer {
                return Err(CopyError::DataAfterEnd);
            }
            match self.scanner.scan(rest)? {
                Tuple::Ends(end) => rest = &rest[end..],
                Tuple::Needs(_) => return Err(CopyError::UnexpectedEof),
                Tuple::Trailer => {
                    let end = rows.len() - rest.len();
                    rest = &rest[BINARY_TRAILER.len()..];
                    if !rest.is_empty() {
                        return Err(CopyError::DataAfterEnd);
                    }
                    self.state = State::Trailer;
                    return Ok(&rows[..end]);
                }
            }
        }
        Ok(rows)
    }
}
