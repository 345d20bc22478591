//! Counters of a router, for Prometheus and `herd status`. It does not know how they are served.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Upper bounds of the latency histogram's buckets, in seconds.
pub const BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// As what a statement is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountedAs {
    Route,
    Scatter,
    Reference,
    Copy,
    Ddl,
    Other,
}

impl CountedAs {
    pub const ALL: [CountedAs; 6] =
        [CountedAs::Route, CountedAs::Scatter, CountedAs::Reference, CountedAs::Copy, CountedAs::Ddl, CountedAs::Other];

    /// The label `strategy` of the metrics page.
    pub fn name(self) -> &'static str {
        match self {
            CountedAs::Route => "route",
            CountedAs::Scatter => "scatter",
            CountedAs::Reference => "reference",
            CountedAs::Copy => "copy",
            CountedAs::Ddl => "ddl",
            CountedAs::Other => "other",
        }
    }
}

/// How often something took how long.
#[derive(Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS.len() + 1],
    sum_micros: AtomicU64,
}

/// What the router counts, for its metrics page.
#[derive(Default)]
pub struct Metrics {
    latencies: [Histogram; CountedAs::ALL.len()],
    errors: Mutex<HashMap<&'static str, u64>>,
    pub connections: AtomicI64,
    pub connections_total: AtomicU64,
    /// Sessions that ended by a fault of the router.
    pub panics: AtomicU64,
    pub rows_sent: AtomicU64,
    pub bytes_sent: AtomicU64,
    pub bytes_received: AtomicU64,
}

impl Metrics {
    /// Counts a statement that took so long.
    pub fn statement(&self, strategy: CountedAs, took: Duration) {
        let h = &self.latencies[strategy as usize];
        let seconds = took.as_secs_f64();
        let bucket = BUCKETS.iter().position(|b| seconds <= *b).unwrap_or(BUCKETS.len());
        h.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        h.sum_micros.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }

    /// Counts an error sent to a client; SQLSTATEs that PostgreSQL does not document count as one.
    pub fn error(&self, sqlstate: &str) {
        // Clients can raise any: those are one.
        let counted = wire::sqlstate::documented(sqlstate).unwrap_or("other");
        *self.errors.lock().entry(counted).or_default() += 1;
    }

    /// Prometheus' text format, without what pools say.
    pub fn render(&self) -> String {
        let mut out = String::new();
        out.push_str("# HELP herd_statement_seconds Time from a statement's arrival to its last byte, by strategy.\n# TYPE herd_statement_seconds histogram\n");
        for s in CountedAs::ALL {
            let h = &self.latencies[s as usize];
            let mut total = 0;
            for (i, b) in h.buckets.iter().enumerate() {
                total += b.load(Ordering::Relaxed);
                let le = BUCKETS.get(i).map_or("+Inf".to_string(), f64::to_string);
                out.push_str(&format!(
                    "herd_statement_seconds_bucket{{strategy=\"{}\",le=\"{le}\"}} {total}\n",
                    s.name()
                ));
            }
            let sum = h.sum_micros.load(Ordering::Relaxed) as f64 / 1e6;
            out.push_str(&format!("herd_statement_seconds_sum{{strategy=\"{0}\"}} {sum}\nherd_statement_seconds_count{{strategy=\"{0}\"}} {total}\n", s.name()));
        }
        out.push_str(
            "# HELP herd_errors_total Errors sent to clients, by SQLSTATE.\n# TYPE herd_errors_total counter\n",
        );
        let mut errors: Vec<_> = self.errors.lock().iter().map(|(c, n)| (*c, *n)).collect();
        errors.sort();
        for (code, n) in errors {
            out.push_str(&format!("herd_errors_total{{sqlstate=\"{code}\"}} {n}\n"));
        }
        let gauges = [
            (
                "herd_client_connections",
                "gauge",
                "Clients connected now.",
                self.connections.load(Ordering::Relaxed) as u64,
            ),
            (
                "herd_client_connections_total",
                "counter",
                "Clients that have connected.",
                self.connections_total.load(Ordering::Relaxed),
            ),
            (
                "herd_session_panics_total",
                "counter",
                "Sessions that ended by a fault of the router; its log says where.",
                self.panics.load(Ordering::Relaxed),
            ),
            ("herd_rows_total", "counter", "Rows counted by command tags.", self.rows_sent.load(Ordering::Relaxed)),
            (
                "herd_client_sent_bytes_total",
                "counter",
                "Bytes sent to clients.",
                self.bytes_sent.load(Ordering::Relaxed),
            ),
            (
                "herd_client_received_bytes_total",
                "counter",
                "Bytes received from clients.",
                self.bytes_received.load(Ordering::Relaxed),
            ),
        ];
        for (name, kind, help, value) in gauges {
            out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"));
        }
        out
    }
}
