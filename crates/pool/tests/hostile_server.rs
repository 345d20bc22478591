//! A node that is not what it says: scripted servers that skip, reorder or lie. No real PostgreSQL here.

use std::time::Duration;

use pool::{Conn, Login, NodeTarget, PoolError, Secret, TlsMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Answers whatever comes first with `reply`, then closes.
async fn scripted(reply: Vec<u8>, tls: TlsMode) -> Result<Conn, PoolError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut peer, _) = listener.accept().await.unwrap();
        let _ = peer.read(&mut [0; 1000]).await;
        let _ = peer.write_all(&reply).await;
        let mut rest = Vec::new();
        let _ = peer.read_to_end(&mut rest).await;
        rest
    });
    let target = NodeTarget { tls, ..NodeTarget::new("127.0.0.1", port, "postgres") };
    let login = Login::new("alice", Secret::Password("hunter2".into()));
    let result = Conn::connect(&target, &login, &[], Duration::from_secs(2)).await;
    let sent = if result.is_err() { server.await.unwrap() } else { Vec::new() };
    assert!(!sent.windows(7).any(|w| w == b"hunter2"), "the password was sent in clear");
    assert!(!sent.windows(3).any(|w| w == b"md5"), "the password was told by MD5");
    result
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn auth(code: i32, data: &[u8]) -> Vec<u8> {
    message(b'R', &[&code.to_be_bytes(), data].concat())
}

#[tokio::test]
async fn a_login_is_not_over_before_it_is_proved() {
    let sasl = auth(10, b"SCRAM-SHA-256\0\0");
    let ready = message(b'Z', b"I");
    for (name, reply) in [
        ("no authentication at all", ready.clone()),
        ("OK in the middle of SCRAM", [sasl.clone(), auth(0, b""), ready.clone()].concat()),
        ("ready in the middle of SCRAM", [sasl.clone(), ready.clone()].concat()),
        ("SCRAM final without a challenge", [sasl.clone(), auth(12, b"v=AAAA"), auth(0, b""), ready.clone()].concat()),
        ("clear text after SCRAM began", [sasl.clone(), auth(3, b"")].concat()),
        ("SASL twice", [sasl.clone(), sasl.clone()].concat()),
        ("challenge before SASL", auth(11, b"r=x,s=AAAA,i=4096")),
        ("another nonce", [sasl.clone(), auth(11, b"r=x,s=AAAA,i=4096")].concat()),
        ("only mechanisms we don't know", auth(10, b"SCRAM-SHA-256-PLUS\0\0")),
        ("an unknown method", auth(7, b"")),
        ("MD5", auth(5, b"salt")),
        ("a cut salt", auth(5, b"ab")),
        ("clear text", auth(3, b"")),
        ("clear text, and in all the same", [auth(3, b""), auth(0, b""), ready.clone()].concat()),
        ("a cut authentication request", message(b'R', b"\0")),
        ("a row instead", message(b'D', b"\0\0")),
        ("a negative length", b"R\xff\xff\xff\xff".to_vec()),
        ("a message of 2 GiB", b"R\x7f\xff\xff\xff".to_vec()),
        ("nothing", Vec::new()),
    ] {
        let error = scripted(reply, TlsMode::Disable).await.err();
        assert!(error.is_some(), "{name}");
    }
    let fine = [auth(0, b""), message(b'K', &[0; 8]), ready].concat();
    assert!(scripted(fine, TlsMode::Disable).await.is_ok(), "the harness can log in");
}

#[tokio::test]
async fn tls_is_not_given_up() {
    for tls in [TlsMode::Require, TlsMode::VerifyFull { root: "system".into() }] {
        for reply in [&b"N"[..], b"E", b"X", b"", b"SR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"] {
            let error = scripted(reply.to_vec(), tls.clone()).await.err().expect("no TLS, no login");
            assert_eq!(error.sqlstate(), "08001", "{error}");
        }
    }
    let missing = TlsMode::VerifyCa { root: "/nowhere/root.pem".into() };
    let error = scripted(Vec::new(), missing).await.err().unwrap();
    assert!(error.to_string().contains("/nowhere/root.pem"), "{error}");
}
