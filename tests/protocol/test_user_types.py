"""Object ids of users' own types: whatever node rows come from, the client sees home's, in descriptions and in binary arrays."""

import struct

import pytest

from protocol.frames import bind, close, execute, parse, query, sync
from protocol.raw import Raw
from psycopg import pq


@pytest.fixture(scope="module")
def moods(herd_many):
    herd, others = herd_many.server, herd_many.node_servers[1:]
    for node in others:
        # So that object ids are not the same by chance.
        node.run("create schema if not exists ut_apart", "create type ut_apart.ut_other as enum ('a', 'b', 'c')")
    herd.run(
        "create type ut_mood as enum ('sad', 'happy')",
        "create table ut (k int primary key, m ut_mood, ms ut_mood[])",
        "create table ut_plain (k int primary key)",
        "select create_distributed_table('ut', 'k')",
        "select create_distributed_table('ut_plain', 'k')",
        "insert into ut select n, 'sad', '{sad,happy}' from generate_series(1, 20) n",
        "insert into ut_plain select n from generate_series(1, 20) n",
    )
    yield herd
    herd.run("drop table ut, ut_plain", "drop type ut_mood")
    for node in others:
        node.run("drop schema ut_apart cascade")


@pytest.fixture
def connection(moods):
    connection = pq.PGconn.connect(moods.conninfo.encode())
    assert connection.status == pq.ConnStatus.OK, connection.error_message
    yield connection
    connection.finish()


def ask(connection, sql: str):
    result = connection.exec_(sql.encode())
    assert result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK), result.error_message
    return result


@pytest.fixture
def home(connection) -> tuple[int, int, int]:
    """Object ids of the type, of its array, of the table."""
    found = ask(connection, "select 'ut_mood'::regtype::oid, 'ut_mood[]'::regtype::oid, 'ut'::regclass::oid")
    return tuple(int(found.get_value(0, i)) for i in range(3))


def shown(result) -> list[tuple[int, int]]:
    return [(result.ftype(i), result.ftable(i)) for i in range(result.nfields)]


KEYS = range(1, 21)


@pytest.mark.real_herd
def test_cursors_show_home_types(connection, home):
    mood, array, table = home
    for k in KEYS:
        ask(connection, "begin")
        ask(connection, f"declare c cursor for select m, ms from ut where k = {k}")
        assert shown(ask(connection, "fetch 1 from c")) == [(mood, table), (array, table)]
        assert ask(connection, "move backward all from c").nfields == 0
        prepared = connection.prepare(b"f", b"fetch 1 from c")
        assert prepared.status == pq.ExecStatus.COMMAND_OK, prepared.error_message
        assert shown(connection.describe_prepared(b"f")) == [(mood, table), (array, table)]
        assert shown(connection.describe_portal(b"c")) == [(mood, table), (array, table)]
        got = connection.exec_prepared(b"f", [], result_format=1)
        assert shown(got) == [(mood, table), (array, table)]
        assert struct.unpack_from(">i", got.get_value(0, 1), 8) == (mood,)
        ask(connection, "rollback")
        ask(connection, "deallocate f")


@pytest.mark.real_herd
def test_a_cursor_s_expressions_have_home_types(connection, home):
    for k in KEYS:
        ask(connection, "begin")
        ask(connection, f"declare c cursor for select 'sad'::ut_mood, k from ut_plain where k = {k}")
        found = ask(connection, "fetch 1 from c")
        assert found.ftype(0) == home[0] and found.ftype(1) == 23
        ask(connection, "rollback")


@pytest.mark.real_herd
def test_reads_of_one_row_show_home_types(connection, home):
    mood, array, table = home
    for k in KEYS:
        # Simple statements name a partition, on home too: the table is not compared.
        assert [of for of, _ in shown(ask(connection, f"select m, ms from ut where k = {k}"))] == [mood, array]
        assert [of for of, _ in shown(ask(connection, f"select m as k, ms as m from ut where k = {k}"))] == [mood, array]
        assert ask(connection, f"select 'sad'::ut_mood from ut_plain where k = {k}").ftype(0) == mood
        got = connection.exec_params(b"select ms from ut where k = $1", [str(k).encode()], result_format=1)
        assert shown(got) == [(array, table)] and struct.unpack_from(">i", got.get_value(0, 0), 8) == (mood,)


@pytest.mark.real_herd
def test_portals_with_row_limits_show_home_types(moods, home):
    with Raw(moods) as raw:
        raw.send(query("begin"))
        raw.until_ready()
        for k in KEYS:
            raw.send(parse(f"select ms from ut where k = {k} union all select ms from ut where k = {k}") + bind(portal="p", results=(1,)) + execute("p", 1) + execute("p", 0) + close("P", "p") + sync())
            rows = [body for kind, body in raw.until_ready() if kind == "D"]
            # A number of columns, a length, dimensions and flags go before the element's type.
            assert [struct.unpack_from(">i", row, 2 + 4 + 8) for row in rows] == [(home[0],), (home[0],)]


@pytest.mark.real_herd
def test_composite_values_tell_home_types(moods, connection):
    """Clients look up the types of fields by what binary values say of them."""
    moods.run(
        "create type ut_pair as (m ut_mood, n int, ms ut_mood[])", "create domain ut_pairs as ut_pair[]",
        "create table ut_rows (k int primary key, o ut_pair, os ut_pairs)", "select create_distributed_table('ut_rows', 'k')",
        "insert into ut_rows select n, row('sad', 70000, '{sad,NULL}')::ut_pair, array[row('happy', null, '{{sad},{happy}}')::ut_pair, null]::ut_pair[] from generate_series(1, 20) n",
    )  # fmt: skip
    try:
        oids = ask(connection, "select " + ", ".join(f"'{t}'::regtype::oid" for t in ("ut_mood", "ut_mood[]", "ut_pair", "ut_pairs")))
        mood, array, pair, pairs = (struct.pack(">I", int(oids.get_value(0, i))) for i in range(4))
        for sql, holds in (("select o, os from ut_rows where k = $1", (mood, array)), ("select ut_rows from ut_rows where k = $1", (mood, array, pair, pairs)), ("select array[o] from ut_rows where k = $1", (mood, array, pair))):
            seen = set()
            for k in KEYS:
                got = connection.exec_params(sql.encode(), [str(k).encode()], result_format=1)
                assert got.status == pq.ExecStatus.TUPLES_OK, got.error_message
                value = b"|".join(got.get_value(0, i) for i in range(got.nfields))
                assert all(oid in value for oid in holds)
                seen.add(value.replace(struct.pack(">i", 4) + struct.pack(">i", k), b"k"))
            assert len(seen) == 1, seen
        whole = connection.exec_params(b"select o, os from ut_rows", [], result_format=1)
        assert len({(whole.get_value(i, 0), whole.get_value(i, 1)) for i in range(whole.ntuples)}) == 1
    finally:
        moods.run("drop table ut_rows", "drop domain ut_pairs", "drop type ut_pair")


@pytest.mark.real_herd
def test_records_tell_home_types_or_are_refused(moods, connection, home):
    """Nobody has declared a record's fields."""
    own, plain = "select row(m, 1)", "select row(1, row('a'::text, array[row(1)]))"
    mood = struct.pack(">I", home[0])
    for where in ("where k = {}",):
        for k in KEYS:
            got = connection.exec_params(f"{own} from ut {where.format(k)}".encode(), [], result_format=1)
            if got.status == pq.ExecStatus.TUPLES_OK:
                assert got.ntuples and all(mood in got.get_value(i, 0) for i in range(got.ntuples))
            else:
                assert got.error_field(pq.DiagnosticField.SQLSTATE) == b"0A000", got.error_message
            got = connection.exec_params(f"{plain} from ut {where.format(k)}".encode(), [], result_format=1)
            assert got.status == pq.ExecStatus.TUPLES_OK and got.ntuples, got.error_message
            got = connection.exec_params(f"{own} from ut {where.format(k)}".encode(), [], result_format=0)
            assert got.status == pq.ExecStatus.TUPLES_OK and got.ntuples, got.error_message


@pytest.mark.real_herd
def test_sorted_rows_tell_home_types(connection, home):
    got = connection.exec_params(b"select ms from ut order by k", [], result_format=1)
    assert got.ntuples == 20 and {got.get_value(i, 0)[8:12] for i in range(20)} == {struct.pack(">I", home[0])}


@pytest.mark.real_herd
def test_what_is_refused_is_not_written(connection):
    for k in KEYS:
        got = connection.exec_params(f"update ut set m = 'happy' where k = {k} returning row(m)".encode(), [], result_format=1)
        happy = ask(connection, f"select 1 from ut where k = {k} and m = 'happy'").ntuples
        assert (got.status == pq.ExecStatus.TUPLES_OK) == (happy == 1)
        ask(connection, f"update ut set m = 'sad' where k = {k}")


@pytest.mark.real_herd
def test_binary_copy_tells_no_nodes_ids(moods):
    import psycopg

    with moods.connect() as connection:
        for source in ("ut", "ut (ms)", "(select ms from ut)", "(select row(m) from ut)", *(f"(select ms from ut where k = {k})" for k in KEYS)):
            try:
                with connection.cursor() as cursor, cursor.copy(f"copy {source} to stdout (format binary)") as copy:
                    data = b"".join(copy)
                mood = connection.execute("select 'ut_mood'::regtype::oid::int").fetchone()[0]
                assert struct.pack(">I", mood) in data
            except psycopg.errors.FeatureNotSupported:
                pass
        with connection.cursor() as cursor, cursor.copy("copy ut (k, m) to stdout (format binary)") as copy:
            assert b"happy" not in b"".join(copy)
        with connection.cursor() as cursor, cursor.copy("copy ut to stdout") as copy:
            assert len(b"".join(copy).splitlines()) == 20
