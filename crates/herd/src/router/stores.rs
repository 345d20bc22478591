//! Which stores of column copies the router can reach, and how far they are behind their nodes: looked at every few seconds, said once when one goes,
//! once when it is back, and shown on the metrics page. Nothing is decided by it: reads find out for themselves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exec::{StoreAnswer, StoreState};
use parking_lot::Mutex;
use session::Router;

use super::metrics::escape;

const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Of each store, by its node, as it was when it was last looked at.
#[derive(Default)]
pub struct Stores {
    last: Mutex<BTreeMap<String, Seen>>,
}

struct Seen {
    state: StoreState,
    /// Since when it can't be reached.
    away: Option<Instant>,
}

/// Keeps looking, if there are any; never ends.
pub async fn look(router: Arc<Router>, stores: Arc<Stores>) {
    if router.herd.config.stores.is_empty() {
        return;
    }
    loop {
        let snapshot = router.herd.epoch.load().snapshot.clone();
        stores.seen(router.herd.store_states(&snapshot).await);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

impl Stores {
    /// A look at all of them.
    fn seen(&self, states: Vec<StoreState>) {
        let mut last = self.last.lock();
        let before = std::mem::take(&mut *last);
        for state in states {
            let since = before.get(&state.node).and_then(|seen| seen.away);
            let (node, host, port) = (state.node.clone(), &state.host, state.port);
            let away = match (&state.answer, since) {
                (StoreAnswer::Unreachable(error), None) => {
                    tracing::warn!(node, host, port, error, "a store of column copies can't be reached");
                    Some(Instant::now())
                }
                (StoreAnswer::Unreachable(_), since) => since,
                (_, Some(since)) => {
                    tracing::info!(node, seconds = since.elapsed().as_secs(), "the store of column copies is back");
                    None
                }
                (_, None) => None,
            };
            last.insert(node, Seen { state, away });
        }
    }

    /// As lines of the metrics page; none where there are no stores.
    pub fn page(&self) -> String {
        let last = self.last.lock();
        let mut out = String::new();
        let mut gauge = |name: &str, help: &str, value: &dyn Fn(&StoreAnswer) -> Option<String>| {
            let values = last.iter().filter_map(|(node, seen)| Some((node, value(&seen.state.answer)?)));
            let lines: String =
                values.map(|(node, value)| format!("{name}{{node=\"{}\"}} {value}\n", escape(node))).collect();
            if !lines.is_empty() {
                out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n{lines}"));
            }
        };
        gauge(
            "herd_column_store_up",
            "Whether the router could reach a node's store of column copies when it last looked, every few seconds.",
            &|answer| Some(u8::from(!matches!(answer, StoreAnswer::Unreachable(_))).to_string()),
        );
        let says = |answer: &StoreAnswer| match answer {
            StoreAnswer::Up(says) => Some(says.clone()),
            _ => None,
        };
        gauge("herd_column_store_copies", "Column copies that a store has been told to keep.", &|answer| {
            Some(says(answer)?.copies.to_string())
        });
        gauge("herd_column_store_copies_ready", "Those of them that can be read.", &|answer| {
            Some(says(answer)?.ready.to_string())
        });
        gauge("herd_column_store_lag_bytes", "Bytes of a node's log that its store has not applied.", &|answer| {
            Some(says(answer)?.lag_bytes?.to_string())
        });
        gauge("herd_column_store_lag_seconds", "How old the state that a store can show is at most.", &|answer| {
            Some(format!("{:.3}", says(answer)?.lag_ms? as f64 / 1000.0))
        });
        gauge("herd_column_store_file_bytes", "What the file of a store's copies takes.", &|answer| {
            Some(says(answer)?.file_bytes?.to_string())
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use exec::StoreSays;

    use super::*;

    #[test]
    fn what_was_seen_last_is_shown() {
        let state = |node: &str, answer| StoreState {
            node: node.into(),
            host: "h".into(),
            port: 1,
            answer,
            is_of_no_node: false,
        };
        let says = StoreSays { copies: 2, ready: 1, lag_bytes: Some(7), lag_ms: Some(1234), ..StoreSays::default() };
        let stores = Stores::default();
        assert_eq!(stores.page(), "");
        stores.seen(vec![state("a", StoreAnswer::Up(says)), state("b", StoreAnswer::Unreachable("gone".into()))]);
        let page = stores.page();
        for line in [
            "herd_column_store_up{node=\"a\"} 1",
            "herd_column_store_up{node=\"b\"} 0",
            "herd_column_store_copies_ready{node=\"a\"} 1",
            "herd_column_store_lag_seconds{node=\"a\"} 1.234",
            "herd_column_store_lag_bytes{node=\"a\"} 7",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert!(!page.contains("lag_bytes{node=\"b\"}") && !page.contains("file_bytes"));
        stores.seen(vec![state("b", StoreAnswer::Busy)]);
        assert!(stores.page().contains("store_up{node=\"b\"} 1") && !stores.page().contains("\"a\""));
    }
}
