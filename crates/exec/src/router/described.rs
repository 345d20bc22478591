//! What is learnt of a statement from PostgreSQL and kept with its plan. It does not know how it is asked (`work/describe.rs`).

use wire::backend::Field;
use wire::type_oid;

#[derive(Clone, Debug, Default)]
pub struct Described {
    pub params: Vec<u32>,
    /// `None`: it returns no rows.
    pub fields: Option<Vec<Field>>,
}

/// Columns of types that have other object ids on other nodes.
pub fn has_user_types(fields: &[Field]) -> bool {
    fields.iter().any(|f| f.type_oid >= type_oid::FIRST_USER_OID)
}

/// The columns of a part: as described, and the names by which their texts are cast back.
#[derive(Clone, Debug)]
pub struct PartColumns {
    pub fields: Vec<Field>,
    pub types: Vec<String>,
}
