//! A client's connection while it logs in: whole packets in, buffered messages out, and goodbyes that arrive.
//! It does not know what packets mean.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use pool::Liveness;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use wire::startup::Startup;
use wire::{ErrorFields, Frame, frame, startup};

use super::LoginError;
use crate::client_stream::ClientStream;

/// First byte of a TLS handshake. No startup packet begins with it: it would be hundreds of megabytes long.
const TLS_HANDSHAKE: u8 = 0x16;
/// Enough for what ordinary clients send before they are let in.
const CHUNK: usize = 1 << 10;
/// How long a refused client may take to read why.
const LINGER: Duration = Duration::from_millis(500);

pub(super) struct Channel {
    /// `None` while a TLS handshake has it, which it does not give back when it fails.
    stream: Option<ClientStream>,
    rbuf: BytesMut,
    wbuf: BytesMut,
}

impl Channel {
    /// Of a connection just accepted; nothing is read yet.
    pub fn new(tcp: TcpStream, liveness: &Liveness) -> Result<Self, LoginError> {
        let stream = Some(ClientStream::new(tcp, liveness)?);
        Ok(Channel { stream, rbuf: BytesMut::with_capacity(CHUNK), wbuf: BytesMut::new() })
    }

    /// True once the handshake is done; false after one that failed.
    pub fn is_tls(&self) -> bool {
        self.stream.as_ref().is_some_and(ClientStream::is_tls)
    }

    /// Whether the client begins with a TLS handshake. Takes nothing off the stream.
    pub async fn begins_with_tls(&mut self) -> Result<bool, LoginError> {
        let ClientStream::Tcp(tcp) = self.stream()? else { return Ok(false) };
        let mut first = [0];
        match tcp.peek(&mut first).await.or_else(gone)? {
            0 => Err(LoginError::Left),
            _ => Ok(first[0] == TLS_HANDSHAKE),
        }
    }

    /// Whether there are bytes behind what was taken.
    pub fn has_more(&self) -> bool {
        !self.rbuf.is_empty()
    }

    /// The next packet of those that have no type.
    pub async fn startup_packet(&mut self) -> Result<Startup, LoginError> {
        loop {
            if let Some((packet, len)) = startup::parse(&self.rbuf)? {
                self.rbuf.advance(len);
                return Ok(packet);
            }
            self.fill().await?;
        }
    }

    /// The next message, of at most `max` bytes in all.
    pub async fn frame(&mut self, max: usize) -> Result<Frame, LoginError> {
        loop {
            if let Some(frame) = frame::take(&mut self.rbuf, max)? {
                return Ok(frame);
            }
            self.fill().await?;
        }
    }

    /// What [`flush`](Self::flush) will send.
    pub fn out(&mut self) -> &mut BytesMut {
        &mut self.wbuf
    }

    /// Sends all that [`out`](Self::out) holds.
    pub async fn flush(&mut self) -> Result<(), LoginError> {
        let mut out = std::mem::take(&mut self.wbuf);
        let stream = self.stream()?;
        stream.write_all_buf(&mut out).await?;
        Ok(stream.flush().await?)
    }

    /// Makes the TLS handshake. The negotiated ALPN protocol, if any, is given back.
    pub async fn start_tls(&mut self, config: &Arc<rustls::ServerConfig>) -> Result<Option<Vec<u8>>, LoginError> {
        // What came in the clear must never be taken for what came encrypted.
        debug_assert!(self.rbuf.is_empty());
        self.rbuf.clear();
        let Some(ClientStream::Tcp(tcp)) = self.stream.take() else {
            return Err(LoginError::Left);
        };
        let tls = TlsAcceptor::from(config.clone()).accept(tcp).await.map_err(LoginError::Tls)?;
        let alpn = tls.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        self.stream = Some(ClientStream::Tls(Box::new(tls)));
        Ok(alpn)
    }

    /// The stream, and what the client has sent that nobody has taken.
    pub fn into_parts(mut self) -> Result<(ClientStream, BytesMut), LoginError> {
        let rbuf = std::mem::take(&mut self.rbuf);
        Ok((self.into_stream()?, rbuf))
    }

    /// What was read and not taken is lost. `Left` if a TLS handshake has failed.
    pub fn into_stream(self) -> Result<ClientStream, LoginError> {
        self.stream.ok_or(LoginError::Left)
    }

    fn stream(&mut self) -> Result<&mut ClientStream, LoginError> {
        self.stream.as_mut().ok_or(LoginError::Left)
    }

    async fn fill(&mut self) -> Result<(), LoginError> {
        self.rbuf.reserve(CHUNK);
        let Channel { stream: Some(stream), rbuf, .. } = self else { return Err(LoginError::Left) };
        let read = stream.read_buf(rbuf).await.or_else(gone)?;
        match (read, rbuf.is_empty()) {
            (0, true) => Err(LoginError::Left),
            (0, false) => Err(LoginError::Cut),
            _ => Ok(()),
        }
    }
}

/// Clients that drop a connection without ceremony are gone like any other.
fn gone(error: io::Error) -> io::Result<usize> {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => Ok(0),
        _ => Err(error),
    }
}

/// Tells a client why it goes no further, and closes the connection.
///
/// What the client had sent and nobody read would make the system answer with a reset, which can overtake the error;
/// so that is read and thrown away for a moment.
pub async fn refuse(stream: &mut ClientStream, error: &ErrorFields) {
    let goodbye = async {
        let mut out = BytesMut::new();
        error.put(&mut out, b'E');
        stream.write_all_buf(&mut out).await?;
        stream.shutdown().await?;
        let mut waste = [0; 1024];
        while stream.read(&mut waste).await? > 0 {}
        io::Result::Ok(())
    };
    // He who has gone or does not listen misses it.
    let _ = tokio::time::timeout(LINGER, goodbye).await;
}
