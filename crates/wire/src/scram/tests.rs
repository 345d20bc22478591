//! SCRAM against the RFC's example, against itself, and against forged, replayed and cut messages.

use super::*;

const SALT: &[u8] = b"0123456789abcdef";

fn login(secret: Secret, verifier: Verifier) -> Result<Key, ScramError> {
    let mut client = ClientScram::new(secret, nonce([1; 18]));
    let mut server = ServerScram::new(verifier, nonce([2; 18]));
    let server_first = server.handle_first(&client.first())?;
    let (server_final, key) = server.handle_final(&client.handle_first(&server_first)?)?;
    client.verify(&server_final)?;
    Ok(key)
}

fn password(text: &str) -> Secret {
    Secret::Password(text.into())
}

/// RFC 7677, section 3.
const CLIENT_FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

fn rfc_server_with(server_nonce: &str) -> ServerScram {
    static VERIFIER: std::sync::OnceLock<Verifier> = std::sync::OnceLock::new();
    let verifier = VERIFIER.get_or_init(|| {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        Verifier::from_password("pencil", &salt, 4096)
    });
    ServerScram::new(verifier.clone(), server_nonce)
}

fn rfc_server() -> ServerScram {
    rfc_server_with(SERVER_NONCE)
}

#[test]
fn the_rfcs_example() {
    let mut server = rfc_server();
    assert_eq!(
        server.handle_first(CLIENT_FIRST).unwrap(),
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    );
    let (server_final, _) = server.handle_final(CLIENT_FINAL).unwrap();
    assert_eq!(server_final, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn md5_as_postgresql_computes_it() {
    // Expected values computed with md5sum.
    assert_eq!(md5_password("md5_user", "password", [0x2a, 0x3d, 0x8f, 0xe0]), "md562af4dd09bbb41884907a838a3233294");
}

#[test]
fn right_password_logs_in_and_wrong_one_does_not() {
    let verifier = Verifier::from_password("sesame", SALT, 4096);
    assert!(login(password("sesame"), verifier.clone()).is_ok());
    assert_eq!(login(password("Sesame"), verifier.clone()), Err(ScramError::Proof));
    assert_eq!(login(password(""), verifier), Err(ScramError::Proof));
}

#[test]
fn recovered_keys_log_in_where_the_verifier_is_the_same() {
    let verifier = Verifier::from_password("sesame", SALT, 4096);
    let client_key = login(password("sesame"), verifier.clone()).unwrap();
    let keys = Secret::Keys { client_key, server_key: verifier.server_key() };
    assert_eq!(login(keys.clone(), verifier), Ok(client_key));
    let elsewhere = Verifier::from_password("sesame", b"another salt", 4096);
    assert_eq!(login(keys, elsewhere), Err(ScramError::Proof));
}

#[test]
fn verifiers_print_as_they_parse() {
    let verifier = Verifier::from_password("sesame", SALT, 5000);
    let text = verifier.to_string();
    assert!(text.starts_with("SCRAM-SHA-256$5000:MDEyMzQ1Njc4OWFiY2RlZg==$"));
    assert!(Verifier::parse(&text).unwrap() == verifier);
    let key = STANDARD.encode([7; 32]);
    for bad in [
        String::new(),
        "md5abcdef".into(),
        text.replace("SHA-256", "SHA-1"),
        text.replace("5000", "0"),
        text.replace("5000", "-5"),
        text.replace("5000", "+5"),
        text.replace("5000", "99999999999"),
        format!("{text}$"),
        text[..text.len() - 4].to_string(),
        format!("SCRAM-SHA-256$4096:!$$ {key}:{key}"),
        format!("SCRAM-SHA-256$4096:${key}:{key}"),
    ] {
        assert_eq!(Verifier::parse(&bad).err(), Some(ScramError::Verifier), "{bad}");
    }
}

#[test]
fn passwords_are_prepared_and_used_raw_where_they_cannot_be() {
    let verifier = Verifier::from_password("IX", SALT, 1);
    // U+2168 ROMAN NUMERAL NINE normalises to "IX"; U+00AD SOFT HYPHEN maps to nothing (RFC 4013, section 3).
    assert!(login(password("\u{2168}"), verifier.clone()).is_ok());
    assert!(login(password("I\u{ad}X"), verifier).is_ok());
    // U+0007 is prohibited, a lone soft hyphen would leave nothing: both are used as they are.
    for raw in ["\u{7}", "\u{ad}", "tab\there", "ascii exact  "] {
        assert_eq!(prepared(raw), raw);
    }
}

#[test]
fn mock_verifiers_look_real_and_refuse() {
    let mock = Verifier::mock("nobody", &[9; 32], 4096);
    assert!(mock == Verifier::mock("nobody", &[9; 32], 4096), "the same user gets the same salt each time");
    assert!(mock.salt != Verifier::mock("somebody", &[9; 32], 4096).salt);
    let real = Verifier::from_password("x", SALT, 4096);
    assert_eq!((mock.salt.len(), mock.iterations), (real.salt.len(), real.iterations));
    assert_eq!(login(password("x"), mock.clone()), Err(ScramError::Proof));
    // Even a proof that fits the stored key is refused.
    let doomed = Verifier { doomed: true, ..real };
    assert_eq!(login(password("x"), doomed), Err(ScramError::Proof));
}

#[test]
fn a_recorded_login_is_worth_nothing() {
    let mut server = rfc_server();
    server.handle_first(CLIENT_FIRST).unwrap();
    assert!(server.handle_final(CLIENT_FINAL).is_ok());
    assert_eq!(server.handle_final(CLIENT_FINAL), Err(ScramError::Order), "same exchange twice");
    assert_eq!(server.handle_first(CLIENT_FIRST), Err(ScramError::Order));

    let mut fresh = rfc_server_with(&nonce([3; 18]));
    fresh.handle_first(CLIENT_FIRST).unwrap();
    assert_eq!(fresh.handle_final(CLIENT_FINAL), Err(ScramError::Nonce), "old proof, new server nonce");

    let mut early = rfc_server();
    assert_eq!(early.handle_final(CLIENT_FINAL), Err(ScramError::Order));
}

#[test]
fn cut_or_forged_final_messages_are_refused() {
    for end in 0..CLIENT_FINAL.len() {
        let mut server = rfc_server();
        server.handle_first(CLIENT_FIRST).unwrap();
        assert!(server.handle_final(&CLIENT_FINAL[..end]).is_err(), "cut at {end}");
    }
    for (from, to, why) in [
        ("c=biws", "c=eSws", ScramError::ChannelBinding),
        ("c=biws", "c=cD10bHMtdW5pcXVlLCw=", ScramError::ChannelBinding),
        ("r=rOpr", "r=rOpR", ScramError::Nonce),
        ("k0,p=", "k0x,p=", ScramError::Nonce),
        ("k0,p=", "k0,x=1,p=", ScramError::Proof),
        ("p=dHzb", "p=dHzc", ScramError::Proof),
        ("p=dHzb", "p=AAAA,p=dHzb", ScramError::Malformed("two proofs")),
        ("p=dHzb", "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=dHzb", ScramError::Malformed("invalid base64")),
    ] {
        let mut server = rfc_server();
        server.handle_first(CLIENT_FIRST).unwrap();
        assert_eq!(server.handle_final(&CLIENT_FINAL.replacen(from, to, 1)), Err(why), "{from} -> {to}");
    }
}

#[test]
fn first_messages_are_parsed_strictly() {
    for (message, ok) in [
        (CLIENT_FIRST, true),
        ("y,,n=,r=abc", true),
        ("n,,n=,r=abc,x=ext", true),
        ("p=tls-server-end-point,,n=,r=abc", false),
        ("n,a=admin,n=,r=abc", false),
        ("n,n=,r=abc", false),
        ("n,,m=must,n=,r=abc", false),
        ("n,,r=abc", false),
        ("n,,n=,r=", false),
        ("n,,n=,r=a b", false),
        ("n,,n=,r=caf\u{e9}", false),
        ("n,,n=,r=abc,", false),
        ("n,,n=,r=abc,xyz", false),
        ("", false),
    ] {
        assert_eq!(rfc_server().handle_first(message).is_ok(), ok, "{message}");
    }
}

#[test]
fn the_client_checks_the_server() {
    let start = || ClientScram::new(password("pencil"), "abc");
    let good = "r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    assert!(start().handle_first(good).is_ok());
    for (bad, why) in [
        ("r=abc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nothing added to the nonce"),
        ("r=xbcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another nonce"),
        ("r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0", "no iterations"),
        ("r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1", "negative"),
        ("r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=+1", "signed"),
        ("r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2000000000", "would hang us"),
        ("r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,x=1", "garbage"),
        ("r=abcdef,s=,i=4096", "no salt"),
        ("r=abcdef,s=***,i=4096", "bad salt"),
        ("e=other-error", "an error"),
    ] {
        assert!(start().handle_first(bad).is_err(), "{why}");
    }
    let signed = |text: String| {
        let mut client = start();
        client.handle_first(good).unwrap();
        client.verify(&text)
    };
    assert_eq!(signed(format!("v={}", STANDARD.encode([0; 32]))), Err(ScramError::ServerSignature));
    assert!(signed("v=".into()).is_err());
    assert!(signed("e=invalid-proof".into()).is_err());
    assert_eq!(start().verify("v=AAAA"), Err(ScramError::Order), "AuthenticationOk before any proof");
}

#[test]
fn debug_output_holds_no_secret() {
    let shown = format!("{:?} {:?}", password("hunter2"), Verifier::from_password("hunter2", SALT, 1));
    assert_eq!(shown, "Password(…) Verifier { iterations: 1, .. }");
}
