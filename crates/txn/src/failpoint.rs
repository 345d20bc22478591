//! Places where a test can make the router die or wait: `HERD_FAILPOINT=name:abort`, `name:panic` or `name:wait:FILE`.
//!
//! `wait` makes FILE, then waits until somebody removes it; each place does what it was told once. Without the variable a
//! place costs one load. It does not know what is done at the places.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

enum Action {
    Abort,
    /// As a fault of the router's own.
    Panic,
    Wait(PathBuf),
}

struct Failpoint {
    name: String,
    action: Action,
    done: AtomicBool,
}

static FAILPOINT: OnceLock<Option<Failpoint>> = OnceLock::new();

/// The place `name` has been reached.
pub async fn reached(name: &str) {
    let Some(point) = FAILPOINT.get_or_init(|| parse(&std::env::var("HERD_FAILPOINT").ok()?)) else { return };
    if point.name != name || point.done.swap(true, Ordering::SeqCst) {
        return;
    }
    match &point.action {
        // As SIGKILL: nothing is flushed, nothing is closed in order.
        Action::Abort => std::process::abort(),
        Action::Panic => panic!("failpoint {name}"),
        Action::Wait(file) => {
            if let Err(e) = std::fs::write(file, name) {
                tracing::error!(file = %file.display(), error = %e, "a failpoint could not make its file");
                return;
            }
            while file.exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

fn parse(text: &str) -> Option<Failpoint> {
    let (name, action) = text.split_once(':')?;
    let action = match action.split_once(':') {
        None if action == "abort" => Action::Abort,
        None if action == "panic" => Action::Panic,
        Some(("wait", file)) => Action::Wait(file.into()),
        _ => return None,
    };
    Some(Failpoint { name: name.to_string(), action, done: AtomicBool::new(false) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_is_a_failpoint() {
        assert!(matches!(parse("a.b:abort"), Some(Failpoint { name, action: Action::Abort, .. }) if name == "a.b"));
        assert!(matches!(parse("a:wait:/x:y"), Some(Failpoint { action: Action::Wait(f), .. }) if f.ends_with("x:y")));
        for wrong in ["", "a", "a:", "a:die", "a:wait"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
