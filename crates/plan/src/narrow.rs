//! A range of an integer key: `key BETWEEN $1 AND $2`, `key >= $1 AND key < $1 + 100`. Of a table that is split by hash every shard may have some of it, so a node
//! that plans anew for each execution looks at all its partitions and leaves none out. Where the range is narrow, whatever its
//! bounds, one plan by the key's index is as good; how narrow it is, is seen when it is executed.

use catalog::Relation;
use key::PartitionStrategy;
use sql::NodeEnum;
use sql::ast::{self, AExprKind, Node};
use sql::names;

use crate::table_keys::{ParameterPlus, ParameterRange};
use crate::types::{KeyExpr, Planned};
use crate::{Context, keys};
use wire::type_oid;

/// The parameters that are the least and the greatest key.
pub fn of(statement: &NodeEnum, plan: &Planned, cx: &Context) -> Option<ParameterRange> {
    let (Planned::Query { whole, .. }, NodeEnum::SelectStmt(select)) = (plan, statement) else { return None };
    let ([table], [from]) = (&whole.tables[..], &select.from_clause[..]) else { return None };
    let (relation, Some(NodeEnum::RangeVar(_))) = (&table.relation, &from.node) else { return None };
    let d = relation.distribution()?;
    let &[key] = &d.key[..] else { return None };
    let indexed = relation.unique.iter().any(|index| index.columns.first() == Some(&key));
    let suits = d.group.strategy == PartitionStrategy::Hash && d.partitions.is_none() && indexed;
    between(select.where_clause.as_deref().filter(|_| suits)?, relation, key, cx)
}

/// The parameters that are the least and the greatest value of an integer column where `condition` holds.
pub(crate) fn between(condition: &Node, relation: &Relation, column: usize, cx: &Context) -> Option<ParameterRange> {
    if !type_oid::is_integer(relation.columns[column].type_oid) {
        return None;
    }
    let is_own = |name: &str| cx.is_own_operator(name);
    let mut bounds = Bounds { relation, column, is_own: &is_own, low: None, high: None };
    bounds.condition(condition);
    bounds.low.zip(bounds.high).map(|(low, high)| ParameterRange { low, high })
}

struct Bounds<'r> {
    relation: &'r Relation,
    column: usize,
    is_own: &'r dyn Fn(&str) -> bool,
    low: Option<ParameterPlus>,
    high: Option<ParameterPlus>,
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
                            (self.low, self.high) = (self.parameter(low), self.parameter(high));
                        }
                    }
                    (Ok(AExprKind::AexprOp), [">=" | ">"], _) => self.low = self.parameter(right),
                    (Ok(AExprKind::AexprOp), ["<=" | "<"], _) => self.high = self.parameter(right),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn parameter(&self, node: &Node) -> Option<ParameterPlus> {
        match keys::constant_plus(node, self.is_own)? {
            (KeyExpr::Param(parameter), plus) => Some(ParameterPlus { parameter, plus }),
            _ => None,
        }
    }
}
