"""Functions of users' own that have a name of PostgreSQL's, which the router would answer itself, are called."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@pytest.mark.parametrize(
    ("made", "call", "value"),
    [
        ("pg_backend_pid() returns int language sql as 'select 42'", "code.pg_backend_pid()", 42),
        ("pg_terminate_backend(int) returns text language sql as 'select ''hi'''", "code.pg_terminate_backend(1)", "hi"),
        ("pg_cancel_backend(int) returns text language sql as 'select ''hi'''", "code.pg_cancel_backend(1)", "hi"),
        ("citus_version() returns text language sql as 'select ''hi'''", "code.citus_version()", "hi"),
        ("citus_version() returns text language sql as 'select ''hi'''", "citus_version()", "hi"),
    ],
)
def test_a_function_of_ones_own(db, made, call, value):
    db.run("SET search_path = code, public", f"CREATE FUNCTION code.{made}")
    assert db.one(f"SELECT {call}") == value
    assert db.one("SELECT pg_backend_pid()") != 42


_NOT_ALONE = [
    "SELECT citus_version() INTO nested",
    "CREATE TABLE nested AS SELECT citus_version()",
    "CREATE TABLE nested AS SELECT * FROM citus_version()",
    "SELECT length(citus_version())",
    "SELECT citus_version(), 1",
    "SELECT count(*) FROM citus_version()",
    "SELECT citus_version() LIMIT 0",
    "SELECT citus_version() ORDER BY 1",
    "SELECT citus_version() GROUP BY 1 HAVING false",
    "SELECT DISTINCT citus_version()",
    "SELECT citus_version() UNION SELECT 'x'",
    "WITH w AS (SELECT 1) SELECT citus_version()",
    "WITH w AS (SELECT citus_version()) SELECT * FROM w",
    "SELECT * FROM citus_version() WITH ORDINALITY",
    "SELECT v FROM citus_version() v (v)",
    "VALUES (citus_version())",
    "INSERT INTO l SELECT 900, length(citus_version())",
    "UPDATE l SET v = length(citus_version()) WHERE id = 1",
    "INSERT INTO l SELECT 901, 1 FROM create_distributed_table('l', 'id')",
    "SELECT create_distributed_table(relname, 'id') FROM pg_class WHERE relname = 'l'",
    "SELECT create_distributed_table('l', 'id') INTO nested",
    "SELECT create_distributed_table('l', 'id') WHERE false",
    "EXPLAIN ANALYZE SELECT create_distributed_table('l', 'id')",
    "COPY (SELECT create_distributed_table('l', 'id')) TO '/dev/null'",
    "COPY (SELECT citus_version()) TO STDOUT",
]


@pytest.mark.parametrize("sql", _NOT_ALONE)
@pytest.mark.parametrize("prepare", [False, True])
def test_what_routers_run_stands_alone(db, sql, prepare):
    """It is what the statement does, and not its first clause."""
    with db.herd.server.connect(autocommit=True) as connection:
        connection.execute("SET search_path = code, public")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=r"\(\) is run by the router, as a statement of its own"):
            connection.execute(sql, prepare=prepare)
    assert db.one("SELECT to_regclass('code.nested')") is None
    assert db.one("SELECT count(*) FROM herd.tables WHERE schema = 'code' AND name = 'l'") == 0
    assert db.one("SELECT count(*) FROM l WHERE id >= 900") == 0


@pytest.mark.parametrize("prepare", [False, True])
def test_its_column_has_the_name_that_is_asked_for(db, prepare):
    named = [("citus_version()", "citus_version"), ("* FROM citus_version()", "citus_version"), ("citus_version() AS v", "v"), ("* FROM citus_version() v", "v")]
    with db.herd.server.connect(autocommit=True) as connection:
        for what, column in named:
            cursor = connection.execute(f"SELECT {what}", prepare=prepare)
            assert [c.name for c in cursor.description] == [column]
            assert cursor.fetchone()[0].startswith("pgherd ")
