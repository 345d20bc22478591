//! What a script's statements say once variables are parameters, and which routines have none.

use super::*;

/// The statements of a function of arguments `p int, b text`, the first of which is fixed. `id`: a column of all tables.
fn shown(language: &str, source: &str) -> String {
    let definition = format!("CREATE FUNCTION s.f(p int, b text) RETURNS int LANGUAGE {language} AS $h${source}$h$");
    match Script::of(&definition, 1) {
        Err(why) => format!("f() {why}"),
        Ok(script) => {
            let with = |(text, s): &(String, NodeEnum)| {
                crate::deparse(&script.with_parameters(text, s, |name| name == "id")).unwrap()
            };
            script.statements.iter().map(with).collect::<Vec<_>>().join("; ")
        }
    }
}

#[test]
fn variables_are_parameters() {
    assert_eq!(shown("sql", "SELECT * FROM t WHERE id = p AND a = f.b; "), "SELECT * FROM t WHERE id = $1 AND a = $2");
    assert_eq!(
        shown(
            "plpgsql",
            "DECLARE v int; r record; BEGIN v := p + 1; SELECT a INTO r FROM t WHERE id = p; INSERT INTO t VALUES (p, v, r.a); RETURN v; END"
        ),
        "SELECT $1 + 1; SELECT a FROM t WHERE id = $1; INSERT INTO t VALUES ($1, $4, $5)"
    );
}

#[test]
fn results_and_arrays_of_arguments() {
    let of = |signature: &str, fixed| {
        let text = format!("CREATE FUNCTION f({signature} LANGUAGE plpgsql AS $h$BEGIN PERFORM p; END$h$");
        Script::of(&text, fixed).map(|s| s.statements.len())
    };
    assert_eq!(of("p int, VARIADIC q int[]) RETURNS void", 1).unwrap(), 1);
    assert_eq!(of("OUT q int, p int) RETURNS int", 2).unwrap_err(), "has results before its distribution argument");
    assert_eq!(of("p int, OUT q int) RETURNS int", 1).unwrap(), 1);
}

#[test]
fn columns_are_not() {
    let same = |source: &str| assert_eq!(shown("sql", source), source);
    same("SELECT * FROM t WHERE p = 1 AND EXISTS (SELECT 1 FROM (SELECT 2 AS p) s)");
    same("SELECT * FROM t p WHERE id = p");
    same("SELECT * FROM t f WHERE id = f.p");
    same("SELECT * FROM t, g() WHERE id = p");
    same("SELECT * FROM t, (VALUES (1)) v WHERE id = p");
    same("SELECT * FROM t, (SELECT 1::int) v WHERE id = p");
    same("WITH w(p) AS (SELECT 1) SELECT * FROM t, w WHERE id = p");
}

#[test]
fn a_fixed_argument_keeps_its_value() {
    for source in [
        "BEGIN p := 2; END",
        "DECLARE a ALIAS FOR p; BEGIN a := 2; END",
        "BEGIN SELECT 1 INTO p; END",
        "DECLARE v int; BEGIN SELECT 1, 2 INTO v, p; END",
        "BEGIN FOR p IN SELECT 1 LOOP NULL; END LOOP; END",
        "BEGIN FOREACH p IN ARRAY ARRAY[1] LOOP NULL; END LOOP; END",
        "BEGIN GET DIAGNOSTICS p = ROW_COUNT; END",
        "DECLARE c CURSOR FOR SELECT 1; BEGIN OPEN c; FETCH c INTO p; END",
    ] {
        assert_eq!(shown("plpgsql", source), "f() changes its distribution argument", "{source}");
    }
    for source in ["DECLARE p int; BEGIN NULL; END", "BEGIN FOR p IN 1..2 LOOP NULL; END LOOP; END"] {
        assert_eq!(shown("plpgsql", source), "f() has another variable of its distribution argument's name");
    }
    assert_eq!(shown("plpgsql", "BEGIN b := 'x'; FOR b IN SELECT 1 LOOP NULL; END LOOP; END"), "SELECT 'x'; SELECT 1");
}

#[test]
fn what_can_not_be_read() {
    assert!(shown("sql", r"SELECT * FROM t WHERE id = p AND a <> 'x\' AND a <> ' OR true --'").contains("backslash"));
    assert_eq!(shown("plpgsql", "BEGIN EXECUTE b; END"), "f() puts statements together");
    assert_eq!(shown("plpgsql", "BEGIN FOR b IN EXECUTE b LOOP NULL; END LOOP; END"), "f() puts statements together");
    assert_eq!(shown("plpgsql", "BEGIN CALL g(p); END"), "f() calls a procedure or has a DO block");
    assert_eq!(shown("plpgsql", "BEGIN COMMIT; END"), "f() ends transactions");
    assert_eq!(
        shown("plpgsql", "#variable_conflict use_column\nBEGIN NULL; END"),
        "f() says what names of both columns and variables mean"
    );
    assert_eq!(shown("plpython3u", "pass"), "f() is neither in SQL nor in PL/pgSQL");
}
