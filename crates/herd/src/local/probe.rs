//! Asks whether something that speaks PostgreSQL's protocol answers on a port, as `pg_isready` does.
//!
//! It logs in as `postgres` and looks at nothing but the answer to that. It does not know SQL, TLS or passwords.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(2);
/// PostgreSQL sends about twenty short messages at login.
const MESSAGES_MAX: usize = 200;
const MESSAGE_BYTES_MAX: u32 = 30_000;

/// What answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A login succeeded (then the server told its version), or was answered by a question for a password or by a
    /// refusal of this login: it serves.
    Ready { version: Option<String> },
    /// A server that does not serve yet (or not any more), and what it said.
    NotReady(String),
    /// Nothing listens, or not PostgreSQL.
    Nothing,
}

impl Answer {
    /// Whether clients are served.
    pub fn is_ready(&self) -> bool {
        matches!(self, Answer::Ready { .. })
    }
}

/// Logs in to a port of 127.0.0.1, and out again.
pub fn probe(port: u16) -> Answer {
    login(port).unwrap_or(Answer::Nothing)
}

fn login(port: u16) -> std::io::Result<Answer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;

    let parameters = b"user\0postgres\0database\0postgres\0application_name\0herd\0\0";
    let mut startup = Vec::new();
    startup.extend((parameters.len() as u32 + 8).to_be_bytes());
    startup.extend(196_608u32.to_be_bytes()); // protocol 3.0
    startup.extend(parameters);
    stream.write_all(&startup)?;

    let answer = read_answer(&mut stream)?;
    let _ = stream.write_all(&[b'X', 0, 0, 0, 4]); // Terminate: no "unexpected EOF" in the server's log
    Ok(answer)
}

fn read_answer(stream: &mut TcpStream) -> std::io::Result<Answer> {
    let mut version = None;
    for _ in 0..MESSAGES_MAX {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            return Ok(Answer::Nothing);
        }
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body)?;
        match head[0] {
            b'R' if body == [0; 4] => {} // AuthenticationOk; ReadyForQuery follows
            b'R' | b'Z' => return Ok(Answer::Ready { version }),
            // Class 28: this login is refused, by a server that decides about logins.
            b'E' if field(&body, b'C').starts_with("28") => return Ok(Answer::Ready { version }),
            b'E' => return Ok(Answer::NotReady(field(&body, b'M'))),
            b'S' => {
                if let Some(rest) = body.strip_prefix(b"server_version\0") {
                    version = Some(String::from_utf8_lossy(rest).trim_end_matches('\0').to_owned());
                }
            }
            b'K' | b'N' => {} // BackendKeyData, NoticeResponse
            _ => return Ok(Answer::Nothing),
        }
    }
    Ok(Answer::Nothing)
}

/// One field of an ErrorResponse.
fn field(body: &[u8], code: u8) -> String {
    let found = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&code));
    found.map(|field| String::from_utf8_lossy(&field[1..]).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that gives one answer to whatever it gets.
    fn answer_of(reply: &'static [u8]) -> Answer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 200];
            let n = stream.read(&mut request).unwrap();
            assert_eq!(u32::from_be_bytes(request[..4].try_into().unwrap()) as usize, n);
            stream.write_all(reply).unwrap();
            let _ = stream.read(&mut request);
        });
        let answer = probe(port);
        server.join().unwrap();
        answer
    }

    #[test]
    fn answers_are_told_apart() {
        let login = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x18server_version\x0018.6\0Z\0\0\0\x05I";
        assert_eq!(answer_of(login), Answer::Ready { version: Some("18.6".to_owned()) });
        assert_eq!(answer_of(b"R\0\0\0\x08\0\0\0\x05"), Answer::Ready { version: None });
        assert_eq!(answer_of(b"E\0\0\0\x13SFATAL\0C28000\0\0"), Answer::Ready { version: None });
        let starting = b"E\0\0\0\x25SFATAL\0C57P03\0Mthe system starts\0\0";
        assert_eq!(answer_of(starting), Answer::NotReady("the system starts".to_owned()));
        assert_eq!(answer_of(b"HTTP/1.0 400 Bad Request\r\n\r\n"), Answer::Nothing);
    }

    #[test]
    fn nothing_listens() {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        assert_eq!(probe(port), Answer::Nothing);
    }
}
