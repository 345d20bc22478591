//! Whom Patroni calls the leader: `GET /cluster` of its REST API, of all addresses at once.
//!
//! It does not know connections to PostgreSQL, and promotes nobody: whether the leader takes writes is seen at its login
//! (`conn/primary.rs`). An address that has not heard of the newest leader is not believed (`hosts.rs`).

use std::io::{Error, ErrorKind};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::error::PoolError;
use crate::hosts;
use crate::target::NodeTarget;

/// An answer of more bytes is none.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Header lines of an answer at most.
const HEADERS_MAX: usize = 32;
/// An address that has not answered by then is none.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// A member of Patroni's cluster that holds the leader's key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub host: String,
    pub port: u16,
    pub timeline: u64,
}

/// The leader, as said within the last second or said now.
pub(crate) async fn leader(target: &NodeTarget, timeout: Duration) -> Result<NodeTarget, PoolError> {
    if let Some(told) = hosts::told(target) {
        return Ok(told);
    }
    let asking = hosts::asking(target);
    let asked = async {
        let _only_one_asks = asking.lock().await;
        match hosts::told(target) {
            Some(told) => Ok(told),
            None => ask_all(target).await,
        }
    };
    let said = tokio::time::timeout(timeout, asked).await;
    said.unwrap_or_else(|_| Err(format!("nothing within {timeout:?}"))).map_err(|why| {
        let source = Error::other(format!("Patroni does not say which host leads: {why}"));
        PoolError::Connect { node: target.to_string(), source }
    })
}

/// The first that says who leads, and has heard of the newest leader.
async fn ask_all(target: &NodeTarget) -> Result<NodeTarget, String> {
    let mut asked: JoinSet<_> = target
        .patroni()
        .into_iter()
        .map(|url| async move {
            let answer = tokio::time::timeout(ANSWER_MAX, get_cluster(&url)).await;
            let answer = answer.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
            answer.and_then(|body| leader_of(&body)).map_err(|e| format!("{url}: {e}"))
        })
        .collect();
    let mut failures = Vec::new();
    while let Some(answer) = asked.join_next().await {
        match answer.map_err(|e| e.to_string()).and_then(|said| said) {
            Ok(leader) => match hosts::tell(target, leader) {
                Some(told) => return Ok(told),
                None => failures.push("a leader that another one has followed".to_owned()),
            },
            Err(failure) => failures.push(failure),
        }
    }
    Err(failures.join("; "))
}

/// The body of the answer. HTTP/1.0, so that it comes in one piece and the connection's end is its end.
async fn get_cluster(url: &str) -> std::io::Result<Vec<u8>> {
    let address = url.strip_prefix("http://").ok_or_else(|| wrong("a URL is http://host:port"))?;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET /cluster HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(&answer).map_err(|e| wrong(&e.to_string()))? {
        httparse::Status::Partial => Err(ErrorKind::UnexpectedEof.into()),
        httparse::Status::Complete(head) => match response.code {
            Some(200) => Ok(answer.split_off(head)),
            code => Err(wrong(&format!("HTTP status {}", code.unwrap_or_default()))),
        },
    }
}

/// A `standby_leader` follows another cluster and takes no writes. `master` is the word of Patroni 3.
fn leader_of(body: &[u8]) -> std::io::Result<Leader> {
    let cluster: Value = serde_json::from_slice(body)?;
    let members = cluster["members"].as_array().map_or(&[][..], Vec::as_slice);
    let leads = |member: &&Value| matches!(member["role"].as_str(), Some("leader" | "master"));
    let found = members.iter().find(leads).and_then(|member| {
        Some(Leader {
            host: member["host"].as_str()?.to_owned(),
            port: member["port"].as_u64()?.try_into().ok()?,
            // Not told while a member starts.
            timeline: member["timeline"].as_u64()?,
        })
    });
    found.ok_or_else(|| wrong("the cluster has no leader that runs"))
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}
