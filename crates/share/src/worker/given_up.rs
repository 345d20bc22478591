//! A batch of one whose client gives it up while it runs: it is cancelled on its node, as often as it takes. It does not know who gives up, nor what
//! becomes of the batch.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pool::{CancelKey, cancel};
use tokio::sync::Notify;

/// One cancel may find the batch between two steps.
const AGAIN: Duration = Duration::from_millis(50);
/// How long a node may take to act on a cancel.
const CANCEL_MAX: Duration = Duration::from_secs(5);

/// Runs `batch` to its end. False: a cancel may still be on its way to the connection.
pub(super) async fn run(mut batch: Pin<&mut impl Future<Output = ()>>, given_up: &Notify, key: &CancelKey) -> bool {
    tokio::select! {
        biased;
        () = &mut batch => return true,
        () = given_up.notified() => {}
    }
    let mut clean = true;
    loop {
        // No cancel is left on its way when this has returned, and the batch ends in between only.
        clean &= cancel(key, CANCEL_MAX).await.is_ok();
        if tokio::time::timeout(AGAIN, &mut batch).await.is_ok() {
            return clean;
        }
    }
}
