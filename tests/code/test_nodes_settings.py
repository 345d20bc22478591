"""What a node's configuration, its roles or its database set means nothing for values: every connection has what home has."""

import contextlib

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

# Each makes another text of values, or reads a text as another value.
ODD = {
    "datestyle": "German, DMY",
    "intervalstyle": "sql_standard",
    "timezone": "Asia/Tokyo",
    "extra_float_digits": "-3",
    "bytea_output": "escape",
    "array_nulls": "off",
}
ASK = "SELECT id, f, t, i, b, w, f::text, t::text, i::text, b::text, '2024-01-01 12:00'::timestamptz::text, '{NULL}'::text[] IS NULL FROM %s ORDER BY id"


@contextlib.contextmanager
def set_on(servers, how):
    """`how`: what stands before SET."""
    for server in servers:
        server.run(*(f"{how} SET {name} = '{value}'" if "," not in value else f"{how} SET {name} = {value}" for name, value in ODD.items()), "SELECT pg_reload_conf()", "SELECT pg_sleep(0.3)")
    try:
        yield
    finally:
        for server in servers:
            server.run(*(f"{how} RESET {name}" for name in ODD), "SELECT pg_reload_conf()", "SELECT pg_sleep(0.3)")


ROWS = "SELECT n, 0.1::float8 + n / 7.0, '2024-07-01 12:00+00'::timestamptz, '-1 day 02:03:04'::interval, '\\x00ff'::bytea, array[null, 'NULL'] FROM generate_series(1, 20) n"
COLUMNS = "(id int, f float8, t timestamptz, i interval, b bytea, w text[])"


def filled(run):
    run(f"CREATE TABLE plain {COLUMNS}", f"INSERT INTO plain {ROWS}")
    for name in ("a", "b"):
        run(f"CREATE TABLE {name} {COLUMNS}", f"SELECT create_distributed_table('{name}', 'id', colocate_with => 'none')")
    run(f"INSERT INTO a {ROWS}")


HOW = ["ALTER SYSTEM", "ALTER ROLE postgres", "ALTER DATABASE postgres"]


@pytest.mark.parametrize("how", HOW)
def test_nodes_that_differ_are_made_equal(db, code_herd, how):
    with set_on(code_herd.node_servers[1:], how), code_herd.server.connect() as c:
        run = lambda *statements: [c.execute(sql) for sql in statements]
        run("SET search_path = code")
        filled(run)
        same = c.execute(ASK % "plain").fetchall()
        assert c.execute(ASK % "a").fetchall() == same
        # Rows that move, are stored elsewhere, and are put together.
        run("INSERT INTO b SELECT id + 1, f, t, i, b, w FROM a", "UPDATE b SET id = id - 1")
        assert c.execute(ASK % "b").fetchall() == same
        run("CREATE TABLE m AS SELECT * FROM a", "SELECT create_distributed_table('m', 'id')")
        assert c.execute(ASK % "m").fetchall() == same
        assert c.execute("SELECT count(*) FROM (SELECT DISTINCT f, t, i, b, w FROM a) s, plain p WHERE s.f = p.f AND s.w = p.w").fetchone() == (20,)
        run("RESET ALL", "SET search_path = code")
        assert c.execute(ASK % "a").fetchall() == same


@pytest.mark.parametrize("how", HOW)
def test_homes_settings_count_everywhere(db, code_herd, how):
    filled(db.run)
    home = code_herd.node_servers[0]
    with set_on([home] if how == "ALTER SYSTEM" else [code_herd.server], how):
        with home.connect() as alone, code_herd.server.connect() as c:
            for connection in (alone, c):
                connection.execute("SET search_path = code")
            for name in ODD:
                shown = alone.execute(f"SHOW {name}").fetchone()
                assert c.execute(f"SHOW {name}").fetchone() == shown
                assert c.execute(f"SELECT DISTINCT current_setting('{name}') FROM a").fetchall() == [shown]
            assert c.info.parameter_status("TimeZone") == "Asia/Tokyo"
            texts = "SELECT id, f::text, t::text, i::text, b::text FROM %s ORDER BY id"
            assert c.execute(texts % "a").fetchall() == alone.execute(texts % "plain").fetchall()
            # Values would not arrive as they are.
            for sql in ("INSERT INTO b SELECT id + 1, f, t, i, b, w FROM a", "UPDATE a SET id = id + 1"):
                with pytest.raises(psycopg.errors.FeatureNotSupported):
                    c.execute(sql)
            # Which create_distributed_table() sees to.
            c.execute("CREATE TABLE m AS SELECT * FROM plain")
            c.execute("SELECT create_distributed_table('m', 'id')")
    db.run("RESET ALL", "SET search_path = code")
    with code_herd.server.connect() as c:
        c.execute("SET search_path = code")
        same = c.execute("SELECT id, f, t, i, b, w FROM plain ORDER BY id").fetchall()
        assert c.execute("SELECT id, f, t, i, b, w FROM m ORDER BY id").fetchall() == same
