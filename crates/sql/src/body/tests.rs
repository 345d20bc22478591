//! What bodies of routines name: read from their text, in SQL and in PL/pgSQL.

use super::*;

fn shown(body: &Body) -> String {
    let list = |names: &BTreeSet<Name>| {
        names.iter().map(|(s, n)| s.as_ref().map_or(n.clone(), |s| format!("{s}.{n}"))).collect::<Vec<_>>().join(" ")
    };
    let mut text =
        format!("reads [{}] writes [{}] calls [{}]", list(&body.reads), list(&body.writes), list(&body.calls));
    if body.unknown {
        text += " unknown";
    }
    if let Some(varies) = &body.varies {
        text += &format!(" varies by {varies}");
    }
    if let Some(words) = &body.words {
        text += &format!(" words [{}]", words.words.iter().cloned().collect::<Vec<_>>().join(" "));
    }
    text
}

fn function(language: &str, body: &str) -> String {
    let definition = format!("CREATE FUNCTION f() RETURNS trigger LANGUAGE {language} AS $herd${body}$herd$");
    shown(&Body::of_definition(&definition))
}

#[test]
fn sql() {
    assert_eq!(
        function("sql", "WITH w AS (SELECT 1 FROM t) INSERT INTO s.u SELECT g(x) FROM w, v; DELETE FROM d"),
        "reads [d t v s.u] writes [d s.u] calls [g]"
    );
    assert_eq!(function("sql", "SELECT xmin FROM t"), "reads [t] writes [] calls [] varies by column xmin");
    assert_eq!(
        shown(&Body::of_definition(
            "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM t; END"
        )),
        "reads [t] writes [] calls [count]"
    );
}

#[test]
fn plpgsql() {
    let body = "DECLARE n int := first(); r t%ROWTYPE; c CURSOR FOR SELECT * FROM cursored; BEGIN \
                SELECT count(*) INTO n FROM t; PERFORM g(n); NEW.v := (SELECT max(v) FROM u); \
                FOR r IN SELECT * FROM looped LOOP UPDATE w SET a = 1; END LOOP; \
                IF EXISTS (SELECT 1 FROM tested) THEN CALL p(1); END IF; \
                RETURN NEW; EXCEPTION WHEN others THEN INSERT INTO log VALUES (sqlerrm); END";
    assert_eq!(
        function("plpgsql", body),
        "reads [cursored log looped t tested u w] writes [log w] calls [count first g max p]"
    );
}

#[test]
fn dynamic_statements() {
    for (run, want) in [
        ("'INSERT INTO t VALUES (1)'", "reads [t] writes [t] calls []"),
        ("'INSERT INTO t VALUES (' || quote_literal(a) || ')'", "reads [t] writes [t] calls [quote_literal]"),
        ("format('DELETE FROM %I WHERE a = %L', 't', a)", "reads [t] writes [t] calls [format]"),
        ("format('DELETE FROM %I', a)", "reads [] writes [] calls [format] unknown words [a delete format from i]"),
        ("'DELETE FROM ' || a", "reads [] writes [] calls [] unknown words [a delete from]"),
    ] {
        assert_eq!(function("plpgsql", &format!("BEGIN EXECUTE {run}; RETURN NULL; END")), want, "{run}");
    }
}

#[test]
fn blocks_and_other_languages() {
    assert_eq!(shown(&Body::of_definition("DO $$ BEGIN UPDATE t SET a = 1; END $$")), "reads [t] writes [t] calls []");
    assert_eq!(
        function("plpython3u", "plpy.execute('select t')"),
        "reads [] writes [] calls [] unknown words [execute plpy select t]"
    );
    assert_eq!(
        function("plpgsql", "BEGIN this is nonsense"),
        "reads [] writes [] calls [] words [begin is nonsense this]"
    );
}

#[test]
fn blocks_in_blocks_are_read_once() {
    let depth = 35;
    let (begin, end) = ("BEGIN ".repeat(depth), "EXCEPTION WHEN others THEN NULL; END; ".repeat(depth - 1));
    let text = format!("{begin} DELETE FROM t; {end} EXCEPTION WHEN others THEN NULL; END");
    let body = Body::of_definition(&format!("DO $x$ {text} $x$"));
    assert_eq!(shown(&body), "reads [t] writes [t] calls []");
    assert_eq!((body.caught.len(), body.caught[0].caught.len()), (depth, 0));
}
