//! Small pieces of syntax tree, made by the planner. It does not know why they are wanted.
//!
//! What is made here is PostgreSQL's own by its name: nobody asked for it, so no client's search path decides what runs. Of what
//! looks operators up without naming them (NULLIF, IN, BETWEEN, DISTINCT FROM, CASE with a value, USING) nothing is made.

use pg_query::NodeEnum;
use pg_query::protobuf::{self as ast, Node, a_const::Val};

/// A node as lists hold them.
pub fn node(node: NodeEnum) -> Node {
    Node { node: Some(node) }
}

/// A string node, as the parts of names are.
pub fn string(text: &str) -> Node {
    node(NodeEnum::String(ast::String { sval: text.to_string() }))
}

/// `a.b.c`
pub fn column(parts: &[&str]) -> Node {
    node(NodeEnum::ColumnRef(ast::ColumnRef { fields: parts.iter().map(|p| string(p)).collect(), location: -1 }))
}

/// `*`
pub fn star() -> Node {
    let fields = vec![star_alone()];
    node(NodeEnum::ColumnRef(ast::ColumnRef { fields, location: -1 }))
}

/// `*` behind a dot.
pub fn star_alone() -> Node {
    node(NodeEnum::AStar(ast::AStar {}))
}

/// An item of a select list, with or without AS.
pub fn target(value: Node, name: Option<&str>) -> Node {
    node(NodeEnum::ResTarget(Box::new(ast::ResTarget {
        name: name.unwrap_or_default().to_string(),
        indirection: vec![],
        val: Some(Box::new(value)),
        location: -1,
    })))
}

/// An integer constant.
pub fn integer(value: i32) -> Node {
    node(NodeEnum::AConst(ast::AConst {
        isnull: false,
        location: -1,
        val: Some(Val::Ival(ast::Integer { ival: value })),
    }))
}

/// A string constant, not quoted yet.
pub fn text(value: &str) -> Node {
    let val = Some(Val::Sval(ast::String { sval: value.to_string() }));
    node(NodeEnum::AConst(ast::AConst { isnull: false, location: -1, val }))
}

/// `value::pg_catalog.name`
pub fn cast(value: Node, type_name: &str) -> Node {
    let type_name = ast::TypeName {
        names: vec![string("pg_catalog"), string(type_name)],
        typemod: -1,
        location: -1,
        ..Default::default()
    };
    node(NodeEnum::TypeCast(Box::new(ast::TypeCast {
        arg: Some(Box::new(value)),
        type_name: Some(type_name),
        location: -1,
    })))
}

/// The name of a function or an operator of PostgreSQL's own: no search path leads to another's of that name.
pub fn own_name(name: &str) -> Vec<Node> {
    vec![string("pg_catalog"), string(name)]
}

/// `pg_catalog.name(…)`
pub fn own_call(name: &str, args: Vec<Node>) -> Node {
    node(NodeEnum::FuncCall(Box::new(ast::FuncCall {
        funcname: own_name(name),
        args,
        funcformat: ast::CoercionForm::CoerceExplicitCall as i32,
        location: -1,
        ..Default::default()
    })))
}

/// `ARRAY[…]`
pub fn array(elements: Vec<Node>) -> Node {
    node(NodeEnum::AArrayExpr(ast::AArrayExpr { elements, location: -1, ..Default::default() }))
}

/// `value::pg_catalog.name[]`
pub fn array_cast(value: Node, type_name: &str) -> Node {
    let mut cast = cast(value, type_name);
    if let Some(NodeEnum::TypeCast(c)) = &mut cast.node
        && let Some(t) = &mut c.type_name
    {
        t.array_bounds = vec![node(NodeEnum::Integer(ast::Integer { ival: -1 }))];
    }
    cast
}

/// `left OPERATOR(pg_catalog.name) right`
pub fn own_operator(name: &str, left: Node, right: Node) -> Node {
    node(NodeEnum::AExpr(Box::new(ast::AExpr {
        kind: ast::AExprKind::AexprOp as i32,
        name: own_name(name),
        lexpr: Some(Box::new(left)),
        rexpr: Some(Box::new(right)),
        location: -1,
        ..Default::default()
    })))
}

/// `value OPERATOR(pg_catalog.=) ANY (query)`.
pub fn within(value: Node, query: ast::SelectStmt) -> Node {
    node(NodeEnum::SubLink(Box::new(ast::SubLink {
        sub_link_type: ast::SubLinkType::AnySublink as i32,
        testexpr: Some(Box::new(value)),
        oper_name: own_name("="),
        subselect: Some(Box::new(node(NodeEnum::SelectStmt(Box::new(query))))),
        location: -1,
        ..Default::default()
    })))
}

/// `(query)`, as the value that it gives.
pub fn scalar(query: ast::SelectStmt) -> NodeEnum {
    NodeEnum::SubLink(Box::new(ast::SubLink {
        sub_link_type: ast::SubLinkType::ExprSublink as i32,
        subselect: Some(Box::new(node(NodeEnum::SelectStmt(Box::new(query))))),
        location: -1,
        ..Default::default()
    }))
}

/// `CASE WHEN condition THEN value END`
pub fn when(condition: Node, value: Node) -> NodeEnum {
    let when = ast::CaseWhen {
        expr: Some(Box::new(condition)),
        result: Some(Box::new(value)),
        location: -1,
        ..Default::default()
    };
    NodeEnum::CaseExpr(Box::new(ast::CaseExpr {
        args: vec![node(NodeEnum::CaseWhen(Box::new(when)))],
        location: -1,
        ..Default::default()
    }))
}

/// `(a, b, …)`
pub fn row(args: Vec<Node>) -> Node {
    let row_format = ast::CoercionForm::CoerceImplicitCast as i32;
    node(NodeEnum::RowExpr(Box::new(ast::RowExpr { args, row_format, location: -1, ..Default::default() })))
}

/// `a AND b AND …`
pub fn and(args: Vec<Node>) -> Node {
    connected(ast::BoolExprType::AndExpr, args)
}

/// `a OR b OR …`
pub fn or(args: Vec<Node>) -> Node {
    connected(ast::BoolExprType::OrExpr, args)
}

fn connected(by: ast::BoolExprType, args: Vec<Node>) -> Node {
    node(NodeEnum::BoolExpr(Box::new(ast::BoolExpr { xpr: None, boolop: by as i32, args, location: -1 })))
}

/// NOT EXISTS (…)
pub fn not_exists(query: ast::SelectStmt) -> Node {
    let exists = node(NodeEnum::SubLink(Box::new(ast::SubLink {
        sub_link_type: ast::SubLinkType::ExistsSublink as i32,
        subselect: Some(Box::new(node(NodeEnum::SelectStmt(Box::new(query))))),
        location: -1,
        ..Default::default()
    })));
    connected(ast::BoolExprType::NotExpr, vec![exists])
}

/// A table's name in FROM or as a target, with its partitions; an empty schema is none.
pub fn range_var(schema: &str, name: &str, alias: Option<&str>) -> Node {
    node(NodeEnum::RangeVar(ast::RangeVar {
        schemaname: schema.to_string(),
        relname: name.to_string(),
        inh: true,
        relpersistence: "p".to_string(),
        alias: alias.map(self::alias),
        location: -1,
        ..Default::default()
    }))
}

/// An alias that renames no columns.
pub fn alias(name: &str) -> ast::Alias {
    ast::Alias { aliasname: name.to_string(), colnames: vec![] }
}

/// An empty SELECT to fill in.
pub fn select() -> ast::SelectStmt {
    ast::SelectStmt {
        limit_option: ast::LimitOption::Default as i32,
        op: ast::SetOperation::SetopNone as i32,
        ..Default::default()
    }
}

/// A call in FROM.
pub fn from_function(call: &ast::FuncCall) -> Node {
    let call = vec![node(NodeEnum::FuncCall(Box::new(call.clone()))), Node::default()];
    node(NodeEnum::RangeFunction(ast::RangeFunction {
        functions: vec![node(NodeEnum::List(ast::List { items: call }))],
        ..Default::default()
    }))
}

/// A subquery in FROM.
pub fn subselect(select: ast::SelectStmt, alias: Option<ast::Alias>, lateral: bool) -> Node {
    node(NodeEnum::RangeSubselect(Box::new(ast::RangeSubselect {
        lateral,
        subquery: Some(Box::new(node(NodeEnum::SelectStmt(Box::new(select))))),
        alias,
    })))
}
