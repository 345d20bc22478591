//! Logging in to real servers by every method, and what is said when it fails.

mod common;

use std::time::Duration;

use common::Server;
use pool::{Conn, Login, NodeTarget, PoolError, Secret};
use wire::scram::{self, ClientScram, ServerScram, Verifier};

const TIMEOUT: Duration = Duration::from_secs(10);

const HBA: &str = "\
local all all trust
host all postgres 127.0.0.1/32 trust
host all old 127.0.0.1/32 md5
host all plain 127.0.0.1/32 password
host all all 127.0.0.1/32 scram-sha-256
";

fn target(server: &Server) -> NodeTarget {
    NodeTarget::new("127.0.0.1", server.port, common::DATABASE)
}

async fn log_in(server: &Server, user: &str, secret: Secret) -> Result<Conn, PoolError> {
    Conn::connect(&target(server), &Login::new(user, secret), &[("application_name", "test")], TIMEOUT).await
}

fn password(text: &str) -> Secret {
    Secret::Password(text.into())
}

async fn one(conn: &mut Conn, sql: &str) -> String {
    conn.simple(sql).await.unwrap()[0][0].clone().expect("not null")
}

#[tokio::test]
async fn every_method() {
    let server = Server::options().hba(HBA).start();
    let mut admin = log_in(&server, "postgres", Secret::None).await.expect("trust");
    admin
        .simple(
            "create role alice login password 'wonder land \u{2168}'; create role plain login password 'p';
             set password_encryption = 'md5'; create role old login password 'o'",
        )
        .await
        .unwrap();

    let mut alice = log_in(&server, "alice", password("wonder land \u{2168}")).await.expect("SCRAM");
    assert_eq!(one(&mut alice, "select current_user || current_setting('application_name')").await, "alicetest");
    assert_eq!(alice.parameters()["server_encoding"], "UTF8");
    assert_eq!(one(&mut alice, "select pg_backend_pid()").await, alice.pid().to_string());
    log_in(&server, "alice", password("wonder land IX")).await.expect("the same after SASLprep");
    assert!(alice.is_proved() && !admin.is_proved());

    // A password is told by no other way, unless somebody has said so.
    for (user, secret, required) in [("old", "o", "md5"), ("plain", "p", "password"), ("postgres", "p", "none")] {
        let login = Login::new(user, password(secret));
        for other in ["scram-sha-256", "scram-sha-256,none", "md5", "password", "!none"] {
            let target = NodeTarget { require_auth: other.parse().unwrap(), ..target(&server) };
            let done = Conn::connect(&target, &login, &[], TIMEOUT).await;
            let may = target.require_auth == required.parse().unwrap()
                || other.ends_with("none") && (user == "postgres") != other.starts_with('!');
            assert_eq!(done.is_ok(), may, "{user} where require_auth is {other}");
            match done {
                Ok(conn) => assert!(!conn.is_proved()),
                Err(e) => assert_eq!((e.sqlstate(), e.to_string().contains("require_auth")), ("28000", true), "{e}"),
            }
        }
    }
    for user in ["old", "plain"] {
        let error = log_in(&server, user, password("x")).await.err().expect(user);
        assert_eq!(error.sqlstate(), "28000", "{error}");
    }

    for (user, secret, code) in [
        ("alice", password("wrong"), "28P01"),
        ("alice", password(""), "28P01"),
        ("alice", Secret::None, "28P01"),
        ("nobody", password("x"), "28P01"),
        ("alice", Secret::Keys { client_key: [0; 32], server_key: [0; 32] }, "28P01"),
        ("alice\0database\0template1", password("x"), "08P01"),
    ] {
        let error = log_in(&server, user, secret).await.err().expect(user);
        assert!(matches!(error, PoolError::Auth { .. }), "{user}: {error}");
        assert_eq!(error.sqlstate(), code, "{user}: {error}");
        assert!(error.is_before_statement());
    }

    let nowhere = NodeTarget { database: "nowhere".into(), ..target(&server) };
    let error = Conn::connect(&nowhere, &Login::new("postgres", Secret::None), &[], TIMEOUT).await.err().unwrap();
    assert_eq!(error.sqlstate(), "3D000");
    assert!(error.to_string().contains("database \"nowhere\" does not exist"), "{error}");
}

/// A client logs in to the router, which has read its verifier from home; the keys it leaves behind open the node.
#[tokio::test]
async fn keys_pass_through() {
    let server = Server::options().hba(HBA).start();
    let mut admin = log_in(&server, "postgres", Secret::None).await.unwrap();
    admin.simple("create role alice login password 'sesame'").await.unwrap();
    let stored = one(&mut admin, "select rolpassword from pg_authid where rolname = 'alice'").await;
    let verifier = Verifier::parse(&stored).unwrap();
    assert_eq!(verifier.to_string(), stored);

    let mut client = ClientScram::new(scram::Secret::Password("sesame".into()), scram::nonce([5; 18]));
    let mut router = ServerScram::new(verifier.clone(), scram::nonce([6; 18]));
    let challenge = router.handle_first(&client.first()).unwrap();
    let (signed, client_key) = router.handle_final(&client.handle_first(&challenge).unwrap()).unwrap();
    client.verify(&signed).unwrap();

    let keys = Secret::Keys { client_key, server_key: verifier.server_key() };
    let mut conn = log_in(&server, "alice", keys.clone()).await.expect("the keys open the node");
    assert_eq!(one(&mut conn, "select session_user").await, "alice");

    let forged = Secret::Keys { client_key, server_key: [0; 32] };
    let error = log_in(&server, "alice", forged).await.err().expect("the node can't prove itself");
    assert!(error.to_string().contains("incorrect server signature"), "{error}");

    admin.simple("alter role alice password 'sesame'").await.unwrap();
    let error = log_in(&server, "alice", keys).await.err().expect("same password, other salt");
    assert_eq!(error.sqlstate(), "28P01");

    // A verifier made here is one PostgreSQL takes.
    let ours = Verifier::from_password("open", b"0123456789abcdef", 5000);
    admin.simple(&format!("alter role alice password '{ours}'")).await.unwrap();
    log_in(&server, "alice", password("open")).await.expect("our verifier");
}

#[tokio::test]
async fn unix_sockets() {
    let server = Server::options().hba(HBA).start();
    let unix = NodeTarget::new(server.socket_dir(), server.port, common::DATABASE);
    let mut conn = Conn::connect(&unix, &Login::new("postgres", Secret::None), &[], TIMEOUT).await.unwrap();
    assert_eq!(one(&mut conn, "select inet_client_addr() is null").await, "t");
    pool::cancel(&conn.cancel_key(), TIMEOUT).await.expect("cancelling nothing");
    assert_eq!(one(&mut conn, "select 1").await, "1");
}

#[tokio::test]
async fn nobody_there() {
    let login = Login::new("postgres", Secret::None);
    let refused = NodeTarget::new("127.0.0.1", 1, "postgres");
    let error = Conn::connect(&refused, &login, &[], TIMEOUT).await.err().unwrap();
    assert!(matches!(error, PoolError::Connect { .. }), "{error}");
    assert_eq!((error.sqlstate(), error.is_node_trouble()), ("08001", true));

    // A listener that never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = NodeTarget::new("127.0.0.1", silent.local_addr().unwrap().port(), "postgres");
    let error = Conn::connect(&target, &login, &[], Duration::from_millis(100)).await.err().unwrap();
    assert_eq!(error.sqlstate(), "08001", "{error}");
}

#[test]
fn secrets_are_not_shown() {
    let keys = Secret::Keys { client_key: [b'k'; 32], server_key: [b'k'; 32] };
    let shown = format!("{:?} {:?}", Login::new("alice", password("hunter2")), Login::new("bob", keys));
    assert_eq!(shown, "Login { user: \"alice\", secret: Password(…) } Login { user: \"bob\", secret: Keys(…) }");
}
