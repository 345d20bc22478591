"""EXECUTE's arguments, as on one server: one value each, of the parameters' types."""

import psycopg
import pytest

_PREPARED = {
    "one value in an update": [
        "prepare p(text) as update sx_spread set v = $1 where k < 10", "execute p(gen_random_uuid()::text)", "select count(distinct v) from sx_spread where k < 10",
    ],
    "one value in a row": ["prepare p(int) as insert into sx_spread values (500 + $1 * 0, $1::text), (501, $1::text)", "execute p(nextval('sx_values')::int)",
                           "select count(distinct v) from sx_spread where k >= 500", "select currval('sx_values') = (select v::int from sx_spread where k = 501)"],
    "one value for each row read": ["prepare p(float8) as select count(distinct $1) from sx_spread", "execute p(random())", "prepare q(float8) as select count(distinct $1) from sx_local", "execute q(random())"],
    "a moment": ["prepare p(timestamptz) as select count(distinct $1), count(*) from sx_spread", "execute p('now')", "execute p(clock_timestamp())", "execute p('today')"],
    "varchar(3)": ["prepare p(varchar(3)) as insert into sx_spread values (600, $1) returning v", "execute p('abcdef')"],
    "char": ["prepare p(char) as select $1 || '|', 'abc' = $1", "execute p('abc')"],
    "char(2)": ["prepare p(char(2)) as select $1 || '|'", "execute p('abc')"],
    "numeric(5,1)": ["prepare p(numeric(5,1)) as select $1, k from sx_spread where k = 3", "execute p(12.3456)"],
    "timestamp(0)": ["prepare p(timestamp(0)) as select $1", "execute p('2024-01-01 10:00:00.75')"],
    "bit(2)": ["prepare p(bit(2)) as select $1", "execute p(b'10101')"],
    "arrays": ["prepare p(varchar(2)[], int[]) as select $1, $2, count(*) from sx_spread where k = any($2)", "execute p('{abc,de}', '{1,2,3}')", "execute p(array['abc'], array[1 + 1])"],
    "names of columns": ["prepare p(int, text) as select $1, $2::text, $1 + 1, coalesce($2, 'x'), k, $1 as own, (select $2) from sx_spread where k = $1", "execute p(3, 'a')", "execute p(1 + 2, lower('A'))"],
    "null": ["prepare p(int) as select $1 is null, k from sx_spread where k = 4", "execute p(null)", "execute p(nullif(1, 1))"],
    "negative": ["prepare p(int, numeric) as select $1, $2", "execute p(-5, -5.50)", "execute p(- (5), -(-5.5))"],
    "an error": ["prepare p(int) as select $1", "execute p(1 / 0)", "execute p('x')", "execute p(1, 2)"],
    "not declared": ["prepare p as select k from sx_spread where k = $1", "execute p(length('abc'))"],
    "explained": ["prepare p(int) as select k from sx_spread where k = $1 and false", "explain (costs off, analyze, timing off, summary off, buffers off) execute p(nextval('sx_values')::int)", "select currval('sx_values') > 0"],
}


@pytest.fixture
def made(oracle, herd):
    for server in (oracle, herd):
        server.run(
            "drop table if exists sx_spread, sx_local", "drop sequence if exists sx_values", "create table sx_spread (k int, v text)", "create table sx_local (k int)",
            "create sequence sx_values", "insert into sx_spread select g, g from generate_series(1, 20) g", "insert into sx_local select generate_series(1, 5)",
        )
    herd.run("select create_distributed_table('sx_spread', 'k')")


@pytest.mark.parametrize("name", _PREPARED)
def test_execute(made, oracle, herd, name):
    def said(server):
        lines = []
        with server.connect(autocommit=True) as connection:
            for sql in _PREPARED[name]:
                try:
                    cursor = connection.execute(sql)
                    shown = [c.name for c in cursor.description or []]
                    rows = cursor.fetchall() if cursor.description and "explain" not in sql else cursor.statusmessage
                    lines.append((sql, shown if "explain" not in sql else None, rows if "$1, count" not in sql else None))
                except psycopg.Error as e:
                    lines.append((sql, e.sqlstate, e.diag.message_primary))
        return lines

    assert said(herd) == said(oracle)


def test_what_may_leave_something_behind_is_refused(made, herd):
    with herd.connect(autocommit=True) as connection:
        connection.execute("prepare p(text) as select $1")
        for argument in ("set_config('work_mem', '5MB', false)", "pg_advisory_lock(3)::text"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(f"execute p({argument})")
        assert connection.execute("execute p('x')").fetchone() == ("x",)
