//! What is shown of standbys: the rows of `herd.replicas`, and lines of the metrics page.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Instant;

use catalog::Snapshot;
use serde_json::{Value, json};

use crate::router::standbys::{Known, OfNode, Standby, Standbys};

impl Known {
    pub(super) fn is(&mut self, state: &'static str, why: Option<&str>) {
        self.state = state;
        self.why = why.map(str::to_owned);
    }
}

impl Standbys {
    /// A row for each host of each node that has several, as a JSON object.
    pub fn rows(&self, snapshot: &Snapshot) -> Vec<String> {
        let row = |name: &str, of_node: &OfNode, standby: &Standby| {
            let known = standby.known.lock();
            let load = if known.state == "primary" { &of_node.primary } else { &standby.load };
            json!({
                "node": name, "host": standby.host.host, "port": standby.host.port, "state": known.state, "why": known.why,
                "lag_bytes": standby.lag_bytes(of_node), "age": age(standby, of_node), "reads": load.reads(),
            })
            .to_string()
        };
        let nodes = self.nodes.load();
        let of = |n: &catalog::Node| nodes.get(&n.id).map(|of_node| (n.name.clone(), of_node.clone()));
        snapshot
            .nodes
            .iter()
            .filter_map(of)
            .flat_map(|(name, of_node)| of_node.hosts.iter().map(|s| row(&name, &of_node, s)).collect::<Vec<_>>())
            .collect()
    }

    /// As lines of the metrics page.
    pub fn page(&self, snapshot: &Snapshot) -> String {
        let (mut ready, mut reads, mut seconds) = (String::new(), String::new(), String::new());
        let nodes = self.nodes.load();
        for node in &snapshot.nodes {
            let Some(of_node) = nodes.get(&node.id) else { continue };
            for standby in &of_node.hosts {
                let known = standby.known.lock();
                if known.state == "primary" {
                    continue;
                }
                let of = format!("{{node=\"{}\",standby=\"{}\"}}", escape(&node.name), standby.host);
                let _ = writeln!(ready, "herd_standby_ready{of} {}", u8::from(known.state == "ready"));
                let _ = writeln!(reads, "herd_standby_reads_total{of} {}", standby.load.reads());
                if let Some(age) = standby.age(of_node) {
                    let _ = writeln!(seconds, "herd_standby_age_seconds{of} {:.3}", age.as_secs_f64());
                }
            }
        }
        let get = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
        format!(
            "# HELP herd_standby_ready Whether a standby can be read.\n# TYPE herd_standby_ready gauge\n{ready}\
             # HELP herd_standby_age_seconds How old a standby's state is at most.\n# TYPE herd_standby_age_seconds gauge\n{seconds}\
             # HELP herd_standby_reads_total What standbys were asked.\n# TYPE herd_standby_reads_total counter\n{reads}\
             # HELP herd_standby_passed_over_total Reads that went to the primary, as no standby had what they needed, or one failed.\n\
             # TYPE herd_standby_passed_over_total counter\n\
             herd_standby_passed_over_total{{why=\"none fresh enough\"}} {}\nherd_standby_passed_over_total{{why=\"failed\"}} {}\n",
            get(&self.to_primary),
            get(&self.failed),
        )
    }
}

fn escape(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Standby {
    fn applied(&self) -> Option<u64> {
        Some(self.applied.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    fn lag_bytes(&self, of_node: &OfNode) -> Option<u64> {
        Some(of_node.marks.read().position()?.saturating_sub(self.applied()?))
    }

    fn age(&self, of_node: &OfNode) -> Option<std::time::Duration> {
        let has = of_node.marks.read().has_all_of(self.applied()?)?;
        Some(Instant::now().saturating_duration_since(has))
    }
}

fn age(standby: &Standby, of_node: &OfNode) -> Value {
    standby.age(of_node).map_or(Value::Null, |age| json!(format!("{} milliseconds", age.as_millis())))
}
