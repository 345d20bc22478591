//! Portals with row limits on one node. The transaction keeps the node's connection, so the portal lives as long.

use txn::Participant;
use wire::backend::Field;
use wire::put;

use crate::arrays::{self, ArrayColumns};
use crate::client::Client;
use crate::error::Result;
use crate::request::{Bound, Request};
use crate::route::{Forwarded, Ids, forward};
use crate::router::compiled::Compiled;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// Opens a named portal on a node and reads its first rows. There must be a transaction.
    pub async fn portal_open(
        &mut self,
        node: i32,
        name: &str,
        compiled: &Compiled,
        request: &Request<'_>,
        rows_max: i32,
    ) -> Result<Forwarded> {
        let Some(bound) = request.bound else { return Err(crate::error::ExecError::internal("a portal without Bind")) };
        self.uses = compiled.plan.whole().sequences.clone();
        let mut p = self.lane(node).await?;
        p.wrote |= compiled.plan.whole().writes;
        let foreign = node != self.home();
        let arrays = if foreign { self.arrays(compiled, Some(bound)) } else { vec![] };
        let types = bound.types_on(foreign);
        let out = p.lane.conn.out();
        put::parse(out, "", request.sql, &types);
        put::bind_tail(out, name, "", &bound.tail);
        self.portal_rows(p, name, rows_max, &arrays).await
    }

    /// Runs a statement on a node by the extended protocol without keeping it prepared there.
    pub async fn route_once(&mut self, compiled: &Compiled, request: &Request<'_>, node: i32) -> Result<Forwarded> {
        self.portal_open(node, "", compiled, request, 0).await
    }

    /// Reads more rows of an open portal. `fields`: as home describes them.
    pub async fn portal_more(
        &mut self,
        node: i32,
        name: &str,
        fields: Option<&[Field]>,
        bound: &Bound,
        rows_max: i32,
    ) -> Result<Forwarded> {
        let foreign = node != self.home();
        let arrays = if foreign { arrays::columns(&self.epoch.snapshot, fields, Some(bound)) } else { vec![] };
        let p = self.lane(node).await?;
        self.portal_rows(p, name, rows_max, &arrays).await
    }

    async fn portal_rows(
        &mut self,
        mut p: Participant,
        name: &str,
        rows_max: i32,
        arrays: &ArrayColumns,
    ) -> Result<Forwarded> {
        put::execute(p.lane.conn.out(), name, rows_max);
        put::sync(p.lane.conn.out());
        p.lane.conn.sent_sync();
        let result = match p.lane.conn.flush().await {
            Ok(()) => forward(&mut p.lane, self.client, false, Ids::Arrays(arrays)).await,
            Err(e) => Err(e.into()),
        };
        self.put_back(p).await;
        result
    }
}
