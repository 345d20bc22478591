//! Bodies, and what is read of them.

use super::super::{Kind, Program, Step};

fn read(body: &str) -> Result<Program, &'static str> {
    let tag = "$herd$";
    let sql = format!("CREATE FUNCTION f(a int, b text) RETURNS int LANGUAGE plpgsql AS {tag}{body}{tag}");
    let tree = crate::parse(&sql, true).unwrap().pop().unwrap();
    let mut program = Program::of(&tree)?;
    let resolved = program.resolved(&|_| Some(vec!["id".into(), "v".into()]), &|_| false);
    program.expressions = resolved.into_iter().collect::<Result<_, _>>()?;
    Ok(program)
}

fn texts(body: &str) -> Vec<String> {
    read(body).unwrap().expressions.iter().map(|e| e.text.clone()).collect()
}

#[test]
fn every_statement() {
    let body = "<<o>> DECLARE c CURSOR (k int) FOR SELECT * FROM t WHERE id = k; n numeric(5,2) NOT NULL := 1.5; s alias for $2; BEGIN \
        OPEN c (k := a + 1); FETCH NEXT FROM c INTO n; FETCH c INTO n; MOVE FORWARD 2 IN c; MOVE ALL FROM c; CLOSE c; \
        FOR r IN c (5) LOOP EXIT o WHEN n > 1; END LOOP; FOR i IN REVERSE a .. 1 BY 2 LOOP n := n + i; END LOOP; \
        SELECT v INTO STRICT n FROM t WHERE id = a; INSERT INTO t VALUES (n, s) RETURNING v INTO n; EXECUTE 'x' || s INTO n USING a, n; \
        IF n = 1 THEN NULL; ELSIF n = 2 THEN PERFORM f(a); ELSE RAISE NOTICE '% and %', n, a USING HINT = 'h'; END IF; \
        CASE n WHEN 1, 2 THEN RETURN 1; ELSE ASSERT n > 0, 'no'; END CASE; \
        GET STACKED DIAGNOSTICS s = MESSAGE_TEXT; RETURN o.n; EXCEPTION WHEN division_by_zero OR SQLSTATE '22000' THEN RAISE; END o;";
    let program = read(body).unwrap();
    assert_eq!(program.block.steps.len(), 15);
    let kinds: Vec<&Kind> = program.variables.iter().map(|v| &v.kind).collect();
    assert!(kinds.contains(&&Kind::Type("numeric(5,2)".into())));
    let texts: Vec<&str> = program.expressions.iter().map(|e| e.text.as_str()).collect();
    for text in [
        "SELECT * FROM t WHERE id = $1",
        "SELECT $1 + 1",
        "SELECT v AS v FROM t WHERE id = $1",
        "INSERT INTO t VALUES ($1, $2) RETURNING v AS v",
        "SELECT $1 IN (1, 2)",
        "SELECT $1 AS n",
    ] {
        assert!(texts.contains(&text), "{text} in {texts:?}");
    }
}

#[test]
fn the_innermost_variable_is_meant() {
    let body = "DECLARE x int := 1; BEGIN DECLARE x int := x + 1; BEGIN a := x; END; FOR x IN 1..2 LOOP a := x; END LOOP; a := x; END";
    let program = read(body).unwrap();
    let numbers: Vec<String> = program.expressions.iter().map(|e| format!("{:?}", e.uses)).collect();
    assert_eq!(numbers.len(), 7);
    assert_eq!(numbers[1], "[Variable(3)]");
    assert_eq!(numbers[2], "[Variable(4)]");
    assert_eq!(numbers[5], "[Variable(5)]");
    assert_eq!(numbers[6], "[Variable(3)]");
}

#[test]
fn what_may_be_a_column_is_refused() {
    assert!(read("DECLARE v int; BEGIN a := (SELECT v FROM t); END").is_err());
    assert_eq!(
        texts("#variable_conflict use_column\nDECLARE v int; w int; BEGIN a := 1; SELECT v, w INTO v FROM t; END")[1],
        "SELECT v AS v, $1 AS w FROM t"
    );
    assert_eq!(
        texts("#variable_conflict use_variable\nDECLARE v int; BEGIN SELECT v INTO a FROM t; END")[0],
        "SELECT $1 AS v FROM t"
    );
}

#[test]
fn what_is_not_understood_is_not_read() {
    for body in [
        "BEGIN COMMIT; END",
        "DECLARE x int[]; BEGIN x[1] := 2; END",
        "BEGIN x := 1; END",
        "BEGIN RETURN 1 END",
        "BEGIN RETURN 1; END; x",
        "DECLARE c CONSTANT int := 1; BEGIN c := 2; END",
        "BEGIN GET DIAGNOSTICS b = PG_CONTEXT; END",
        "BEGIN LOOP EXIT; END; END",
        "BEGIN IF a THEN NULL; END; END",
        "DECLARE x a%TYPE[]; BEGIN END",
    ] {
        assert!(read(body).is_err(), "{body}");
    }
    assert!(matches!(read("BEGIN NULL; END").unwrap().block.steps[..], []));
    assert!(matches!(read("BEGIN RETURN; END").unwrap().block.steps[..], [Step::Return(None)]));
}
