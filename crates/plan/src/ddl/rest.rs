//! Which tables lose partitions of their owners' by a statement: what their default partitions take is another set of rows then. What is done
//! about it is not known here.

use std::collections::HashSet;

use catalog::{Oid, Relation, Snapshot};
use sql::NodeEnum;
use sql::ast::{self, ObjectType as O};
use sql::names;

use super::Facts;
use super::place::{detached, name_of, object_type, strings_of};

/// The distributed tables that this takes partitions from, and that may be there afterwards.
pub fn loses_partitions(statement: &NodeEnum, snapshot: &Snapshot, facts: &Facts) -> Vec<Oid> {
    let find = |(schema, name): (Option<&str>, &str)| {
        let hidden = schema.is_none() && facts.temporary.iter().any(|t| t == name);
        snapshot.resolve(schema, name, &facts.search_path).filter(|_| !hidden)
    };
    let mut tables: Vec<Oid> = match statement {
        NodeEnum::AlterTableStmt(s) if s.cmds.iter().any(|c| detached(c).is_some()) => {
            s.relation.as_ref().map(names::table).and_then(find).map(|r| r.oid).into_iter().collect()
        }
        NodeEnum::DropStmt(s) => {
            let objects: Vec<_> = s.objects.iter().map(strings_of).collect();
            match object_type(s.remove_type) {
                O::ObjectTable => {
                    let dropped: HashSet<Oid> =
                        objects.iter().filter_map(|o| name_of(o)).filter_map(find).map(|r| r.oid).collect();
                    with_partition(snapshot, |r| dropped.contains(&r.oid))
                }
                O::ObjectSchema if s.behavior == ast::DropBehavior::DropCascade as i32 => {
                    with_partition(snapshot, |r| objects.iter().flatten().any(|schema| *schema == r.schema))
                }
                _ => vec![],
            }
        }
        _ => vec![],
    };
    tables.sort_unstable();
    tables
}

/// Tables one of whose partitions is such a one, and which are none themselves.
fn with_partition(snapshot: &Snapshot, goes: impl Fn(&Relation) -> bool) -> Vec<Oid> {
    let distributed = || snapshot.relations.values().filter_map(|r| Some((r, r.distribution()?)));
    let gone: HashSet<&String> = distributed().filter(|(r, _)| goes(r)).map(|(_, d)| &d.prefix).collect();
    let loses =
        distributed().filter(|(r, d)| !goes(r) && d.partitions.iter().flat_map(|p| p.iter()).any(|p| gone.contains(p)));
    loses.map(|(r, _)| r.oid).collect()
}
