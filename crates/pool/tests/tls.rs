//! TLS to a real server whose certificate comes from an authority made for the test.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::Server;
use pool::{Conn, Login, NodeTarget, PoolError, Secret, TlsMode};

const TIMEOUT: Duration = Duration::from_secs(10);

/// An authority, and a certificate it issued for `localhost` (not for 127.0.0.1).
struct Pki {
    dir: PathBuf,
}

impl Pki {
    fn make() -> Pki {
        let dir = std::env::temp_dir().join(format!("pgherd-test-pki-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let pki = Pki { dir };
        for name in ["root", "stranger"] {
            pki.openssl(&format!(
                "req -new -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.crt"
            ));
        }
        pki.openssl("req -new -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr");
        std::fs::write(pki.dir.join("san"), "subjectAltName=DNS:localhost\n").unwrap();
        let issue = "x509 -req -in server.csr -days 2 -CA root.crt -CAkey root.key -set_serial 1";
        pki.openssl(&format!("{issue} -extfile san -out server.crt"));
        pki
    }

    fn openssl(&self, args: &str) {
        let run = Command::new("openssl").args(args.split(' ')).current_dir(&self.dir).output();
        let run = run.expect("openssl is installed");
        assert!(run.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&run.stderr));
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join(name)).unwrap()
    }
}

impl Drop for Pki {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

async fn connect(server: &Server, host: &str, tls: TlsMode) -> Result<Conn, PoolError> {
    let target = NodeTarget { tls, ..NodeTarget::new(host, server.port, common::DATABASE) };
    Conn::connect(&target, &Login::new(common::USER, Secret::None), &[], TIMEOUT).await
}

async fn is_encrypted(conn: &mut Conn) -> bool {
    let rows = conn.simple("select ssl from pg_stat_ssl where pid = pg_backend_pid()").await.unwrap();
    let on = rows[0][0].as_deref() == Some("t");
    assert_eq!(conn.is_tls(), on);
    on
}

#[tokio::test]
async fn modes() {
    let pki = Pki::make();
    let server = Server::options()
        .bin(common::tls_bin())
        .set("ssl = on")
        .file("server.crt", &pki.read("server.crt"))
        .file("server.key", &pki.read("server.key"))
        .start();
    let root = |name: &str| -> PathBuf { Path::new(&pki.dir).join(name) };

    for tls in [
        TlsMode::Prefer,
        TlsMode::Require,
        TlsMode::VerifyCa { root: root("root.crt") },
        TlsMode::VerifyFull { root: root("root.crt") },
    ] {
        let mut conn = connect(&server, "localhost", tls.clone()).await.unwrap_or_else(|e| panic!("{tls:?}: {e}"));
        assert!(is_encrypted(&mut conn).await, "{tls:?}");
        // More than a TLS record, a read chunk and a socket buffer.
        let rows = conn.simple("select repeat('x', 3000000)").await.unwrap();
        assert_eq!(rows[0][0].as_ref().map(String::len), Some(3_000_000));
        // And as much in the other direction.
        let long = format!("select length('{}')", "y".repeat(3_000_000));
        assert_eq!(conn.simple(&long).await.unwrap()[0][0].as_deref(), Some("3000000"));
        pool::cancel(&conn.cancel_key(), TIMEOUT).await.unwrap();
    }
    let mut plain = connect(&server, "localhost", TlsMode::Disable).await.unwrap();
    assert!(!is_encrypted(&mut plain).await);

    // Another name than the certificate's: only the strictest mode minds.
    connect(&server, "127.0.0.1", TlsMode::VerifyCa { root: root("root.crt") }).await.expect("the chain is right");
    for (host, tls) in [
        ("127.0.0.1", TlsMode::VerifyFull { root: root("root.crt") }),
        ("localhost", TlsMode::VerifyFull { root: root("stranger.crt") }),
        ("localhost", TlsMode::VerifyCa { root: root("stranger.crt") }),
        ("localhost", TlsMode::VerifyCa { root: "system".into() }),
        ("localhost", TlsMode::VerifyCa { root: root("server.key") }),
    ] {
        let error = connect(&server, host, tls.clone()).await.err().unwrap_or_else(|| panic!("{host} {tls:?}"));
        assert!(matches!(error, PoolError::Tls { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_tls() {
    let server = Server::start();
    let mut conn = connect(&server, "127.0.0.1", TlsMode::Prefer).await.expect("plain will do");
    assert!(!conn.is_tls());
    conn.simple("select 1").await.unwrap();
    let error = connect(&server, "127.0.0.1", TlsMode::Require).await.err().expect("plain won't do");
    assert!(error.to_string().contains("does not support TLS"), "{error}");
}
