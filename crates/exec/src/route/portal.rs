//! Portals with row limits on one node. The transaction keeps the node's connection, so the portal lives as long.

use txn::Participant;
use wire::backend::Field;
use wire::put;

use crate::client::Client;
use crate::error::Result;
use crate::object_ids::{self, OidColumns};
use crate::request::{Bound, Limit, Request};
use crate::route::{Forwarded, Ids, columns_told, forward_told};
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::rows;

impl<C: Client> Work<'_, C> {
    /// Opens a portal on a node and reads its first rows. There must be a transaction, if there are to be more.
    pub async fn portal_open(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        node: i32,
        limit: Limit<'_>,
    ) -> Result<Forwarded> {
        let Some(bound) = request.bound else { return Err(crate::error::ExecError::internal("a portal without Bind")) };
        self.uses = compiled.plan.whole().sequences.clone();
        let mut p = self.lane(node).await?;
        self.takes_part(&mut p, compiled.plan.whole());
        let foreign = node != self.home();
        let ids = if foreign { self.object_ids(compiled, Some(bound)) } else { vec![] };
        let (types, told) = (bound.types_on(foreign), columns_told(compiled, request));
        put::parse(p.lane.conn.out(), "", request.sql, &types);
        if let Some(told) = told
            && let Err(e) = self.put_agreement(&mut p.lane, compiled, "", told).await
        {
            self.put_back(p).await;
            return Err(e);
        }
        let out = p.lane.conn.out();
        put::bind_tail(out, limit.portal, "", &bound.tail);
        put::execute(out, limit.portal, limit.rows);
        rows::put_look(out, compiled.looks().of(node));
        let done = self.portal_rows(p, &ids, told).await?;
        Ok(Forwarded { node: Some(node), ..done })
    }

    /// Runs a statement on a node by the extended protocol without keeping it prepared there.
    pub async fn route_once(&mut self, compiled: &Compiled, request: &Request<'_>, node: i32) -> Result<Forwarded> {
        self.portal_open(compiled, request, node, Limit { portal: "", rows: 0 }).await
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
        let ids = if foreign { object_ids::columns(&self.epoch.snapshot, fields, Some(bound)) } else { vec![] };
        let mut p = self.lane(node).await?;
        put::execute(p.lane.conn.out(), name, rows_max);
        self.portal_rows(p, &ids, None).await
    }

    async fn portal_rows(&mut self, mut p: Participant, ids: &OidColumns, told: Option<&[Field]>) -> Result<Forwarded> {
        put::sync(p.lane.conn.out());
        p.lane.conn.sent_sync();
        let result = match p.lane.conn.flush().await {
            Ok(()) => forward_told(&mut p.lane, self.client, Ids::Values(ids), told).await,
            Err(e) => Err(e.into()),
        };
        self.put_back(p).await;
        result
    }
}
