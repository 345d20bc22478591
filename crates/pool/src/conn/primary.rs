//! Connecting to whichever of a node's hosts is the primary. What is known of the hosts is in `hosts.rs`.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::Conn;
use crate::error::PoolError;
use crate::target::{Login, NodeTarget};
use crate::{hosts, patroni};

/// How much sooner than the next one a host is asked.
const HEAD_START: Duration = Duration::from_millis(200);

impl Conn {
    /// `target_session_attrs=primary`: the first that answers and is no standby. One that is slow to answer, or never
    /// does, keeps nobody from asking the next. Where Patroni says who leads, that host alone is asked; a standby is
    /// refused all the same.
    pub(super) async fn connect_primary(
        target: Arc<NodeTarget>,
        login: &Login,
        startup: &[(&str, &str)],
        timeout: Duration,
    ) -> Result<Conn, PoolError> {
        let (target, mut view) = (&target, hosts::view(&target));
        if !target.patroni().is_empty() {
            view.candidates = vec![patroni::leader(target, timeout).await?];
        }
        let view = &view;
        let one = async move |turn: u32, host: Arc<NodeTarget>| {
            tokio::time::sleep(HEAD_START * turn).await;
            let mut conn = Self::connect_one(host.clone(), login, startup, timeout).await?;
            let no = |why: &str| {
                let source = std::io::Error::other(why.to_string());
                PoolError::Connect { node: target.to_string(), source }
            };
            // Told by PostgreSQL 14 and later at every login.
            if conn.parameters.get("in_hot_standby").is_some_and(|v| v == "on") {
                return Err(no(&format!("{host} is a standby, and no other host has answered as the primary")));
            }
            let socket = conn.stream.handle().map_err(|e| no(&e.to_string()))?;
            let link = hosts::answered(target, view, &host, socket);
            conn.link = Some(link.ok_or_else(|| no("another host has just become the primary"))?);
            conn.target = target.clone();
            Ok(conn)
        };
        let mut trying: Vec<_> =
            (0..).zip(&view.candidates).map(|(turn, host)| Box::pin(one(turn, Arc::new(host.clone())))).collect();
        let mut failure = None;
        while !trying.is_empty() {
            match first(&mut trying).await {
                Ok(conn) => return Ok(conn),
                // What a primary says of a login counts for more than that another host is down, or a standby.
                Err(e @ PoolError::Auth { .. }) => failure = Some(e),
                Err(e) => {
                    failure.get_or_insert(e);
                }
            }
        }
        hosts::doubt(target);
        Err(failure.unwrap_or_else(|| PoolError::Timeout { node: target.to_string(), doing: "connecting" }))
    }
}

/// The first of these that is ready; it is taken out.
async fn first<F: Future>(of: &mut Vec<Pin<Box<F>>>) -> F::Output {
    let (i, output) = poll_fn(|cx| {
        let ready = of.iter_mut().enumerate().find_map(|(i, one)| match one.as_mut().poll(cx) {
            Poll::Ready(output) => Some((i, output)),
            Poll::Pending => None,
        });
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await;
    drop(of.swap_remove(i));
    output
}
