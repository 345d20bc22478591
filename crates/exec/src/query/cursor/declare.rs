//! Opens a cursor over several nodes: DECLARE on each of them. No row is read for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::NodeId;
use plan::{Finish, Merge, Planned};
use wire::put;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::counts;
use crate::query::cursor::{Cursor, Leftover, Merged, Nodes, Position, Scroll, Source, Stream};
use crate::query::merge::comparable;
use crate::render::{Fill, NodeStatement};
use crate::request::{Literals, Request};
use crate::router::compiled::Compiled;
use crate::router::described::{Described, PartColumns};
use crate::work::Work;
use crate::work::cut_statement::Wanted;
use crate::work::describe::refuse_rows;
use crate::work::rows;

/// How a cursor is opened.
pub struct Opening<'o> {
    /// What its cursors on nodes are called.
    pub name: &'o str,
    pub scroll: Scroll,
    pub leftover: &'o Leftover,
}

/// A part that nodes open cursors for.
struct Part<'p> {
    nodes: BTreeSet<NodeId>,
    statement: NodeStatement,
    merge: Option<(&'p Merge, &'p PartColumns)>,
    slice: (Option<u64>, u64),
    locks: bool,
}

impl<C: Client> Work<'_, C> {
    /// `None`: its plan is one whose rows can't be asked for one by one, or not under one cut.
    pub async fn open_cursor(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        how: &Opening<'_>,
    ) -> Result<Option<Cursor>> {
        let clock = compiled.plan.whole().clock.as_deref().filter(|_| self.transaction.is_active());
        let anew = match clock {
            Some(clock) => Box::pin(self.at_moment(compiled, request, clock)).await?,
            None => None,
        };
        let text = anew.as_ref().map(|c| Request { sql: &c.text, literals: Literals::Own, ..*request });
        let (compiled, request) = (anew.as_ref().unwrap_or(compiled), text.as_ref().unwrap_or(request));
        let whole = compiled.plan.whole();
        let rewritten = whole.rewritten.as_ref();
        let less = rewritten.and_then(|sql| request.bound?.without_strangers(sql));
        let request = &Request { bound: less.as_ref().or(request.bound), ..*request };
        let Planned::Query { tree: Ok(finish), .. } = &compiled.plan else { return Ok(None) };
        let (part, slice, merge) = match finish {
            Finish::PassOn { rows, slice } => (rows, *slice, None),
            Finish::Merge(m) => (&m.rows, m.slice, Some(m)),
            Finish::AddUp(_) | Finish::Statement(_) => return Ok(None),
        };
        self.uses = whole.sequences.clone();
        self.looks = compiled.looks().clone();
        if whole.clock.is_some() {
            Box::pin(self.settle_now()).await?;
        }
        self.cut_for_read().await?;
        let described = self.described(compiled, request.types()).await?;
        let bound = described.parameters(request);
        let visible = described.fields.as_ref().map_or(0, Vec::len);
        let nodes = self.part_nodes(compiled, request, part).await?;
        let columns: Option<Arc<Vec<PartColumns>>> = match merge {
            Some(m) => Some(self.part_columns(compiled, &[&m.rows], &bound).await?),
            None => None,
        };
        let merge = merge.zip(columns.as_ref().map(|c| &c[0]));
        let rows = refuse_rows(described.fields.as_deref().unwrap_or_default()).is_err();
        if merge.is_some_and(|(m, c)| rows || !comparable(&c.fields[visible..], m.bytewise)) {
            return Ok(None);
        }
        let locks = slice.locks;
        let slice: (Option<u64>, u64) = counts(slice, &bound)?;
        let statement = Fill::new(&bound, &self.now).statement([&part.text]);
        let part = Part { nodes, statement, merge, slice, locks };
        let cursor = self.declare_parts(compiled, &described, part, how).await;
        cursor.map_err(|e| e.of_views(&whole.apart_views))
    }

    /// The same for a statement that goes to one node as it is.
    pub async fn open_cursor_on(
        &mut self,
        node: NodeId,
        compiled: &Compiled,
        request: &Request<'_>,
        how: &Opening<'_>,
    ) -> Result<Option<Cursor>> {
        let whole = compiled.plan.whole();
        self.uses = whole.sequences.clone();
        self.looks = compiled.looks().clone();
        let described = self.described(compiled, request.types()).await?;
        let bound = described.parameters(request);
        let statement = NodeStatement {
            sql: whole.own_text().unwrap_or(request.sql).to_string(),
            types: bound.types.to_vec(),
            formats: bound.formats.to_vec(),
            values: bound.values.clone(),
            once: true,
            columns: None,
        };
        let part = Part { nodes: BTreeSet::from([node]), statement, merge: None, slice: (None, 0), locks: false };
        self.declare_parts(compiled, &described, part, how).await
    }

    async fn declare_parts(
        &mut self,
        compiled: &Compiled,
        described: &Described,
        part: Part<'_>,
        how: &Opening<'_>,
    ) -> Result<Option<Cursor>> {
        let Part { nodes, statement, merge, slice: (limit, skip), locks } = part;
        if !self.transaction.is_active() {
            return Err(ExecError::internal("a cursor outside a transaction"));
        }
        let mut named = vec![];
        let mut scroll = how.scroll;
        if nodes.len() > 1 && self.opens_together() {
            if scroll == Scroll::Yes {
                return Ok(None);
            }
            // Portals of the protocol, which see what was committed when they were bound; they never go back.
            scroll = Scroll::No;
            let opened = self.open_together(&[Wanted { nodes: &nodes, statement: &statement, formats: &[] }]).await?;
            named.extend(opened.into_iter().map(|o| (o.node, o.name)));
        } else {
            self.declare_on_nodes(compiled, &nodes, statement, how).await?;
            named.extend(nodes.iter().map(|node| (*node, how.name.to_string())));
        }
        let fields = described.fields.clone().unwrap_or_default();
        let stream =
            |(node, name)| Stream { node, name, ahead: Default::default(), passed: 0, skipped: 0, at: 0, ended: false };
        let merge = merge.map(|(m, columns)| Merged {
            sort: m.sort.clone(),
            keys: columns.fields[fields.len()..].iter().map(|f| f.type_oid).collect(),
            types: columns.types.clone(),
        });
        let nodes = Nodes {
            streams: named.into_iter().map(stream).collect(),
            merge,
            order: Default::default(),
            passed: 0,
            last: None,
            skip,
            limit,
            locks,
            formats: vec![],
            seen: (0, 0),
            memory: self.memory.nothing(),
            leftover: how.leftover.clone(),
        };
        let source = Source::Nodes(nodes);
        let formats = vec![0; fields.len()];
        let position = Position::default();
        Ok(Some(Cursor { fields, key: None, position, scroll, source, failed: false, late: None, formats }))
    }

    async fn declare_on_nodes(
        &mut self,
        compiled: &Compiled,
        nodes: &BTreeSet<NodeId>,
        statement: NodeStatement,
        how: &Opening<'_>,
    ) -> Result<()> {
        let scroll = match how.scroll {
            Scroll::No => "NO SCROLL ",
            Scroll::Yes => "SCROLL ",
            Scroll::Unasked => "",
        };
        let sql = format!("DECLARE {} {scroll}CURSOR FOR {}", catalog::quote_ident(how.name), statement.sql);
        let declare = NodeStatement { sql, once: true, ..statement };
        let home = self.home();
        let whole = compiled.plan.whole();
        let mut lanes = self
            .ask_each(nodes.iter().map(|node| (*node, ())), |_, p, ()| {
                let node = p.lane.node;
                let mut leftover = how.leftover.lock();
                leftover
                    .extract_if(.., |l| l.0 == node)
                    .for_each(|(_, name)| put::close(p.lane.conn.out(), b'P', &name));
                rows::send_statement(&mut p.lane, None, &declare, node != home, &[]);
            })
            .await?;
        let mut result = Ok(());
        for p in &mut lanes {
            self.takes_part(p, whole);
            if let Err(e) = rows::drain(&mut p.lane).await {
                result = result.and(Err(e));
            }
        }
        self.abandon(lanes).await;
        result
    }

    /// Closes what nobody needs any more, before something comes that its being open would stop.
    pub async fn close_leftover(&mut self, leftover: &Leftover) -> Result<()> {
        let names = std::mem::take(&mut *leftover.lock());
        self.close_on_nodes(names).await
    }

    /// Closes cursors on nodes; one that is not there any more is as good.
    pub(super) async fn close_on_nodes(&mut self, names: Vec<(NodeId, String)>) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        // A node is asked once, on its part of the transaction.
        let mut by_node: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
        names.into_iter().for_each(|(node, name)| by_node.entry(node).or_default().push(name));
        let mut lanes = self
            .ask_each(by_node.into_iter(), |_, p, names| {
                names.iter().for_each(|name| put::close(p.lane.conn.out(), b'P', name));
                put::sync(p.lane.conn.out());
                p.lane.conn.sent_sync();
            })
            .await?;
        let mut result = Ok(());
        for p in &mut lanes {
            if let Err(e) = rows::drain(&mut p.lane).await {
                result = result.and(Err(e));
            }
        }
        self.abandon(lanes).await;
        result
    }
}
