//! A node led by Patroni: a scripted REST API says who leads, scripted servers say whether they are standbys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pool::{Conn, Login, NodeTarget, PoolError, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Longer than an answer of Patroni's counts.
const FORGOTTEN: Duration = Duration::from_millis(1100);

/// Listens, and answers each connection with what `reply` is then. How many there were is counted.
struct Scripted {
    port: u16,
    asked: Arc<AtomicUsize>,
    reply: Arc<Mutex<Vec<u8>>>,
}

impl Scripted {
    async fn start(reply: Vec<u8>, stays: bool) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, reply) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(reply)));
        let (count, text) = (asked.clone(), reply.clone());
        tokio::spawn(async move {
            loop {
                let (mut peer, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let reply = text.lock().clone();
                tokio::spawn(async move {
                    let _ = peer.read(&mut [0; 1000]).await;
                    let _ = peer.write_all(&reply).await;
                    if stays {
                        let _ = peer.read_to_end(&mut Vec::new()).await;
                    }
                });
            }
        });
        Scripted { port, asked, reply }
    }

    async fn postgres(standby: &str) -> Scripted {
        let message = |tag: u8, body: &[u8]| [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
        let told = [b"in_hot_standby\0", standby.as_bytes(), b"\0"].concat();
        let hello = [message(b'R', &[0; 4]), message(b'S', &told), message(b'K', &[1; 8]), message(b'Z', b"I")];
        Scripted::start(hello.concat(), true).await
    }

    async fn patroni(leader: &Scripted, timeline: u32) -> Scripted {
        Scripted::start(cluster("leader", leader, timeline), false).await
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn says(&self, reply: Vec<u8>) {
        *self.reply.lock() = reply;
    }
}

/// What `GET /cluster` answers.
fn cluster(role: &str, leader: &Scripted, timeline: u32) -> Vec<u8> {
    format!(
        "HTTP/1.0 200 OK\r\nServer: BaseHTTP/0.6\r\nContent-Type: application/json\r\n\r\n\
         {{\"members\": [{{\"name\": \"b\", \"role\": \"sync_standby\", \"state\": \"streaming\", \"host\": \"127.0.0.1\", \"port\": 1}}, \
         {{\"name\": \"a\", \"role\": \"{role}\", \"state\": \"running\", \"host\": \"127.0.0.1\", \"port\": {}, \"timeline\": {timeline}}}], \
         \"scope\": \"s\"}}",
        leader.port
    )
    .into_bytes()
}

fn target(listed: &Scripted, patroni: &[&Scripted]) -> NodeTarget {
    let urls: String = patroni.iter().map(|api| format!(",http://127.0.0.1:{}", api.port)).collect();
    NodeTarget::new(&format!("127.0.0.1:{}{urls}", listed.port), 1, "postgres")
}

async fn connect(target: &NodeTarget) -> Result<Conn, PoolError> {
    Conn::connect(target, &Login::new("alice", Secret::None), &[], Duration::from_secs(2)).await
}

async fn refused(target: &NodeTarget, because: &str) {
    let error = match connect(target).await {
        Ok(_) => panic!("connected, although {because}"),
        Err(e) => format!("{e} {:?}", e),
    };
    assert!(error.contains(because), "{error}");
}

#[tokio::test]
async fn the_leader_is_the_node_and_is_asked_for_once_a_second() {
    let (former, leader) = (Scripted::postgres("off").await, Scripted::postgres("off").await);
    let api = Scripted::patroni(&leader, 2).await;
    let node = target(&former, &[&api]);
    for _ in 0..5 {
        connect(&node).await.unwrap();
    }
    assert_eq!((former.asked(), leader.asked(), api.asked()), (0, 5, 1));
}

#[tokio::test]
async fn a_leader_in_recovery_is_refused_and_asked_for_again() {
    let (standby, primary) = (Scripted::postgres("on").await, Scripted::postgres("off").await);
    let api = Scripted::patroni(&standby, 1).await;
    let node = target(&primary, &[&api]);
    refused(&node, "is a standby").await;
    api.says(cluster("leader", &primary, 2));
    connect(&node).await.unwrap();
    assert_eq!((primary.asked(), api.asked()), (1, 2));
}

#[tokio::test]
async fn a_leader_that_is_down_is_asked_for_again() {
    let primary = Scripted::postgres("off").await;
    let closed = Scripted { port: 1, asked: Arc::default(), reply: Arc::default() };
    let api = Scripted::patroni(&closed, 1).await;
    let node = target(&primary, &[&api]);
    refused(&node, "refused").await;
    api.says(cluster("leader", &primary, 2));
    connect(&node).await.unwrap();
}

#[tokio::test]
async fn a_change_ends_connections_to_the_former_leader_and_no_old_word_leads_back() {
    let (first, second) = (Scripted::postgres("off").await, Scripted::postgres("off").await);
    let api = Scripted::patroni(&first, 4).await;
    let node = target(&first, &[&api]);
    let mut held = connect(&node).await.unwrap();
    api.says(cluster("leader", &second, 5));
    tokio::time::sleep(FORGOTTEN).await;
    connect(&node).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(1), held.frame()).await;
    assert!(ended.expect("the former leader's connection goes on").is_err());
    api.says(cluster("leader", &first, 4));
    tokio::time::sleep(FORGOTTEN).await;
    refused(&node, "another one has followed").await;
    assert_eq!(first.asked(), 1);
}

#[tokio::test]
async fn any_address_may_answer_and_what_is_no_answer_is_none() {
    let primary = Scripted::postgres("off").await;
    let good = Scripted::patroni(&primary, 1).await;
    let said = |text: &str| Scripted::start(text.as_bytes().to_vec(), false);
    for (text, why) in [
        ("HTTP/1.0 503 Service Unavailable\r\n\r\n{}", "HTTP status 503"),
        ("HTTP/1.0 200 OK\r\n\r\n{\"members\": []}", "no leader"),
        ("HTTP/1.0 200 OK\r\n\r\n{\"mem", "EOF"),
        ("HTTP/1.0 200 OK\r\nContent", "unexpected end of file"),
        ("what?\r\n\r\n", "invalid HTTP version"),
    ] {
        let bad = said(text).await;
        refused(&target(&primary, &[&bad]), why).await;
        connect(&target(&primary, &[&bad, &good])).await.unwrap();
    }
    let elsewhere = said("").await;
    elsewhere.says(cluster("standby_leader", &primary, 1));
    refused(&target(&primary, &[&elsewhere]), "no leader").await;
}
