//! Why the catalog could not be read or changed.
//!
//! Does not know how an error reaches a client; it only says which SQLSTATE, message and hint it deserves.

use wire::sqlstate;

use thiserror::Error;

/// What sort of refusal it is; decides the SQLSTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// 0A000: correct SQL that a herd does not do.
    NotSupported,
    /// 42P01
    UndefinedTable,
    /// 42703
    UndefinedColumn,
    /// 42704
    UndefinedObject,
    /// 42809: a view, a foreign table… where a table is needed, or a table of the wrong placement.
    WrongObjectType,
    /// 42710
    DuplicateObject,
    /// 22023
    InvalidParameter,
    /// 2BP01
    DependentObjects,
    /// 55000
    ObjectNotInPrerequisiteState,
}

/// A request that is refused before anything is changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refusal {
    pub kind: RefusalKind,
    pub message: String,
    /// What to do instead; empty when there is nothing to say.
    pub hint: String,
}

impl Refusal {
    /// With an empty hint there is nothing to advise.
    pub fn new(kind: RefusalKind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Refusal { kind, message: message.into(), hint: hint.into() }
    }

    pub(crate) fn unsupported(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(RefusalKind::NotSupported, message, hint)
    }

    /// The SQLSTATE of its kind.
    pub fn sqlstate(&self) -> &'static str {
        match self.kind {
            RefusalKind::NotSupported => sqlstate::FEATURE_NOT_SUPPORTED,
            RefusalKind::UndefinedTable => sqlstate::UNDEFINED_TABLE,
            RefusalKind::UndefinedColumn => sqlstate::UNDEFINED_COLUMN,
            RefusalKind::UndefinedObject => sqlstate::UNDEFINED_OBJECT,
            RefusalKind::WrongObjectType => sqlstate::WRONG_OBJECT_TYPE,
            RefusalKind::DuplicateObject => sqlstate::DUPLICATE_OBJECT,
            RefusalKind::InvalidParameter => sqlstate::INVALID_PARAMETER_VALUE,
            RefusalKind::DependentObjects => sqlstate::DEPENDENT_OBJECTS_STILL_EXIST,
            RefusalKind::ObjectNotInPrerequisiteState => sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE,
        }
    }

    /// What to do about it; `None`: nothing is known.
    pub fn hint(&self) -> Option<&str> {
        (!self.hint.is_empty()).then_some(self.hint.as_str())
    }
}

/// Errors of whatever also asks a node.
#[derive(Debug, Error)]
pub enum CatalogError<E: std::error::Error + 'static> {
    /// The node answered with an error, or could not be reached: whoever implements `Query` knows its SQLSTATE.
    #[error(transparent)]
    Query(E),
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The herd's own tables hold something they must not.
    #[error("the herd's catalog is damaged: {0}")]
    Corrupt(String),
    /// The server has no `herd` schema.
    #[error("this server is not the home of a herd")]
    NotHome,
}

impl<E: std::error::Error + 'static> CatalogError<E> {
    /// `None` when the server's own SQLSTATE, inside [`CatalogError::Query`], is the one to report.
    pub fn sqlstate(&self) -> Option<&'static str> {
        match self {
            CatalogError::Query(_) => None,
            CatalogError::Refused(refusal) => Some(refusal.sqlstate()),
            CatalogError::Corrupt(_) => Some(sqlstate::DATA_CORRUPTED),
            CatalogError::NotHome => Some(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE),
        }
    }

    /// What to do about it, if there is something to be done.
    pub fn hint(&self) -> Option<&str> {
        match self {
            CatalogError::Refused(refusal) => refusal.hint(),
            CatalogError::NotHome => Some("Start a herd with \"herd up\", or point the router at the home node."),
            CatalogError::Query(_) | CatalogError::Corrupt(_) => None,
        }
    }
}
