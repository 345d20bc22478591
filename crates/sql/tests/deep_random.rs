//! Random deep trees: nodes of every kind that nests, in any mixture, from ten levels to 50 000. All that is done with trees is done
//! with them on a thread of the router's own size: each is read and printed, or refused as too deep; none is the end of the process.
//! `DEEP_RANDOM_SEED` and `DEEP_RANDOM_CASES` show others (`deep.rs` has fixed shapes).

use sql::body::Body;
use sql::lexer::Lexer;
use sql::{SyntaxError, depth, relations, search, split, stack, template};

/// What can stand in a hole.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Hole {
    /// An expression that needs no parentheses: any a_expr in parentheses, or a call.
    Expression,
    /// A SELECT.
    Query,
    /// An item of FROM.
    From,
    /// A type's name.
    Type,
}
use Hole::{Expression as E, From as F, Query as Q, Type as T};

/// What stands around a hole, and of which kind both are.
type Level = (Hole, &'static str, Hole, &'static str);

#[rustfmt::skip]
const LEVELS: &[Level] = &[
    (E, "(", E, ")"), (E, "(", E, " + 1)"), (E, "(2 * ", E, ")"), (E, "(- ", E, ")"), (E, "(NOT ", E, ")"), (E, "(a = ", E, ")"),
    (E, "(a OR ", E, " OR b)"), (E, "(a AND b AND ", E, ")"), (E, "(", E, " IS NULL)"), (E, "(", E, " IS NOT TRUE)"),
    (E, "(", E, " IS DISTINCT FROM b)"), (E, "(", E, " LIKE 'x' ESCAPE '!')"), (E, "(a BETWEEN 1 AND ", E, ")"), (E, "(a IN (1, ", E, ", 3))"),
    (E, "(", E, " = ANY (ARRAY[1]))"), (E, "(a <> ALL (", E, "))"), (E, "(", E, " COLLATE \"C\")"), (E, "(", E, " AT TIME ZONE 'UTC')"),
    (E, "(", E, " OPERATOR(pg_catalog.+) 1)"), (E, "(ROW(a, ", E, ") = ROW(1, 2))"), (E, "((a, ", E, ") OVERLAPS (b, c))"),
    (E, "CASE WHEN ", E, " THEN 1 END"), (E, "CASE WHEN a THEN ", E, " ELSE 2 END"), (E, "CASE a WHEN 1 THEN 2 ELSE ", E, " END"),
    (E, "CASE ", E, " WHEN 1 THEN 2 END"), (E, "ARRAY[1, ", E, "]"), (E, "ARRAY[[", E, "]]"), (E, "ROW(1, ", E, ")"), (E, "(1, ", E, ")"),
    (E, "(", E, ").f"), (E, "(", E, ")[1]"), (E, "(a)[", E, "]"), (E, "(a)[1:", E, "]"), (E, "CAST(", E, " AS text)"), (E, "(", E, ")::int"),
    (E, "CAST(1 AS ", T, ")"), (E, "(a)::", T, ""), (E, "f(", E, ")"), (E, "f(1, VARIADIC ", E, ")"), (E, "f(x => ", E, ")"),
    (E, "s.g(DISTINCT ", E, ")"), (E, "sum(a ORDER BY ", E, ")"), (E, "sum(1) FILTER (WHERE ", E, ")"),
    (E, "percentile_cont(0.5) WITHIN GROUP (ORDER BY ", E, ")"), (E, "sum(a) OVER (PARTITION BY ", E, ")"),
    (E, "sum(a) OVER (ORDER BY a ROWS BETWEEN ", E, " PRECEDING AND CURRENT ROW)"), (E, "COALESCE(a, ", E, ")"), (E, "NULLIF(", E, ", 1)"),
    (E, "GREATEST(1, ", E, ")"), (E, "EXTRACT(year FROM ", E, ")"), (E, "SUBSTRING(a FROM ", E, ")"), (E, "TRIM(BOTH 'x' FROM ", E, ")"),
    (E, "JSON_OBJECT('a': ", E, ")"), (E, "JSON_ARRAY(1, ", E, ")"), (E, "JSON_VALUE(", E, ", '$' DEFAULT 1 ON ERROR)"), (E, "(", E, " IS JSON OBJECT)"),
    (E, "XMLELEMENT(NAME a, ", E, ")"), (E, "XMLFOREST(", E, " AS b)"), (E, "XMLSERIALIZE(CONTENT ", E, " AS text)"), (E, "(", E, " IS DOCUMENT)"),
    (E, "(", Q, ")"), (E, "ARRAY(", Q, ")"), (E, "EXISTS (", Q, ")"), (E, "(a IN (", Q, "))"), (E, "(a = ANY (", Q, "))"), (E, "((a, b) = (", Q, "))"),
    (Q, "SELECT ", E, ""), (Q, "SELECT a, ", E, " AS x FROM t"), (Q, "SELECT DISTINCT ON (", E, ") a FROM t"), (Q, "SELECT a FROM t WHERE ", E, ""),
    (Q, "SELECT a FROM t GROUP BY ", E, ""), (Q, "SELECT a FROM t GROUP BY ROLLUP (a, ", E, ")"), (Q, "SELECT a FROM t GROUP BY a HAVING ", E, ""),
    (Q, "SELECT a FROM t ORDER BY ", E, " DESC"), (Q, "SELECT a FROM t LIMIT ", E, ""), (Q, "SELECT a FROM t OFFSET ", E, ""),
    (Q, "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY ", E, ")"), (Q, "VALUES (1), (", E, ")"), (Q, "SELECT a FROM ", F, ""),
    (Q, "SELECT a FROM u, ", F, " WHERE a = 1 FOR UPDATE OF u"), (Q, "(", Q, ") UNION ALL SELECT 1"), (Q, "SELECT 1 UNION (", Q, ")"),
    (Q, "SELECT 1 INTERSECT (", Q, ")"), (Q, "(", Q, ") EXCEPT (SELECT 2)"), (Q, "WITH c AS (", Q, ") SELECT a FROM c"),
    (Q, "WITH c AS MATERIALIZED (SELECT 1) SELECT a FROM c, (", Q, ") AS s"), (Q, "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL (", Q, ")) SELECT n FROM c"),
    (Q, "WITH c AS (INSERT INTO t SELECT a FROM (", Q, ") s RETURNING a) SELECT a FROM c"),
    (Q, "WITH c AS (UPDATE t SET a = ", E, " RETURNING a) SELECT a FROM c"), (Q, "WITH c AS (DELETE FROM t USING ", F, " RETURNING 1) SELECT 1"),
    (F, "(", Q, ") AS s"), (F, "LATERAL (", Q, ") AS s (x)"), (F, "(t CROSS JOIN ", F, ")"), (F, "(", F, " JOIN t USING (a))"),
    (F, "(", F, " LEFT JOIN u ON a = b)"), (F, "(t FULL JOIN u ON ", E, ")"), (F, "(t NATURAL JOIN ", F, ") AS j"), (F, "f(", E, ") AS g (a)"),
    (F, "ROWS FROM (f(1), g(", E, ")) WITH ORDINALITY"), (F, "f(", E, ") AS (a int, b text)"), (F, "t TABLESAMPLE system (", E, ")"),
    (F, "JSON_TABLE(", E, ", '$[*]' COLUMNS (a int PATH '$'))"), (F, "XMLTABLE('/a' PASSING (", E, ") COLUMNS b int)"),
    // What is given to a type is a constant or a name: PostgreSQL refuses all else, and libpg_query can't print it.
    (T, "", T, "[]"), (T, "", T, "[3]"),
];

#[rustfmt::skip]
const STATEMENTS: &[(&str, Hole, &str)] = &[
    ("", Q, ""), ("SELECT ", E, ""), ("INSERT INTO t (a, b) ", Q, " ON CONFLICT (a) DO UPDATE SET b = 1 RETURNING a"), ("INSERT INTO t VALUES (1, ", E, ")"),
    ("INSERT INTO t VALUES (1) ON CONFLICT ((0 + ", E, ")) DO NOTHING"), ("UPDATE t SET a = ", E, " WHERE b = 1"), ("UPDATE t SET (a, b) = (", Q, ")"), ("UPDATE t SET a[", E, "] = 1 FROM u"),
    ("DELETE FROM t WHERE ", E, " RETURNING *"), ("DELETE FROM t USING ", F, " WHERE a = 1"), ("MERGE INTO t USING ", F, " ON a = b WHEN MATCHED THEN DELETE"),
    ("MERGE INTO t USING u ON a = b WHEN NOT MATCHED AND ", E, " THEN INSERT VALUES (1)"), ("CREATE VIEW v AS ", Q, ""), ("CREATE MATERIALIZED VIEW v AS ", Q, ""),
    ("CREATE TABLE n AS ", Q, ""), ("CREATE TABLE n (a int DEFAULT ", E, ", CHECK (a > 1))"), ("CREATE TABLE n (a int, CHECK (", E, "))"),
    ("CREATE TABLE n (a int GENERATED ALWAYS AS (", E, ") STORED)"), ("CREATE TABLE n (a ", T, ")"), ("CREATE TABLE n PARTITION OF t FOR VALUES FROM (", E, ") TO (2)"),
    ("CREATE INDEX ON t ((0 + ", E, "))"), ("CREATE INDEX ON t (a) WHERE ", E, ""), ("CREATE STATISTICS st ON (0 + ", E, "), b FROM t"),
    ("ALTER TABLE t ALTER a TYPE int USING ", E, ""), ("ALTER TABLE t ADD CHECK (", E, ")"), ("CREATE POLICY p ON t USING (", E, ")"),
    ("CREATE TRIGGER tr BEFORE UPDATE ON t FOR EACH ROW WHEN (", E, ") EXECUTE FUNCTION f()"), ("CREATE RULE r AS ON INSERT TO t WHERE ", E, " DO INSTEAD NOTHING"),
    ("CREATE RULE r AS ON SELECT TO t DO INSTEAD ", Q, ""), ("CREATE DOMAIN d AS int CHECK (", E, ")"), ("CREATE FUNCTION f(a int DEFAULT ", E, ") RETURNS int LANGUAGE sql AS 'select 1'"),
    ("CREATE FUNCTION f() RETURNS int RETURN ", E, ""), ("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; ", Q, "; END"), ("CREATE FUNCTION f() RETURNS ", T, " LANGUAGE sql AS 'select 1'"),
    ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $body$ ", Q, " $body$"), ("CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $body$ BEGIN RETURN ", E, "; END $body$"),
    ("DO $body$ BEGIN PERFORM ", E, "; END $body$"), ("DO LANGUAGE plpgsql $body$ BEGIN EXECUTE 'x'; INSERT INTO t ", Q, "; END $body$"),
    ("PREPARE p AS ", Q, ""), ("EXECUTE p (", E, ")"), ("DECLARE c CURSOR FOR ", Q, ""), ("EXPLAIN (COSTS OFF) ", Q, ""), ("COPY (", Q, ") TO STDOUT"), ("COPY t FROM STDIN WHERE ", E, ""),
    ("CALL p(", E, ")"), ("CREATE PUBLICATION p FOR TABLE t WHERE (", E, ")"), ("EXPLAIN CREATE TABLE n AS ", Q, ""), ("DECLARE c CURSOR FOR SELECT a FROM ", F, ""),
];

const LEAVES: &[(Hole, &[&str])] = &[
    (E, &["a", "1", "'x'", "t.a", "$1", "now()", "NULL", "true", "1.5e3", "CURRENT_DATE"]),
    (Q, &["SELECT 1", "SELECT a FROM t WHERE b = 1", "VALUES (1)", "TABLE t", "SELECT"]),
    (F, &["t", "s.t AS x", "ONLY t", "f()", "(SELECT 1) AS s"]),
    (T, &["int", "text[]", "numeric(10, 2)", "s.kind", "timestamp(3) with time zone"]),
];

/// Random numbers of a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// From `least` to `most`, as many below a thousand as above.
    fn depth(&mut self, least: usize, most: usize) -> usize {
        let share = self.below(1 << 20) as f64 / f64::from(1 << 20);
        (least as f64 * (most as f64 / least as f64).powf(share)) as usize
    }
}

/// A statement `depth` levels deep; notes which levels it has.
fn statement(random: &mut Random, depth: usize, used: &mut [usize]) -> String {
    let (first, mut hole, last) = *random.of(STATEMENTS);
    let (mut text, mut closing, mut left) = (first.to_string(), vec![last], depth);
    while left > 0 {
        // Within a mixture, some runs of the same.
        let fitting = loop {
            let number = random.below(LEVELS.len());
            if LEVELS[number].0 == hole {
                break number;
            }
        };
        let (_, opening, inner, end) = LEVELS[fitting];
        let times = if inner == hole && random.below(8) == 0 { 1 + random.below(left.min(400)) } else { 1 };
        for _ in 0..times {
            text.push_str(opening);
            closing.push(end);
        }
        used[fitting] += times;
        left -= times;
        hole = inner;
    }
    let leaves: &[&str] = LEAVES.iter().find(|(kind, _)| *kind == hole).expect("each kind has leaves").1;
    let leaf: &&str = random.of(leaves);
    text.push_str(leaf);
    closing.iter().rev().for_each(|end| text.push_str(end));
    text
}

#[derive(Default, Debug)]
struct Met {
    printed: usize,
    /// Read, walked and copied; too deep to be printed.
    read: usize,
    refused: usize,
}

/// A refusal that a client may get: 54001, or 42601 as PostgreSQL's grammar says it.
fn is_refusal(e: &SyntaxError) -> bool {
    e.too_deep || e.message.starts_with("memory exhausted")
}

/// All that is done with a text and its tree.
fn all_of_it(text: &str, met: &mut Met) -> Result<(), String> {
    Lexer::new(text, true).for_each(drop);
    let _ = template::Template::new().scan(text, true);
    let _ = split::split_statements(text, true);
    let _ = (Body::of_text(text), Body::of_sql(text), Body::of_definition(text));
    let mut statements = match sql::parse(text, true) {
        Ok(statements) => statements,
        Err(e) if is_refusal(&e) => {
            met.refused += 1;
            return Ok(());
        }
        Err(e) => return Err(e.message),
    };
    let mut tree = statements.pop().ok_or("no statement")?;
    let (mut nodes, mut types, mut changed) = (0, 0, 0);
    search::each(&tree, |node| {
        nodes += 1;
        types += search::types_of(node, true).len();
    });
    search::each_mut(&mut tree, |_| {
        changed += 1;
        true
    });
    if nodes == 0 || changed == 0 || depth::of(&tree) == 0 {
        return Err(format!("walks meet {nodes} and {changed} nodes"));
    }
    let named = relations::of(&tree).len();
    relations::replace(&mut tree, &mut |_| {});
    Body::of_statement(&tree);
    let copy = tree.clone();
    if copy != tree || relations::of(&copy).len() != named {
        return Err("the copy differs".into());
    }
    drop(tree);
    match sql::deparse(&copy) {
        Ok(printed) => match sql::parse(&printed, true) {
            Ok(_) => met.printed += 1,
            Err(e) if is_refusal(&e) => met.read += 1,
            Err(e) => return Err(format!("what is printed can't be read: {}", e.message)),
        },
        Err(e) if is_refusal(&e) => met.read += 1,
        Err(e) => return Err(format!("not printed: {}", e.message)),
    }
    Ok(())
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// So many statements of these depths; how many levels of each kind they had.
fn run(seed: u64, cases: u64, depths: (usize, usize)) -> (Met, Vec<usize>) {
    let (mut met, mut used) = (Met::default(), vec![0; LEVELS.len()]);
    for case in 0..cases {
        let mut random =
            Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (case + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9));
        random.below(2);
        let depth = random.depth(depths.0, depths.1);
        let text = statement(&mut random, depth, &mut used);
        if let Err(e) = all_of_it(&text, &mut met) {
            let start: String = text.chars().take(600).collect();
            panic!("seed {seed}, case {case}, {depth} levels: {e}\n{start}");
        }
    }
    (met, used)
}

fn on_a_thread_of_the_routers(f: impl FnOnce() + Send + 'static) {
    stack::thread(f).unwrap().join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn some_levels_of_any_kind_are_read_and_printed() {
    on_a_thread_of_the_routers(|| {
        let cases = number("DEEP_RANDOM_CASES", 400);
        let (met, used) = run(number("DEEP_RANDOM_SEED", 1), cases, (1, 30));
        assert_eq!(met.printed as u64, cases, "{met:?}");
        let never: Vec<_> = LEVELS.iter().zip(&used).filter(|(_, n)| **n == 0).map(|(level, _)| level).collect();
        assert!(never.is_empty() || cases < 400, "never met: {never:?}");
    });
}

#[test]
fn any_depth_of_any_mixture_is_read_or_refused() {
    on_a_thread_of_the_routers(|| {
        let cases = number("DEEP_RANDOM_CASES", 120);
        let (met, _) = run(number("DEEP_RANDOM_SEED", 1), cases, (10, 50_000));
        // It goes over all of the borders.
        assert!(
            cases < 120
                || (met.printed > 10 && met.refused > 10 && met.printed + met.read + met.refused == cases as usize),
            "{met:?}"
        );
    });
}
