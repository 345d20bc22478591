//! The beginning of a client's connection: what he wants to be, and that he is. It does not know what he asks later.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use rand::random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::frame::{self, HEADER_LEN, Reader};
use wire::scram::{self, MECHANISM, SCRAM_ITERATIONS, ServerScram, Verifier};
use wire::startup::{self, PROTOCOL_3_0, Startup};
use wire::{ErrorFields, WireError, backend, sqlstate};

use crate::config::Config;

/// Nobody takes longer.
const LOGIN: Duration = Duration::from_secs(15);
/// Requests for encryption before the startup message.
const REQUESTS_MAX: usize = 2;
/// As PostgreSQL's PG_MAX_SASL_MESSAGE_LENGTH.
const SASL_MESSAGE_MAX: usize = 1024;
const SASL_CONTINUE: i32 = 11;
const SASL_FINAL: i32 = 12;

/// How clients prove who they are.
pub struct Door {
    user: String,
    /// `None`: they need not.
    verifier: Option<Verifier>,
    /// Makes up verifiers of users there are none of.
    secret: [u8; 32],
}

/// What a connection turned out to be.
pub enum Came {
    Client,
    /// It asks for another's question to be given up.
    Cancel {
        pid: i32,
        secret: Vec<u8>,
    },
    /// It was refused, and has been told.
    Nobody,
}

impl Door {
    /// The password is not kept.
    pub fn new(config: &Config) -> Self {
        let verifier = config
            .password
            .as_deref()
            .map(|password| Verifier::from_password(password, &random::<[u8; 16]>(), SCRAM_ITERATIONS));
        Door { user: config.user.clone(), verifier, secret: random() }
    }

    /// Lets a client in, or not. What he has sent since is in `rbuf`; what he is to be told is in `out`.
    pub async fn let_in(
        &self,
        stream: &mut TcpStream,
        rbuf: &mut BytesMut,
        out: &mut BytesMut,
    ) -> std::io::Result<Came> {
        let mut channel = Channel { stream, rbuf, out };
        match tokio::time::timeout(LOGIN, self.login(&mut channel)).await {
            Ok(Ok(came)) => Ok(came),
            Ok(Err(Failure::Io(error))) => Err(error),
            Ok(Err(Failure::Told(fields))) => {
                channel.out.clear();
                fields.put(channel.out, b'E');
                channel.flush().await?;
                Ok(Came::Nobody)
            }
            Err(_) => Ok(Came::Nobody),
        }
    }

    async fn login(&self, channel: &mut Channel<'_>) -> Result<Came, Failure> {
        let mut requests = 0;
        let (version, parameters) = loop {
            match channel.startup().await? {
                Startup::Ssl | Startup::GssEnc if requests < REQUESTS_MAX => {
                    requests += 1;
                    channel.stream.write_all(b"N").await?;
                }
                Startup::Cancel { pid, secret } => return Ok(Came::Cancel { pid, secret }),
                Startup::Start { version, parameters } => break (version, parameters),
                _ => return Err(WireError::Other("too many requests for encryption").into()),
            }
        };
        if version != PROTOCOL_3_0 {
            backend::negotiate_protocol(channel.out, 0, &[]);
        }
        let user = parameters.iter().find(|(name, _)| name == "user").map_or("", |(_, user)| user);
        if let Some(verifier) = &self.verifier {
            let known =
                if user == self.user { verifier.clone() } else { Verifier::mock(user, &self.secret, SCRAM_ITERATIONS) };
            let proved = prove(channel, known).await?;
            if !proved || user != self.user {
                let message = format!("password authentication failed for user \"{user}\"");
                return Err(Failure::Told(ErrorFields::fatal(sqlstate::INVALID_PASSWORD, message)));
            }
        }
        backend::auth_ok(channel.out);
        Ok(Came::Client)
    }
}

/// Whether the client has proved that he knows the password.
async fn prove(channel: &mut Channel<'_>, verifier: Verifier) -> Result<bool, Failure> {
    let mut exchange = ServerScram::new(verifier, scram::nonce(random()));
    let wrong = |_| WireError::Other("a message of SASL is malformed");
    backend::auth_sasl(channel.out, &[MECHANISM]);
    channel.flush().await?;
    let body = channel.sasl().await?;
    let mut r = Reader::new(&body);
    if r.cstr()? != MECHANISM {
        return Err(WireError::Other("another mechanism of SASL was chosen").into());
    }
    let first = r.value()?.ok_or(WireError::Other("the first message of SASL is missing"))?;
    let first = std::str::from_utf8(first).map_err(|_| WireError::String)?;
    let answer = exchange.handle_first(first).map_err(wrong)?;
    backend::auth_sasl_data(channel.out, SASL_CONTINUE, answer.as_bytes());
    channel.flush().await?;
    let body = channel.sasl().await?;
    let last = std::str::from_utf8(&body).map_err(|_| WireError::String)?;
    match exchange.handle_final(last) {
        Ok((last, _)) => {
            backend::auth_sasl_data(channel.out, SASL_FINAL, last.as_bytes());
            Ok(true)
        }
        Err(_) => Ok(false),
    }
}

struct Channel<'c> {
    stream: &'c mut TcpStream,
    rbuf: &'c mut BytesMut,
    out: &'c mut BytesMut,
}

enum Failure {
    Io(std::io::Error),
    /// What he is told.
    Told(ErrorFields),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Io(error)
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Failure::Told(ErrorFields::fatal(sqlstate::PROTOCOL_VIOLATION, error.to_string()))
    }
}

impl Channel<'_> {
    async fn startup(&mut self) -> Result<Startup, Failure> {
        loop {
            if let Some((startup, len)) = startup::parse(self.rbuf)? {
                self.rbuf.advance(len);
                return Ok(startup);
            }
            self.fill().await?;
        }
    }

    async fn sasl(&mut self) -> Result<Vec<u8>, Failure> {
        loop {
            if let Some(frame) = frame::take(self.rbuf, HEADER_LEN + SASL_MESSAGE_MAX)? {
                return match frame.tag() {
                    b'p' => Ok(frame.body().to_vec()),
                    _ => Err(WireError::Other("a password message was expected").into()),
                };
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> std::io::Result<()> {
        match self.stream.read_buf(self.rbuf).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn flush(&mut self) -> std::io::Result<()> {
        self.stream.write_all_buf(self.out).await
    }
}
