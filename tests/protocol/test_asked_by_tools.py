"""What tools and drivers ask a session for: EXPLAIN as a document and with parameters, its prepared statements, RESET ALL anywhere."""

import json
import xml.etree.ElementTree as ET

import psycopg
import pytest

pytestmark = pytest.mark.timeout(120)

_ALL = "select v, count(*) from ask group by v"


@pytest.fixture(scope="module")
def made(oracle, herd_many):
    for server in (oracle, herd_many.server):
        server.run("drop table if exists ask", "create table ask (k int primary key, v int, at timestamptz)", "create index on ask (v)")
    herd_many.server.run("select create_distributed_table('ask', 'k')")
    for server in (oracle, herd_many.server):
        server.run("insert into ask select g, g % 3 from generate_series(1, 30) g")
    yield oracle, herd_many.server
    for server in (oracle, herd_many.server):
        server.run("drop table ask")


def _below(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from _below(child)


@pytest.mark.parametrize("options", ["format json", "analyze, format json", "format json, costs off, verbose"])
def test_explain_is_a_document(made, options):
    with made[1].connect() as connection:
        cursor = connection.execute(f"explain ({options}) {_ALL}")
        assert cursor.description[0].type_code == psycopg.adapters.types["json"].oid
        ((document,),) = cursor.fetchall()
    (whole,) = document
    plans = list(_below(whole["Plan"]))
    assert all(plan["Node Type"] for plan in plans)
    nodes = [plan for plan in plans if plan["Node Type"] == "Node"]
    assert len(nodes) == 2 and all(node["Statement"] and node["Plans"] for node in nodes)
    assert whole["Plan"]["Shards of ask"].endswith("of 32")
    if "analyze" in options:
        assert whole["Plan"]["Actual Rows"] == 3 and whole["Execution Time"] > 0


def test_other_formats(made):
    with made[1].connect() as connection:
        ((text,),) = connection.execute(f"explain (format xml) {_ALL}").fetchall()
        root = ET.fromstring(text)
        name = "{http://www.postgresql.org/2009/explain}"
        assert root.tag == name + "explain" and len(list(root.iter(name + "Statement"))) == 2
        ((text,),) = connection.execute(f"explain (format yaml) {_ALL}").fetchall()
        assert text.startswith("- Plan: \n    Node Type: \"Herd scatter\"\n") and text.count("- Node Type: \"Node\"") == 2
        for wrong in ("explain (format toml) ", "explain (format 'JSON') "):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                connection.execute(wrong + _ALL)


@pytest.mark.parametrize("binary", [False, True])
def test_explain_with_parameters(made, binary):
    """The statement is explained with the values that were sent."""
    with made[1].connect() as connection:
        cursor = connection.cursor(binary=binary)
        ((one,),) = cursor.execute("explain (format json) select * from ask where k = %s and v = %s", (7, 1)).fetchall()
        assert "7" in json.dumps(one) and len(one) == 1
        ((several,),) = cursor.execute("explain (format json) select * from ask where v = %b and at is distinct from %t", (2, None)).fetchall()
        texts = [plan["Statement"] for plan in _below(several[0]["Plan"]) if plan["Node Type"] == "Node"]
        assert len(texts) == 2 and all("2" in text and "$" not in text for text in texts), texts
        lines = [line for (line,) in cursor.execute("explain (analyze, costs off) update ask set v = %s where k = %s", (1, 7))]
        assert any("Update on" in line for line in lines)
        lines = [line for (line,) in cursor.execute("explain select %s::text, %s::int[]", ("it's", [1, 2]))]
        assert lines


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("kind", ["", "temp "])
def test_create_table_as_with_parameters(made, binary, kind):
    seen = []
    for server in made:
        with server.connect() as connection:
            cursor = connection.cursor(binary=binary)
            status = cursor.execute(f"create {kind}table asked as select k, %s::text as t, %s::int + v as n from ask where v = %s", ("it's $1", 5, 2)).statusmessage
            seen.append((status, sorted(connection.execute("select k, t, n from asked")), [c.type_code for c in connection.execute("select * from asked").description]))
            connection.execute("drop table asked")
    assert seen[0] == seen[1] and len(seen[0][1]) == 10


def test_prepared_statements_are_the_sessions(made):
    asked = (
        "select name, statement, parameter_types::text, from_sql, prepare_time between now() - interval '1 minute' and clock_timestamp() + interval '1 minute' "
        "from pg_prepared_statements s where name not like '\\_pg3%' order by 1"
    )
    def said(server):
        with server.connect() as connection:
            connection.prepare_threshold = None
            seen = [connection.execute(asked).fetchall()]
            connection.execute("prepare one as select * from ask where k = $1")
            connection.execute("prepare two(int, text) as insert into ask values ($1, length($2))")
            connection.execute("PREPARE  three AS  table ask")
            connection.pgconn.prepare(b"mes", b"select v from ask where k = $1 and at < $2")
            seen.append(connection.execute(asked).fetchall())
            seen.append(connection.execute("select count(*) from pg_catalog.pg_prepared_statements where name = 'one'").fetchall())
            connection.execute("deallocate one")
            with connection.transaction():
                seen.append(connection.execute(asked).fetchall())
            connection.execute("deallocate all")
            seen.append(connection.execute(asked).fetchall())
        with server.connect() as another:
            seen.append(another.execute(asked).fetchall())
        return seen

    assert said(made[1]) == said(made[0])
    assert len(said(made[1])[1]) == 4


# What is read beside the session's own view, or of another relation of that name.
_BESIDE = {
    "a distributed table": ["select count(*), count(distinct k), max(name) from ask, pg_prepared_statements where name = 'mine'"],
    "a sampled table": ["create table asked as select 1 as a", "select count(*) from asked tablesample system (100), pg_prepared_statements where name = 'mine'", "drop table asked"],
    "a join": ["select k, p.name from ask join pg_prepared_statements p on length(p.name) = k"],
    "a subquery": ["select k from ask where k = (select count(*) from pg_catalog.pg_prepared_statements where name = 'mine') or k in (select length(name) from pg_prepared_statements where from_sql)"],
    "lateral": ["select k, n from ask, lateral (select name || k as n from pg_prepared_statements p where from_sql and k < 3) s order by k"],
    "twice": ["select count(*) from pg_prepared_statements a, pg_prepared_statements b, ask where a.name = 'mine' and b.name = 'mine'"],
    "a query of that name": ["with pg_prepared_statements as (select k, v from ask) select count(*), sum(k) from pg_prepared_statements"],
    "a query of that name, recursive": ["with recursive pg_stat_activity(n) as (select 1 union all select n + 1 from pg_stat_activity where n < 5) select sum(n), (select count(*) from ask) from pg_stat_activity"],
    "a temporary table of that name": ["create temp table pg_prepared_statements as select 7 as mine", "select * from pg_prepared_statements", "select count(*) from pg_catalog.pg_prepared_statements where name = 'mine'"],
    "a table that comes first": [
        "create schema asking", "create table asking.pg_prepared_statements as select 8 as mine", "select count(*) from pg_prepared_statements where name = 'mine'",
        "set search_path = asking, pg_catalog, public", "select * from pg_prepared_statements", "set search_path = pg_catalog, asking", "select count(*) from pg_prepared_statements where name = 'mine'",
        "drop schema asking cascade",
    ],
    "writes": [
        "create table asked (n text)", "insert into asked select name from pg_prepared_statements where from_sql", "select * from asked",
        "update asked set n = n || p.name from pg_prepared_statements p where p.name = n", "select * from asked",
        "delete from asked where (select count(*) from pg_prepared_statements where name = 'mine') = 1", "select * from asked", "drop table asked",
    ],
    "tables made of it": [
        "create table asked as select name from pg_prepared_statements where from_sql", "select * from asked", "drop table asked",
        "select name, from_sql into asked from pg_prepared_statements where from_sql", "select * from asked", "drop table asked",
    ],
    "copied": ["copy (select name, parameter_types from pg_prepared_statements where from_sql) to stdout"],
    "a cursor": ["begin", "declare c cursor for select name from pg_prepared_statements where from_sql", "fetch all from c", "commit"],
    "prepared": ["prepare mine2 as select count(*) from pg_prepared_statements where from_sql", "execute mine2", "deallocate mine2"],
    "explained": ["explain (costs off) select 1 from pg_prepared_statements where false"],
    "who is here": ["select count(*) from ask, pg_stat_activity where pid = pg_backend_pid()", "select count(*) from ask join pg_stat_activity a on a.query like '%here%' and a.pid = pg_backend_pid() and usename = current_user"],
}


@pytest.mark.parametrize("case", _BESIDE)
@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
def test_what_is_read_beside_it(made, case, extended):
    def said(server):
        seen = []
        factory = psycopg.Cursor if extended else psycopg.ClientCursor
        with server.connect() as connection:
            connection.prepare_threshold = None
            connection.execute("prepare mine as select * from ask where k = $1")
            for sql in _BESIDE[case]:
                if sql.startswith("copy"):
                    with connection.cursor().copy(sql) as copy:
                        seen.append(sorted(bytes(row) for row in copy))
                    continue
                cursor = factory(connection).execute(sql)
                rows = cursor.description and [tuple(str(value) for value in row) for row in cursor]
                seen.append((cursor.statusmessage, rows and (sorted(rows) if "explain" not in sql else len(rows) > 0), [c.name for c in cursor.description or []]))
        return seen

    assert said(made[1]) == said(made[0])


def _sums(made):
    with made[1].connect() as connection:
        return connection.execute("select count(*), sum(v) from ask").fetchall()


def test_what_writes_beside_it_is_not_left_to_one_node(made):
    """What can't be planned changes nothing."""
    before = _sums(made)
    statement = "with gone as (delete from ask returning k) select count(*) from gone, pg_prepared_statements"
    for read in ("pg_prepared_statements", "pg_stat_activity", "herd.sessions", "herd.locks"):
        with made[1].connect(autocommit=False) as connection:
            try:
                connection.execute(statement.replace("pg_prepared_statements", read))
                assert connection.execute("select count(*) from ask").fetchone() == (0,)
            except psycopg.errors.FeatureNotSupported:
                pass
            connection.rollback()
    assert _sums(made) == before


def test_the_last_option_counts(made):
    """EXPLAIN (ANALYZE false, ANALYZE true) runs the statement."""
    with made[1].connect(autocommit=False) as connection:
        for options, runs in (("analyze false, analyze true", True), ("analyze, analyze off", False)):
            connection.execute(f"explain ({options}) delete from ask")
            assert connection.execute("select count(*) from ask").fetchone() == (0 if runs else 30,)
            connection.rollback()


def test_what_is_signalled_is_computed_once(made):
    with made[1].connect() as connection:
        connection.execute("create sequence signalled")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="volatile"):
            connection.execute("select pg_terminate_backend((nextval('signalled') * 0)::int - 5)")
        assert connection.execute("select is_called from signalled").fetchone() == (False,)
        connection.execute("drop sequence signalled")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="TABLESAMPLE"):
            connection.execute("select * from herd.sessions tablesample system (10)")


def test_views_of_the_herd_beside_tables(made):
    with made[1].connect() as connection:
        assert connection.execute("select count(*) from ask, herd.sessions where pid = pg_backend_pid()").fetchone() == (30,)
        assert connection.execute("select count(*) from ask where (select count(*) from herd.sessions where pid = pg_backend_pid()) = 1").fetchone() == (30,)
        connection.execute("create temp table seen as select pid from herd.sessions where pid = pg_backend_pid()")
        assert connection.execute("select count(*) from seen").fetchone() == (1,)
        for view in ("herd.sessions", "pg_prepared_statements"):
            for make in ("create view looking as", "create materialized view looking as"):
                with pytest.raises(psycopg.errors.FeatureNotSupported, match="a view that reads"):
                    connection.execute(f"{make} select * from {view}")


_SETTINGS = ("work_mem", "search_path", "application_name", "timezone", "my.own", "role")
_BLOCKS = {
    "committed": ["set work_mem = '5MB'", "begin", "set search_path = pg_catalog", "set local timezone = 'UTC'", "reset all", "show", "commit", "show"],
    "rolled back": ["set work_mem = '5MB'", "set my.own = 'a'", "begin", "set application_name = 'x'", "reset all", "show", "rollback", "show"],
    "to a savepoint": ["set my.own = 'a'", "begin", "set work_mem = '6MB'", "savepoint s", "reset all", "show", "rollback to s", "show", "commit", "show"],
    "with a statement of several nodes": ["set work_mem = '5MB'", "begin", "select count(*) from ask", "reset all", "show", "select count(*) from ask where v = 1", "commit", "show"],
    "who one is": ["set role pg_monitor", "begin", "reset all", "show", "commit", "show", "reset role"],
    "in a string": ["set work_mem = '5MB'", "select 1; reset all; set my.own = 'b'", "show"],
}


@pytest.mark.parametrize("block", _BLOCKS)
def test_reset_all(made, block):
    def said(server):
        seen = []
        with psycopg.connect(server.url, autocommit=True, cursor_factory=psycopg.ClientCursor, application_name="ask") as connection:
            for sql in _BLOCKS[block]:
                if sql == "show":
                    seen.append([connection.execute("select nullif(current_setting(%s, true), '')", (name,)).fetchone() for name in _SETTINGS])
                else:
                    seen.append(connection.execute(sql).statusmessage)
        return seen

    assert said(made[1]) == said(made[0])


def test_reset_all_reaches_the_routers_own(made):
    with made[1].connect() as connection:
        connection.execute("set herd.coalesce = off")
        connection.execute("begin")
        connection.execute("reset all")
        assert connection.execute("show herd.coalesce").fetchone() == ("on",)
        connection.execute("rollback")
        assert connection.execute("show herd.coalesce").fetchone() == ("off",)
        with connection.transaction():
            connection.execute("reset all")
        assert connection.execute("show herd.coalesce").fetchone() == ("on",)
