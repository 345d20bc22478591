//! Utility statements in code: that they are there, and which relations they change, so far as they name them.
//!
//! It does not know what is changed by them elsewhere, nor which of them matter.

use pg_query::NodeEnum;
use pg_query::protobuf::{self as ast, Node, ObjectType as O};

use super::{Body, Name};
use crate::names;

/// Queries, writes and calls are read for what they name; whatever else there is counts as a utility statement.
fn is_one(statement: &NodeEnum) -> bool {
    use NodeEnum::*;
    match statement {
        SelectStmt(s) => s.into_clause.is_some(),
        InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) => false,
        CallStmt(_) | DoStmt(_) | VariableSetStmt(_) | TransactionStmt(_) => false,
        _ => true,
    }
}

/// Takes up a utility statement or a DO; of other statements it notes nothing.
pub fn note(body: &mut Body, statement: &NodeEnum) {
    if let NodeEnum::DoStmt(_) = statement {
        return match crate::deparse(statement) {
            Ok(text) => body.definition(&text),
            Err(_) => body.unknown = true,
        };
    }
    if !is_one(statement) {
        return;
    }
    for name in changed(statement) {
        body.reads.insert(name.clone());
        body.writes.insert(name);
    }
    body.utilities.push(statement.clone());
}

/// The relations whose definition, rights or rows it changes.
fn changed(statement: &NodeEnum) -> Vec<Name> {
    use NodeEnum::*;
    match statement {
        AlterTableStmt(s) => one(&s.relation),
        IndexStmt(s) => one(&s.relation),
        CreateTrigStmt(s) => one(&s.relation),
        RuleStmt(s) => one(&s.relation),
        CreatePolicyStmt(s) => one(&s.table),
        AlterPolicyStmt(s) => one(&s.table),
        RenameStmt(s) => one(&s.relation),
        AlterObjectSchemaStmt(s) => one(&s.relation),
        AlterObjectDependsStmt(s) => one(&s.relation),
        ClusterStmt(s) => one(&s.relation),
        CreateStatsStmt(s) => all(&s.relations),
        TruncateStmt(s) => all(&s.relations),
        LockStmt(s) => all(&s.relations),
        GrantStmt(s) => all(&s.objects),
        DropStmt(s) => s.objects.iter().filter_map(|o| of_object(s.remove_type, o)).collect(),
        CommentStmt(s) => s.object.as_deref().and_then(|o| of_object(s.objtype, o)).into_iter().collect(),
        SecLabelStmt(s) => s.object.as_deref().and_then(|o| of_object(s.objtype, o)).into_iter().collect(),
        _ => vec![],
    }
}

fn one(rv: &Option<ast::RangeVar>) -> Vec<Name> {
    rv.iter().map(of_var).collect()
}

fn all(nodes: &[Node]) -> Vec<Name> {
    let var = |n: &Node| match &n.node {
        Some(NodeEnum::RangeVar(rv)) => Some(of_var(rv)),
        _ => None,
    };
    nodes.iter().filter_map(var).collect()
}

fn of_var(rv: &ast::RangeVar) -> Name {
    let (schema, name) = names::table(rv);
    (schema.map(str::to_string), name.to_string())
}

/// The relation that an object's name names: itself, or what it hangs on.
fn of_object(kind: i32, object: &Node) -> Option<Name> {
    let parts = match object.node.as_ref()? {
        NodeEnum::List(l) => names::strings(&l.items),
        _ => return None,
    };
    let parts = match O::try_from(kind).ok()? {
        O::ObjectTable | O::ObjectView | O::ObjectMatview | O::ObjectForeignTable | O::ObjectSequence => &parts[..],
        O::ObjectColumn | O::ObjectTabconstraint | O::ObjectTrigger | O::ObjectPolicy | O::ObjectRule => {
            parts.split_last()?.1
        }
        _ => return None,
    };
    let (name, schema) = parts.split_last()?;
    Some((schema.last().map(|s| s.to_string()), name.to_string()))
}
