//! One connection: results, errors, parameters, cancel, and waiting that can be given up.

mod common;

use std::time::{Duration, Instant};

use common::Server;
use pool::{Conn, Login, NodeTarget, PoolError, Progress, Secret, Settings};
use wire::{backend, put};

const TIMEOUT: Duration = Duration::from_secs(10);

async fn connect(server: &Server) -> Conn {
    let target = NodeTarget::new("127.0.0.1", server.port, common::DATABASE);
    Conn::connect(&target, &Login::new(common::USER, Secret::None), &[], TIMEOUT).await.unwrap()
}

async fn give(conn: &mut Conn, wanted: &Settings) {
    if let Some(sql) = conn.settings_to(wanted) {
        conn.simple(&sql).await.unwrap();
    }
}

async fn one(conn: &mut Conn, sql: &str) -> Option<String> {
    conn.simple(sql).await.unwrap().remove(0).remove(0)
}

#[tokio::test]
async fn simple_statements() {
    let server = Server::start();
    let mut conn = connect(&server).await;
    let rows = conn.simple("select 1; select * from (values ('a', null), ('', 'ü')) v").await.unwrap();
    let text = |t: &str| Some(t.to_string());
    assert_eq!(rows, [[text("a"), None], [text(""), text("ü")]]);
    assert_eq!(conn.simple("").await.unwrap().len(), 0);

    let error = conn.simple("select 1/0").await.unwrap_err();
    assert!(matches!(error, PoolError::Server(_)));
    assert_eq!((error.sqlstate(), &*error.to_string()), ("22012", "division by zero"));
    assert_eq!(error.to_fields().code(), "22012");
    assert_eq!((conn.status(), conn.outstanding()), (b'I', 0));

    assert_eq!(conn.simple("copy pg_class from stdin").await.unwrap_err().sqlstate(), "57014");
    conn.simple("copy (select 1) to stdout").await.unwrap();
    assert_eq!(conn.simple("select 1\0; drop table x").await.unwrap_err().sqlstate(), "08P01");

    conn.simple("begin").await.unwrap();
    assert_eq!(conn.status(), b'T');
    conn.simple("nonsense").await.unwrap_err();
    assert_eq!(conn.status(), b'E');
    conn.simple("rollback").await.unwrap();

    let shown = one(&mut conn, "show timezone").await.unwrap();
    assert_eq!(conn.parameters()["TimeZone"], shown);
    conn.simple("set timezone to 'Asia/Tokyo'").await.unwrap();
    assert_eq!(conn.parameters()["TimeZone"], "Asia/Tokyo");
}

#[tokio::test]
async fn settings_are_applied_and_taken_back() {
    let server = Server::start();
    let mut conn = connect(&server).await;
    conn.simple("create role r").await.unwrap();
    let shown = "select concat_ws('|', current_setting('search_path'), current_setting('my.var', true),
                        current_user, current_setting('standard_conforming_strings'))";
    let before = one(&mut conn, shown).await;
    let mut wanted = Settings::default();
    wanted.set("search_path", "\"A b\", public");
    wanted.set("my.var", "it's a \\ test");
    wanted.set("role", "r");
    // Takes privileges that `r` does not have: must be set before the role.
    wanted.set("session_replication_role", "replica");
    wanted.set("standard_conforming_strings", "off");
    give(&mut conn, &wanted).await;
    assert_eq!(one(&mut conn, shown).await.unwrap(), "\"A b\", public|it's a \\ test|r|off");
    assert_eq!(conn.settings.fingerprint(), wanted.fingerprint());
    wanted.set("my.var", "back\\slash'");
    give(&mut conn, &wanted).await;
    assert_eq!(one(&mut conn, "select current_setting('my.var')").await.unwrap(), "back\\slash'");
    give(&mut conn, &Settings::default()).await;
    // A custom setting that was reset is empty, not unknown.
    assert_eq!(one(&mut conn, shown).await.unwrap().replace("||", "|"), before.unwrap());
    assert!(conn.settings.is_empty());
}

#[tokio::test]
async fn waiting_can_be_given_up_without_losing_anything() {
    let server = Server::start();
    let mut conn = connect(&server).await;
    put::query(conn.out(), "select generate_series(1, 20000) from pg_sleep(0.1)");
    conn.sent_sync();
    let mut rows = 0;
    loop {
        // Cancelled again and again in the middle of writing and reading.
        tokio::select! {
            biased;
            done = async { conn.flush().await?; conn.frame().await } => match done.unwrap().tag() {
                b'D' => rows += 1,
                b'Z' => break,
                _ => {}
            },
            () = tokio::time::sleep(Duration::from_micros(300)) => {}
        }
        if conn.is_broken() {
            panic!("broken");
        }
    }
    assert_eq!((rows, conn.outstanding(), conn.status()), (20_000, 0, b'I'));
}

#[tokio::test]
async fn a_pipeline_larger_than_all_buffers_does_not_deadlock() {
    let server = Server::start();
    let mut conn = connect(&server).await;
    let sql = format!("select repeat('x', 30000) /* {} */", "y".repeat(30_000));
    let statements = 1000;
    for _ in 0..statements {
        put::parse(conn.out(), "", &sql, &[]);
        put::bind(conn.out(), "", "", &[], std::iter::empty::<Option<&[u8]>>(), &[]);
        put::execute(conn.out(), "", 0);
        put::sync(conn.out());
        conn.sent_sync();
    }
    let (mut ready, mut filled) = (0, 0);
    while ready < statements {
        filled += usize::from(conn.flush_or_fill().await.unwrap() == Progress::Filled);
        while let Some(frame) = conn.buffered_frame().unwrap() {
            ready += usize::from(frame.tag() == b'Z');
        }
        if conn.out().is_empty() && ready < statements {
            conn.fill().await.unwrap();
        }
    }
    assert!(filled > 0, "the node was never blocked: the test is too small");
    assert_eq!(conn.outstanding(), 0);
}

#[tokio::test]
async fn cancel_ends_what_runs() {
    let server = Server::start();
    let mut conn = connect(&server).await;
    let key = conn.cancel_key();
    let started = Instant::now();
    let (ran, _) = tokio::join!(conn.simple("select pg_sleep(60)"), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        pool::cancel(&key, TIMEOUT).await.unwrap();
    });
    assert_eq!(ran.unwrap_err().sqlstate(), "57014");
    assert!(started.elapsed() < Duration::from_secs(20));
    // A wrong secret cancels nothing.
    let mut forged = key.clone();
    forged.secret = forged.secret.iter().map(|byte| byte ^ 1).collect();
    let (ran, _) = tokio::join!(conn.simple("select pg_sleep(0.5)"), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        pool::cancel(&forged, TIMEOUT).await.unwrap();
    });
    ran.unwrap();
}

#[tokio::test]
async fn a_terminated_backend_says_why() {
    let server = Server::start();
    let (mut admin, mut conn) = (connect(&server).await, connect(&server).await);
    let kill = format!("select pg_terminate_backend({}, 5000)", conn.pid());
    let (ran, _) = tokio::join!(conn.simple("select pg_sleep(60)"), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        admin.simple(&kill).await.unwrap();
    });
    let error = ran.unwrap_err();
    assert_eq!((error.sqlstate(), error.is_node_trouble()), ("57P01", true), "{error}");
    assert!(conn.is_broken());
    let error = conn.frame().await.unwrap_err();
    assert_eq!(error.sqlstate(), "08006");
    assert!(error.to_string().contains("administrator command"), "{error}");
}

#[tokio::test]
async fn notifications_are_kept_apart_from_answers() {
    let server = Server::start();
    let (mut listener, mut conn) = (connect(&server).await, connect(&server).await);
    listener.simple("listen herd").await.unwrap();
    conn.simple("notify herd, 'epoch 7'").await.unwrap();
    tokio::time::timeout(TIMEOUT, listener.fill()).await.unwrap().unwrap();
    conn.simple("notify herd, 'epoch 8'").await.unwrap();
    assert_eq!(listener.simple("select 'x'").await.unwrap(), [[Some("x".to_string())]]);
    let mut came = listener.take_notifications().unwrap();
    assert!(!listener.has_notifications());
    for epoch in ["7", "8"] {
        let frame = wire::frame::take(&mut came, 1 << 20).unwrap().unwrap();
        assert_eq!(frame.tag(), b'A');
        assert!(frame.body().ends_with(format!("herd\0epoch {epoch}\0").as_bytes()));
    }
}

#[tokio::test]
async fn a_connection_with_an_answer_unread_is_never_used_again() {
    let server = Server::start();
    let mut conn = connect(&server).await;
    conn.simple("select 1").await.unwrap();
    assert!(conn.at_rest(0));
    put::query(conn.out(), "select 1");
    conn.sent_sync();
    conn.flush().await.unwrap();
    conn.frame().await.unwrap();
    assert!(!conn.at_rest(0) && conn.is_broken());
    put::query(conn.out(), "select 2");
    conn.sent_sync();
    assert!(conn.flush().await.is_err(), "nothing more goes there");
}

#[tokio::test]
async fn raw_forwarding_can_keep_the_books() {
    let server = Server::start();
    let mut conn = connect(&server).await;
    put::query(conn.out(), "set timezone to 'Asia/Tokyo'; select 1");
    conn.sent_sync();
    conn.flush().await.unwrap();
    let mut tags = Vec::new();
    while conn.outstanding() > 0 {
        conn.fill().await.unwrap();
        while let Ok(Some((tag, len))) = wire::frame::peek(conn.rbuf(), 1 << 20) {
            if conn.rbuf().len() < len {
                break;
            }
            let message = conn.rbuf().split_to(len).freeze();
            let body = &message[wire::frame::HEADER_LEN..];
            tags.push(tag);
            match tag {
                b'S' => {
                    let (name, value) = backend::parse_parameter_status(body).unwrap();
                    conn.note_parameter(name, value);
                }
                b'Z' => conn.note_ready(body[0]),
                _ => {}
            }
        }
    }
    assert_eq!(tags.iter().filter(|t| **t != b'S').collect::<Vec<_>>(), [b"C", b"T", b"D", b"C", b"Z"].map(|t| &t[0]));
    assert_eq!((conn.status(), &*conn.parameters()["TimeZone"]), (b'I', "Asia/Tokyo"));
}
