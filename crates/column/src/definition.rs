//! What a table is made of, and whether it can be copied. It reads that from the node; it does not know copies.

use catalog::qualified;
use pool::Conn;
use wire::type_oid::FIRST_NORMAL_OBJECT_ID;

use crate::error::{Error, Result};
use crate::node::cell;
use crate::shape::{Column, Shape, Told};
use crate::types;
use crate::wanted::Wanted;

/// A table that can be copied.
#[derive(Clone, Debug)]
pub struct Definition {
    pub schema: String,
    pub name: String,
    pub shape: Shape,
}

impl Definition {
    /// For statements to the node.
    pub fn qualified(&self) -> String {
        qualified(&self.schema, &self.name)
    }
}

/// Whether it can, and if not, why not.
pub enum Found {
    Can(Box<Definition>),
    /// There is no such table.
    Gone,
    /// The table's name, and why.
    Refused(String, String),
}

struct Attribute {
    told: Told,
    generated: bool,
    kind: String,
    element: u32,
    base: u32,
}

/// `WITH … tree (oid)`: a table, and whatever is under it.
pub fn tree(relation: u32) -> String {
    format!(
        "WITH RECURSIVE tree (oid) AS (SELECT {relation}::oid UNION ALL SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid)"
    )
}

/// Reads it in whatever transaction the connection is in.
pub async fn read(conn: &mut Conn, wanted: &Wanted) -> Result<Found> {
    let (oid, tree) = (wanted.relation, tree(wanted.relation));
    let sql = format!(
        "{tree}
         SELECT n.nspname, c.relname, c.relkind,
            (SELECT bool_and(x.relkind IN ('r', 'p')) FROM tree JOIN pg_class x USING (oid)),
            (SELECT bool_and(x.relpersistence = 'p') FROM tree JOIN pg_class x USING (oid)),
            (SELECT bool_and(x.relreplident IN ('d', 'f')) FROM tree JOIN pg_class x USING (oid)),
            (SELECT count(*) = 1 OR c.relkind = 'p' FROM tree),
            NOT c.relrowsecurity,
            current_setting('server_version_num')::int < 180000 OR NOT EXISTS (SELECT FROM tree JOIN pg_class x USING (oid) JOIN pg_attribute a ON a.attrelid = x.oid
                WHERE x.relreplident = 'f' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> '')
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {oid}::oid"
    );
    let facts = conn.simple(&sql);
    let facts = facts.await?;
    let (Some(schema), Some(name)) = (cell(&facts, 0), cell(&facts, 1)) else { return Ok(Found::Gone) };
    let refused = |why: String| Ok(Found::Refused(format!("{schema}.{name}"), why));
    let yes = |column| cell(&facts, column) == Some("t");
    if !matches!(cell(&facts, 2), Some("r" | "p")) || !yes(3) {
        return refused("it, or a partition of it, is no ordinary table".into());
    }
    if !yes(4) {
        return refused("it, or a partition of it, is not written to the log (UNLOGGED or TEMPORARY)".into());
    }
    if !yes(5) {
        return refused("its REPLICA IDENTITY, or that of a partition, is neither DEFAULT nor FULL".into());
    }
    if !yes(6) {
        return refused("other tables inherit from it".into());
    }
    if !yes(7) {
        // Who asks may not have heard of it.
        return refused("it has row-level security".into());
    }
    if !yes(8) {
        // Nobody could change rows of it (pub_contains_invalid_column in PostgreSQL's publicationcmds.c).
        return refused("its REPLICA IDENTITY is FULL, and it has generated columns, which are not published".into());
    }
    let attributes = attributes(conn, oid).await?;
    let sql = format!(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
         WHERE i.indrelid = {oid}::oid AND i.indisprimary AND i.indimmediate ORDER BY array_position(i.indkey::int2[], a.attnum)"
    );
    let key = conn.simple(&sql);
    let key: Vec<String> = key.await?.into_iter().filter_map(|row| row.into_iter().next()?).collect();
    match shape(&attributes, &key, wanted) {
        Ok(shape) => Ok(Found::Can(Box::new(Definition { schema: schema.into(), name: name.into(), shape }))),
        Err(why) => refused(why),
    }
}

async fn attributes(conn: &mut Conn, oid: u32) -> Result<Vec<Attribute>> {
    let sql = format!(
        "SELECT a.attname, a.atttypid, a.atttypmod, a.attgenerated <> '', t.typtype, t.typelem, t.typbasetype
         FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
         WHERE a.attrelid = {oid}::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    );
    let rows = conn.simple(&sql);
    let read = |row: catalog::Row| -> Option<Attribute> {
        let mut cells = row.into_iter();
        let mut next = || cells.next().flatten();
        let (name, type_oid, modifier) = (next()?, next()?.parse().ok()?, next()?.parse().ok()?);
        Some(Attribute {
            told: Told { name, type_oid, modifier },
            generated: next()? == "t",
            kind: next()?,
            element: next()?.parse().ok()?,
            base: next()?.parse().ok()?,
        })
    };
    let rows = rows.await?.into_iter().map(read).collect::<Option<Vec<_>>>();
    rows.ok_or_else(|| Error::surprise("the node does not say what columns a table has"))
}

fn shape(attributes: &[Attribute], key: &[String], wanted: &Wanted) -> std::result::Result<Shape, String> {
    let mut columns = Vec::with_capacity(wanted.columns.len());
    for name in &wanted.columns {
        let found = attributes.iter().find(|a| a.told.name == *name);
        let attribute = found.ok_or_else(|| format!("there is no column \"{name}\""))?;
        if let Some(why) = refusal(attribute) {
            return Err(format!("column \"{name}\": {why}"));
        }
        if columns.iter().any(|c: &Column| c.name.to_lowercase() == name.to_lowercase()) {
            return Err(format!("two columns are named \"{name}\" but for upper and lower case"));
        }
        let Told { name, type_oid, modifier } = attribute.told.clone();
        columns.push(Column { name, type_oid, modifier });
    }
    // One that is checked late is no replica identity: a table that is published would refuse its UPDATEs.
    if key.is_empty() {
        return Err("it has no primary key that is checked at once (NOT DEFERRABLE)".into());
    }
    let place = |name: &String| columns.iter().position(|c| c.name == *name);
    let key =
        key.iter().map(|name| place(name).ok_or_else(|| format!("column \"{name}\" of the primary key is not copied")));
    let key = key.collect::<std::result::Result<Vec<_>, _>>()?;
    let missing = |name: &String| format!("column \"{name}\", by which it is to be ordered, is not copied");
    let order_by = wanted.order_by.iter().map(|name| place(name).ok_or_else(|| missing(name)));
    let order_by = order_by.collect::<std::result::Result<Vec<_>, _>>()?;
    let told = attributes.iter().filter(|a| !a.generated).map(|a| a.told.clone()).collect();
    Ok(Shape { columns, key, told, first_bytes: true, order_by })
}

fn refusal(attribute: &Attribute) -> Option<&'static str> {
    let oid = attribute.told.type_oid;
    if attribute.generated {
        return Some("generated columns are not replicated");
    }
    if let Some(why) = types::refusal(oid).or(types::refusal(attribute.element)).or(types::refusal(attribute.base)) {
        return Some(why);
    }
    let own = oid >= FIRST_NORMAL_OBJECT_ID;
    let fixed = match &*attribute.kind {
        "b" => attribute.element < FIRST_NORMAL_OBJECT_ID || !own && attribute.element == 0,
        "e" => true,
        "d" => attribute.base < FIRST_NORMAL_OBJECT_ID,
        "r" | "m" => !own,
        _ => false,
    };
    (!fixed).then_some("values of its type are written as another type says, which may change by itself")
}
