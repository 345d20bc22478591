//! A router's door with a fake home behind it, and a client that says what a test wants, byte by byte.

// Each test binary uses a part of it.
#![allow(dead_code)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use exec::Found;
use pool::{PoolError, RoleWord};
use session::login::{Auth, LoggedIn, LoginConfig, LoginError, Opening, Roles, open};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wire::scram::{ClientScram, MECHANISM, Secret, Verifier, nonce};
use wire::{ErrorFields, Frame, frame, put};

pub const V3_0: u32 = 3 << 16;
pub const V3_2: u32 = V3_0 | 2;
pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
pub const GSSENC_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 48];

/// Home's `rolpassword` by user.
#[derive(Default, Clone)]
pub struct Home {
    pub verifiers: HashMap<String, String>,
    pub is_down: bool,
}

impl Home {
    pub fn with(user: &str, password: &str) -> Home {
        let verifier = Verifier::from_password(password, b"0123456789abcdef", 4096).to_string();
        Home { verifiers: [(user.to_string(), verifier)].into(), is_down: false }
    }
}

/// Everybody is there; those without a verifier have no password, and `nologin` may not log in.
impl Roles for Home {
    async fn find(&self, user: &str) -> Result<Option<Found>, PoolError> {
        if self.is_down {
            return Err(PoolError::Timeout { node: "secret-host:5432".into(), doing: "testing" });
        }
        Ok(Some(Found {
            word: RoleWord { oid: 1, name: user.into(), version: 1, as_of: 1, has_settings: false },
            can_login: user != "nologin",
            connection_limit: -1,
            may_connect: true,
            verifier: self.verifiers.get(user).cloned(),
        }))
    }

    fn iterations(&self) -> u32 {
        4096
    }
}

pub fn config(auth: Auth) -> LoginConfig {
    LoginConfig {
        liveness: pool::Liveness::CLIENT,
        auth,
        tls: Default::default(),
        tls_required: false,
        login_timeout: Duration::from_secs(20),
        server_parameters: Arc::new(Vec::new),
        mock_secret: [7; 32],
    }
}

pub type Opened = JoinHandle<Result<Opening, LoginError>>;

/// Opens one connection with `config`; gives the client's end and what `open` returns.
pub async fn knock(config: LoginConfig, home: Home) -> (Client<TcpStream>, Opened) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let client = TcpStream::connect(address).await.unwrap();
    client.set_nodelay(true).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let opened = tokio::spawn(async move { open(stream, &config, &home).await });
    (Client::new(client), opened)
}

pub async fn session(opened: Opened) -> LoggedIn {
    match opened.await.unwrap().expect("a login that works") {
        Opening::Session(session) => *session,
        Opening::Cancel { .. } => panic!("a session was expected, not a cancel request"),
        Opening::Closed => panic!("a session was expected, but the client has left"),
    }
}

pub fn start_packet(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut packet = BytesMut::new();
    packet.put_u32(0);
    packet.put_u32(version);
    for (name, value) in parameters {
        put::cstr(&mut packet, name);
        put::cstr(&mut packet, value);
    }
    packet.put_u8(0);
    let len = packet.len() as u32;
    packet[..4].copy_from_slice(&len.to_be_bytes());
    packet.to_vec()
}

/// A SASLInitialResponse.
pub fn initial_response(mechanism: &str, first: &[u8]) -> Vec<u8> {
    let mut message = BytesMut::new();
    put::message(&mut message, b'p', |b| {
        put::cstr(b, mechanism);
        put::value(b, Some(first));
    });
    message.to_vec()
}

pub fn response(data: &[u8]) -> Vec<u8> {
    let mut message = BytesMut::new();
    put::password(&mut message, data);
    message.to_vec()
}

pub struct Client<S> {
    pub stream: S,
    pub rbuf: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub fn new(stream: S) -> Self {
        Client { stream, rbuf: BytesMut::new() }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    pub async fn start(&mut self, parameters: &[(&str, &str)]) {
        self.send(&start_packet(V3_0, parameters)).await;
    }

    pub async fn byte(&mut self) -> u8 {
        assert!(self.rbuf.is_empty());
        self.stream.read_u8().await.unwrap()
    }

    /// The next message; `None` at the end of the connection.
    pub async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = frame::take(&mut self.rbuf, 1 << 16).unwrap() {
                return Some(frame);
            }
            if self.stream.read_buf(&mut self.rbuf).await.expect("an orderly end, no reset") == 0 {
                assert!(self.rbuf.is_empty(), "the connection ended within a message");
                return None;
            }
        }
    }

    /// An authentication message: its code and data.
    pub async fn auth(&mut self) -> (i32, Vec<u8>) {
        let frame = self.frame().await.expect("an authentication message");
        assert_eq!(frame.tag(), b'R', "{frame:?}");
        let (code, data) = frame.body().split_at(4);
        (i32::from_be_bytes(code.try_into().unwrap()), data.to_vec())
    }

    /// The FATAL error that must come next, and the end of the connection after it.
    pub async fn fatal(&mut self) -> ErrorFields {
        let frame = self.frame().await.expect("an error");
        assert_eq!(frame.tag(), b'E', "{frame:?}");
        let error = ErrorFields::parse(frame.body()).unwrap();
        assert!(error.is_fatal(), "{error:?}");
        assert_eq!(self.frame().await, None);
        // The router waits a moment for the client to close too.
        let _ = self.stream.shutdown().await;
        error
    }

    /// Begins SCRAM; gives the exchange and the server's challenge.
    pub async fn challenge(&mut self, user: &str, password: &str) -> (ClientScram, String) {
        self.start(&[("user", user)]).await;
        assert_eq!(self.auth().await, (10, b"SCRAM-SHA-256\0\0".to_vec()));
        let scram = ClientScram::new(Secret::Password(password.into()), nonce(rand::random()));
        self.send(&initial_response(MECHANISM, scram.first().as_bytes())).await;
        let (code, challenge) = self.auth().await;
        assert_eq!(code, 11);
        (scram, String::from_utf8(challenge).unwrap())
    }

    /// All of SCRAM, for a password that is right.
    pub async fn log_in(&mut self, user: &str, password: &str) {
        let (mut scram, challenge) = self.challenge(user, password).await;
        let proof = scram.handle_first(&challenge).unwrap();
        self.send(&response(proof.as_bytes())).await;
        let (code, signature) = self.auth().await;
        assert_eq!(code, 12);
        scram.verify(std::str::from_utf8(&signature).unwrap()).unwrap();
        assert_eq!(self.auth().await, (0, vec![]));
    }
}
