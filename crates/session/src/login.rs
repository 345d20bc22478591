//! A client's way in: from an accepted connection to a logged-in user, or to a request to cancel.
//!
//! ```text
//! open → negotiate (TLS, version) → startup (who, which database, settings) → scram (is it really him)
//! ```
//!
//! It ends with AuthenticationOk, and home's word that the role may log in. It does not know what a session is, whether the
//! database exists, or where home's word comes from; it opens no connection to a node.

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
use wire::sqlstate;

use arc_swap::ArcSwapOption;
use bytes::BytesMut;
use exec::Found;
use pool::{Liveness, PoolError, Secret};
pub use rustls::ServerConfig;
use tokio::net::TcpStream;
use wire::{ErrorFields, backend};

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

/// How clients log in.
#[derive(Clone)]
pub struct LoginConfig {
    pub auth: Auth,
    /// What to offer clients that ask for TLS; see [`server_config`]. Another may take its place while clients come.
    pub tls: Arc<ArcSwapOption<ServerConfig>>,
    /// Refuse sessions without TLS.
    pub tls_required: bool,
    /// For everything from the first byte to AuthenticationOk.
    pub login_timeout: Duration,
    /// How soon a client whose machine is gone is noticed.
    pub liveness: Liveness,
    /// What [`greet`] reports: `server_version`, `server_encoding`, …, as home has them.
    pub server_parameters: Arc<dyn Fn() -> Vec<(String, String)> + Send + Sync>,
    /// Makes up salts for unknown users. The same on every router of a herd and after every restart, or one could
    /// tell who exists by asking twice; and known to nobody else, or one could by computing them.
    pub mock_secret: [u8; 32],
}

/// Where the roles are.
pub trait Roles: Send + Sync {
    /// What home says of a role now. `None`: there is none of that name.
    fn find(&self, user: &str) -> impl Future<Output = Result<Option<Found>, PoolError>> + Send;

    /// Rounds of hashing for passwords that are set now, as was learnt with the last role.
    fn iterations(&self) -> u32;
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
    /// Who the user is; `None`: home could not be asked, and nodes judge the name.
    pub role: Option<Found>,
    pub database: String,
    /// Settings the client starts with, each name once, in lower case; from `options` and from parameters.
    pub parameters: Vec<(String, String)>,
    /// With what to log in to nodes as this user.
    pub secret: Secret,
    /// The version in force, as on the wire: [`wire::startup::PROTOCOL_3_0`] and up to 3.2.
    pub protocol: u32,
    /// The job whose call it makes: it is the router itself.
    pub job: Option<i64>,
}

/// Takes a client's connection to AuthenticationOk.
///
/// # Errors
/// The client has been told, where it could understand, and the error has been logged.
pub async fn open(stream: TcpStream, config: &LoginConfig, roles: &impl Roles) -> Result<Opening, LoginError> {
    let peer = stream.peer_addr().map_or_else(|_| "unknown".into(), |a| a.to_string());
    let mut channel = Channel::new(stream, &config.liveness)?;
    let done = tokio::time::timeout(config.login_timeout, log_in(&mut channel, config, roles)).await;
    match done.unwrap_or(Err(LoginError::Timeout)) {
        Ok(Done::Session(identity)) => {
            let Identity { start, role, secret, protocol } = *identity;
            let (stream, rbuf) = channel.into_parts()?;
            let startup::Start { user, database, parameters } = start;
            Ok(Opening::Session(Box::new(LoggedIn {
                stream,
                rbuf,
                user,
                role,
                database,
                parameters,
                secret,
                protocol,
                job: None,
            })))
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
    Session(Box<Identity>),
    Cancel { pid: i32, secret: Vec<u8> },
}

/// A [`LoggedIn`] without its connection.
struct Identity {
    start: startup::Start,
    role: Option<Found>,
    secret: Secret,
    protocol: u32,
}

async fn log_in(channel: &mut Channel, config: &LoginConfig, roles: &impl Roles) -> Result<Done, LoginError> {
    let (protocol, parameters) = match negotiate::first_packets(channel, config.tls.load_full().as_ref()).await? {
        Negotiated::Start { version, parameters } => (version, parameters),
        Negotiated::Cancel { pid, secret } => return Ok(Done::Cancel { pid, secret }),
    };
    if config.tls_required && !channel.is_tls() {
        return Err(LoginError::TlsRequired);
    }
    let start = startup::interpret(parameters)?;
    let (secret, said) = match config.auth {
        Auth::Trust => (Secret::None, trusted(&start.user, roles).await?),
        Auth::Scram => {
            let (secret, found) = scram::authenticate(channel, &start.user, &config.mock_secret, roles).await?;
            (secret, Said::Found(found))
        }
    };
    backend::auth_ok(channel.out());
    channel.flush().await?;
    let role = admit(said, &start.user)?;
    Ok(Done::Session(Box::new(Identity { start, role, secret, protocol })))
}

/// Home's word about a name.
enum Said {
    Found(Found),
    Stranger,
    /// Home is away.
    Nothing,
}

/// He whose word is taken.
async fn trusted(user: &str, roles: &impl Roles) -> Result<Said, LoginError> {
    match roles.find(user).await {
        Ok(found) => Ok(found.map_or(Said::Stranger, Said::Found)),
        Err(error) if error.is_node_trouble() => Ok(Said::Nothing),
        Err(source) => Err(LoginError::Verifier { user: user.into(), source }),
    }
}

/// Whether a role that is who he says may have a session (PostgreSQL's miscinit.c). Of what home has not said, nodes judge.
fn admit(said: Said, user: &str) -> Result<Option<Found>, LoginError> {
    let denied = |why| {
        let fields =
            ErrorFields::fatal(sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, format!("role \"{user}\" {why}"));
        Err(LoginError::Startup(Box::new(fields)))
    };
    match said {
        Said::Found(found) if found.can_login => Ok(Some(found)),
        Said::Found(_) => denied("is not permitted to log in"),
        Said::Stranger => denied("does not exist"),
        Said::Nothing => Ok(None),
    }
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
