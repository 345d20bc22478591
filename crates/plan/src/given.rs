//! The arguments of a call in the order of the function's parameters: those that are given by name, and the defaults of those that are left out.
//! It does not know what is done with them.

use catalog::code::Routine;
use sql::NodeEnum;
use sql::ast::{self, Node};

/// `None`: the function does not say so, or takes a list of any length.
pub fn in_order(call: &ast::FuncCall, routine: &Routine) -> Option<Vec<Node>> {
    let is_named = |a: &Node| matches!(a.node, Some(NodeEnum::NamedArgExpr(_)));
    let count = routine.argument_types.len();
    if call.args.len() == count && !call.args.iter().any(is_named) {
        return Some(call.args.clone());
    }
    let NodeEnum::CreateFunctionStmt(f) = sql::parse(&routine.definition, true).ok()?.pop()? else { return None };
    let mut parameters = vec![];
    for p in &f.parameters {
        use ast::FunctionParameterMode::{FuncParamDefault, FuncParamIn, FuncParamInout, FuncParamOut, FuncParamTable};
        let Some(NodeEnum::FunctionParameter(p)) = &p.node else { return None };
        match ast::FunctionParameterMode::try_from(p.mode).ok()? {
            FuncParamIn | FuncParamDefault | FuncParamInout => parameters.push(&**p),
            FuncParamOut | FuncParamTable => {}
            _ => return None,
        }
    }
    if parameters.len() != count || call.args.len() > count {
        return None;
    }
    let mut values: Vec<Option<Node>> = vec![None; count];
    for (at, value) in call.args.iter().enumerate() {
        let (at, value) = match &value.node {
            Some(NodeEnum::NamedArgExpr(n)) => {
                (parameters.iter().position(|p| p.name == n.name)?, n.arg.as_deref()?.clone())
            }
            _ => (at, value.clone()),
        };
        if values[at].replace(value).is_some() {
            return None;
        }
    }
    let default = |(value, p): (Option<Node>, &&ast::FunctionParameter)| value.or(p.defexpr.as_deref().cloned());
    values.into_iter().zip(&parameters).map(default).collect()
}
