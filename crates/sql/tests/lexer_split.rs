//! Statements, rows and fields, found without parsing; compared with PostgreSQL's parser where it has a say.

use sql::lexer::{LexError, Lexer};
use sql::split::{first_keyword, split_statements, values_rows};

fn check(sql: &str, expected: &[&str]) {
    let ranges = split_statements(sql, true).unwrap();
    let statements: Vec<_> = ranges.into_iter().map(|range| &sql[range]).collect();
    assert_eq!(statements, expected, "{sql}");
}

#[test]
fn semicolons_at_top_level() {
    check("", &[]);
    check(" ;; -- nothing\n; /* at all */", &[]);
    check("select 1", &["select 1"]);
    check("select 1;", &["select 1"]);
    check(" select 1 ;\n\u{b}select 2 ; ", &["select 1", "select 2"]);
    check("select ';', \";\", $$;$$, E'\\';' /* ; */ -- ;", &["select ';', \";\", $$;$$, E'\\';'"]);
    check("select 1; -- one\n/*+ hint */ select 2 -- two", &["select 1", "-- one\n/*+ hint */ select 2"]);
    check("create rule r as on insert to t do (a; b); c", &["create rule r as on insert to t do (a; b)", "c"]);
    check("select (1; select 2", &["select (1; select 2"]);
    check("select 1); select 2", &["select 1)", "select 2"]);
}

#[test]
fn atomic_bodies() {
    let sql = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 1 AS end; END";
    check(&format!("{sql}; SELECT 1"), &[sql, "SELECT 1"]);
    let sql = "create or replace procedure p() begin atomic end";
    check(&format!("{sql};{sql}"), &[sql, sql]);
    // The words alone do not make a body.
    check("select begin atomic; end; begin; end", &["select begin atomic", "end", "begin", "end"]);
    check("create function f(begin atomic) as 'a'; b", &["create function f(begin atomic) as 'a'", "b"]);
    check("create function f() begin atomic; a; b", &["create function f() begin atomic; a; b"]);
}

/// What is seen without tokens is what they say; white space at the end has them looked at.
#[test]
fn one_statement_is_seen_without_tokens() {
    let parts = [
        "select ",
        "'",
        "\"",
        "$",
        "$$",
        "(",
        ")",
        "[",
        "]",
        "\\",
        "E",
        ";",
        "a",
        "--",
        "/*",
        "*/",
        " ",
        "create ",
        "begin atomic ",
        "\n",
    ];
    let mut random = 1u64;
    let mut next = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize
    };
    let mut seen = 0;
    for _ in 0..200_000 {
        let middle: String = (0..next() % 7).map(|_| parts[next() % parts.len()]).collect();
        let sql = format!("{}{middle}a;", if next() % 9 == 0 { "create function f() " } else { "select " });
        for strings in [true, false] {
            let (ours, tokens) = (split_statements(&sql, strings), split_statements(&format!("{sql} "), strings));
            seen += usize::from(ours == Ok(std::iter::once(0..sql.len() - 1).collect()));
            match (ours, tokens) {
                (Ok(ours), Ok(tokens)) => assert_eq!(ours, tokens, "{sql}"),
                (ours, tokens) => assert_eq!(ours.is_err(), tokens.is_err(), "{sql}"),
            }
        }
    }
    assert!(seen > 10_000, "{seen}");
}

#[test]
fn strings_depend_on_the_setting() {
    let sql = "select '\\'; select '";
    let escaped = split_statements(sql, false).unwrap();
    assert_eq!((escaped.len(), &escaped[0]), (1, &(0..sql.len())));
    assert_eq!(split_statements(sql, true), Err(LexError::UnterminatedString { at: 19 }));
}

fn tokens(sql: &str) -> Vec<&str> {
    Lexer::new(sql, true).map(Result::unwrap).map(|token| &sql[token.start..token.end]).collect()
}

#[test]
fn corpus_as_the_parser_splits_it() {
    let corpus = [
        include_str!("corpus/orm.sql"),
        include_str!("corpus/psql_describe.sql"),
        include_str!("corpus/routines.sql"),
        include_str!("corpus/workloads.sql"),
    ];
    for sql in corpus {
        let ours = split_statements(sql, true).unwrap();
        let theirs = pg_query::split_with_parser(sql).unwrap();
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            // They may differ in comments before and after.
            assert_eq!(tokens(&sql[ours.clone()]), tokens(theirs));
            let ours = &sql[ours];
            assert!(pg_query::parse(ours, pg_query::ParserOptions::DEFAULT).unwrap().protobuf.stmts.len() == 1);
        }
    }
}

#[test]
fn keywords() {
    for (sql, expected) in [
        ("select 1", "select"),
        ("/* hint */ -- x\n Insert into t", "Insert"),
        ("((select 1) union select 2)", "select"),
        ("", ""),
        ("-- only", ""),
        ("\"select\"", ""),
        ("'select'", ""),
        ("1", ""),
        ("/* open", ""),
        ("begin;'open", "begin"),
    ] {
        assert_eq!(first_keyword(sql), expected, "{sql}");
    }
}

fn rows(sql: &str) -> Result<Vec<&str>, LexError> {
    let at = sql.find("VALUES").expect("a VALUES");
    let rows = values_rows(sql, true, at)?;
    Ok(rows.into_iter().map(|row| &sql[row]).collect())
}

#[test]
fn rows_of_values() {
    assert_eq!(rows("INSERT INTO t VALUES (1)"), Ok(vec!["(1)"]));
    assert_eq!(
        rows("INSERT INTO t VALUES (1, ')'), /* , */ (f(2, (3)), $$)$$) ,(DEFAULT,$1) ON CONFLICT (a) DO NOTHING"),
        Ok(vec!["(1, ')')", "(f(2, (3)), $$)$$)", "(DEFAULT,$1)"])
    );
    assert_eq!(rows("VALUES (1) RETURNING '"), Ok(vec!["(1)"]), "what follows is not looked at");
    assert_eq!(rows("VALUES(ARRAY[1,2]),(ARRAY[3])"), Ok(vec!["(ARRAY[1,2])", "(ARRAY[3])"]));
    let expected = LexError::ExpectedValues { at: 0 };
    for sql in ["VALUES", "VALUES 1", "VALUES (1", "VALUES (1),", "VALUES (1), 2"] {
        assert_eq!(rows(sql), Err(expected), "{sql}");
    }
    assert_eq!(values_rows("INSERT", true, 0), Err(expected));
    assert_eq!(values_rows("", true, 0), Err(expected));
    assert_eq!(rows("VALUES ('a"), Err(LexError::UnterminatedString { at: 8 }));
    let sql = "VALUES ('\\'),('), (2)";
    let escaped = values_rows(sql, false, 0).unwrap();
    assert_eq!(escaped.into_iter().map(|row| &sql[row]).collect::<Vec<_>>(), ["('\\'),(')", "(2)"]);
}
