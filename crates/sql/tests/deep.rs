//! Deep trees of every kind of node: read, walked, cloned, printed and dropped, or refused; never the end of the process.

use sql::{depth, relations, stack};

/// Shapes whose trees grow by at least a node with each step, or only look deep: name, what comes first, what opens a level, what is
/// in the middle, what closes a level, what comes last.
type Shape = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    ("operators", "SELECT 1", "", "", "+1", ""),
    ("parentheses", "SELECT ", "(", "1", ")", ""),
    ("right operators", "SELECT ", "1-(", "1", ")", ""),
    ("negations", "SELECT ", "NOT ", "true", "", ""),
    ("minuses", "SELECT ", "- ", "1", "", ""),
    ("calls", "SELECT ", "abs(", "1", ")", ""),
    ("named arguments", "SELECT ", "f(a => ", "1", ")", ""),
    ("coalesce", "SELECT ", "COALESCE(NULL,", "1", ")", ""),
    ("casts", "SELECT 1", "", "", "::int", ""),
    ("cast calls", "SELECT ", "CAST(", "1", " AS int)", ""),
    ("arrays", "SELECT ", "ARRAY[", "1", "]", ""),
    ("rows", "SELECT ", "ROW(", "1", ")", ""),
    ("cases", "SELECT ", "CASE WHEN true THEN ", "1", " END", ""),
    ("else", "SELECT ", "CASE WHEN false THEN 2 ELSE ", "1", " END", ""),
    ("subscripts", "SELECT a", "", "", "[1]", ""),
    ("nested subscripts", "SELECT ", "a[", "1", "]", ""),
    ("fields", "SELECT (a)", "", "", ".b", ""),
    ("ors", "SELECT 1 FROM t WHERE a=1", "", "", " OR a=1", ""),
    ("ands within ors", "SELECT 1 FROM t WHERE ", "(a=1 OR (b=1 AND ", "c=1", "))", ""),
    ("in", "SELECT 1 FROM t WHERE ", "a IN (1,", "2", ")", ""),
    ("exists", "SELECT 1 WHERE ", "EXISTS (SELECT 1 WHERE ", "true", ")", ""),
    ("in subqueries", "SELECT 1 FROM t WHERE ", "a IN (SELECT a FROM t WHERE ", "true", ")", ""),
    ("scalar subqueries", "", "SELECT (", "SELECT 1", ")", ""),
    ("FROM subqueries", "", "SELECT * FROM (", "SELECT 1", ") s", ""),
    ("unions", "SELECT 1", "", "", " UNION ALL SELECT 1", ""),
    ("right unions", "", "SELECT 1 UNION (", "SELECT 1", ")", ""),
    ("excepts", "SELECT 1", "", "", " EXCEPT SELECT 1", ""),
    ("joins", "SELECT 1 FROM t", "", "", " JOIN t USING (a)", ""),
    ("right joins", "SELECT 1 FROM ", "t CROSS JOIN (", "t CROSS JOIN t", ")", ""),
    ("cte", "", "WITH c AS (", "SELECT 1", ") SELECT 1", ""),
    ("collations", "SELECT 'a'", "", "", " COLLATE \"C\"", ""),
    ("null tests", "SELECT 1", "", "", " IS NULL", ""),
    ("between", "SELECT 1 FROM t WHERE ", "a BETWEEN 1 AND (", "2", ")", ""),
    ("json objects", "SELECT ", "JSON_OBJECT('a': ", "1", ")", ""),
    ("json arrays", "SELECT ", "JSON_ARRAY(", "1", ")", ""),
    ("xml", "SELECT ", "XMLELEMENT(NAME a, ", "'b'", ")", ""),
    ("filters", "SELECT ", "sum(1) FILTER (WHERE 0 < ", "1", ")", ""),
    ("grouping sets", "SELECT 1 FROM t GROUP BY ", "GROUPING SETS (", "a", ")", ""),
    ("comments", "SELECT 1 ", "/* ", "", " */", ""),
    ("functions in FROM", "SELECT 1 FROM ", "f((SELECT 1 FROM ", "g()", "))", ""),
    ("defaults", "CREATE TABLE t (a int DEFAULT ", "(1+", "1", ")", ")"),
    ("explains", "EXPLAIN SELECT 1", "", "", "+1", ""),
];

fn text((_, first, opening, middle, closing, last): &Shape, depth: usize) -> String {
    format!("{first}{}{middle}{}{last}", opening.repeat(depth), closing.repeat(depth))
}

/// Everything that is done with trees; the printed text, or that it was refused.
fn all_of_it(text: &str) -> Result<Option<String>, String> {
    let mut statements = match sql::parse(text, true) {
        Ok(statements) => statements,
        Err(e) if e.too_deep || e.message.starts_with("memory exhausted") => return Ok(None),
        Err(e) => return Err(e.message),
    };
    let mut tree = statements.pop().ok_or("no statement")?;
    relations::of(&tree);
    relations::replace(&mut tree, &mut |_| {});
    let copy = tree.clone();
    if copy != tree || depth::of(&copy) == 0 {
        return Err("the copy differs".into());
    }
    match sql::deparse(&copy) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.too_deep => Ok(None),
        Err(e) => Err(e.message),
    }
}

#[test]
fn hundreds_of_levels_are_read_and_printed() {
    let run = || {
        for shape in SHAPES {
            let text = text(shape, 150);
            let printed = all_of_it(&text).unwrap_or_else(|e| panic!("{}: {e}", shape.0));
            let printed = printed.unwrap_or_else(|| panic!("{} is refused", shape.0));
            assert!(sql::parse(&printed, true).is_ok(), "{} is not read again", shape.0);
        }
    };
    stack::thread(run).unwrap().join().unwrap();
}

#[test]
fn what_is_too_deep_is_refused_and_nothing_else_happens() {
    let run = || {
        for depth in [800, 2_500, 100_000] {
            for shape in SHAPES {
                // Flat lists of this length take their time to print.
                if depth > 10_000 && shape.0 == "ors" {
                    continue;
                }
                all_of_it(&text(shape, depth)).unwrap_or_else(|e| panic!("{} × {depth}: {e}", shape.0));
            }
        }
    };
    stack::thread(run).unwrap().join().unwrap();
}

#[test]
fn threads_with_little_stack_are_given_no_deep_trees() {
    let run = || {
        for shape in SHAPES {
            for depth in [10, 60, 400, 3_000] {
                if let Ok(mut statements) = sql::parse(&text(shape, depth), true) {
                    assert!(statements.pop().is_some_and(|s| depth::is_shallow(&s)), "{} × {depth}", shape.0);
                }
            }
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}
