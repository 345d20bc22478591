//! Code that changes the catalog, or roles, by statements that stand in it. On home alone that is right for what home alone has;
//! what all nodes have would differ. What came of it can be seen afterwards only (a branch may not be taken, IF NOT EXISTS
//! may find something), so such code is watched while it runs; here is which needs no watching.
//!
//! It does not know how it is watched. A statement that nothing here is known of is watched.

use catalog::TemporaryRelation;
use sql::NodeEnum;
use sql::ast::{self, ObjectType as O};
use sql::body::Body;

use super::Graph;
use crate::ddl::{Mode, is_temporary, made_temporary, object_type};

impl Graph<'_> {
    pub(super) fn makes(&self, body: &Body) -> bool {
        let temporary: Vec<TemporaryRelation> =
            body.utilities.iter().filter_map(made_temporary).map(|rv| TemporaryRelation::named(&*rv.relname)).collect();
        body.utilities.iter().any(|u| !self.is_harmless(u, &temporary))
    }

    /// No node's definitions, roles or rights are others afterwards, but for what the session alone has. `temporary`: names of
    /// temporary relations that the code makes.
    fn is_harmless(&self, utility: &NodeEnum, temporary: &[TemporaryRelation]) -> bool {
        match utility {
            u if Mode::of(u) == Mode::NotDdl => true,
            // Whose rows they are is known by their names.
            NodeEnum::TruncateStmt(_) | NodeEnum::LockStmt(_) | NodeEnum::RefreshMatViewStmt(_) => true,
            NodeEnum::VacuumStmt(_) | NodeEnum::ReindexStmt(_) => true,
            u if made_temporary(u).is_some() => true,
            // What no catalog has is temporary, or not there.
            NodeEnum::DropStmt(s) if is_relation(s.remove_type) => {
                let unknown = |name: &&str| !self.by_name.contains_key(name);
                let names: Vec<&str> = s.objects.iter().flat_map(bare).filter(unknown).collect();
                let names: Vec<TemporaryRelation> =
                    names.into_iter().map(TemporaryRelation::named).chain(temporary.iter().cloned()).collect();
                is_temporary(utility, &names)
            }
            u => is_temporary(u, temporary),
        }
    }
}

/// Not indexes: no catalog here has them.
fn is_relation(kind: i32) -> bool {
    matches!(object_type(kind), O::ObjectTable | O::ObjectView | O::ObjectSequence)
}

/// The name in a list of one.
fn bare(object: &ast::Node) -> Option<&str> {
    match &object.node {
        Some(NodeEnum::List(l)) => match sql::names::strings(&l.items)[..] {
            [name] => Some(name),
            _ => None,
        },
        _ => None,
    }
}
