//! One question by HTTP, and its answer: Patroni's REST API, and etcd's health.
//!
//! Plain blocking code, HTTP/1.0, so that the answer comes in one piece and the connection's end is its end. It does not
//! know what is asked.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// An answer of more bytes is none.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Header lines of an answer at most.
const HEADERS_MAX: usize = 32;
/// Who does not answer by then does not answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The body of the answer to `GET path`. `address` is `host:port`.
pub fn get(address: &str, path: &str) -> Result<Vec<u8>> {
    ask(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"))
}

/// The same of `PATCH path` with a body of JSON.
pub fn patch(address: &str, path: &str, json: &str) -> Result<Vec<u8>> {
    let (kind, length) = ("application/json", json.len());
    let head = format!("PATCH {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: {kind}\r\nContent-Length: {length}");
    ask(address, &format!("{head}\r\n\r\n{json}"))
}

fn ask(address: &str, request: &str) -> Result<Vec<u8>> {
    let mut last = Error::from(ErrorKind::AddrNotAvailable);
    for place in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, TIMEOUT) {
            Ok(stream) => return answer(stream, request),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn answer(mut stream: TcpStream, request: &str) -> Result<Vec<u8>> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let wrong = |what: String| Error::new(ErrorKind::InvalidData, what);
    match response.parse(&answer).map_err(|error| wrong(error.to_string()))? {
        httparse::Status::Partial => Err(ErrorKind::UnexpectedEof.into()),
        httparse::Status::Complete(head) => match response.code {
            Some(200) => Ok(answer.split_off(head)),
            code => Err(wrong(format!("HTTP status {}", code.unwrap_or_default()))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn said(reply: &'static str) -> Result<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 500];
            let length = stream.read(&mut request).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let answer = patch(&address, "/config", "{}");
        assert!(server.join().unwrap().ends_with("Content-Length: 2\r\n\r\n{}"));
        answer
    }

    #[test]
    fn an_answer_is_its_body_and_anything_else_an_error() {
        assert_eq!(said("HTTP/1.0 200 OK\r\nServer: x\r\n\r\n{\"a\": 1}").unwrap(), b"{\"a\": 1}");
        assert!(said("HTTP/1.0 503 Service Unavailable\r\n\r\n{}").unwrap_err().to_string().contains("503"));
        assert!(said("R\0\0\0").is_err() && said("HTTP/1.0 200").is_err());
    }
}
