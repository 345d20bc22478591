//! How long the client lets a statement run, and wait for a lock, where the router waits for it: between tries that are
//! short, and when a statement begins again by itself. Within a try the node keeps the same limits. It does not know
//! what is waited for.

use std::time::{Duration, Instant};
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// The client's `statement_timeout` and `lock_timeout`, counted from when the statement began.
pub struct Limits {
    begun: Instant,
    statement: Option<Duration>,
    lock: Option<Duration>,
}

impl Limits {
    /// An error in PostgreSQL's words, if a statement that waits for a lock has had its time.
    pub fn check(&self) -> Result<()> {
        let over = |limit: Option<Duration>| limit.is_some_and(|l| self.begun.elapsed() >= l);
        if over(self.statement) {
            return Err(ExecError::late());
        }
        if over(self.lock) {
            return Err(ExecError::sql(sqlstate::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
        }
        Ok(())
    }

    /// Of so long a wait what they leave.
    pub fn at_most(&self, wait: Duration) -> Duration {
        let left = [self.statement, self.lock].into_iter().flatten().map(|l| l.saturating_sub(self.begun.elapsed()));
        left.fold(wait, Duration::min).max(Duration::from_millis(1))
    }

    fn read(begun: Instant, rows: &[catalog::Row]) -> Self {
        let limit = |at: usize| {
            let ms: u64 = rows.first()?.get(at)?.as_deref()?.parse().ok()?;
            (ms > 0).then(|| Duration::from_millis(ms))
        };
        Limits { begun, statement: limit(0), lock: limit(1) }
    }
}

impl<C: Client> Work<'_, C> {
    /// As home has them for this session; of a statement that began then.
    pub async fn limits(&mut self, begun: Instant) -> Result<Limits> {
        Ok(Limits::read(begun, &self.ask_home(&question()).await?))
    }

    /// The same of a statement that has not begun on any node: its transaction takes no snapshot for it.
    pub async fn limits_beside(&mut self, begun: Instant) -> Result<Limits> {
        let mut lane = self.outside(self.home()).await?;
        Ok(Limits::read(begun, &lane.rows(&question()).await?))
    }
}

fn question() -> String {
    let ms = |name: &str| {
        format!(
            "(EXTRACT(epoch FROM pg_catalog.current_setting('{name}')::pg_catalog.interval) * 1000)::pg_catalog.int8"
        )
    };
    format!("SELECT {}, {}", ms("statement_timeout"), ms("lock_timeout"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_limit() {
        let past = Instant::now() - Duration::from_secs(5);
        let code = |statement: &str, lock: &str| {
            let row = vec![Some(statement.to_string()), Some(lock.to_string())];
            Limits::read(past, &[row]).check().err().map(|e| e.code().to_string())
        };
        assert_eq!(code("0", "0"), None);
        assert_eq!(code("6000", "7000"), None);
        assert_eq!(code("6000", "4000").as_deref(), Some("55P03"));
        assert_eq!(code("4000", "4000").as_deref(), Some("57014"));
    }
}
