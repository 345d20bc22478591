//! A client's way in: from an accepted connection to a logged-in user, or to a request to cancel.
//!
//! ```text
//! open → negotiate (TLS, version) → startup (who, which database, settings) → scram (is it really him)
//! ```
//!
//! It ends with AuthenticationOk. It does not know what a session is, whether the database or (under `trust`) the user
//! exists, or where verifiers come from; it opens no connection to a node.

mod channel;
mod error;
mod negotiate;
mod options;
mod scram;
mod startup;
mod tls;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use pool::{Liveness, PoolError, Secret};
use tokio::net::TcpStream;
use wire::backend;

use crate::client_stream::ClientStream;
use channel::Channel;
use negotiate::Negotiated;

pub use channel::refuse;
pub use error::LoginError;
pub use tls::server_config;

/// How clients prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Not at all. For loopback.
    Trust,
    /// SCRAM-SHA-256, against the verifiers of home.
    Scram,
}

#[derive(Clone)]
pub struct LoginConfig {
    pub auth: Auth,
    /// What to offer clients that ask for TLS; see [`server_config`].
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Refuse sessions without TLS.
    pub tls_required: bool,
    /// For everything from the first byte to AuthenticationOk.
    pub login_timeout: Duration,
    /// How soon a client whose machine is gone is noticed.
    pub liveness: Liveness,
    /// What [`greet`] reports: `server_version`, `server_encoding`, …, as home has them.
    pub server_parameters: Arc<dyn Fn() -> Vec<(String, String)> + Send + Sync>,
    /// Makes up salts for unknown users. The same on every router of a herd and after every restart, or one could
    /// tell who exists by asking twice.
    pub mock_secret: [u8; 32],
}

/// Where the verifiers are.
pub trait Verifiers: Send + Sync {
    /// `rolpassword` of `user` on home. `None`: there is no such user, or he has no password, may not log in, or his
    /// password has expired.
    fn verifier(&self, user: &str) -> impl Future<Output = Result<Option<String>, PoolError>> + Send;
}

/// What a connection turned out to be.
pub enum Opening {
    Session(Box<LoggedIn>),
    /// Close `stream` ([`ClientStream::close`]) when the cancel has been delivered: its end tells the client that it has.
    Cancel {
        pid: i32,
        secret: Vec<u8>,
        stream: ClientStream,
    },
    /// The client went away at a point where clients may: port checks do, and psql before it asks for a password.
    Closed,
}

/// A client that is who he says. AuthenticationOk has been sent, nothing after it.
pub struct LoggedIn {
    pub stream: ClientStream,
    /// What the client has sent behind his login, if he did not wait.
    pub rbuf: BytesMut,
    pub user: String,
    pub database: String,
    /// Settings the client starts with, each name once, in lower case; from `options` and from parameters.
    pub parameters: Vec<(String, String)>,
    /// With what to log in to nodes as this user.
    pub secret: Secret,
    /// The version in force, as on the wire: [`wire::startup::PROTOCOL_3_0`] and up to 3.2.
    pub protocol: u32,
}

/// Takes a client's connection to AuthenticationOk.
///
/// # Errors
/// The client has been told, where it could understand, and the error has been logged.
pub async fn open(stream: TcpStream, config: &LoginConfig, verifiers: &impl Verifiers) -> Result<Opening, LoginError> {
    let peer = stream.peer_addr().map_or_else(|_| "unknown".into(), |a| a.to_string());
    let mut channel = Channel::new(stream, &config.liveness)?;
    let done = tokio::time::timeout(config.login_timeout, log_in(&mut channel, config, verifiers)).await;
    match done.unwrap_or(Err(LoginError::Timeout)) {
        Ok(Done::Session(Identity { start, secret, protocol })) => {
            let (stream, rbuf) = channel.into_parts()?;
            let startup::Start { user, database, parameters } = start;
            Ok(Opening::Session(Box::new(LoggedIn { stream, rbuf, user, database, parameters, secret, protocol })))
        }
        Ok(Done::Cancel { pid, secret }) => Ok(Opening::Cancel { pid, secret, stream: channel.into_stream()? }),
        Err(LoginError::Left) => Ok(Opening::Closed),
        Err(error) => {
            error.log(&peer);
            if let (Some(fields), Ok(mut stream)) = (error.to_fields(), channel.into_stream()) {
                refuse(&mut stream, &fields).await;
            }
            Err(error)
        }
    }
}

enum Done {
    Session(Identity),
    Cancel { pid: i32, secret: Vec<u8> },
}

/// A [`LoggedIn`] without its connection.
struct Identity {
    start: startup::Start,
    secret: Secret,
    protocol: u32,
}

async fn log_in(channel: &mut Channel, config: &LoginConfig, verifiers: &impl Verifiers) -> Result<Done, LoginError> {
    let (protocol, parameters) = match negotiate::first_packets(channel, config.tls.as_ref()).await? {
        Negotiated::Start { version, parameters } => (version, parameters),
        Negotiated::Cancel { pid, secret } => return Ok(Done::Cancel { pid, secret }),
    };
    if config.tls_required && !channel.is_tls() {
        return Err(LoginError::TlsRequired);
    }
    let start = startup::interpret(parameters)?;
    let secret = match config.auth {
        Auth::Trust => Secret::None,
        Auth::Scram => scram::authenticate(channel, &start.user, &config.mock_secret, verifiers).await?,
    };
    backend::auth_ok(channel.out());
    channel.flush().await?;
    Ok(Done::Session(Identity { start, secret, protocol }))
}

/// Writes what follows AuthenticationOk when a session is ready: ParameterStatus messages, BackendKeyData and
/// ReadyForQuery.
pub fn greet(out: &mut BytesMut, parameters: &[(String, String)], pid: i32, secret: &[u8]) {
    for (name, value) in parameters {
        backend::parameter_status(out, name, value);
    }
    backend::backend_key_data(out, pid, secret);
    backend::ready(out, backend::IDLE);
}
