"""Random functions: those that may be distributed by an argument give what one server does. SEED and FUNCTIONS set the run."""

import os
import random

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(300)]

_SEED, _FUNCTIONS = int(os.environ.get("SEED", "0")), int(os.environ.get("FUNCTIONS", "60"))
_ROWS = (
    "INSERT INTO d SELECT g, g, 'd' FROM generate_series(1, 40) g",
    "INSERT INTO r SELECT g, g, 'r' FROM generate_series(1, 30) g",
    "INSERT INTO e SELECT g % 40 + 1, g, g FROM generate_series(1, 200) g",
)


def _condition(rnd, names, depth=0):
    """Over the tables of these names; many say what a key is, and of which table."""
    keys = [f"{name}.id" for name in names] + ["p", "$1"]
    if rnd.random() >= 0.55 and depth <= 2:
        sides = [_condition(rnd, names, depth + 1) for _ in range(2)]
        both = f"({sides[0]} {rnd.choice(['AND', 'AND', 'AND', 'OR'])} {sides[1]})"
        return f"NOT {both}" if rnd.random() < 0.08 else both
    kind = rnd.random()
    if kind < 0.6:
        return f"{rnd.choice(keys)} = {rnd.choice(keys)}"
    if kind < 0.7:
        return f"{rnd.choice(keys)} IN ({rnd.choice(keys)}, {rnd.choice(keys)})"
    if kind < 0.8:
        return f"{rnd.choice(names)}.v % 3 <> {rnd.randint(0, 2)}"
    inner = _condition(rnd, [*names, "x"], depth + 1)
    if kind < 0.9:
        return f"EXISTS (SELECT FROM {rnd.choice('der')} x WHERE {inner})"
    return f"{rnd.choice(names)}.id = (SELECT min(x.id) FROM {rnd.choice('de')} x WHERE {inner})"


def _joined(rnd, depth):
    names, text = [], ""
    for i in range(rnd.randint(1, 3)):
        name, table = f"t{depth}{i}", rnd.choice("dedeer")
        if rnd.random() < 0.2:
            table = f"(SELECT s.id, s.v FROM {table} s WHERE {_condition(rnd, ['s'], 1)})"
        if not names:
            text = f"{table} {name}"
        elif rnd.random() < 0.85:
            kind = rnd.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN"])
            text += f" {kind} {table} {name} ON {names[-1]}.id = {name}.id AND {_condition(rnd, [*names, name], 1)}"
        else:
            text += f" CROSS JOIN {table} {name}"
        names.append(name)
    return names, text


def _query(rnd, depth=0):
    kind = rnd.random() if depth == 0 else 1
    if kind < 0.15:
        return (f"WITH c AS (SELECT d.id, d.v FROM d WHERE {_condition(rnd, ['d'], 1)}) "
                f"SELECT count(*) + coalesce(sum(c.v), 0) FROM c JOIN e ON c.id = e.id WHERE {_condition(rnd, ['c', 'e'], 1)}")
    names, text = _joined(rnd, depth)
    where = f" WHERE {_condition(rnd, names)}" if rnd.random() < 0.95 else ""
    query = f"SELECT count(*) + coalesce(sum({rnd.choice(names)}.v), 0) AS x FROM {text}{where}"
    return f"SELECT sum(u.x)::bigint FROM ({query} UNION ALL {_query(rnd, 1)}) u" if kind < 0.3 else query


def _answer(connection, value):
    try:
        return connection.execute(f"SELECT f({value})").fetchone()[0]
    except psycopg.Error as e:
        return e.sqlstate


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_taken_gives_what_one_server_does(db, one_server, seed):
    rnd = random.Random(_SEED * 1000 + seed)
    db.run("CREATE TABLE e (id int, n int, v int)", "SELECT create_distributed_table('e', 'id', colocate_with => 'd')", _ROWS[2])
    taken = 0
    with one_server.connect() as plain:
        for sql in ("DROP SCHEMA IF EXISTS code CASCADE", "CREATE SCHEMA code", "SET search_path = code",
                    "CREATE TABLE d (id int, v int, w text)", "CREATE TABLE r (id int, v int, w text)",
                    "CREATE TABLE e (id int, n int, v int)", *_ROWS):
            plain.execute(sql)
        for _ in range(_FUNCTIONS):
            query = _query(rnd)
            language, body = rnd.choice([
                ("sql", query), ("plpgsql", f"DECLARE z bigint; BEGIN z := ({query}); RETURN z; END")])
            function = f"CREATE OR REPLACE FUNCTION f(p int) RETURNS bigint LANGUAGE {language} STABLE AS $$ {body} $$"
            try:
                plain.execute(function)
            except psycopg.Error:
                continue
            db.run(function)
            try:
                db.run("SELECT create_distributed_function('f(int)', 'p')")
            except psycopg.errors.FeatureNotSupported:
                continue
            taken += 1
            for value in (1, 7, 33, 100):
                assert _answer(db.connection, value) == _answer(plain, value), (value, function)
    assert taken > _FUNCTIONS // 20
