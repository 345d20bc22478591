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
