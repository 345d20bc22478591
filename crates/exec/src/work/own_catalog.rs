//! The catalog as a transaction sees it that has changed the schema itself.

use std::sync::Arc;

use crate::client::Client;
use crate::error::Result;
use crate::router::compiled::Epoch;
use crate::router::herd::catalog_error;
use crate::work::Work;

/// The catalog as the current transaction sees it.
pub async fn load_own<C: Client>(work: &mut Work<'_, C>) -> Result<Arc<Epoch>> {
    let home = work.home();
    let previous = work.epoch.snapshot.clone();
    let mut p = work.lane(home).await?;
    let loaded = Box::pin(catalog::load_in_transaction(&mut p.lane, Some(&previous))).await.map_err(catalog_error);
    work.put_back(p).await;
    Ok(Arc::new(Epoch::read(loaded?, work.herd.config.plan_bytes).await))
}
