//! What a copy is made of, and how that is kept in the store's file. It does not know what is in it.

use catalog::first_bytes;
use serde::{Deserialize, Serialize};

use crate::pgoutput::Relation;
use crate::types::Kind;

/// What a copy is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    pub columns: Vec<Column>,
    /// Which of the columns are the primary key.
    pub key: Vec<usize>,
    /// The table's columns as its changes are told.
    pub told: Vec<Told>,
    /// Long texts have their first bytes in columns of their own, behind the others, in their order; not so in what older stores have made.
    #[serde(default)]
    pub first_bytes: bool,
    /// Which of the columns its rows are sorted by; empty: by none, or an older store made it, which did not keep that.
    #[serde(default)]
    pub order_by: Vec<usize>,
}

/// A column of a copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub type_oid: u32,
    pub modifier: i32,
}

/// A column of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub name: String,
    pub type_oid: u32,
    pub modifier: i32,
}

impl Column {
    /// What its values are in DuckDB.
    pub fn kind(&self) -> Kind {
        Kind::of(self.type_oid, self.modifier)
    }
}

impl Shape {
    /// Of each of the copy's columns.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.columns.iter().map(Column::kind)
    }

    /// Whether it has a column of the first bytes of this one.
    pub fn has_first_bytes(&self, column: &Column) -> bool {
        self.first_bytes && first_bytes::are_kept(column.type_oid, column.modifier)
    }

    /// Of each of the key's columns.
    pub fn key_kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.key.iter().map(|at| self.columns[*at].kind())
    }

    /// Where each of the copy's columns is in the rows of this relation; `None`: it is not the table that was copied.
    pub fn places_in(&self, relation: &Relation) -> Option<Vec<usize>> {
        let same = |told: &Told, is: &crate::pgoutput::RelationColumn| {
            told.name == is.name && told.type_oid == is.type_oid && told.modifier == is.modifier
        };
        let unchanged = self.told.len() == relation.columns.len()
            && self.told.iter().zip(&relation.columns).all(|(told, is)| same(told, is));
        let place = |column: &Column| relation.columns.iter().position(|c| c.name == column.name);
        unchanged.then(|| self.columns.iter().map(place).collect())?
    }
}
