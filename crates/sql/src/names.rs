//! Names in a tree: of columns, functions, types. It does not resolve them.

use pg_query::NodeEnum;
use pg_query::protobuf::{self as ast, Node};

/// The strings of a list of String nodes; other nodes are passed over.
pub fn strings(nodes: &[Node]) -> Vec<&str> {
    nodes
        .iter()
        .filter_map(|n| match &n.node {
            Some(NodeEnum::String(s)) => Some(s.sval.as_str()),
            _ => None,
        })
        .collect()
}

/// The last part of a possibly qualified name: the function's, type's or operator's own name.
pub fn last(nodes: &[Node]) -> &str {
    strings(nodes).last().copied().unwrap_or("")
}

/// A reference to a column, without `*`.
pub fn column(node: &Node) -> Option<Vec<&str>> {
    match &node.node {
        Some(NodeEnum::ColumnRef(c)) if !has_star(c) => Some(strings(&c.fields)),
        _ => None,
    }
}

/// `*`, `t.*` or `s.t.*`
pub fn has_star(c: &ast::ColumnRef) -> bool {
    c.fields.iter().any(|f| matches!(f.node, Some(NodeEnum::AStar(_))))
}

/// Schema, if given, and name of a table.
pub fn table(rv: &ast::RangeVar) -> (Option<&str>, &str) {
    ((!rv.schemaname.is_empty()).then_some(rv.schemaname.as_str()), rv.relname.as_str())
}

/// The type of a cast when it is a plain (not array) type: its own name, `pg_catalog.` left off.
pub fn plain_type(t: &ast::TypeName) -> Option<&str> {
    if !t.array_bounds.is_empty() || t.setof || t.pct_type {
        return None;
    }
    match strings(&t.names)[..] {
        ["pg_catalog", name] | [name] => Some(name),
        _ => None,
    }
}

/// The name PostgreSQL gives an unnamed output column (`FigureColname` in parse_target.c).
pub fn figure_column(node: &Node) -> String {
    strength(node).map(|(name, _)| name).unwrap_or_else(|| "?column?".to_string())
}

fn strength(node: &Node) -> Option<(String, u8)> {
    let strong = |s: &str| Some((s.to_string(), 2));
    match node.node.as_ref()? {
        NodeEnum::ColumnRef(c) => {
            let name = strings(&c.fields);
            name.last().map(|n| (n.to_string(), 2))
        }
        NodeEnum::AIndirection(i) => {
            let field = strings(&i.indirection);
            match field.last() {
                Some(f) => strong(f),
                None => strength(i.arg.as_deref()?),
            }
        }
        NodeEnum::FuncCall(f) => strong(last(&f.funcname)),
        NodeEnum::AExpr(e) if e.kind == ast::AExprKind::AexprNullif as i32 => strong("nullif"),
        NodeEnum::TypeCast(t) => {
            let inner = t.arg.as_deref().and_then(strength);
            match inner {
                Some((name, s)) if s > 1 => Some((name, s)),
                _ => t.type_name.as_ref().map(|t| (last(&t.names).to_string(), 1)),
            }
        }
        NodeEnum::CollateClause(c) => strength(c.arg.as_deref()?),
        NodeEnum::GroupingFunc(_) => strong("grouping"),
        NodeEnum::JsonArrayAgg(_) => strong("json_arrayagg"),
        NodeEnum::JsonObjectAgg(_) => strong("json_objectagg"),
        NodeEnum::JsonObjectConstructor(_) => strong("json_object"),
        NodeEnum::JsonArrayConstructor(_) | NodeEnum::JsonArrayQueryConstructor(_) => strong("json_array"),
        NodeEnum::JsonParseExpr(_) => strong("json"),
        NodeEnum::JsonScalarExpr(_) => strong("json_scalar"),
        NodeEnum::JsonSerializeExpr(_) => strong("json_serialize"),
        NodeEnum::JsonFuncExpr(f) => strong(match ast::JsonExprOp::try_from(f.op).ok()? {
            ast::JsonExprOp::JsonExistsOp => "json_exists",
            ast::JsonExprOp::JsonQueryOp => "json_query",
            ast::JsonExprOp::JsonValueOp => "json_value",
            _ => return None,
        }),
        NodeEnum::SubLink(s) => match ast::SubLinkType::try_from(s.sub_link_type).ok()? {
            ast::SubLinkType::ExistsSublink => strong("exists"),
            ast::SubLinkType::ArraySublink => strong("array"),
            ast::SubLinkType::ExprSublink => match s.subselect.as_deref()?.node.as_ref()? {
                NodeEnum::SelectStmt(s) => {
                    let mut s = s.as_ref();
                    while let Some(left) = s.larg.as_deref() {
                        s = left;
                    }
                    match s.target_list.first()?.node.as_ref()? {
                        NodeEnum::ResTarget(t) if !t.name.is_empty() => strong(&t.name),
                        NodeEnum::ResTarget(t) => strength(t.val.as_deref()?),
                        _ => None,
                    }
                }
                _ => None,
            },
            _ => None,
        },
        NodeEnum::CaseExpr(c) => match c.defresult.as_deref().and_then(strength) {
            Some((name, s)) if s > 1 => Some((name, s)),
            _ => Some(("case".to_string(), 1)),
        },
        NodeEnum::AArrayExpr(_) => strong("array"),
        NodeEnum::RowExpr(_) => strong("row"),
        NodeEnum::CoalesceExpr(_) => strong("coalesce"),
        NodeEnum::MinMaxExpr(m) => strong(if m.op == ast::MinMaxOp::IsGreatest as i32 { "greatest" } else { "least" }),
        NodeEnum::SqlvalueFunction(f) => strong(match ast::SqlValueFunctionOp::try_from(f.op).ok()? {
            ast::SqlValueFunctionOp::SvfopCurrentDate => "current_date",
            ast::SqlValueFunctionOp::SvfopCurrentTime | ast::SqlValueFunctionOp::SvfopCurrentTimeN => "current_time",
            ast::SqlValueFunctionOp::SvfopCurrentTimestamp | ast::SqlValueFunctionOp::SvfopCurrentTimestampN => {
                "current_timestamp"
            }
            ast::SqlValueFunctionOp::SvfopLocaltime | ast::SqlValueFunctionOp::SvfopLocaltimeN => "localtime",
            ast::SqlValueFunctionOp::SvfopLocaltimestamp | ast::SqlValueFunctionOp::SvfopLocaltimestampN => {
                "localtimestamp"
            }
            ast::SqlValueFunctionOp::SvfopCurrentRole => "current_role",
            ast::SqlValueFunctionOp::SvfopCurrentUser => "current_user",
            ast::SqlValueFunctionOp::SvfopUser => "user",
            ast::SqlValueFunctionOp::SvfopSessionUser => "session_user",
            ast::SqlValueFunctionOp::SvfopCurrentCatalog => "current_catalog",
            ast::SqlValueFunctionOp::SvfopCurrentSchema => "current_schema",
            _ => return None,
        }),
        _ => None,
    }
}

/// Schema, if given, and name of a function, an operator or a type.
pub fn qualified(nodes: &[Node]) -> (Option<&str>, &str) {
    match strings(nodes)[..] {
        [.., schema, name] => (Some(schema), name),
        [name] => (None, name),
        [] => (None, ""),
    }
}

/// The names in a search_path as SHOW prints it.
pub fn split_path(path: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = path.trim_matches(is_space);
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut name = String::new();
                let mut chars = quoted.char_indices().peekable();
                let mut end = quoted.len();
                while let Some((i, c)) = chars.next() {
                    if c == '"' {
                        if chars.peek().is_some_and(|(_, n)| *n == '"') {
                            chars.next();
                        } else {
                            end = i + 1;
                            break;
                        }
                    }
                    name.push(c);
                }
                (name, &quoted[end..])
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim_matches(is_space).to_ascii_lowercase(), &rest[end..])
            }
        };
        if !name.is_empty() {
            names.push(cut(name));
        }
        rest = after.trim_start_matches(is_space).trim_start_matches(',').trim_start_matches(is_space);
    }
    names
}

/// `scanner_isspace` in scansup.c.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// What PostgreSQL leaves of a name (`truncate_identifier`).
fn cut(mut name: String) -> String {
    let end = (0..=BYTES_MAX.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    name.truncate(end.unwrap_or_default());
    name
}

/// Bytes of a name (NAMEDATALEN − 1).
const BYTES_MAX: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_paths_are_split_as_postgresql_prints_them() {
        assert_eq!(split_path("\"$user\", public"), ["$user", "public"]);
        assert_eq!(split_path("a, \"B c\",\"d\"\"e\""), ["a", "B c", "d\"e"]);
        assert!(split_path("").is_empty());
        // Spaces are those of PostgreSQL's scanner, and names no longer than its own.
        assert_eq!(split_path("\u{a0}, \x0bc "), ["\u{a0}", "c"]);
        let long = "n".repeat(62) + "éa";
        assert_eq!(split_path(&format!("{long}, \"{long}\"")), ["n".repeat(62), "n".repeat(62)]);
    }
}
