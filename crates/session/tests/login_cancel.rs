//! Cancel requests, up to a fake node that notes what reaches it and answers when told to.

mod login_common;

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use login_common::*;
use pool::{CancelKey, NodeTarget};
use session::cancel::{CancelOutcome, CancelRegistry, Settled};
use session::login::{Auth, Opening};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use wire::startup::{self, Startup};

const LONG: Duration = Duration::from_secs(20);
const MOMENT: Duration = Duration::from_millis(100);

/// Cancel requests arrive in `requests` with their connections; closing one is the node's answer.
struct Node {
    target: Arc<NodeTarget>,
    requests: mpsc::Receiver<(i32, Vec<u8>, TcpStream)>,
}

impl Node {
    async fn start() -> Node {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Arc::new(NodeTarget::new("127.0.0.1", listener.local_addr().unwrap().port(), "postgres"));
        let (sender, requests) = mpsc::channel(16);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut packet = BytesMut::new();
                let request = loop {
                    stream.read_buf(&mut packet).await.unwrap();
                    if let Some((request, _)) = startup::parse(&packet).unwrap() {
                        break request;
                    }
                };
                let Startup::Cancel { pid, secret } = request else { panic!("no cancel: {request:?}") };
                sender.send((pid, secret, stream)).await.unwrap();
            }
        });
        Node { target, requests }
    }

    fn key(&self, pid: i32) -> CancelKey {
        CancelKey { target: self.target.clone(), address: self.target.clone(), pid, secret: [pid as u8; 4].into() }
    }

    async fn request(&mut self) -> (i32, TcpStream) {
        let (pid, secret, stream) = tokio::time::timeout(LONG, self.requests.recv()).await.unwrap().unwrap();
        assert_eq!(secret, vec![pid as u8; 4]);
        (pid, stream)
    }

    async fn is_left_alone(&mut self) -> bool {
        tokio::time::timeout(MOMENT, self.requests.recv()).await.is_err()
    }
}

fn registry() -> Arc<CancelRegistry> {
    Arc::new(CancelRegistry::new(LONG))
}

fn cancel(registry: &Arc<CancelRegistry>, pid: i32, secret: &[u8]) -> tokio::task::JoinHandle<CancelOutcome> {
    let (registry, secret) = (registry.clone(), secret.to_vec());
    tokio::spawn(async move { registry.cancel(pid, &secret).await })
}

#[tokio::test]
async fn a_cancel_request_is_recognised_before_any_login() {
    for secret in [vec![1; 4], vec![2; 32], vec![3; 256]] {
        let (mut client, opened) = knock(config(Auth::Scram), Home::default()).await;
        let mut packet = BytesMut::new();
        startup::put_cancel(&mut packet, -5, &secret);
        client.send(&packet).await;
        let Ok(Opening::Cancel { pid, secret: got, stream }) = opened.await.unwrap() else { panic!("no cancel") };
        assert_eq!((pid, got), (-5, secret));
        // The client waits for the end, which is ours to give.
        assert!(tokio::time::timeout(MOMENT, client.frame()).await.is_err());
        stream.close().await;
        assert_eq!(client.frame().await, None);
    }
}

#[tokio::test]
async fn the_right_secret_cancels_on_every_node_and_others_do_not() {
    let (mut one, mut other) = (Node::start().await, Node::start().await);
    let registry = registry();
    let place = registry.register(V3_0, None);
    let stranger = registry.register(V3_2, None);
    place.handle.add_running(one.key(11));
    place.handle.add_running(other.key(22));

    let mut wrong = place.secret.clone();
    wrong[3] ^= 1;
    for (pid, secret) in [
        (place.pid, &wrong[..]),
        (place.pid, &place.secret[..3]),
        (place.pid, &[]),
        (place.pid, &[&place.secret[..], &[0]].concat()),
        (place.pid, &stranger.secret),
        (stranger.pid, &place.secret),
        (0, &place.secret),
        (-place.pid, &place.secret),
    ] {
        assert_eq!(registry.cancel(pid, secret).await, CancelOutcome::Unknown);
    }
    assert!(one.is_left_alone().await && !place.handle.is_cancelled());

    let cancelling = cancel(&registry, place.pid, &place.secret);
    assert_eq!((one.request().await.0, other.request().await.0), (11, 22));
    assert_eq!(cancelling.await.unwrap(), CancelOutcome::Done);
    assert!(place.handle.is_cancelled());
    assert_eq!(place.handle.finish().await, Settled::Clean);
    assert!(!place.handle.is_cancelled(), "the next statement is another");
}

#[tokio::test]
async fn connections_are_kept_until_a_cancel_has_arrived() {
    let mut node = Node::start().await;
    let registry = registry();
    let place = registry.register(V3_0, None);
    place.handle.add_running(node.key(11));
    let cancelling = cancel(&registry, place.pid, &place.secret);
    let (_, unanswered) = node.request().await;

    let handle = place.handle.clone();
    let mut finishing = tokio::spawn(async move { handle.finish().await });
    assert!(tokio::time::timeout(MOMENT, &mut finishing).await.is_err(), "the node has not acted yet");
    // A second cancel finds nothing any more, and keeps nobody waiting.
    assert_eq!(registry.cancel(place.pid, &place.secret).await, CancelOutcome::Done);
    drop(unanswered);
    assert_eq!(finishing.await.unwrap(), Settled::Clean);
    assert_eq!(cancelling.await.unwrap(), CancelOutcome::Done);
    assert!(node.is_left_alone().await);
}

#[tokio::test]
async fn a_cancel_after_the_statement_reaches_nobody() {
    let mut node = Node::start().await;
    let registry = registry();
    let place = registry.register(V3_0, None);
    place.handle.begin();
    place.handle.add_running(node.key(11));
    assert_eq!(place.handle.finish().await, Settled::Clean);
    assert_eq!(registry.cancel(place.pid, &place.secret).await, CancelOutcome::Done);
    assert!(!place.handle.is_cancelled());
    place.handle.add_running(node.key(12));
    place.handle.clear();
    assert_eq!(registry.cancel(place.pid, &place.secret).await, CancelOutcome::Done);
    assert!(node.is_left_alone().await);
}

#[tokio::test]
async fn a_statement_that_waits_in_the_router_hears_of_it() {
    let registry = registry();
    let place = registry.register(V3_0, None);
    place.handle.begin();
    let handle = place.handle.clone();
    let waiting = tokio::spawn(async move { handle.cancelled().await });
    tokio::task::yield_now().await;
    assert_eq!(registry.cancel(place.pid, &place.secret).await, CancelOutcome::Done);
    tokio::time::timeout(LONG, waiting).await.unwrap().unwrap();
    assert_eq!(place.handle.release().await, Settled::Clean);
    assert!(place.handle.is_cancelled(), "giving connections back does not end the statement");
    place.handle.begin();
    assert!(!place.handle.is_cancelled());
}

#[tokio::test]
async fn what_may_still_be_on_its_way_makes_connections_doubtful() {
    // A node that does not answer in time.
    let mut node = Node::start().await;
    let registry = Arc::new(CancelRegistry::new(MOMENT));
    let place = registry.register(V3_0, None);
    place.handle.add_running(node.key(11));
    let cancelling = cancel(&registry, place.pid, &place.secret);
    let (_, _unanswered) = node.request().await;
    assert_eq!(cancelling.await.unwrap(), CancelOutcome::Done);
    assert_eq!(place.handle.finish().await, Settled::Doubtful);
    assert_eq!(place.handle.finish().await, Settled::Clean, "said once");

    // Somebody who stops cancelling halfway.
    let registry = self::registry();
    let place = registry.register(V3_0, None);
    place.handle.add_running(node.key(12));
    let cancelling = cancel(&registry, place.pid, &place.secret);
    let (_, _unanswered) = node.request().await;
    cancelling.abort();
    assert_eq!(place.handle.finish().await, Settled::Doubtful);
}

#[tokio::test]
async fn places_are_distinct_and_given_up() {
    let registry = registry();
    let places: Vec<_> = (0..1000).map(|i| registry.register(if i % 2 == 0 { V3_0 } else { V3_2 }, None)).collect();
    assert_eq!(registry.len(), 1000);
    assert!(places.iter().all(|p| p.pid > 0));
    assert!(places.chunks(2).all(|p| (p[0].secret.len(), p[1].secret.len()) == (4, 32)));
    let distinct: std::collections::HashSet<_> = places.iter().map(|p| &p.secret[..4]).collect();
    assert!(distinct.len() > 990);
    let (pid, secret) = (places[0].pid, places[0].secret.clone());
    drop(places);
    assert!(registry.is_empty());
    assert_eq!(registry.cancel(pid, &secret).await, CancelOutcome::Unknown);
}
