//! Startup without passwords: versions, parameters, encryption requests, and clients that misbehave.

mod login_common;

use std::time::{Duration, Instant};

use bytes::BytesMut;
use login_common::*;
use session::login::{Auth, LoginConfig, LoginError, Opening, greet};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use wire::frame;

async fn trust() -> (Client<TcpStream>, Opened) {
    knock(config(Auth::Trust), Home::default()).await
}

#[tokio::test]
async fn trusted_clients_are_let_in_and_nothing_but_ok_is_sent() {
    let (mut client, opened) = trust().await;
    let mut hasty = start_packet(
        V3_0,
        &[("user", "ann"), ("database", "shop"), ("options", r"-c search_path=a,\ b"), ("DateStyle", "ISO")],
    );
    hasty.extend_from_slice(b"Q\0\0\0\x0dselect 1\0");
    client.send(&hasty).await;
    assert_eq!(client.auth().await, (0, vec![]));
    let session = session(opened).await;
    assert_eq!((&*session.user, &*session.database, session.protocol), ("ann", "shop", V3_0));
    assert_eq!(session.secret, pool::Secret::None);
    let parameters: Vec<_> = session.parameters.iter().map(|(n, v)| (&**n, &**v)).collect();
    assert_eq!(parameters, [("search_path", "a, b"), ("datestyle", "ISO")]);
    assert_eq!(&session.rbuf[..], b"Q\0\0\0\x0dselect 1\0");
    drop(session);
    assert_eq!(client.frame().await, None);
}

#[test]
fn the_greeting_is_in_postgresqls_order() {
    let mut out = BytesMut::new();
    let parameters = [("server_version", "18.1"), ("TimeZone", "UTC")].map(|(n, v)| (n.to_string(), v.to_string()));
    greet(&mut out, &parameters, 77, &[1, 2, 3, 4]);
    let mut bodies = Vec::new();
    while let Some(frame) = frame::take(&mut out, 1 << 16).unwrap() {
        bodies.push((frame.tag() as char, frame.body().to_vec()));
    }
    let expected = [
        ('S', b"server_version\x0018.1\0".to_vec()),
        ('S', b"TimeZone\0UTC\0".to_vec()),
        ('K', vec![0, 0, 0, 77, 1, 2, 3, 4]),
        ('Z', b"I".to_vec()),
    ];
    assert_eq!(bodies, expected);
}

#[tokio::test]
async fn packets_may_come_byte_by_byte() {
    let (mut client, opened) = trust().await;
    for byte in SSL_REQUEST {
        client.send(&[byte]).await;
    }
    assert_eq!(client.byte().await, b'N');
    for byte in start_packet(V3_0, &[("user", "ann")]) {
        client.send(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.auth().await, (0, vec![]));
    assert_eq!(session(opened).await.database, "ann");
}

#[tokio::test]
async fn encryption_is_declined_once_each_in_any_order() {
    for requests in [[SSL_REQUEST, GSSENC_REQUEST], [GSSENC_REQUEST, SSL_REQUEST]] {
        let (mut client, opened) = trust().await;
        for request in requests {
            client.send(&request).await;
            assert_eq!(client.byte().await, b'N');
        }
        client.start(&[("user", "ann")]).await;
        assert_eq!(session(opened).await.user, "ann");
    }
    for request in [SSL_REQUEST, GSSENC_REQUEST] {
        let (mut client, _opened) = trust().await;
        client.send(&request).await;
        assert_eq!(client.byte().await, b'N');
        client.send(&request).await;
        assert_eq!(client.fatal().await.code(), "0A000");
    }
}

#[tokio::test]
async fn nothing_may_follow_an_encryption_request_unasked() {
    for request in [SSL_REQUEST, GSSENC_REQUEST] {
        let (mut client, opened) = trust().await;
        client.send(&[&request[..], &start_packet(V3_0, &[("user", "mallory")])].concat()).await;
        let error = client.fatal().await;
        assert_eq!(error.code(), "08P01");
        assert!(error.message().starts_with("received unencrypted data after"), "{error:?}");
        assert!(matches!(opened.await.unwrap(), Err(LoginError::Injected(_))));
    }
}

#[tokio::test]
async fn versions_are_negotiated_down_and_options_refused() {
    let body = |version: u32, names: &[&str]| {
        let mut body = [version.to_be_bytes(), (names.len() as u32).to_be_bytes()].concat();
        names.iter().for_each(|n| body.extend_from_slice(&[n.as_bytes(), &[0]].concat()));
        body
    };
    let option = "_pq_.compression";
    for (asked, options, answer) in [
        (V3_0, &[][..], None),
        (V3_0 | 1, &[], None),
        (V3_2, &[], None),
        (V3_0 | 3, &[], Some(body(V3_2, &[]))),
        (V3_0 | 9999, &[option, "_pq_.x"], Some(body(V3_2, &[option, "_pq_.x"]))),
        (V3_0, &[option], Some(body(V3_0, &[option]))),
    ] {
        let (mut client, opened) = trust().await;
        let mut parameters = vec![("user", "ann")];
        parameters.extend(options.iter().map(|o| (*o, "on")));
        client.send(&start_packet(asked, &parameters)).await;
        if let Some(answer) = answer {
            let frame = client.frame().await.unwrap();
            assert_eq!((frame.tag(), frame.body()), (b'v', &answer[..]), "{asked:x}");
        }
        assert_eq!(client.auth().await, (0, vec![]));
        let session = session(opened).await;
        assert_eq!(session.protocol, asked.min(V3_2));
        assert!(session.parameters.is_empty(), "protocol options are no settings");
    }
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_with_postgresqls_codes() {
    for (version, parameters, code, message) in [
        (2 << 16, &[("user", "ann")][..], "0A000", "unsupported frontend protocol 2.0: server supports 3.0 to 3.2"),
        (4 << 16, &[("user", "ann")], "0A000", "unsupported frontend protocol 4.0: server supports 3.0 to 3.2"),
        (V3_0, &[], "28000", "no PostgreSQL user name specified in startup packet"),
        (V3_0, &[("user", "")], "28000", "no PostgreSQL user name specified in startup packet"),
        (V3_0, &[("user", "a"), ("replication", "database")], "0A000", "replication connections are not supported"),
        (V3_0, &[("user", "a"), ("options", "-F")], "42601", "invalid command-line argument for server process: -F"),
    ] {
        let (mut client, opened) = trust().await;
        client.send(&start_packet(version, parameters)).await;
        let error = client.fatal().await;
        assert_eq!((error.code(), error.message()), (code, message));
        assert_eq!(error.get(b'H').is_some(), message.starts_with("replication"));
        assert!(opened.await.unwrap().is_err());
    }
}

#[tokio::test]
async fn garbage_is_refused() {
    let mut unterminated = start_packet(V3_0, &[("user", "ann")]);
    let len = unterminated.len() as u32 - 1;
    unterminated.truncate(len as usize);
    unterminated[..4].copy_from_slice(&len.to_be_bytes());
    let mut trailing = start_packet(V3_0, &[("user", "ann")]);
    trailing.push(b'x');
    let len = trailing.len() as u32;
    trailing[..4].copy_from_slice(&len.to_be_bytes());
    let mut not_text = start_packet(V3_0, &[("user", "ann")]);
    not_text[14] = 0xff;
    for garbage in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 64],
        vec![0xff; 64],
        vec![0, 0, 0, 7, 0, 3, 0],
        unterminated,
        trailing,
        not_text,
        // Cancel requests: without a secret, and with one too long.
        [&[0, 0, 0, 12, 4, 210, 22, 46][..], &[0; 4]].concat(),
        [&[0, 0, 2, 0, 4, 210, 22, 46][..], &[0; 504]].concat(),
    ] {
        let (mut client, opened) = trust().await;
        client.send(&garbage).await;
        assert_eq!(client.fatal().await.code(), "08P01", "{garbage:?}");
        assert!(matches!(opened.await.unwrap(), Err(LoginError::Wire(_))));
    }
}

#[tokio::test]
async fn random_bytes_never_let_anybody_in() {
    for len in 1..200 {
        let (mut client, opened) = trust().await;
        let mut bytes = vec![0; len];
        rand::fill(&mut bytes[..]);
        if len >= 8 && len % 2 == 0 {
            // Bytes that pass as a startup packet's frame.
            bytes[..8].copy_from_slice(&[0, 0, 0, len as u8, 0, 3, 0, 0]);
        }
        client.send(&bytes).await;
        client.stream.shutdown().await.unwrap();
        let opened = opened.await.unwrap();
        assert!(matches!(opened, Err(_) | Ok(Opening::Closed)), "{bytes:?}");
    }
}

#[tokio::test]
async fn clients_that_leave_are_no_error_unless_in_the_middle_of_a_packet() {
    let (client, opened) = trust().await;
    drop(client);
    assert!(matches!(opened.await.unwrap(), Ok(Opening::Closed)));

    let (mut client, opened) = trust().await;
    client.send(&SSL_REQUEST).await;
    assert_eq!(client.byte().await, b'N');
    drop(client);
    assert!(matches!(opened.await.unwrap(), Ok(Opening::Closed)));

    let packet = start_packet(V3_0, &[("user", "ann")]);
    for len in 1..packet.len() {
        let (mut client, opened) = trust().await;
        client.send(&packet[..len]).await;
        drop(client);
        assert!(matches!(opened.await.unwrap(), Err(LoginError::Cut)), "{len} bytes");
    }
}

#[tokio::test]
async fn slow_clients_are_sent_away() {
    let packet = start_packet(V3_0, &[("user", "ann")]);
    for sent in [&[][..], &packet[..1], &packet[..packet.len() - 1], &packet[..]] {
        let hurried = LoginConfig { login_timeout: Duration::from_millis(100), ..config(Auth::Scram) };
        let (mut client, opened) = knock(hurried, Home::with("ann", "sesame")).await;
        let began = Instant::now();
        client.send(sent).await;
        if sent.len() == packet.len() {
            assert_eq!(client.auth().await.0, 10);
        }
        assert_eq!(client.fatal().await.code(), "57014");
        drop(client);
        assert!(matches!(opened.await.unwrap(), Err(LoginError::Timeout)));
        assert!(began.elapsed() >= Duration::from_millis(100) && began.elapsed() < Duration::from_secs(5));
    }
}

/// Trickling does not extend the time one has.
#[tokio::test]
async fn the_time_is_for_all_of_it() {
    let hurried = LoginConfig { login_timeout: Duration::from_millis(200), ..config(Auth::Trust) };
    let (mut client, opened) = knock(hurried, Home::default()).await;
    for byte in start_packet(V3_0, &[("user", "ann"), ("application_name", "x")]) {
        if client.stream.write_all(&[byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(matches!(opened.await.unwrap(), Err(LoginError::Timeout)));
}

/// Closing with unread input makes the system send a reset, and the error would be lost.
#[tokio::test]
async fn errors_arrive_although_the_client_had_more_to_say() {
    let (mut client, _opened) = trust().await;
    let packet = start_packet(V3_0, &[]);
    client.send(&[&packet[..], &[b'x'; 100_000]].concat()).await;
    assert_eq!(client.fatal().await.code(), "28000");
}
