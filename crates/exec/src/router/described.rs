//! What is learnt of a statement from PostgreSQL and kept with its plan. It does not know how it is asked (`work/describe.rs`).

use wire::backend::Field;
use wire::type_oid;

use crate::carried::without_collation;
use crate::request::{Bound, Request};

/// A statement's parameters and columns, as PostgreSQL says.
#[derive(Clone, Debug, Default)]
pub struct Described {
    pub params: Vec<u32>,
    /// `None`: it returns no rows.
    pub fields: Option<Vec<Field>>,
}

impl Described {
    /// The client's parameters with all their types known.
    pub fn parameters(&self, request: &Request<'_>) -> Bound {
        let mut bound = request.bound.cloned().unwrap_or_default();
        bound.types = self.params[..].into();
        bound
    }
}

/// Columns of types that have other object ids on other nodes.
pub fn has_user_types(fields: &[Field]) -> bool {
    fields.iter().any(Field::is_of_users)
}

/// Whether binary values of these columns may tell object ids of users' own types; those of type `record` do if fields of theirs are.
pub fn may_tell_ids(fields: &[Field]) -> bool {
    has_user_types(fields) || fields.iter().any(|f| matches!(f.type_oid, type_oid::RECORD | type_oid::RECORD_ARRAY))
}

/// The columns of a part: as described, and the names by which their texts are cast back.
#[derive(Clone, Debug)]
pub struct PartColumns {
    pub fields: Vec<Field>,
    pub types: Vec<String>,
    /// The same without domains and collations.
    pub bare: Vec<String>,
}

impl PartColumns {
    /// Some are of domains.
    pub fn has_domains(&self) -> bool {
        self.types.iter().zip(&self.bare).any(|(own, bare)| without_collation(own) != bare)
    }
}
