"""A message of a node may be of 1 GiB: a router passes long rows on as they come, counts what it must hold against `limits.row_bytes`, and keeps the beginning
of long errors and notices. Others go on meanwhile."""

import struct
import threading
import time

import psycopg
import pytest

from harness import processes, router
from protocol.raw import Raw

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("row-memory"), pytest.mark.timeout(500)]

_SESSION, _ALL = 24 << 20, 40 << 20
_LONG = 80_000_000
# Far below one copy of a long message.
_MORE = 50 << 20


@pytest.fixture(scope="module")
def made():
    nodes = [router.node(f"long{n}") for n in (1, 2)]
    home, other = map(router.conninfo, nodes)
    one = router.Router(home, [other], more=f"[limits]\nrow_bytes_per_session = {_SESSION}\nrow_bytes = {_ALL}\n")
    try:
        with one.server.connect() as boss:
            boss.execute("create table wide (id int primary key, v text)")
            boss.execute("select create_distributed_table('wide', 'id')")
            for key in range(1, 6):
                boss.execute(f"insert into wide values ({key}, repeat('x', {_LONG}))")
            boss.execute("create table whole (v text)")
            boss.execute(f"insert into whole values (repeat('x', {_LONG}))")
        yield one
    finally:
        for each in (one, *nodes):
            each.stop()


def _peak(made) -> int:
    return processes.peak_kib(made.process.pid) << 10


@pytest.fixture
def small(made):
    """The router grows by less than a long message meanwhile, and answers others at once."""
    with open(f"/proc/{made.process.pid}/clear_refs", "w") as refs:
        refs.write("5")
    before, done, waits = _peak(made), threading.Event(), []

    def others():
        with made.server.connect(autocommit=True) as other:
            while not done.is_set():
                began = time.monotonic()
                other.execute("select 1")
                waits.append(time.monotonic() - began)
                time.sleep(0.02)

    thread = threading.Thread(target=others)
    thread.start()
    yield
    done.set()
    thread.join()
    assert _peak(made) - before < _MORE, f"{(_peak(made) - before) >> 20} MiB more"
    assert max(waits) < 5


_FORWARDED = {
    "computed": f"select repeat('x', {_LONG})", "local": "select v from whole", "by key": "select v from wide where id = 3",
    "in a block": "select v from wide where id = 4", "cursor": "fetch all from c",
}


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("name", _FORWARDED)
def test_rows_are_passed_on(made, small, name, prepare):
    with made.server.connect(autocommit=True) as one:
        if name == "in a block":
            one.execute("begin")
        if name == "cursor":
            one.execute("begin")
            one.execute("declare c cursor for select v from whole")
            # By the extended protocol object ids are looked for in the rows.
            prepare = False
        rows = one.execute(_FORWARDED[name], prepare=prepare).fetchall()
        assert [len(v) for (v,) in rows] == [_LONG]
        assert one.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("query", [f"select repeat('x', {_LONG})", "select v from whole", "select v from wide where id = 5"])
def test_copy_is_passed_on(made, small, query):
    with made.server.connect(autocommit=True) as one:
        with one.cursor().copy(f"copy ({query}) to stdout") as copy:
            assert sum(len(piece) for piece in copy) == _LONG + 1
        assert one.execute("select 1").fetchone() == (1,)


def test_a_client_that_reads_nothing_costs_little(made, small):
    readers = [made.server.connect(autocommit=True) for _ in range(3)]
    try:
        for each in readers:
            each.pgconn.send_query(b"select v from whole")
            each.pgconn.flush()
        time.sleep(1.5)
    finally:
        for each in readers:
            each.pgconn.finish()


@pytest.mark.parametrize("sql", ["select v from wide order by v, id", "select count(*), max(v) from wide", "update wide set id = id + 100 returning v"])
def test_what_must_be_held_is_counted(made, small, sql):
    with made.server.connect(autocommit=True) as one:
        with pytest.raises(psycopg.errors.OutOfMemory) as refused:
            one.execute(sql)
        assert "row_bytes" in refused.value.diag.message_hint
        assert one.execute("select 1").fetchone() == (1,)
    with made.server.connect(autocommit=True) as one:
        assert one.execute("select count(*) from wide where id < 100").fetchone() == (5,)


def test_a_transaction_ends_with_it(made, small):
    with made.server.connect(autocommit=True) as one:
        one.execute("begin")
        one.execute("create table mine (a int)")
        with pytest.raises(psycopg.errors.OutOfMemory):
            one.execute("select v from wide order by v, id")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            one.execute("select 1")
        one.execute("rollback")
        assert one.execute("select to_regclass('mine')").fetchone() == (None,)


def test_function_calls_are_counted(made, small):
    with made.server.connect() as boss:
        function = boss.execute("select 'lo_get(oid)'::regprocedure::oid::int").fetchone()[0]
        large = boss.execute("select lo_creat(-1)").fetchone()[0]
        boss.execute(f"select lo_truncate64(lo_open({large}, 131072), {_LONG})")
    body = struct.pack("!ihhi", function, 0, 1, len(str(large))) + str(large).encode() + struct.pack("!h", 1)
    with Raw(made.server) as raw:
        raw.send(b"F" + struct.pack("!i", len(body) + 4) + body)
        said = raw.until_ready()
        assert any(kind == "E" and b"C53200" in message for kind, message in said), [kind for kind, _ in said]


@pytest.mark.parametrize("level", ["exception", "notice"])
@pytest.mark.parametrize("character", ["x", "ä", "€"])
def test_errors_and_notices_are_cut(made, small, level, character):
    heard = []
    with made.server.connect(autocommit=True) as one:
        one.add_notice_handler(lambda diag: heard.append(diag.message_primary))
        do = f"do $$ begin raise {level} '%', repeat('{character}', {_LONG // 2}) using detail = 'more'; end $$"
        if level == "notice":
            one.execute(do)
        else:
            with pytest.raises(psycopg.errors.RaiseException) as raised:
                one.execute(do)
            heard.append(raised.value.diag.message_primary)
        assert one.execute("select 1").fetchone() == (1,)
    (message,) = heard
    assert message.endswith("… (cut here)") and set(message[:-13]) == {character}
    assert 900_000 < len(message.encode()) < 1_100_000
