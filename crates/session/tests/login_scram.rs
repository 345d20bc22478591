//! SCRAM logins: right and wrong passwords, unknown users, and exchanges somebody has tampered with.

mod login_common;

use login_common::*;
use session::login::{Auth, LoginError, Opening};
use tokio::net::TcpStream;
use wire::ErrorFields;
use wire::scram::{ClientScram, MECHANISM, Secret, ServerScram, Verifier, nonce};

async fn door(home: Home) -> (Client<TcpStream>, Opened) {
    knock(config(Auth::Scram), home).await
}

fn home() -> Home {
    Home::with("ann", "sesame")
}

#[tokio::test]
async fn the_right_password_opens_and_its_keys_open_nodes() {
    let (mut client, opened) = door(home()).await;
    client.log_in("ann", "sesame").await;
    let session = session(opened).await;
    assert!(session.rbuf.is_empty());
    let pool::Secret::Keys { client_key, server_key } = session.secret else { panic!("keys were expected") };
    // A node with the same verifier.
    let verifier = Verifier::parse(&home().verifiers["ann"]).unwrap();
    let mut node = ServerScram::new(verifier, nonce([2; 18]));
    let mut router = ClientScram::new(Secret::Keys { client_key, server_key }, nonce([1; 18]));
    let proof = router.handle_first(&node.handle_first(&router.first()).unwrap()).unwrap();
    let (signature, _) = node.handle_final(&proof).unwrap();
    router.verify(&signature).unwrap();
}

/// Everything the router says to a login that fails, with lengths instead of what is random.
async fn failed_login(home: Home) -> (usize, String, ErrorFields) {
    let (mut client, opened) = door(home).await;
    let (mut scram, challenge) = client.challenge("ann", "open sesame").await;
    let proof = scram.handle_first(&challenge).unwrap();
    client.send(&response(proof.as_bytes())).await;
    let error = client.fatal().await;
    assert!(matches!(opened.await.unwrap(), Err(LoginError::Password { .. })));
    let iterations = challenge.split_once(",i=").unwrap().1.to_string();
    (challenge.len(), iterations, error)
}

#[tokio::test]
async fn wrong_passwords_and_unknown_users_look_the_same() {
    let wrong = failed_login(home()).await;
    assert_eq!(wrong.2.code(), "28P01");
    assert_eq!(wrong.2.message(), "password authentication failed for user \"ann\"");
    assert_eq!(failed_login(Home::default()).await, wrong, "unknown user");
    let md5 = Home { verifiers: [("ann".into(), "md5d51c9a7e9353746a6020f9602d452929".into())].into(), is_down: false };
    assert_eq!(failed_login(md5).await, wrong, "stored as md5");
}

#[tokio::test]
async fn unknown_users_get_the_same_salt_each_time() {
    let salt = async |user: &str| {
        let (mut client, _opened) = door(home()).await;
        let (_, challenge) = client.challenge(user, "x").await;
        challenge.split(',').find(|a| a.starts_with("s=")).unwrap().to_string()
    };
    assert_eq!(salt("bob").await, salt("bob").await);
    assert_ne!(salt("bob").await, salt("eve").await);
}

#[tokio::test]
async fn nobody_is_let_in_while_home_cannot_be_asked() {
    let (mut client, opened) = door(Home { is_down: true, ..home() }).await;
    client.start(&[("user", "ann")]).await;
    let error = client.fatal().await;
    assert_eq!(error.code(), "57P03");
    assert!(!format!("{error:?}").contains("secret-host"), "strangers learn nothing of nodes: {error:?}");
    assert!(matches!(opened.await.unwrap(), Err(LoginError::Verifier { .. })));
}

#[tokio::test]
async fn a_client_may_leave_to_ask_for_the_password() {
    let (mut client, opened) = door(home()).await;
    client.start(&[("user", "ann")]).await;
    assert_eq!(client.auth().await.0, 10);
    drop(client);
    assert!(matches!(opened.await.unwrap(), Ok(Opening::Closed)));
}

#[tokio::test]
async fn a_recorded_login_is_worth_nothing() {
    let (mut client, opened) = door(home()).await;
    let (mut scram, challenge) = client.challenge("ann", "sesame").await;
    let first = scram.first();
    let proof = scram.handle_first(&challenge).unwrap();
    client.send(&response(proof.as_bytes())).await;
    assert_eq!(client.auth().await.0, 12);
    session(opened).await;

    let (mut thief, opened) = door(home()).await;
    thief.start(&[("user", "ann")]).await;
    assert_eq!(thief.auth().await.0, 10);
    thief.send(&initial_response(MECHANISM, first.as_bytes())).await;
    assert_eq!(thief.auth().await.0, 11);
    thief.send(&response(proof.as_bytes())).await;
    assert_eq!(thief.fatal().await.code(), "08P01");
    assert!(opened.await.unwrap().is_err());
}

#[tokio::test]
async fn cut_and_changed_proofs_are_refused() {
    // One exchange each, as every failure ends one.
    let attempt = async |change: &dyn Fn(&str) -> Vec<u8>| {
        let (mut client, opened) = door(home()).await;
        let (mut scram, challenge) = client.challenge("ann", "sesame").await;
        let proof = scram.handle_first(&challenge).unwrap();
        client.send(&response(&change(&proof))).await;
        let error = client.fatal().await;
        assert!(opened.await.unwrap().is_err());
        error.code().to_string()
    };
    let proof_len = 130;
    for len in [0, 1, 6, 20, 60, 80, proof_len - 1] {
        let code = attempt(&|p| p.as_bytes()[..len.min(p.len() - 1)].to_vec()).await;
        assert_eq!(code, "08P01", "cut at {len}");
    }
    let flip_last = |p: &str| {
        let at = p.find(",p=").unwrap() + 3;
        let other = if p.as_bytes()[at] == b'A' { "B" } else { "A" };
        [&p[..at], other, &p[at + 1..]].concat().into_bytes()
    };
    assert_eq!(attempt(&flip_last).await, "28P01");
    assert_eq!(attempt(&|p| p.replacen("c=biws", "c=eSws", 1).into_bytes()).await, "28000");
    assert_eq!(attempt(&|p| p.replacen(",r=", ",r=x", 1).into_bytes()).await, "08P01");
    assert_eq!(attempt(&|p| [p.as_bytes(), &[0]].concat()).await, "08P01");
    assert_eq!(attempt(&|_| vec![0xff; 40]).await, "08P01");
    assert_eq!(attempt(&|_| b"c=biws,r=,p=".to_vec()).await, "08P01");
    assert_eq!(attempt(&|p| p.as_bytes().repeat(20)).await, "08P01", "longer than any honest message");
}

#[tokio::test]
async fn first_messages_must_be_what_was_offered() {
    let good = "n,,n=,r=rOprNGfwEbeRWgbNEkqO";
    let none_sent = {
        let mut message = initial_response(MECHANISM, b"");
        let at = message.len() - 4;
        message[at..].copy_from_slice(&(-1i32).to_be_bytes());
        message
    };
    let mut lying_length = initial_response(MECHANISM, good.as_bytes());
    let at = lying_length.len() - good.len() - 4;
    lying_length[at..at + 4].copy_from_slice(&i32::MAX.to_be_bytes());
    for (what, message) in [
        ("channel binding", initial_response(MECHANISM, b"p=tls-server-end-point,,n=,r=abc")),
        ("a mechanism not offered", initial_response("SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=abc")),
        ("an old mechanism", initial_response("SCRAM-SHA-1", good.as_bytes())),
        ("another user", initial_response(MECHANISM, b"n,a=admin,n=,r=abc")),
        ("nothing", initial_response(MECHANISM, b"")),
        ("no initial response", none_sent),
        ("a lying length", lying_length),
        ("a clear password", response(b"sesame\0")),
        ("a query", b"Q\0\0\0\x0dselect 1\0".to_vec()),
        ("a lying frame", b"p\x7f\xff\xff\xff".to_vec()),
        ("a negative frame", b"p\xff\xff\xff\xff".to_vec()),
    ] {
        let (mut client, opened) = door(home()).await;
        client.start(&[("user", "ann")]).await;
        assert_eq!(client.auth().await.0, 10);
        client.send(&message).await;
        assert_eq!(client.fatal().await.code(), "08P01", "{what}");
        assert!(opened.await.unwrap().is_err(), "{what}");
    }
}

/// As libpq does over TLS with a server that offers no channel binding.
#[tokio::test]
async fn clients_that_could_bind_are_welcome() {
    let (mut client, opened) = door(home()).await;
    client.start(&[("user", "ann")]).await;
    assert_eq!(client.auth().await.0, 10);
    client.send(&initial_response(MECHANISM, b"y,,n=,r=abc")).await;
    assert_eq!(client.auth().await.0, 11);
    drop(client);
    assert!(matches!(opened.await.unwrap(), Ok(Opening::Closed)));
}

#[test]
fn errors_show_no_secret() {
    let error = LoginError::Password { user: "ann\nroot".into(), why: "the password is wrong" };
    assert_eq!(error.to_string(), "password authentication failed for user \"ann\\nroot\": the password is wrong");
}
