//! TLS: asked for, begun with, required, and what somebody in between might slip in before it.

mod login_common;

use std::process::Command;
use std::sync::{Arc, OnceLock};

use login_common::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use session::login::{Auth, LoginConfig, LoginError, Opening, server_config};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate for `localhost` and its key, made once.
fn pair() -> &'static (Vec<u8>, Vec<u8>) {
    static PAIR: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    PAIR.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("pgherd-test-login-tls-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let args = "req -new -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext \
                    subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE -keyout key -out crt";
        let run = Command::new("openssl").args(args.split_whitespace()).current_dir(&dir).output();
        let run = run.expect("openssl is installed");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let pair = (std::fs::read(dir.join("crt")).unwrap(), std::fs::read(dir.join("key")).unwrap());
        std::fs::remove_dir_all(&dir).unwrap();
        pair
    })
}

fn tls_config(auth: Auth) -> LoginConfig {
    let (certificate, key) = pair();
    LoginConfig { tls: std::sync::Arc::new(Some(server_config(certificate, key).unwrap()).into()), ..config(auth) }
}

async fn encrypt(client: Client<TcpStream>, alpn: &[&[u8]]) -> std::io::Result<Client<TlsStream<TcpStream>>> {
    assert!(client.rbuf.is_empty());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pair().0).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    Ok(Client::new(TlsConnector::from(Arc::new(config)).connect(name, client.stream).await?))
}

async fn ask_for_tls(config: LoginConfig) -> (Client<TlsStream<TcpStream>>, Opened) {
    let (mut client, opened) = knock(config, Home::with("ann", "sesame")).await;
    client.send(&SSL_REQUEST).await;
    assert_eq!(client.byte().await, b'S');
    (encrypt(client, &[]).await.unwrap(), opened)
}

#[tokio::test]
async fn a_login_over_tls() {
    let (mut client, opened) = ask_for_tls(tls_config(Auth::Scram)).await;
    client.log_in("ann", "sesame").await;
    let session = session(opened).await;
    assert!(session.stream.is_tls());
    assert!(session.rbuf.is_empty());
}

#[tokio::test]
async fn gss_may_be_asked_for_first() {
    let (mut client, opened) = knock(tls_config(Auth::Trust), Home::default()).await;
    client.send(&GSSENC_REQUEST).await;
    assert_eq!(client.byte().await, b'N');
    client.send(&SSL_REQUEST).await;
    assert_eq!(client.byte().await, b'S');
    let mut client = encrypt(client, &[]).await.unwrap();
    client.start(&[("user", "ann")]).await;
    assert!(session(opened).await.stream.is_tls());
}

#[tokio::test]
async fn tls_is_started_once() {
    for request in [SSL_REQUEST, GSSENC_REQUEST] {
        let (mut client, _opened) = ask_for_tls(tls_config(Auth::Trust)).await;
        client.send(&request).await;
        assert_eq!(client.fatal().await.code(), "0A000");
    }
}

/// An attacker's startup packet behind the victim's SSLRequest must never become the victim's session.
#[tokio::test]
async fn bytes_before_the_handshake_are_refused() {
    for injected in [&start_packet(V3_0, &[("user", "mallory")])[..], &[0], &[0x16, 3, 1]] {
        let (mut client, opened) = knock(tls_config(Auth::Trust), Home::default()).await;
        client.send(&[&SSL_REQUEST[..], injected].concat()).await;
        assert_eq!(client.fatal().await.code(), "08P01");
        assert!(matches!(opened.await.unwrap(), Err(LoginError::Injected("SSL"))));
    }
    // Too late to be seen in the buffer: then the handshake gets it and fails.
    let (mut client, opened) = knock(tls_config(Auth::Trust), Home::default()).await;
    client.send(&SSL_REQUEST).await;
    assert_eq!(client.byte().await, b'S');
    client.send(&start_packet(V3_0, &[("user", "mallory")])).await;
    assert!(matches!(opened.await.unwrap(), Err(LoginError::Tls(_))));
}

#[tokio::test]
async fn a_client_may_begin_with_tls_if_it_names_the_protocol() {
    let (client, opened) = knock(tls_config(Auth::Trust), Home::default()).await;
    let mut client = encrypt(client, &[b"postgresql"]).await.unwrap();
    client.start(&[("user", "ann")]).await;
    assert_eq!(client.auth().await, (0, vec![]));
    assert!(session(opened).await.stream.is_tls());

    let (client, opened) = knock(tls_config(Auth::Trust), Home::default()).await;
    let _client = encrypt(client, &[]).await;
    assert!(matches!(opened.await.unwrap(), Err(LoginError::NoAlpn)));

    let (client, opened) = knock(tls_config(Auth::Trust), Home::default()).await;
    assert!(encrypt(client, &[b"h2", b"http/1.1"]).await.is_err());
    assert!(matches!(opened.await.unwrap(), Err(LoginError::Tls(_))));

    let (client, opened) = knock(config(Auth::Trust), Home::default()).await;
    assert!(encrypt(client, &[b"postgresql"]).await.is_err());
    assert!(matches!(opened.await.unwrap(), Err(LoginError::NoTls)));
}

#[tokio::test]
async fn required_tls_is_required_of_sessions() {
    let required = || LoginConfig { tls_required: true, ..tls_config(Auth::Trust) };
    let (mut client, opened) = knock(required(), Home::default()).await;
    client.start(&[("user", "ann")]).await;
    let error = client.fatal().await;
    assert_eq!((error.code(), error.get(b'H').is_some()), ("28000", true));
    assert!(matches!(opened.await.unwrap(), Err(LoginError::TlsRequired)));

    let (mut client, opened) = ask_for_tls(required()).await;
    client.start(&[("user", "ann")]).await;
    assert_eq!(session(opened).await.user, "ann");
}

#[tokio::test]
async fn cancel_requests_come_encrypted_too() {
    let (mut client, opened) = ask_for_tls(tls_config(Auth::Scram)).await;
    let mut packet = bytes::BytesMut::new();
    wire::startup::put_cancel(&mut packet, 77, &[5; 32]);
    client.send(&packet).await;
    let Ok(Opening::Cancel { pid, secret, stream }) = opened.await.unwrap() else { panic!("no cancel request") };
    assert_eq!((pid, secret, stream.is_tls()), (77, vec![5; 32], true));
    stream.close().await;
    assert_eq!(client.frame().await, None, "with close_notify, or rustls would call it an error");
}

#[tokio::test]
async fn a_stalled_handshake_ends() {
    let hurried = LoginConfig { login_timeout: std::time::Duration::from_millis(100), ..tls_config(Auth::Trust) };
    let (mut client, opened) = knock(hurried, Home::default()).await;
    client.send(&SSL_REQUEST).await;
    assert_eq!(client.byte().await, b'S');
    assert!(matches!(opened.await.unwrap(), Err(LoginError::Timeout)));
    assert_eq!(client.frame().await, None, "a clear-text error would be no TLS");
}

#[test]
fn unusable_certificates_are_explained() {
    let (certificate, key) = pair();
    assert_eq!(server_config(b"", key).unwrap_err(), "there is no certificate in the certificate file");
    assert!(server_config(certificate, b"").unwrap_err().starts_with("can't read the private key"));
    assert!(server_config(certificate, certificate).unwrap_err().starts_with("can't read the private key"));
}
