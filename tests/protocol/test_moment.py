"""now() is one moment for a transaction over several nodes, as it is on one PostgreSQL."""

import psycopg
import pytest

_MAKE = (
    "drop schema if exists moment cascade",
    "create schema moment",
    "set search_path = moment",
    "create table ev (k int, ts timestamptz default now(), n int, d timestamp(3) default localtimestamp(3))",
    "create table ref (k int primary key, ts timestamptz default now(), n int)",
    "create table loc (k int, ts timestamptz default now())",
    "create table names (k int, w text)",
)
_DISTRIBUTE = (
    "select create_distributed_table('moment.ev', 'k')",
    "select create_distributed_table('moment.names', 'k')",
    "select create_reference_table('moment.ref')",
)
ONE_BY_ONE = "; ".join(f"insert into ev (k, n) values ({k}, 1)" for k in range(1, 9))
# Each is a list of messages; the answers of the last one are compared, and the others' counts.
PROGRAMS = {
    "defaults by key": ["begin", *ONE_BY_ONE.split("; "), "insert into ev (k, n) values (10, 2), (11, 2), (12, 2)"],
    "a string": [ONE_BY_ONE],
    "DEFAULT and DEFAULT VALUES": [
        "begin",
        *(f"insert into ev values ({k}, default, 1)" for k in range(1, 9)),
        "insert into ref (k) values (1)",
        "insert into loc values (1)",
        "insert into loc default values",
    ],
    "first over several nodes": ["begin", "insert into ev (k, n) values (1, 1), (2, 1), (3, 1), (4, 1)", *ONE_BY_ONE.split("; ")],
    "written out": [
        "begin",
        *(f"insert into ev (k, ts) values ({k}, now())" for k in range(1, 5)),
        *(f"insert into ev (k, ts) select {k}, current_timestamp" for k in range(5, 9)),
        *(f"insert into ev (k, ts) values ({k}, transaction_timestamp()) returning k" for k in range(9, 12)),
    ],
    "other than VALUES": [
        "begin",
        "insert into ev (k, n) values (1, 1)",
        "insert into ev (k, n) select g, g from generate_series(2, 30) g",
        "insert into ref (k, n) select g, g from generate_series(2, 9) g",
        "insert into ev (k, n) select k + 100, n from ev where k < 9",
        "insert into ev (k, n) select 200, 1 union all select 201, 2 union select 202, 3",
        "insert into loc (k) select k from ev",
    ],
    "UPDATE": [
        "insert into ev (k, ts, n, d) select g, '2020-01-01', g, '2020-01-01' from generate_series(1, 20) g",
        "insert into ref (k, ts, n) select g, '2020-01-01', g from generate_series(1, 20) g",
        "begin",
        *(f"update ev set ts = now() where k = {k}" for k in range(1, 7)),
        *(f"update ev set ts = default where k = {k}" for k in range(7, 12)),
        "update ev set ts = default where n > 15",
        "update ref set ts = now() where k = 3",
        "update ev set n = n + 1 where ts = now()",
        *(f"update ev set n = n + 100 where k = {k} and ts = now()" for k in range(1, 9)),
        *(f"delete from ev where k = {k} and ts = now()" for k in range(5, 9)),
        "insert into ref values (3) on conflict (k) do update set ts = default, n = -1",
        "merge into ref using (values (4), (40)) v (k) on v.k = ref.k when matched then update set ts = default when not matched then insert (k) values (v.k)",
    ],
    "before a block": ["insert into ev (k, n) values (1, 1); begin", *ONE_BY_ONE.split("; ")],
    "savepoints": [
        "begin",
        "insert into ev (k, n) values (1, 1)",
        "savepoint s",
        *ONE_BY_ONE.split("; "),
        "rollback to s",
        *ONE_BY_ONE.split("; "),
    ],
    "repeatable read": ["begin isolation level repeatable read", *ONE_BY_ONE.split("; ")],
    "odd texts": [
        "begin",
        *(f"insert into ev (k, ts, n) values ({k}, now() at time zone 'UTC' at time zone 'UTC', length('now()'))" for k in range(1, 9)),
        *(f"with w as (select {k} as k, now() as t) insert into ev (k, ts) select k, t from w" for k in range(11, 19)),
    ],
}
_LOOKS = (
    "select count(*), count(distinct ts), count(distinct d), bool_and(ts = now()) from ev",
    "select count(*), count(distinct ts), bool_and(d::timestamp(3) = localtimestamp(3)) from ev where ts = now()",
    "select count(*) from ref where ts = now()",
    "select count(*) from loc where ts = now()",
    "select count(*) from ev e join ref r on e.ts = r.ts and e.k = r.k",
    "select k, ts = now(), n, now() = current_timestamp, current_date = now()::date from ev where k = 1 order by n",
    "select k, ts = now(), n, localtime = now()::time, current_timestamp(0) = now()::timestamptz(0) from ev where k = 2 order by n",
    "select k, ts = now(), n from ev where k = 3 order by n",
    "select k, x.now = ts, n from (select now()) x, ev where k = 4 order by n",
    "select count(*) filter (where ts = now()) from ev where k = 5",
    "select count(*) from ev where k = 6 and ts <= all (select now())",
    "select count(*) from ev, now() t where k = 7 and ts = t",
)


def _run(server, program, distribute=()):
    seen = []
    with server.connect() as connection:
        for sql in (*_MAKE, *distribute):
            connection.execute(sql)
        for sql in program:
            cursor = connection.execute(sql)
            seen.append((sql, cursor.statusmessage))
        for sql in _LOOKS:
            cursor = connection.execute(sql)
            seen.append((sql, [c.name for c in cursor.description], [c.type_code for c in cursor.description], cursor.fetchall()))
            cursor = connection.execute(sql + " -- $1" if "%" in sql else sql, prepare=True, binary=True)
            seen.append((sql, [c.name for c in cursor.description], cursor.fetchall()))
        if program[-1] != ONE_BY_ONE and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("commit")
    return seen


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_as_on_one_server(herd, oracle, name):
    program = PROGRAMS[name]
    ours, theirs = _run(herd, program, _DISTRIBUTE), _run(oracle, program)
    for our, their in zip(ours, theirs, strict=True):
        assert our == their


def test_with_parameters(herd, oracle):
    def run(server, distribute):
        seen = []
        with server.connect() as connection:
            for sql in (*_MAKE, *distribute):
                connection.execute(sql)
            with connection.transaction():
                for k in range(1, 9):
                    connection.execute("insert into ev (k, n) values (%s, %s)", (k, k), prepare=True)
                    connection.execute("insert into ev (k, ts, n) values (%s, now(), %s)", (k, k), prepare=True)
                for k in range(1, 9):
                    sql = "select count(*), min(n) as now, now() = ts from ev where k = %s and ts = now() group by ts"
                    cursor = connection.execute(sql, (k,), prepare=True)
                    seen.append(([c.name for c in cursor.description], cursor.fetchall()))
                seen.append(connection.execute("select count(*), count(distinct ts) from ev where ts = now() and n > %s", (2,)).fetchall())
            for k in range(1, 4):
                with connection.pipeline():
                    for j in range(1, 9):
                        connection.execute("insert into ev (k, n) values (%s, %s)", (j, 100 + k), prepare=True)
            seen.append(connection.execute("select n, count(*), count(distinct ts) from ev where n > 100 group by n order by n").fetchall())
        return seen

    assert run(herd, _DISTRIBUTE) == run(oracle, ())


def test_moments_are_the_first_nodes(herd):
    """What the router cannot replace agrees with it where a transaction stays on one node."""
    with herd.connect() as connection:
        for sql in (*_MAKE, *_DISTRIBUTE):
            connection.execute(sql)
        with connection.transaction():
            connection.execute("insert into ev (k) values (1)")
            connection.execute("insert into ev (k) values (2), (3), (4), (5)")
            connection.execute("select count(*) from ev where ts = now()")
            assert connection.execute("select count(*) from ev where k = 1 and ts = 'now'").fetchone() == (1,)


AGAIN = 8
WORDS = {
    "one node, by parameters": ("insert into ev (k, ts) values (%s, 'now')", (1,)),
    "one row of many clients'": ("insert into names (k, w) values (%s, 'now'::timestamptz::text)", (1,)),
    "a local table": ("insert into loc (k, ts) values (%s, 'now')", (1,)),
    "all nodes": ("insert into seen select 'now'::timestamptz, count(*) from ev where ts <= 'now'", None),
    "all nodes, by parameters": ("insert into seen select 'now'::timestamptz, count(*) from ev where n = %s", (1,)),
}


@pytest.mark.parametrize("what", WORDS)
def test_words_are_read_with_each_statement(herd, what):
    """Nodes keep statements prepared for all clients: 'now' in them would stay the moment at which the first of them came."""
    sql, parameters = WORDS[what]
    with herd.connect() as connection:
        for statement in _MAKE:
            connection.execute(statement)
        for statement in _DISTRIBUTE:
            connection.execute(statement)
        connection.execute("create table seen (ts timestamptz, n int)")
        for _ in range(AGAIN):
            connection.execute(sql, parameters, prepare=False)
        tables = ("select ts::text from ev", "select w from names", "select ts::text from loc", "select ts::text from seen")
        found = [row for table in tables for row in connection.execute(table).fetchall()]
        assert len(found) == AGAIN and len(set(found)) == AGAIN, found
        connection.execute("drop schema moment cascade")


def test_reads_are_of_their_own_moment(herd):
    """The same text again and again, over several nodes."""
    with herd.connect() as connection:
        for statement in (*_MAKE, *_DISTRIBUTE, "insert into ev (k, n) select g, g from generate_series(1, 20) g"):
            connection.execute(statement)
        read = "select 'now'::timestamptz::text, count(*) from ev"
        found = [connection.execute(read).fetchone() for _ in range(AGAIN)]
        assert len({moment for moment, _ in found}) == AGAIN and {n for _, n in found} == {20}, found
        connection.execute("drop schema moment cascade")


@pytest.mark.parametrize("sql", ["select k, random() as r from ev order by r", "select k, random() as r from ev order by 2 desc limit 30", "select 1, random() from ev order by random()"])
def test_what_is_seen_is_what_is_sorted_by(herd, sql):
    with herd.connect() as connection:
        for statement in (*_MAKE, *_DISTRIBUTE, "insert into ev (k, n) select g, g from generate_series(1, 200) g"):
            connection.execute(statement)
        found = [r for _, r in connection.execute(sql).fetchall()]
        assert found == sorted(found, reverse="desc" in sql) and len(found) in (30, 200)
        connection.execute("drop schema moment cascade")
