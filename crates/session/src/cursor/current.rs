//! UPDATE and DELETE WHERE CURRENT OF a cursor whose rows are on several nodes, or in several partitions of one: the change goes to the node
//! and partition of the row it stands on, with the name of that node's own cursor (execCurrent.c). How a cursor finds that row exec knows.

use std::sync::Arc;

use catalog::Relation;
use exec::{Compiled, ExecError, Opening, Request, Standing};
use plan::{Finish, Planned};
use sql::{NodeEnum, ast, build, search};
use wire::sqlstate;

use crate::cursor::{At, Cursor, in_use};
use crate::session::{Result, Session};

/// Whose rows a cursor stands on.
pub struct Rows {
    /// The table whose key it hides.
    keyed: Option<Arc<Relation>>,
    /// Its rows are locked as they are read.
    locks: bool,
    /// They are none of a table's: PostgreSQL would look for them in no scan.
    never: bool,
}

/// The row that is to be changed.
pub struct Row {
    /// The node's cursor.
    pub of: String,
    pub node: i32,
    pub group: i32,
    pub shard: i32,
}

/// A query with the key behind its columns.
pub(super) struct Hidden {
    tree: NodeEnum,
    relation: Arc<Relation>,
}

/// Whose rows a cursor stands on that hides no key.
pub(super) fn rows_of(query: &NodeEnum, compiled: &Compiled) -> Rows {
    let NodeEnum::SelectStmt(s) = query else { return Rows { keyed: None, locks: false, never: false } };
    let added_up = matches!(compiled.plan, Planned::Query { tree: Ok(Finish::AddUp(_)), .. });
    let never = added_up || !s.group_clause.is_empty() || !s.distinct_clause.is_empty();
    Rows { keyed: None, locks: !s.locking_clause.is_empty(), never }
}

impl Session {
    /// The query with the key of its one distributed table behind its columns, if rows of that table are what it stands on.
    pub(super) async fn hides_key(
        &mut self,
        query: &NodeEnum,
        compiled: &Compiled,
        one_node: bool,
    ) -> Result<Option<Hidden>> {
        let NodeEnum::SelectStmt(s) = query else { return Ok(None) };
        let locks = !s.locking_clause.is_empty();
        let plain = s.larg.is_none()
            && s.with_clause.is_none()
            && s.group_clause.is_empty()
            && s.distinct_clause.is_empty()
            && s.having_clause.is_none()
            && s.values_lists.is_empty();
        // Without locks PostgreSQL looks for the row in a scan of the table, which must be all there is.
        let scan = !one_node && s.sort_clause.is_empty() && s.from_clause.len() == 1 && s.limit_count.is_none();
        if !plain || !locks && !scan {
            return Ok(None);
        }
        let mut tables = compiled.plan.whole().tables.iter().filter(|t| t.relation.distribution().is_some());
        let (Some(table), None) = (tables.next(), tables.next()) else { return Ok(None) };
        let relation = table.relation.clone();
        let Some(d) = relation.distribution().filter(|d| d.key.len() == 1) else { return Ok(None) };
        let mut named = vec![];
        s.from_clause.iter().for_each(|n| names(n, &relation.name, &mut named));
        let (&[name], Some(key)) = (&named[..], relation.columns.get(d.key[0])) else { return Ok(None) };
        if !locks && !matches!(s.from_clause[0].node, Some(NodeEnum::RangeVar(_))) {
            return Ok(None);
        }
        let table = format!("'{}'::pg_catalog.oid", relation.named_oid());
        let question =
            format!("SELECT pg_catalog.has_column_privilege({table}, {}, 'SELECT')", catalog::quote_literal(&key.name));
        let rows = self.work().ask_home(&question).await?;
        if rows.into_iter().flatten().flatten().next().as_deref() != Some("t") {
            return Ok(None);
        }
        let mut s = s.clone();
        s.target_list.push(build::target(build::column(&[name, &key.name]), None));
        Ok(Some(Hidden { tree: NodeEnum::SelectStmt(s), relation }))
    }

    /// Opens one that hides its key; none: it can't be told row by row where they come from.
    pub(super) async fn with_hidden_key(
        &mut self,
        how: (exec::Scroll, Option<i32>),
        hidden: &Hidden,
        request: &Request<'_>,
    ) -> Result<Option<(exec::Cursor, Rows)>> {
        let text = sql::deparse(&hidden.tree)?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty cursor query"))?;
        let compiled = self.compile_with(&tree, &text, request.types()).await?;
        let (scroll, node) = how;
        let (name, leftover) = (format!("herd cursor {}", self.next_number()), self.leftover.clone());
        let opening = Opening { name: &name, scroll, leftover: &leftover };
        let request = Request { sql: &text, ..*request };
        let opened = match node {
            Some(node) => self.work().open_cursor_on(node, &compiled, &request, &opening).await?,
            None => self.work().open_cursor(&compiled, &request, &opening).await?,
        };
        let Some(mut cursor) = opened else { return Ok(None) };
        let locks = matches!(&tree, NodeEnum::SelectStmt(s) if !s.locking_clause.is_empty());
        Ok(cursor.hides_key().then(|| (cursor, Rows { keyed: Some(hidden.relation.clone()), locks, never: false })))
    }

    /// The same change for the node's own cursor, and where the row is that it stands on; none: it is on one partition's cursor, or on
    /// none at all.
    ///
    /// # Errors
    /// 34000, 24000: as PostgreSQL says of cursors that are not there, or don't stand on a row of the table; 0A000 where it might.
    pub(crate) async fn under_cursor(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
    ) -> Result<Option<Arc<Compiled>>> {
        let whole = compiled.plan.whole();
        let Some(name) = whole.current_of.as_deref() else { return Ok(None) };
        let Some(table) = whole.tables.first().map(|t| t.relation.clone()) else { return Ok(None) };
        let is_node = matches!(self.cursors.get(name), Some(Cursor { at: At::Node { .. }, .. }));
        if is_node || !self.cursors.contains_key(name) && self.portals.contains(name) {
            return Ok(None);
        }
        // What else is wrong with the statement comes first.
        self.work().described(compiled, request.types()).await?;
        if !self.cursors.contains_key(name) {
            let message = format!("cursor \"{name}\" does not exist");
            return Err(ExecError::sql(sqlstate::INVALID_CURSOR_NAME, message));
        }
        let Some(mut cursor) = self.cursors.remove(name) else { return Ok(None) };
        let standing = self.standing_on(name, &mut cursor, &table).await;
        self.cursors.insert(name.to_string(), cursor);
        let Some(standing) = standing? else { return Ok(None) };
        let row = self.where_it_stands(&table, &standing).await?;
        let mut tree = sql::parse(&compiled.text, self.standard_conforming_strings())?
            .pop()
            .ok_or_else(|| ExecError::internal("no statement"))?;
        search::each_mut(&mut tree, |n| {
            if let NodeEnum::CurrentOfExpr(c) = n {
                c.cursor_name = standing.name.clone();
            }
            true
        });
        let text = sql::deparse(&tree)?;
        let compiled = Arc::new(self.compile_with(&tree, &text, request.types()).await?);
        if let Some(cursor) = self.cursors.get_mut(name) {
            cursor.changed = Some(Box::new(row));
        }
        Ok(Some(compiled))
    }

    /// What the node says of its own cursor, with the name that the client knows.
    pub(crate) fn named_by_client(&mut self, result: Result<exec::Forwarded>, name: &str) -> Result<exec::Forwarded> {
        let Some(row) = self.cursors.get_mut(name).and_then(|c| c.changed.take()) else { return result };
        result.map_err(|e| match e {
            ExecError::Sql(mut fields) => {
                let message = fields.message().replace(&format!("\"{}\"", row.of), &format!("\"{name}\""));
                fields.set(b'M', message);
                ExecError::Sql(fields)
            }
            e => e,
        })
    }

    /// Where it stands; none: which rows it stands on the router doesn't know.
    async fn standing_on(&mut self, name: &str, cursor: &mut Cursor, table: &Relation) -> Result<Option<Standing>> {
        let state = |message: String| Err(ExecError::sql(sqlstate::INVALID_CURSOR_STATE, message));
        if cursor.outlives {
            return state(format!("cursor \"{name}\" is held from a previous transaction"));
        }
        let reads = cursor.reads.table(table.oid);
        let At::Spread(spread, rows) = &mut cursor.at else { return Ok(None) };
        match &rows.keyed {
            Some(keyed) if keyed.oid == table.oid => {}
            None if reads && !rows.never => return Ok(None),
            _ if rows.locks => {
                let message =
                    format!("cursor \"{name}\" does not have a FOR UPDATE/SHARE reference to table \"{}\"", table.name);
                return state(message);
            }
            _ => {
                return state(format!("cursor \"{name}\" is not a simply updatable scan of table \"{}\"", table.name));
            }
        }
        match spread.standing(&mut self.work()).await? {
            Some(standing) => Ok(Some(standing)),
            None => state(format!("cursor \"{name}\" is not positioned on a row")),
        }
    }

    async fn where_it_stands(&mut self, table: &Relation, standing: &Standing) -> Result<Row> {
        let Some(d) = table.distribution() else { return Err(ExecError::internal("not a distributed table")) };
        let shard = self.work().shard_of_text(table, standing.key.as_deref()).await?;
        let shard = d.group.shards.get(shard).filter(|s| s.node == standing.node);
        let shard = shard.ok_or_else(|| ExecError::internal("a cursor's row is not where its key is"))?;
        Ok(Row { of: standing.name.clone(), node: standing.node, group: d.group.id, shard: shard.number })
    }
}

impl in_use::Reads {
    fn table(&self, oid: u32) -> bool {
        self.tables.contains(&oid)
    }
}

/// The names by which a table of this name is known where it stands in FROM.
fn names<'n>(from: &'n ast::Node, table: &str, into: &mut Vec<&'n str>) {
    match &from.node {
        Some(NodeEnum::RangeVar(r)) if r.relname == table => match &r.alias {
            None => into.push(&r.relname),
            Some(a) if a.colnames.is_empty() => into.push(&a.aliasname),
            Some(_) => {}
        },
        Some(NodeEnum::JoinExpr(j)) if j.alias.is_none() => {
            [&j.larg, &j.rarg].into_iter().flatten().for_each(|side| names(side, table, into));
        }
        _ => {}
    }
}
