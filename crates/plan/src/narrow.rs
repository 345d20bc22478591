//! A range of an integer key: `key BETWEEN $1 AND $2`. Of a table that is split by hash every shard may have some of it, so a node
//! that plans anew for each execution looks at all its partitions and leaves none out. Where the range is narrow, whatever its
//! bounds, one plan by the key's index is as good; how narrow it is, is seen when it is executed.

use catalog::Relation;
use key::PartitionStrategy;
use sql::NodeEnum;
use sql::ast::{self, AExprKind, Node};
use sql::names;

use crate::keys;
use crate::types::{KeyExpr, Planned};
use wire::type_oid;

/// The parameters that are the least and the greatest key, from 1.
pub fn of(statement: &NodeEnum, plan: &Planned) -> Option<(usize, usize)> {
    let (Planned::Query { whole, .. }, NodeEnum::SelectStmt(select)) = (plan, statement) else { return None };
    let ([table], [from]) = (&whole.tables[..], &select.from_clause[..]) else { return None };
    let (relation, Some(NodeEnum::RangeVar(_))) = (&table.relation, &from.node) else { return None };
    let d = relation.distribution()?;
    let &[key] = &d.key[..] else { return None };
    let indexed = relation.unique.iter().any(|index| index.columns.first() == Some(&key));
    let suits = d.group.strategy == PartitionStrategy::Hash && d.partitions.is_none() && indexed;
    between(select.where_clause.as_deref().filter(|_| suits)?, relation, key)
}

/// The parameters that are the least and the greatest value of an integer column where `condition` holds.
pub(crate) fn between(condition: &Node, relation: &Relation, column: usize) -> Option<(usize, usize)> {
    if !type_oid::is_integer(relation.columns[column].type_oid) {
        return None;
    }
    let mut bounds = Bounds { relation, column, low: None, high: None };
    bounds.condition(condition);
    bounds.low.zip(bounds.high)
}

struct Bounds<'r> {
    relation: &'r Relation,
    column: usize,
    low: Option<usize>,
    high: Option<usize>,
}

impl Bounds<'_> {
    fn condition(&mut self, node: &Node) {
        match &node.node {
            Some(NodeEnum::BoolExpr(b)) if b.boolop == ast::BoolExprType::AndExpr as i32 => {
                b.args.iter().for_each(|arg| self.condition(arg));
            }
            Some(NodeEnum::AExpr(e)) => {
                let (Some(left), Some(right)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return };
                let column = names::column(left).and_then(|name| self.relation.column(name.last()?));
                if column != Some(self.column) {
                    return;
                }
                match (AExprKind::try_from(e.kind), &names::strings(&e.name)[..], &right.node) {
                    (Ok(AExprKind::AexprBetween), _, Some(NodeEnum::List(list))) => {
                        if let [low, high] = &list.items[..] {
                            (self.low, self.high) = (parameter(low), parameter(high));
                        }
                    }
                    (Ok(AExprKind::AexprOp), [">=" | ">"], _) => self.low = parameter(right),
                    (Ok(AExprKind::AexprOp), ["<=" | "<"], _) => self.high = parameter(right),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

fn parameter(node: &Node) -> Option<usize> {
    match keys::constant(node)? {
        KeyExpr::Param(n) => Some(n),
        _ => None,
    }
}
