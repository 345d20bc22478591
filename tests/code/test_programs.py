"""Functions, procedures and DO blocks that use tables of several nodes run statement by statement: everything is as on one server,
the notices, what is in the tables, and errors with all that was undone for them."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

TABLES = (
    "DROP SCHEMA IF EXISTS p CASCADE", "CREATE SCHEMA p", "SET search_path = p",
    "CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance numeric(12,2) NOT NULL DEFAULT 0, at date)",
    "CREATE TABLE moves (id int, n int, amount numeric, note text, PRIMARY KEY (id, n))",
    "CREATE TABLE kinds (kind int PRIMARY KEY, name varchar(20) UNIQUE)",
    "CREATE TABLE notes (n int, said text)",
)  # fmt: skip
DISTRIBUTED = (
    "SELECT create_distributed_table('accounts', 'id')", "SELECT create_distributed_table('moves', 'id')", "SELECT create_reference_table('kinds')",
)  # fmt: skip
ROWS = (
    "INSERT INTO accounts SELECT g, 'o' || g % 3, g * 10, DATE '2026-01-01' + g FROM generate_series(1, 30) g",
    "INSERT INTO moves SELECT g % 10 + 1, g, g * 1.5, 'm' || g FROM generate_series(1, 60) g",
    "INSERT INTO kinds VALUES (1, 'one'), (2, 'two'), (3, 'three')",
)
STATE = ("SELECT * FROM accounts ORDER BY id", "SELECT * FROM moves ORDER BY id, n", "SELECT * FROM kinds ORDER BY kind", "SELECT * FROM notes ORDER BY n, said")


def function(body: str, arguments: str = "a int, b int", returns: str = "int", language: str = "plpgsql") -> str:
    return f"CREATE OR REPLACE FUNCTION f({arguments}) RETURNS {returns} LANGUAGE {language} AS $body$ {body} $body$"


def procedure(body: str, arguments: str = "a int, b int", language: str = "plpgsql") -> str:
    return f"CREATE OR REPLACE PROCEDURE f({arguments}) LANGUAGE {language} AS $body$ {body} $body$"


# Definition, and calls of it.
CALLED = {
    "transfer": (
        function("""
            DECLARE there numeric; changed int;
            BEGIN
                SELECT balance INTO there FROM accounts WHERE id = a;
                IF NOT FOUND THEN RAISE EXCEPTION 'no account %', a USING ERRCODE = 'P0101', HINT = 'make it'; END IF;
                IF there < 50 THEN RAISE NOTICE 'only % in %', there, a; RETURN 0; END IF;
                UPDATE accounts SET balance = balance - 50 WHERE id = a;
                UPDATE accounts SET balance = balance + 50 WHERE id = b;
                GET DIAGNOSTICS changed = ROW_COUNT;
                IF changed = 0 THEN RAISE EXCEPTION 'no account %', b; END IF;
                RETURN changed;
            END"""),
        ["SELECT f(1, 2)", "SELECT f(20, 1)", "SELECT f(7, 8) AS x", "SELECT * FROM f(9, 10)", "SELECT f(99, 1)", "SELECT f(15, 99)", "SELECT f(NULL, 1)"],
    ),
    "loops": (
        function("""
            DECLARE r record; total numeric := 0; n int := 0;
            BEGIN
                FOR r IN SELECT id, count(*) AS c, sum(amount) AS s FROM moves GROUP BY id ORDER BY id LOOP
                    CONTINUE WHEN r.id = a;
                    EXIT WHEN r.id > b;
                    total := total + r.s;
                    n := n + r.c;
                    UPDATE accounts SET balance = r.s, owner = 'loop' WHERE id = r.id;
                END LOOP;
                FOR i IN REVERSE 5..1 BY 2 LOOP n := n * 2 + i; END LOOP;
                WHILE n > 1000 LOOP n := n - 1000; END LOOP;
                <<outer>> LOOP
                    LOOP n := n + 1; EXIT outer WHEN n % 7 = 0; EXIT WHEN n % 3 = 0; END LOOP;
                END LOOP outer;
                RETURN n + total::int;
            END"""),
        ["SELECT f(2, 5)", "SELECT f(NULL, 3)", "SELECT f(1, 100)"],
    ),
    "handlers": (
        function("""
            DECLARE done int := 0; why text;
            BEGIN
                UPDATE accounts SET balance = 1000 WHERE id = a;
                BEGIN
                    INSERT INTO accounts VALUES (a + 100, 'new', 1);
                    INSERT INTO accounts VALUES (b, 'again', 1);
                    done := 1;
                EXCEPTION WHEN unique_violation THEN
                    why := SQLSTATE;
                    RAISE NOTICE 'there is one: %', SQLSTATE;
                    done := 2;
                WHEN not_null_violation OR check_violation THEN done := 3;
                END;
                BEGIN
                    done := done + 10 / (a - 1);
                EXCEPTION WHEN data_exception THEN done := done + 100; why := why || SQLERRM;
                END;
                INSERT INTO notes VALUES (done, why);
                RETURN done;
            END"""),
        ["SELECT f(1, 2)", "SELECT f(2, 300)", "SELECT f(3, 4)", "SELECT f(4, NULL)"],
    ),
    "raises again": (
        function("""
            BEGIN
                BEGIN
                    DELETE FROM moves WHERE id = a;
                    IF b = 1 THEN RAISE division_by_zero; ELSIF b = 2 THEN RAISE 'no % of %%', a; ELSIF b = 3 THEN RAISE SQLSTATE '22012' USING MESSAGE = 'm', DETAIL = 'd'; END IF;
                EXCEPTION WHEN OTHERS THEN
                    INSERT INTO notes VALUES (a, SQLERRM);
                    IF a = 2 THEN RAISE; END IF;
                END;
                RETURN 5;
            END"""),
        [f"SELECT f({a}, {b})" for a in (1, 2) for b in range(4)],
    ),
    "values of types": (
        function("""
            DECLARE t text := a; n numeric := '1.5'; i int := 2.6; d date := '2026-02-03'; o boolean := 't'; k bigint := a; s smallint;
                    c CONSTANT int NOT NULL := 7; w accounts.at%TYPE; v numeric;
            BEGIN
                SELECT at, balance INTO w, v FROM accounts WHERE id = a;
                s := k + c;
                t := t || '/' || n || '/' || i || '/' || d || '/' || o || '/' || coalesce(w::text, 'none') || '/' || coalesce(v, -1) || '/' || s;
                d := d + a;
                t := t || d;
                o := a > b;
                INSERT INTO notes VALUES (s, t || o::text);
                i := v;
                RETURN v * 1.5;
            END"""),
        ["SELECT f(1, 2)", "SELECT f(2, 1)", "SELECT f(32700, 1)", "SELECT f(5, NULL)"],
    ),
    "bad values": (
        function("""
            DECLARE i int; s smallint;
            BEGIN
                UPDATE accounts SET balance = 0 WHERE id < 5;
                CASE b WHEN 1 THEN i := 'x'; WHEN 2, 3 THEN s := 100000 + b; WHEN 4 THEN i := 1 / (b - 4); WHEN 5 THEN i := 3000000000; ELSE NULL; END CASE;
                CASE WHEN b = 6 THEN NULL; WHEN b > 6 THEN i := (SELECT id FROM accounts); END CASE;
                RETURN i;
            END"""),
        [f"SELECT f(1, {b})" for b in range(8)],
    ),
    "strict": (
        function("""
            DECLARE r record; i int;
            BEGIN
                SELECT * INTO r FROM accounts WHERE id = a;
                INSERT INTO notes VALUES (r.id, r.owner);
                SELECT id INTO STRICT i FROM accounts WHERE owner = 'o' || b;
                RETURN i;
            END"""),
        ["SELECT f(1, 7)", "SELECT f(99, 1)", "SELECT f(99, 9)"],
    ),
    "returning": (
        function("""
            DECLARE i int; t text;
            BEGIN
                UPDATE accounts SET owner = 'r' WHERE id BETWEEN a AND b RETURNING id, owner INTO i, t;
                IF FOUND THEN INSERT INTO notes VALUES (i, t); END IF;
                DELETE FROM moves WHERE id = a AND n < 20 RETURNING n INTO i;
                RETURN i;
            END"""),
        ["SELECT f(1, 1)", "SELECT f(40, 50)", "SELECT f(2, 3)", "SELECT f(100, 1)"],
    ),
    "record that nothing was put into": (
        function("DECLARE r record; BEGIN UPDATE accounts SET owner = 'x' WHERE id = a; RETURN r.id; END"), ["SELECT f(1, 1)"],
    ),
    "no such field": (
        function("DECLARE r record; BEGIN SELECT id INTO r FROM accounts WHERE id = a; RETURN r.nothing; END"), ["SELECT f(1, 1)"],
    ),
    "no return": (function("BEGIN UPDATE accounts SET owner = 'x' WHERE id = a; END"), ["SELECT f(1, 1)"]),
    "void": (
        function("BEGIN IF a = 1 THEN RETURN; END IF; DELETE FROM accounts WHERE id = a; PERFORM * FROM accounts WHERE id > b; IF FOUND THEN INSERT INTO notes VALUES (1, 'found'); END IF; END", returns="void"),
        ["SELECT f(1, 1)", "SELECT f(2, 2)", "SELECT f(3, 100)", "SELECT * FROM f(4, 4)"],
    ),
    "text": (
        function("DECLARE t text; BEGIN SELECT string_agg(owner, a ORDER BY id) INTO t FROM accounts WHERE id < b; UPDATE accounts SET owner = t WHERE id = 1; RETURN t; END", "a text, b int", "text"),
        ["SELECT f('-', 5)", "SELECT f('''', 3)", "SELECT f(NULL, 3)", "SELECT f('x', 0)"],
    ),
    "reference tables": (
        function("""
            BEGIN
                INSERT INTO kinds VALUES (a, 'k' || a) ON CONFLICT (kind) DO UPDATE SET name = 'was ' || kinds.name;
                UPDATE accounts x SET owner = k.name FROM kinds k WHERE x.id = k.kind AND k.kind = a;
                RETURN (SELECT count(*) FROM accounts JOIN kinds ON owner = name);
            END"""),
        ["SELECT f(1, 0)", "SELECT f(10, 0)"],
    ),
    "unread names": (
        function("BEGIN INSERT INTO accounts VALUES (a, 'o', b); INSERT INTO moves SELECT accounts.id, b, 1, 'x' FROM accounts WHERE accounts.id = a; RETURN 1; END"),
        ["SELECT f(200, 1)", "SELECT f(1, 1)"],
    ),
    "sql": (
        function("UPDATE accounts SET balance = balance + b WHERE id = a; INSERT INTO notes VALUES (a, 'sql'); SELECT count(*)::int FROM accounts WHERE balance > b;", language="sql"),
        ["SELECT f(1, 5)", "SELECT f(2, 1000)", "SELECT f(NULL, NULL)"],
    ),
    "sql by number": (
        function("INSERT INTO notes VALUES ($1, 'n'); UPDATE accounts SET balance = $2 WHERE id = $1 RETURNING id;", "int, int", language="sql"),
        ["SELECT f(1, 5)", "SELECT f(100, 5)"],
    ),
    "sql without a value": (
        function("DELETE FROM moves WHERE id = a; UPDATE accounts SET owner = 'none' WHERE id = b;", returns="void", language="sql"), ["SELECT f(1, 5)", "SELECT * FROM f(2, 6)"],
    ),
    "rows of a query": (
        function("BEGIN RETURN QUERY SELECT id, owner FROM accounts WHERE id < a ORDER BY id; UPDATE accounts SET owner = 'q' WHERE id = 1; IF FOUND THEN RETURN QUERY SELECT id, 'more' FROM moves WHERE n = b; END IF; RETURN; END", returns="TABLE (i int, w text)"),
        ["SELECT * FROM f(4, 20)", "SELECT * FROM f(0, 0)", "SELECT * FROM f(NULL, 3)"],
    ),
    "rows one by one": (
        function("DECLARE r record; BEGIN FOR r IN SELECT id, balance FROM accounts WHERE id <= a ORDER BY id LOOP i := r.id; w := r.balance; RETURN NEXT; IF r.id = b THEN RETURN; END IF; END LOOP; i := 0; RETURN NEXT; END", returns="TABLE (i int, w text)"),
        ["SELECT * FROM f(4, 20)", "SELECT * FROM f(4, 2)", "SELECT * FROM f(0, 0)"],
    ),
    "a set of values": (
        function("BEGIN RETURN NEXT a; RETURN NEXT b * 2.6; RETURN QUERY SELECT id FROM accounts WHERE id < a ORDER BY 1; DELETE FROM accounts WHERE id = b; END", returns="SETOF int"),
        ["SELECT * FROM f(3, 20)", "SELECT f(4, 2)", "SELECT f(0, NULL)"],
    ),
    "other columns": (
        function("BEGIN DELETE FROM moves WHERE id = a; RETURN QUERY SELECT id, balance, 1 FROM accounts WHERE id < a; END", returns="TABLE (i int, w text)"), ["SELECT * FROM f(3, 20)"],
    ),
    "another type": (
        function("BEGIN DELETE FROM moves WHERE id = a; RETURN QUERY SELECT id, balance FROM accounts WHERE id < a; END", returns="TABLE (i int, w text)"), ["SELECT * FROM f(3, 20)"],
    ),
    "outputs": (
        "CREATE OR REPLACE FUNCTION f(a int, OUT one text, INOUT b int, OUT two numeric) LANGUAGE plpgsql AS $$ BEGIN UPDATE accounts SET owner = 'out' WHERE id = a RETURNING owner, balance INTO one, two; b := b + 1; END $$",
        ["SELECT * FROM f(3, 20)", "SELECT * FROM f(300, NULL)"],
    ),
    "an output": (
        "CREATE OR REPLACE FUNCTION f(a int, b int, OUT one text) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM accounts WHERE id = a RETURNING owner INTO one; IF b = 1 THEN RETURN; END IF; one := one || b; END $$",
        ["SELECT f(3, 20)", "SELECT * FROM f(4, 1)", "SELECT f(300, 1)"],
    ),
    "sql with rows": (
        function("UPDATE accounts SET owner = 'x' WHERE id = a; SELECT id, owner FROM accounts WHERE id < b ORDER BY id;", returns="TABLE (i bigint, w text)", language="sql"), ["SELECT * FROM f(1, 3)", "SELECT * FROM f(2, 0)"],
    ),
    "stable": (
        function("DECLARE n int; BEGIN SELECT count(*) INTO n FROM accounts WHERE id > a; RETURN n + (SELECT count(*) FROM moves WHERE moves.id = b); END") + " STABLE",
        ["SELECT f(3, 2)", "SELECT f(NULL, NULL)", "SELECT * FROM f(20, 1)"],
    ),
    "blocks in blocks": (
        function("""
            DECLARE x int := a; y text := 'outer';
            BEGIN
                FOR i IN 1..2 LOOP
                    DECLARE x int := i * 100; z int := x + b; w record;
                    BEGIN
                        INSERT INTO notes VALUES (x, y || z || coalesce((x > z)::text, 'null'));
                        SELECT id INTO w FROM accounts WHERE id = a;
                        x := x + 1; y := y || w.id;
                        DECLARE y text; BEGIN y := 'inner'; INSERT INTO notes VALUES (x, y); END;
                    END;
                END LOOP;
                RETURN x;
            END"""),
        ["SELECT f(1, 2)", "SELECT f(2, NULL)"],
    ),
    "text that is run": (
        function("""
            DECLARE t text := 'accounts'; n int; r record; d int;
            BEGIN
                EXECUTE format('SELECT count(*) FROM %I WHERE id > $1', t) INTO n USING a;
                EXECUTE 'UPDATE ' || t || ' SET owner = $2 WHERE id = $1' USING b, 'run' || n;
                GET DIAGNOSTICS d = ROW_COUNT;
                FOR r IN EXECUTE 'SELECT id, owner FROM accounts WHERE id < $1 ORDER BY id' USING a LOOP INSERT INTO notes VALUES (r.id, r.owner); END LOOP;
                IF a = 5 THEN EXECUTE 'SELEC 1'; ELSIF a = 6 THEN EXECUTE NULL::text; ELSIF a = 7 THEN EXECUTE 'SELECT 1/0'; ELSIF a = 8 THEN TRUNCATE moves; END IF;
                RETURN n * 10 + d;
            END"""),
        [f"SELECT f({a}, 2)" for a in (1, 4, 5, 6, 7, 8)] + ["SELECT f(1, 100)"],
    ),
    "a handler around all": (
        function("BEGIN UPDATE accounts SET owner = 'h' WHERE id = a; PERFORM 1 / b; EXCEPTION WHEN division_by_zero THEN INSERT INTO notes VALUES (a, 'h'); END", returns="void"),
        ["SELECT f(1, 1)", "SELECT f(2, 0)"],
    ),
    "a handler of another function": (
        function("BEGIN BEGIN UPDATE accounts SET owner = 'f' WHERE id = a; PERFORM g(a); EXCEPTION WHEN others THEN RAISE NOTICE 'caught %', SQLERRM; END; RETURN 1; END")
        + "; CREATE OR REPLACE FUNCTION g(a int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE accounts SET owner = 'g' WHERE id = a + 1; BEGIN INSERT INTO accounts VALUES (a + 200, 'gg', 1); RAISE NOTICE 'in g'; RAISE EXCEPTION 'boom'; EXCEPTION WHEN unique_violation THEN NULL; END; RETURN 1; END $$",
        ["SELECT f(1, 2)"],
    ),
    "rows that nobody takes": (
        function("BEGIN IF b = 1 THEN UPDATE accounts SET owner = 'x' WHERE id = a RETURNING id; ELSE SELECT id FROM accounts; END IF; RETURN 1; END"), ["SELECT f(1, 1)", "SELECT f(99, 1)", "SELECT f(1, 2)"],
    ),
    "types with a length that is not said": (
        function("DECLARE d bpchar := 'abc'; BEGIN INSERT INTO notes VALUES (b, '<' || c || '>' || length(d)); RETURN 'abc'; END", "c char, b int", "char(5)"), ["SELECT f('abc', 2)", "SELECT f('a  ', 2)"],
    ),
    "constants": (
        function("DECLARE j jsonb := '{\"a\": 1}'; i interval := '1 day 02:03:04'; t timestamptz := '2026-01-02 03:04:05+00'; x int := '7'; BEGIN INSERT INTO notes VALUES (x, j::text || i || t); j := '[1, 2]'; RETURN jsonb_array_length(j); END"),
        ["SELECT f(1, 2)"],
    ),
    "raised again further out": (
        function("""BEGIN DELETE FROM moves WHERE id = a; BEGIN RAISE EXCEPTION 'e1' USING ERRCODE = 'P1111'; EXCEPTION WHEN others THEN
            BEGIN BEGIN RAISE EXCEPTION 'e2'; EXCEPTION WHEN others THEN RAISE; END; EXCEPTION WHEN others THEN NULL; END;
            RAISE NOTICE 'out % %', SQLERRM, SQLSTATE; IF b = 2 THEN RAISE; END IF; END; RETURN 1; END"""),
        ["SELECT f(1, 1)", "SELECT f(1, 2)"],
    ),
    "expressions that are queries": (
        function("DECLARE n int; x int; BEGIN UPDATE accounts SET owner = 'x' WHERE id < 9; IF b = 1 THEN x := count(*); ELSIF b = 2 THEN x := 1 WHERE a = 99; ELSIF b = 3 THEN x := length('abc'); END IF; GET DIAGNOSTICS n = ROW_COUNT; RETURN n; END"),
        [f"SELECT f(1, {b})" for b in range(4)],
    ),
    "rows in the list": (function("BEGIN DELETE FROM accounts WHERE id = a; i := a; RETURN NEXT; w := 'w, x'; RETURN NEXT; END", returns="TABLE (i int, w text)"), ["SELECT f(1, 2)", "SELECT * FROM f(3, 2)"]),
    "a record": ("CREATE FUNCTION f(a int, b int, OUT one int, OUT two text) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM accounts WHERE id = a RETURNING id, owner INTO one, two; END $$", ["SELECT f(1, 2)", "SELECT f(99, 2)"]),
    "a whole record": (function("DECLARE r record; BEGIN SELECT * INTO r FROM accounts WHERE id = a; INSERT INTO notes VALUES (1, r::text); RETURN 1; END"), ["SELECT f(1, 2)", "SELECT f(99, 2)"]),
    "hides": (function("BEGIN FOR a IN 1..2 LOOP UPDATE accounts SET owner = 'x' WHERE id = a; END LOOP; RETURN a; END"), ["SELECT f(7, 2)"]),
    "lengths": (function("DECLARE x varchar(3); c char; BEGIN DELETE FROM accounts WHERE id = a; x := repeat('x', b); c := left(x, b - 1); RETURN length(x) + length(c); END"), ["SELECT f(1, 2)", "SELECT f(1, 3)", "SELECT f(1, 4)", "SELECT f(1, NULL)"]),
    "a row": (function("BEGIN DELETE FROM moves WHERE id = a; RETURN (SELECT x FROM accounts x WHERE id = b); END", returns="accounts"), ["SELECT * FROM f(1, 2)", "SELECT * FROM f(1, 99)"]),
    "DDL": (function("BEGIN DELETE FROM accounts WHERE id = a; CREATE TABLE x (i int); INSERT INTO x VALUES (a); EXECUTE 'CREATE TABLE y AS SELECT i + 1 AS j FROM x'; a := (SELECT sum(i + j) FROM x, y); DROP TABLE x, y; RETURN a; END"), ["SELECT f(1, 2)", "SELECT f(NULL, 2)"]),
    "procedure": (
        procedure("DECLARE n int; BEGIN SELECT count(*) INTO n FROM accounts WHERE id > a; INSERT INTO notes VALUES (n, 'p'); UPDATE accounts SET balance = n WHERE id = b; IF b = 3 THEN RAISE EXCEPTION 'three'; END IF; END"),
        ["CALL f(5, 2)", "CALL f(0, 3)", "CALL f(NULL, NULL)"],
    ),
    "procedure in SQL": (procedure("UPDATE accounts SET owner = 'p' WHERE id <= a; DELETE FROM moves WHERE id = b;", language="sql"), ["CALL f(3, 1)", "CALL f(0, 0)"]),
}

BLOCKS = {
    "loop": "DO $$ DECLARE r record; BEGIN FOR r IN SELECT id, owner FROM accounts WHERE id < 6 ORDER BY id LOOP INSERT INTO notes VALUES (r.id, upper(r.owner)); RAISE NOTICE '% is %', r.id, r.owner; END LOOP; END $$",
    "fails": "DO $$ BEGIN DELETE FROM accounts WHERE id = 1; PERFORM 1 / (SELECT count(*) FROM accounts WHERE id = 1); END $$",
    "caught": "DO $$ BEGIN DELETE FROM accounts WHERE id = 1; BEGIN UPDATE accounts SET balance = NULL; EXCEPTION WHEN OTHERS THEN RAISE WARNING 'not null: %', SQLSTATE; END; END $$",
    "variables": "DO $$ DECLARE a int; b text; BEGIN FOR a, b IN SELECT id, owner FROM accounts ORDER BY id DESC LIMIT 3 LOOP INSERT INTO moves VALUES (a, 1000, 1, b); END LOOP; INSERT INTO notes VALUES (a, b); END $$",
    "nobody": "DO $$ DECLARE a int; BEGIN FOR a IN SELECT id FROM accounts WHERE id > 1000 LOOP NULL; END LOOP; IF a IS NULL AND NOT FOUND THEN INSERT INTO notes VALUES (1, 'none'); END IF; END $$",
    "merge": "DO $$ BEGIN MERGE INTO accounts x USING moves m ON x.id = m.id AND m.n = 5 WHEN MATCHED THEN UPDATE SET balance = m.amount; IF FOUND THEN RAISE INFO 'merged'; END IF; END $$",
}


# Calls among what a query selects.
CHANGES = function("BEGIN UPDATE accounts SET balance = balance + b WHERE id = a; INSERT INTO notes VALUES (a, 'n' || b); RAISE NOTICE '% and %', a, b; IF a = 13 THEN RAISE EXCEPTION 'thirteen'; END IF; RETURN a * 10 + b; END")
READS = function("BEGIN RETURN (SELECT count(*) FROM moves WHERE id = a) + (SELECT count(*) FROM accounts WHERE id < b); END") + " STABLE"
BIG = function("BEGIN INSERT INTO notes VALUES (b, a); UPDATE accounts SET at = NULL WHERE id = b; RETURN b; END", arguments="a text, b bigint", returns="bigint")
SETS = function("BEGIN RETURN QUERY SELECT n FROM moves WHERE id = a AND n < b ORDER BY n; END", returns="SETOF int")
NOTHING = function("BEGIN DELETE FROM moves WHERE id = a; END", returns="void")
IN_SQL = function("UPDATE accounts SET balance = b WHERE id = a RETURNING id", language="sql")
DEFAULTS = function("BEGIN UPDATE accounts SET balance = b WHERE id = a; INSERT INTO notes VALUES (a, c); RETURN a + b; END", arguments="a int DEFAULT 2 * 3, b int DEFAULT 7, c text DEFAULT 'it''s ' || 'so'")
INLINED = function("SELECT count(*) + b FROM moves WHERE id = a", arguments="a int, b int DEFAULT 100", returns="bigint", language="sql") + " STABLE"
PER_ROW = [
    (CHANGES, "SELECT f(id, 5) FROM accounts WHERE id < 4 ORDER BY id"), (CHANGES, "SELECT owner, f(id, 5), balance FROM accounts ORDER BY id DESC LIMIT 3"),
    (CHANGES, "SELECT m.n, a.*, f(a.id, m.n) AS called, m.note FROM accounts a JOIN moves m USING (id) WHERE m.n < 4 ORDER BY m.n"), (CHANGES, "SELECT f(id, 1), id, f(id, 2) FROM accounts WHERE id IN (3, 9) ORDER BY id"),
    (CHANGES, "SELECT *, f(id, 1) FROM accounts WHERE id IN (3, 9) ORDER BY balance"), (CHANGES, "SELECT f(id, 1) FROM accounts WHERE id > 10 ORDER BY id"), (CHANGES, "SELECT f(1, 2), f(2, 3) AS b, 'x' AS c"),
    (CHANGES, "SELECT f(g, 1) FROM generate_series(1, 3) g"), (CHANGES, "SELECT count(*), f(5, 1), sum(balance) FROM accounts"), (CHANGES, "SELECT owner, f(max(id), 1) FROM accounts GROUP BY owner ORDER BY owner"),
    (CHANGES, "SELECT f(id, 5) FROM accounts WHERE id > 1000"), (CHANGES, "SELECT f(kind, 5), name FROM kinds ORDER BY kind"), (CHANGES, "SELECT row_number() OVER (ORDER BY id DESC), f(id, 1) FROM accounts WHERE id < 3 ORDER BY id"),
    (CHANGES, "SELECT f((SELECT max(id) FROM accounts), 1), f(a => 1, b => 2)"), (CHANGES, "SELECT f(n, 1) FROM notes"), (CHANGES, "SELECT f(NULL, id) FROM accounts WHERE id < 3 ORDER BY id"), (CHANGES, "SELECT f('7', id::smallint) FROM accounts WHERE id < 3 ORDER BY id"),
    (READS, "SELECT id, f(id, 4) FROM accounts WHERE id < 8 ORDER BY id"), (READS, "SELECT f(id, 4) AS n, id FROM accounts a WHERE EXISTS (SELECT FROM moves m WHERE m.id = a.id) ORDER BY id"), (READS, "SELECT f(1, 2), f(3, 4)"),
    (SETS, "SELECT id, f(id, 40) FROM accounts WHERE id < 5 ORDER BY id"), (SETS, "SELECT f(id, 40) FROM accounts WHERE id > 20"),
    (NOTHING, "SELECT id, f(id, 1) FROM accounts WHERE id < 4 ORDER BY id"), (IN_SQL, "SELECT id, f(id, 77) FROM accounts WHERE id < 4 ORDER BY id"), (IN_SQL, "SELECT id, f(id + 100, 77) FROM accounts WHERE id < 4 ORDER BY id"),
    # By name, and by default.
    (CHANGES, "SELECT f(b => 5, a => id) FROM accounts WHERE id < 4 ORDER BY id"), (DEFAULTS, "SELECT f(id) FROM accounts WHERE id < 4 ORDER BY id"), (DEFAULTS, "SELECT f(a := 3), f(4, c => 'x')"), (DEFAULTS, "SELECT f()"),
    (DEFAULTS, "SELECT f(c => owner, a => id) FROM accounts WHERE id < 4 ORDER BY id"), (DEFAULTS, "SELECT f(1, 2, 'three')"), (DEFAULTS, "SELECT * FROM f(b => 4)"),
    (INLINED, "SELECT id, f(b => 1, a => id) FROM accounts WHERE id < 5 ORDER BY id"), (INLINED, "SELECT f(a => 3), (SELECT f(2)) + 1"), (INLINED, "SELECT id FROM accounts WHERE f(b => 0, a => id) > 1 ORDER BY id"),
    # Names of arguments are nobody's.
    (BIG, "SELECT id, f(owner, id) FROM accounts WHERE id < 4 ORDER BY id"), (BIG, "SELECT f(owner, id) FROM accounts ORDER BY owner DESC, id LIMIT 3"), (BIG, "SELECT f(note::varchar, right(note, -1)::int) FROM moves ORDER BY note LIMIT 3"), (BIG, "SELECT f('x', id::bigint) FROM moves ORDER BY id, n LIMIT 3"),
    (BIG, "SELECT f(a.owner, m.n) FROM accounts a LEFT JOIN moves m USING (id) ORDER BY id, m.n LIMIT 20"), (BIG, "SELECT owner AS f0, f(owner, 1), note FROM accounts LEFT JOIN moves USING (id) WHERE n < 7 ORDER BY n"),
]  # fmt: skip
# What returns is looked at, or it is not made once a row.
NOT_PER_ROW = [
    "SELECT f(id, 1) FROM accounts ORDER BY 1", "SELECT f(id, 1) AS x FROM accounts ORDER BY x", "SELECT id, f(id, 1) FROM accounts ORDER BY f", "SELECT DISTINCT f(id, 1) FROM accounts", "SELECT f(id, 1), count(*) FROM accounts GROUP BY 1, id",
    "SELECT f(id, 1) FROM accounts ORDER BY id OFFSET 2", "SELECT f(id, 1) FROM accounts UNION SELECT 1", "SELECT id FROM accounts WHERE f(id, 1) > 0", "SELECT f(id, 1) FROM accounts WHERE f(id, 2) > 0", "SELECT f(f(id, 1), 1) FROM accounts",
    "SELECT CASE WHEN id = 1 THEN f(id, 1) END FROM accounts", "SELECT f(id, 1) FROM accounts FOR UPDATE", "SELECT f(id, 1) INTO TEMP x FROM accounts", "WITH w AS (SELECT 1 AS id) SELECT f(id, 1) FROM w", "SELECT max(f(id, 1)) FROM accounts",
    "SELECT a.*, f(a.id, m.n), m.* FROM accounts a JOIN moves m USING (id)",
]  # fmt: skip


@pytest.fixture(scope="module")
def both(code_herd, one_server):
    connections = [psycopg.connect(server.conninfo, autocommit=True, prepare_threshold=None) for server in (code_herd.server, one_server)]
    for herd, connection in zip((True, False), connections):
        for sql in TABLES + (DISTRIBUTED if herd else ()):
            connection.execute(sql)
    yield connections
    for connection in connections:
        connection.execute("DROP SCHEMA p CASCADE")
        connection.close()


def _made_anew(connection):
    connection.execute("TRUNCATE accounts, moves, notes")
    connection.execute("DELETE FROM kinds")
    for sql in ROWS:
        connection.execute(sql)


def _said(connection, sql, parameters=None, binary=False):
    """Rows with their names and types, or the error; and the notices in front of it."""
    notices = []
    handler = lambda d: notices.append((d.severity, d.sqlstate, d.message_primary))  # noqa: E731
    connection.add_notice_handler(handler)
    try:
        cursor = connection.execute(sql, parameters, binary=binary)
        columns = [(c.name, c.type_code) for c in cursor.description or []]
        rows = cursor.fetchall() if cursor.description else None
        return cursor.statusmessage, columns, rows, notices
    except psycopg.Error as e:
        return e.sqlstate, e.diag.message_primary, e.diag.message_detail, e.diag.message_hint, notices
    finally:
        connection.remove_notice_handler(handler)


def _state(connection):
    return [connection.execute(sql).fetchall() for sql in STATE]


@pytest.mark.parametrize("name", CALLED)
def test_called(both, name):
    definition, calls = CALLED[name]
    for connection in both:
        connection.execute("DROP ROUTINE IF EXISTS f")
        connection.execute(definition)
        _made_anew(connection)
    for call in calls:
        herd, plain = (_said(connection, call) for connection in both)
        assert herd == plain, call
        assert _state(both[0]) == _state(both[1]), call


@pytest.mark.parametrize(("definition", "call"), PER_ROW, ids=[call for _, call in PER_ROW])
def test_called_for_each_row(both, definition, call):
    for connection in both:
        connection.execute("DROP ROUTINE IF EXISTS f")
        connection.execute(definition)
        _made_anew(connection)
    herd, plain = (_said(connection, call) for connection in both)
    assert herd == plain
    assert _state(both[0]) == _state(both[1])
    herd, plain = (_said(connection, call, (), True) for connection in both)
    assert herd == plain
    for connection in both:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    herd, plain = (_said(connection, call) for connection in both)
    assert herd == plain
    for connection in both:
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("call", NOT_PER_ROW)
def test_not_called_for_each_row(both, call):
    herd = both[0]
    herd.execute("DROP ROUTINE IF EXISTS f")
    herd.execute(CHANGES)
    _made_anew(herd)
    before = _state(herd)
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        herd.execute(call)
    assert _state(herd) == before


def test_what_comes_between_calls_is_not_taken_out(both):
    """Sets with LIMIT, what sees what the calls do, texts with a collation of their own, lengths of domains."""
    herd = both[0]
    herd.execute("DROP ROUTINE IF EXISTS g")
    herd.execute("CREATE SEQUENCE IF NOT EXISTS counted")
    herd.execute("CREATE DOMAIN three AS varchar(3)")
    herd.execute("CREATE OR REPLACE FUNCTION g(a int) RETURNS bigint STABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM notes) + (SELECT count(*) FROM moves WHERE id = a); END'")
    herd.execute("CREATE OR REPLACE FUNCTION t(a text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN DELETE FROM moves WHERE id = 1; RETURN a < ''a''; END'")
    herd.execute("CREATE OR REPLACE FUNCTION d(a three) RETURNS text LANGUAGE plpgsql AS 'BEGIN DELETE FROM moves WHERE id = 1; RETURN a; END'")
    _made_anew(herd)
    before = _state(herd)
    for definition, calls in {
        SETS: ["SELECT id, f(id, 40) FROM accounts ORDER BY id LIMIT 3", "SELECT f(id, 40) FROM accounts ORDER BY id FETCH FIRST 2 ROWS WITH TIES", "SELECT f(id, 40), generate_series(1, 2) FROM accounts"],
        CHANGES: [
            "SELECT f(id, 1), g(id) FROM accounts", "SELECT f(1, 1), g(1)", "SELECT f(id, 1), nextval('counted') FROM accounts", "SELECT f(1, 1), currval('counted')", "SELECT f(id, (random() * 9)::int) FROM accounts", "SELECT f(id, 1) FROM accounts WHERE random() < 2",
            "SELECT t(owner COLLATE \"C\") FROM accounts", "SELECT t('B' COLLATE \"C\")", "SELECT t(current_user)", "SELECT t(current_user) FROM accounts", "SELECT d('abcdef')", "SELECT d(owner) FROM accounts",
        ],
    }.items():
        herd.execute("DROP ROUTINE IF EXISTS f")
        herd.execute(definition)
        for call in calls:
            with pytest.raises((psycopg.errors.FeatureNotSupported, psycopg.errors.ObjectNotInPrerequisiteState)):
                herd.execute(call)
            assert _state(herd) == before, call
    herd.execute("DROP FUNCTION g, t, d; DROP DOMAIN three; DROP SEQUENCE counted")


def test_called_for_each_row_with_parameters(both):
    for connection in both:
        connection.execute("DROP ROUTINE IF EXISTS f")
        connection.execute(CHANGES)
        _made_anew(connection)
    for binary in (False, True):
        herd, plain = (_said(connection, "SELECT %s::text || owner, f(id, %s), id FROM accounts WHERE id < %s ORDER BY id", ("x", 3, 4), binary) for connection in both)
        assert herd == plain
        assert _state(both[0]) == _state(both[1])


@pytest.mark.parametrize("name", ["transfer", "handlers", "text", "sql", "an output", "blocks in blocks"])
def test_with_parameters_and_in_transactions(both, name):
    definition, calls = CALLED[name]
    for connection in both:
        connection.execute("DROP ROUTINE IF EXISTS f")
        connection.execute(definition)
        _made_anew(connection)
    first = "-" if name == "text" else 3
    for binary in (False, True):
        herd, plain = (_said(connection, "SELECT f(%s, %s)", (first, 7), binary) for connection in both)
        assert herd == plain
    herd, plain = (_said(connection, "SELECT f(%b, %b)", (first, 5), True) for connection in both)
    assert herd == plain and _state(both[0]) == _state(both[1])
    for end in ("ROLLBACK", "COMMIT"):
        for connection in both:
            connection.execute("BEGIN")
            connection.execute("UPDATE accounts SET balance = 77 WHERE id = 9")
        herd, plain = (_said(connection, calls[0]) for connection in both)
        assert herd == plain
        for connection in both:
            connection.execute("SAVEPOINT s")
        herd, plain = (_said(connection, calls[-1]) for connection in both)
        assert herd == plain
        for connection in both:
            connection.execute("ROLLBACK TO s")
            connection.execute(end)
        assert _state(both[0]) == _state(both[1]), end


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(both, name):
    for connection in both:
        _made_anew(connection)
    herd, plain = (_said(connection, BLOCKS[name]) for connection in both)
    assert herd == plain
    assert _state(both[0]) == _state(both[1])


def test_they_call_each_other(both):
    for connection in both:
        connection.execute("DROP ROUTINE IF EXISTS f")
        _made_anew(connection)
        connection.execute(function("DECLARE n int; BEGIN IF a = 0 THEN RETURN 0; END IF; UPDATE accounts SET balance = b WHERE id = a; n := f(a - 1, b); RETURN n + 1; END"))
    for call in ("SELECT f(5, 3)", "DO $$ BEGIN PERFORM f(2, 9); END $$"):
        herd, plain = (_said(connection, call) for connection in both)
        assert herd == plain, call
        assert _state(both[0]) == _state(both[1]), call
    assert _said(both[0], "SELECT f(1000, 1)")[0] == "54001"
    assert _state(both[0]) == _state(both[1])


# What may mean another thing than it looks like is not run, and nothing of it has been done.
REFUSED = {
    "statements that are in no transaction": function("BEGIN DELETE FROM accounts WHERE id = a; VACUUM accounts; RETURN 1; END"),
    "EXECUTE of such": function("BEGIN DELETE FROM accounts WHERE id = a; EXECUTE 'CREATE INDEX CONCURRENTLY ON accounts (at)'; RETURN 1; END"),
    "a name of both": function("DECLARE balance numeric := 1; BEGIN UPDATE accounts SET owner = 'x' WHERE id = a; RETURN (SELECT count(*) FROM accounts WHERE accounts.balance > balance); END"),
    "a table of its name": function("DECLARE accounts int := 1; BEGIN DELETE FROM accounts WHERE id = accounts; RETURN 1; END"),
    "an output of its name": function("BEGIN UPDATE moves SET note = 'x'; RETURN (SELECT n AS a FROM moves ORDER BY a LIMIT 1); END"),
    "a part": function("DECLARE x int[] := '{1,2}'; BEGIN DELETE FROM accounts WHERE id = a; x[1] := 5; RETURN 1; END"),
    "its owner's": function("BEGIN DELETE FROM accounts WHERE id = a; RETURN 1; END") + " SECURITY DEFINER",
    "settings": function("BEGIN DELETE FROM accounts WHERE id = a; RETURN 1; END") + " SET work_mem = '1MB'",
    "STABLE and changes": function("BEGIN DELETE FROM accounts WHERE id = a; RETURN 1; END") + " STABLE",
    "a column's implied name": function("DECLARE count int := 0; r record; BEGIN DELETE FROM accounts WHERE id = a; FOR r IN SELECT n % 3, count(*) FROM moves GROUP BY 1 ORDER BY count DESC, 1 LOOP NULL; END LOOP; RETURN 1; END"),
    "another path": function("BEGIN DELETE FROM moves WHERE id = a; PERFORM set_config('search_path', 'public, p', true); RETURN (SELECT count(*) FROM accounts WHERE id = b); END"),
}


def test_strings_with_backslashes_are_what_they_were_read_as(both):
    herd = both[0]
    herd.execute("DROP ROUTINE IF EXISTS f")
    herd.execute(function("BEGIN DELETE FROM accounts WHERE owner = 'a\\b'; RETURN 1; END"))
    _made_anew(herd)
    before = _state(herd)
    try:
        herd.execute("SET standard_conforming_strings = off")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="standard_conforming_strings"):
            herd.execute("SELECT f(1, 2)")
        assert _state(herd) == before
    finally:
        herd.execute("RESET standard_conforming_strings")
    assert herd.execute("SELECT f(1, 2)").fetchone() == (1,)



@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused(both, name):
    herd = both[0]
    herd.execute("DROP ROUTINE IF EXISTS f")
    herd.execute(REFUSED[name])
    _made_anew(herd)
    before = _state(herd)
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        herd.execute("SELECT f(1, 2)")
    assert _state(herd) == before


def test_rows_in_binary(both):
    """More than PostgreSQL is asked to write at once; and what a STABLE function reads is of one moment."""
    for connection in both:
        connection.execute("DROP ROUTINE IF EXISTS f")
        _made_anew(connection)
        connection.execute(function("BEGIN FOR n IN 1..a LOOP i := n; w := n * 1.5; at := DATE '2026-01-01' + n; RETURN NEXT; END LOOP; PERFORM FROM accounts; END", returns="TABLE (i int, w numeric, at date)"))
    herd, plain = (_said(connection, "SELECT * FROM f(%s, %s)", (1234, 1), True) for connection in both)
    assert herd == plain and len(herd[2]) == 1234


def test_a_stable_function_reads_one_moment(both, code_herd):
    herd = both[0]
    herd.execute("DROP ROUTINE IF EXISTS f")
    _made_anew(herd)
    herd.execute(function("DECLARE n int; m int; BEGIN SELECT count(*) INTO n FROM accounts; PERFORM pg_sleep(b); SELECT count(*) INTO m FROM accounts; RETURN m - n; END") + " STABLE")
    with psycopg.connect(code_herd.server.conninfo, autocommit=True) as other:
        import threading

        writer = threading.Timer(0.5, lambda: other.execute("INSERT INTO p.accounts SELECT g FROM generate_series(1000, 1020) g"))
        writer.start()
        assert herd.execute("SELECT f(1, 2)").fetchone() == (0,)
        writer.join()
    assert herd.execute("SELECT count(*) FROM accounts WHERE id >= 1000").fetchone() == (21,)
    herd.execute("BEGIN")
    try:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="READ COMMITTED"):
            herd.execute("SELECT f(1, 0)")
    finally:
        herd.execute("ROLLBACK")
    herd.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert herd.execute("SELECT f(1, 0)").fetchone() == (0,)
    herd.execute("COMMIT")


def test_who_may_not_call_it(both):
    herd = both[0]
    herd.execute("DROP ROUTINE IF EXISTS f")
    herd.execute(CALLED["sql"][0])
    herd.execute("REVOKE ALL ON FUNCTION f FROM PUBLIC")
    herd.execute("DROP ROLE IF EXISTS p_reader")
    herd.execute("CREATE ROLE p_reader")
    herd.execute("GRANT USAGE ON SCHEMA p TO p_reader")
    herd.execute("SET ROLE p_reader")
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="function f"):
            herd.execute("SELECT f(1, 2)")
        herd.execute("RESET ROLE")
        herd.execute("GRANT EXECUTE ON FUNCTION f TO p_reader")
        herd.execute("SET ROLE p_reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="accounts"):
            herd.execute("SELECT f(1, 2)")
    finally:
        herd.execute("RESET ROLE")
        herd.execute("DROP OWNED BY p_reader")
        herd.execute("DROP ROLE p_reader")


def test_who_may_not_use_the_schema_or_the_language(both):
    for connection in both:
        for sql in ("DROP ROLE IF EXISTS p_evil", "CREATE ROLE p_evil", "GRANT USAGE ON SCHEMA p TO p_evil", "GRANT ALL ON ALL TABLES IN SCHEMA p TO p_evil", "CREATE SCHEMA hidden",
                    "CREATE PROCEDURE hidden.pr(a int) LANGUAGE plpgsql AS $$ BEGIN UPDATE p.accounts SET owner = current_user WHERE id = a; END $$", "REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC"):
            connection.execute(sql)
        _made_anew(connection)
        connection.execute("SET ROLE p_evil")
    try:
        for sql in ("CALL hidden.pr(3)", "DO $$ BEGIN UPDATE p.accounts SET owner = 'lang' WHERE id = 7; END $$"):
            herd, plain = (_said(connection, sql) for connection in both)
            assert herd == plain and herd[0] == "42501", sql
    finally:
        for connection in both:
            for sql in ("RESET ROLE", "GRANT USAGE ON LANGUAGE plpgsql TO PUBLIC", "DROP SCHEMA hidden CASCADE", "DROP OWNED BY p_evil", "DROP ROLE p_evil"):
                connection.execute(sql)
    assert _state(both[0]) == _state(both[1])


def test_calls_are_what_postgresql_takes(both):
    for connection in both:
        connection.execute("DROP ROUTINE IF EXISTS f")
        connection.execute(procedure("BEGIN UPDATE accounts SET owner = 'c' WHERE id = a; END"))
        _made_anew(connection)
    for call in ("CALL f(1.5, 2)", "CALL f('1'::text, 2)", "CALL f((SELECT 1), 2)", "CALL f(generate_series(1, 1), 2)", "DO LANGUAGE sql $$ DELETE FROM accounts $$"):
        herd, plain = (_said(connection, call)[0] for connection in both)
        assert herd == plain, call
    assert _state(both[0]) == _state(both[1])


def test_explained_it_does_not_run_on_home_alone(both):
    herd = both[0]
    herd.execute("DROP ROUTINE IF EXISTS f")
    herd.execute(function("BEGIN UPDATE accounts SET owner = 'm' WHERE id = a; RETURN a; END"))
    for call in ("SELECT f(3, 1)", "SELECT * FROM f(3, 1)"):
        for how in ("EXPLAIN ANALYZE ", "EXPLAIN ", "CREATE TABLE p.made AS ", "DECLARE c CURSOR WITH HOLD FOR ", "COPY ({}) TO STDOUT"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                herd.execute(how.format(call) if "{}" in how else how + call)


@pytest.mark.parametrize("loop", ["WHILE true LOOP NULL; END LOOP;", "FOR i IN 1..2000000000 LOOP NULL; END LOOP;", "LOOP NULL; END LOOP;"])
def test_loops_are_cancelled(both, loop):
    import threading

    herd = both[0]
    timer = threading.Timer(1, herd.cancel)
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        herd.execute(f"DO $$ BEGIN UPDATE accounts SET owner = 'cc'; {loop} END $$")
    timer.join()


def test_a_loop_of_nothing_ends_in_time(both):
    herd = both[0]
    herd.execute("SET statement_timeout = '500ms'")
    try:
        with pytest.raises(psycopg.errors.QueryCanceled):
            herd.execute("DO $$ BEGIN PERFORM count(*) FROM accounts; LOOP NULL; END LOOP; END $$")
    finally:
        herd.execute("RESET statement_timeout")
