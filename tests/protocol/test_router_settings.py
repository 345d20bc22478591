"""The router's own settings are part of the transaction, as PostgreSQL's are: SET, SET LOCAL, savepoints, start of the session."""

import psycopg
import pytest

# Each with a setting of PostgreSQL's of the same kind, which both servers do the same with.
_SAME = "enable_memoize"
_RUNS = [
    ["begin", "set N = off", "show N", "rollback", "show N"],
    ["begin", "set N = off", "commit", "show N", "reset N", "show N"],
    ["begin", "set local N = off", "show N", "commit", "show N"],
    ["begin", "set N = off", "set local N = on", "show N", "commit", "show N"],
    ["begin", "set local N = off", "set N = on", "show N", "rollback", "show N"],
    ["begin", "savepoint s", "set N = off", "rollback to s", "show N", "commit", "show N"],
    ["begin", "set N = off", "savepoint s", "reset N", "show N", "rollback to s", "show N", "commit", "show N"],
    ["begin", "savepoint a", "set N = off", "release a", "savepoint b", "rollback to b", "show N", "commit", "show N"],
    ["set N = off", "begin", "reset N", "show N", "rollback", "show N"],
    ["set local N = off", "show N"],
    ["set N = off; select 1 / 0", "show N"],
    ["set N = off; show N", "show N"],
    ["set N = off", "discard all", "show N"],
    ["set N = off", "reset all", "show N"],
    ["begin", "set N = off", "select 1 / 0", "commit", "show N"],
    ["set N = maybe", "show N"],
]


def _said(server, name, run, **kwargs):
    lines = []
    notices = []
    with server.connect(autocommit=True, **kwargs) as connection:
        connection.add_notice_handler(lambda d: notices.append((d.severity, d.sqlstate, d.message_primary)))
        for sql in run:
            try:
                cursor = connection.execute(sql.replace("N", name))
                lines.append((sql, cursor.fetchall() if cursor.description else cursor.statusmessage))
            except psycopg.Error as e:
                lines.append((sql, e.sqlstate))
    return lines, notices


@pytest.mark.parametrize("run", _RUNS, ids="; ".join)
@pytest.mark.parametrize("name", ["herd.two_phase", "herd.coalesce"])
def test_as_postgresqls(oracle, herd, name, run):
    assert _said(herd, name, run) == _said(oracle, _SAME, run)


@pytest.mark.parametrize("run", [["show N", "set N = on", "show N", "reset N", "show N"], ["set N = on", "discard all", "show N"]], ids="; ".join)
def test_what_the_client_starts_with(oracle, herd, run):
    """PGOPTIONS, and what its role has, is what RESET leads back to."""
    assert _said(herd, "herd.two_phase", run, options="-c herd.two_phase=off") == _said(oracle, _SAME, run, options=f"-c {_SAME}=off")
    with herd.connect() as connection:
        connection.execute("drop role if exists rs_starts")
        connection.execute("create role rs_starts login superuser")
        connection.execute("alter role rs_starts set herd.two_phase = off")
    try:
        assert _said(herd, "herd.two_phase", run, user="rs_starts") == _said(oracle, _SAME, run, options=f"-c {_SAME}=off")
    finally:
        herd.run("drop role rs_starts")
    with pytest.raises(psycopg.OperationalError, match='invalid value for parameter "herd.two_phase": "perhaps"'):
        herd.connect(options="-c herd.two_phase=perhaps")


def test_a_local_upsert_ends_with_its_transaction(herd):
    herd.run("drop table if exists rs_rows", "create table rs_rows (k int primary key, v text)")
    herd.run("select create_distributed_table('rs_rows', 'k')", "insert into rs_rows values (1, 'first')")
    with herd.connect(autocommit=True) as connection:
        with connection.transaction():
            connection.execute("set local herd.upsert = on")
            connection.execute("insert into rs_rows values (1, 'second')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("insert into rs_rows values (1, 'third')")
        assert connection.execute("select * from rs_rows").fetchall() == [(1, "second")]


@pytest.mark.parametrize("sql, values", [("select set_config('herd.upsert', 'on', false)", ()), ("select set_config(%s, 'on', false)", ("herd.upsert",))])
def test_set_config_would_do_nothing(herd, sql, values):
    with herd.connect() as connection, pytest.raises(psycopg.errors.FeatureNotSupported) as e:
        connection.execute(sql, values)
    assert e.value.diag.message_hint == "Use SET herd.upsert."
