//! Why the nodes can't answer a level by themselves, as a value: what is not colocated with what. Whoever could move rows
//! can ask it what to move; for the user it becomes a refusal (`refuse.rs`).

use catalog::Relation;

use crate::refuse::Refusal;

/// Why rows that a level needs together may lie on several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Tables that are joined, but whose rows that meet may be on different nodes.
    Join { left: Side, right: Side, why: Mismatch },
    /// A subquery that reads a table whose rows may be on other nodes than those of the level above, if that reads any.
    Subquery { outer: Option<Side>, inner: Option<Side> },
    /// The arms of a set operation, other than UNION ALL of the same shards.
    SetOperation,
    /// Rows that belong together may be on several nodes: the key is not among what they are put together by.
    Spread { what: Gathering, table: Side },
    /// A local table, whose rows are on home.
    Local { table: String },
    /// Code that uses what only home has.
    Code { what: String },
    /// What has no distributed table, but could differ from node to node.
    Differs(Differs),
    /// An outer join keeps rows that every node has.
    Repeated,
    /// Not supported, wherever its rows are.
    Refused(Refusal),
}

/// A distributed table as far as colocation goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    pub table: String,
    /// Its colocation group.
    pub group: i32,
    pub key: Box<SideKey>,
}

/// By what a table is distributed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideKey {
    /// The table as a statement has its name.
    pub table: String,
    pub columns: Vec<String>,
    /// The columns' types (object ids).
    pub types: Vec<u32>,
}

/// Why two tables' rows that meet need not be on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The keys have other types.
    KeyTypes,
    /// The same types, but shards of their own.
    Groups,
    /// The same shards, but nothing says that their keys are equal.
    Keys,
}

/// What needs rows of equal values in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathering {
    Aggregate,
    Window,
    Distinct,
    Limit,
    /// Rows whose order something relies on.
    Order,
}

/// Why the same text may mean other rows on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// LIMIT or DISTINCT ON without an order that decides.
    Choice,
    /// An aggregate or window function that heeds the order of rows.
    Order,
    Volatile,
}

impl Side {
    /// `None`: the relation is not a distributed table.
    pub fn of(relation: &Relation) -> Option<Side> {
        let d = relation.distribution()?;
        let key = SideKey {
            table: catalog::qualified(&relation.schema, &relation.name),
            columns: d.key.iter().map(|position| relation.columns[*position].name.clone()).collect(),
            types: d.group.key_types.clone(),
        };
        Some(Side { table: relation.name.clone(), group: d.group.id, key: Box::new(key) })
    }

    fn types(&self) -> String {
        self.key.types.iter().map(|oid| type_name(*oid)).collect::<Vec<_>>().join(", ")
    }

    fn columns(&self) -> String {
        self.key.columns.iter().map(|key| format!("{}.{key}", self.table)).collect::<Vec<_>>().join(", ")
    }

    /// Why rows of the two sides are not on the same nodes.
    pub fn mismatch(&self, other: &Side) -> Mismatch {
        match (self.key.types == other.key.types, self.group == other.group) {
            (false, _) => Mismatch::KeyTypes,
            (true, false) => Mismatch::Groups,
            (true, true) => Mismatch::Keys,
        }
    }
}

impl Apart {
    /// Which tables' rows are not together, and why, in words for a user; `None`: it is no question of where rows are.
    pub fn why(&self) -> Option<String> {
        Some(match self {
            Apart::Join { left, right, why } => match why {
                Mismatch::KeyTypes => format!(
                    "{} is distributed by {}, {} by {}: tables are colocated whose keys have the same type",
                    left.table,
                    left.types(),
                    right.table,
                    right.types()
                ),
                Mismatch::Groups => format!("{} and {} are not colocated", left.table, right.table),
                Mismatch::Keys => format!(
                    "{} and {} are not joined on their distribution keys ({}; {})",
                    left.table,
                    right.table,
                    left.columns(),
                    right.columns()
                ),
            },
            Apart::Subquery { outer: Some(outer), inner: Some(inner) } => format!(
                "a subquery over {} is not tied to {} by their distribution keys ({}; {})",
                inner.table,
                outer.table,
                inner.columns(),
                outer.columns()
            ),
            Apart::Subquery { inner: Some(inner), .. } => {
                format!("a subquery needs rows of {} on all nodes", inner.table)
            }
            Apart::Spread { table, .. } => format!(
                "a part of the query needs rows of {} together that have different keys ({})",
                table.table,
                table.columns()
            ),
            Apart::Local { table } => format!("{table} is a local table, which home alone has"),
            Apart::Repeated => "an outer join keeps rows of a reference table, which every node has".into(),
            Apart::Subquery { .. }
            | Apart::SetOperation
            | Apart::Code { .. }
            | Apart::Differs(_)
            | Apart::Refused(_) => {
                return None;
            }
        })
    }

    /// Statements that make the tables colocated, where that is what keeps them apart.
    pub fn remedy(&self) -> Option<String> {
        let Apart::Join { left, right, why } = self else { return None };
        let ([left_type], [right_type], [key]) = (&left.key.types[..], &right.key.types[..], &right.key.columns[..])
        else {
            return None;
        };
        let (column, table) = (catalog::quote_ident(key), catalog::quote_literal(&right.key.table));
        let alter = match why {
            Mismatch::KeyTypes if left_type != right_type => {
                format!("ALTER TABLE {} ALTER COLUMN {column} TYPE {}; ", right.key.table, type_name(*left_type))
            }
            Mismatch::Groups => String::new(),
            _ => return None,
        };
        Some(format!(
            "SELECT undistribute_table({table}); {alter}SELECT create_distributed_table({table}, {}, colocate_with => {});",
            catalog::quote_literal(key),
            catalog::quote_literal(&left.key.table)
        ))
    }
}

/// As PostgreSQL calls the types that keys have.
fn type_name(oid: u32) -> String {
    use wire::type_oid::*;
    match oid {
        INT2 => "smallint",
        INT4 => "integer",
        INT8 => "bigint",
        TEXT => "text",
        VARCHAR => "character varying",
        BPCHAR => "bpchar",
        UUID => "uuid",
        DATE => "date",
        TIMESTAMP => "timestamp without time zone",
        TIMESTAMPTZ => "timestamp with time zone",
        NUMERIC => "numeric",
        FLOAT8 => "double precision",
        BOOL => "boolean",
        BYTEA => "bytea",
        _ => return format!("type {oid}"),
    }
    .into()
}
