"""Rules of local tables answer as PostgreSQL's do: rows, tags and descriptions, by both protocols."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("code")]

_SETUP = [
    "drop schema if exists ruled cascade", "create schema ruled", "set search_path = ruled",
    "create table log (id int, v int)",
    "create table shown (id int primary key, v int)",
    "create rule r as on insert to shown do instead select new.id as a, 'instead' as b",
    "create table logged (id int primary key, v int)",
    "create rule r as on insert to logged do instead insert into log values (new.id, new.v) returning log.id, log.v",
    "create table also (id int primary key, v int)",
    "insert into also values (1, 1), (2, 2)",
    "create rule r as on update to also do also select 'also' as c, old.v",
    "create rule two as on update to also do also select 'two' as c",
    "create rule d as on delete to also do instead select count(*) from log",
    "create view seen as select * from shown",
    "create view kept as select * from log",
    "create rule v as on insert to kept do instead select new.v as only_seen",
    "create table plain (id int primary key, v int)",
]
_ASKED = [
    "insert into shown values (1, 2)", "insert into shown values (1, 2), (3, 4) -- two", "insert into shown select 5, 6;",
    "insert into logged values (5, 6)", "insert into logged values (7, 8) returning id",
    "update also set v = v + 1", "update also set v = v + 1 where id = 1 returning *", "delete from also where id = 1",
    "insert into seen values (1, 2)", "insert into kept values (8, 9)", "insert into shown values (1 / 0, 2)",
    "insert into plain values (1, 1)", "begin", "update also set v = v + 1", "insert into shown values (1, 2)", "rollback",
    "select * from also order by id", "select * from log order by id",
]


def _answers(connection, by_simple: bool) -> list:
    """Each result a statement gives: status, tag, columns, rows."""
    told = []
    for sql in _ASKED:
        pg = connection.pgconn
        (pg.send_query if by_simple else lambda text: pg.send_query_params(text, None))(sql.encode())
        results = []
        while (result := pg.get_result()) is not None:
            columns = [(result.fname(c), result.ftype(c)) for c in range(result.nfields)]
            rows = [[result.get_value(r, c) for c in range(result.nfields)] for r in range(result.ntuples)]
            error = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
            results.append((result.status, result.command_status, columns, rows, error))
        told.append((sql, results))
    return told


@pytest.mark.parametrize("by_simple", [True, False])
def test_rows_of_rules(code_herd, one_server, by_simple):
    told = []
    for server in (one_server, code_herd.server):
        with server.connect() as connection:
            for sql in _SETUP:
                connection.execute(sql)
            told.append(_answers(connection, by_simple))
            connection.execute("drop schema ruled cascade")
    for ours, theirs in zip(told[1], told[0], strict=True):
        assert ours == theirs
    assert any(b"instead" in row for _, results in told[1] for r in results for row in r[3]) == by_simple
