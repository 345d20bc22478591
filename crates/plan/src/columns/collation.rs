//! The collation of an expression, as PostgreSQL derives it from the columns that it is made of (parse_collate.c). Knows nothing of
//! what it is used for.

use catalog::Oid;

use super::expression::{Expr, Kind};
use super::scope::Reader;
use super::{Found, refused};

/// The database's own: that of constants, and of texts made of what has no collation (`DEFAULT_COLLATION_OID`).
const DEFAULT: Oid = 100;

/// A collation, as far as stores have to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collation {
    /// Of the database's catalog; 0: the type has none.
    pub oid: Oid,
    /// It orders by bytes.
    pub bytes: bool,
    /// Strings of other bytes are not equal.
    pub deterministic: bool,
}

impl Collation {
    /// That of a table's column.
    pub fn of_column(c: &catalog::Column) -> Collation {
        let (bytes, deterministic) = (c.collation_is_bytes, c.collation_deterministic);
        Collation { oid: c.collation, bytes, deterministic }
    }
}

/// The one that strings have together. Any other than the database's goes before that; of two others PostgreSQL takes neither.
pub fn of(r: &Reader, all: &[&Expr]) -> Found<Collation> {
    let mut found = Collation { oid: DEFAULT, bytes: r.cx.snapshot.collation_is_bytes, deterministic: true };
    let mut left: Vec<&Expr> = all.to_vec();
    while let Some(e) = left.pop() {
        match &e.kind {
            // What is no string has no collation.
            _ if !e.ty.is_string() => {}
            Kind::Column(c) if c.collation.oid == found.oid || c.collation.oid == DEFAULT => {}
            Kind::Column(c) if found.oid == DEFAULT => found = c.collation,
            Kind::Column(_) => return Err(refused("a comparison or choice of texts of different collations")),
            // Conditions give none.
            Kind::Case { whens, otherwise } => {
                left.extend(whens.iter().map(|(_, then)| then).chain([otherwise.as_ref()]));
            }
            _ => left.extend(e.operands()),
        }
    }
    Ok(found)
}

/// Strings of other bytes are never equal.
pub fn is_deterministic(e: &Expr) -> Found<()> {
    match e.any(&mut |e| matches!(&e.kind, Kind::Column(c) if !c.collation.deterministic)) {
        true => Err(refused("a collation to which different strings may be equal")),
        false => Ok(()),
    }
}

/// Which string is less, their bytes say.
pub fn is_bytewise(r: &Reader, all: &[&Expr]) -> Found<()> {
    match of(r, all)?.bytes {
        true => Ok(()),
        false => Err(refused("an order by a collation other than C")),
    }
}
