"""What rows take that wait in a router is limited, for one session and for all: no client takes the memory of others."""

import threading
import time
import urllib.request

import psycopg
import pytest

from harness import ports, router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("row-memory"), pytest.mark.timeout(500)]

_SESSION, _ALL = 24 << 20, 40 << 20


@pytest.fixture(scope="module")
def made():
    nodes = [router.node(f"rows{n}") for n in (1, 2)]
    metrics = ports.free_row(1)
    more = f'metrics = "127.0.0.1:{metrics}"\n[limits]\nrow_bytes_per_session = {_SESSION}\nrow_bytes = {_ALL}\nspool_bytes = 0\n'
    home, other = map(router.conninfo, nodes)
    one = router.Router(home, [other], more=more)
    one.metrics = metrics
    try:
        with one.server.connect() as boss:
            boss.execute("create role plain login")
            boss.execute("grant create on schema public to plain")
            boss.execute("create table wide (id int primary key, v text)")
            boss.execute("select create_distributed_table('wide', 'id')")
            boss.execute("grant all on wide to plain")
            boss.execute("create table single (id int, v text)")
            boss.execute("grant all on single to plain")
        yield one
    finally:
        for each in (one, *nodes):
            each.stop()


def _fill(made, rows: int) -> None:
    with made.server.connect() as boss:
        boss.execute("truncate wide")
        boss.execute("insert into wide select g, repeat('x', 1000) || g from generate_series(1, %d) g" % rows)


def _taken(made) -> int:
    page = urllib.request.urlopen(f"http://127.0.0.1:{made.metrics}/metrics", timeout=30).read().decode()
    return next(int(line.split()[1]) for line in page.splitlines() if line.startswith("herd_row_bytes "))


def _given_back(made) -> None:
    deadline = time.monotonic() + 60
    while _taken(made) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _taken(made) == 0


def _resident(made) -> int:
    with open(f"/proc/{made.process.pid}/statm") as pages:
        return int(pages.read().split()[1]) * 4096


def _refused(connection, statement) -> None:
    with pytest.raises(psycopg.errors.OutOfMemory) as refused:
        statement(connection)
    assert "limits.row_bytes" in refused.value.diag.message_hint


_LARGE = "select md5(string_agg(v, ',' order by v)), count(*) from wide"


def test_what_is_more_than_may_be_sent_to_nodes_comes_home(made):
    """Outside of a transaction reading ends at once, inside of one the rows are passed over; then home joins them."""
    _fill(made, 30_000)
    query = "select count(*), sum(length(a.v)) from wide a join wide_too b on b.v = a.v where b.id % 2 = 0"
    with made.server.connect() as boss:
        boss.execute("create table wide_too (id int primary key, v text)")
        boss.execute("select create_distributed_table('wide_too', 'id')")
        boss.execute("insert into wide_too select * from wide")
        boss.execute("analyze")
        expected = boss.execute("select count(*), sum(length(v)) from wide where id % 2 = 0").fetchone()
        boss.execute("set herd.broadcast = on")
        assert any(" go to the nodes of " in row[0] for row in boss.execute(f"explain {query}").fetchall())
        for begin, end in (("select 1", "select 1"), ("begin", "commit"), ("begin isolation level repeatable read", "commit")):
            boss.execute(begin)
            for _ in range(2):
                assert boss.execute(query).fetchone() == expected
            assert boss.execute("select count(*) from wide_too").fetchone() == (30_000,)
            boss.execute(end)
        boss.execute("drop table wide_too")
    _given_back(made)


def test_what_can_be_put_into_a_table_is(made):
    """More than a session may take is finished all the same, after plain SETs inside the transaction, too."""
    _fill(made, 60_000)
    with made.server.connect(user="plain") as one:
        plain = one.execute(_LARGE).fetchone()
        one.execute("begin")
        one.execute("set local work_mem = '5MB'")
        one.execute("set local search_path = public, pg_temp")
        one.execute("set enable_sort = off")
        assert one.execute(_LARGE).fetchone() == plain
        one.execute("rollback")
        # What was set there is nobody else's.
        assert one.execute("show enable_sort").fetchone() == ("on",)
    with made.server.connect(user="plain") as other:
        for _ in range(5):
            assert other.execute("select count(*), min(current_setting('work_mem')) from wide").fetchone()[1] == "4MB"
    _given_back(made)


def test_what_cannot_is_limited(made):
    _fill(made, 60_000)
    before = _resident(made)
    with made.server.connect(user="plain") as one:
        one.execute("begin")
        # A connection beside the transaction would not know its table.
        one.execute("create table mine (id int)")
        _refused(one, lambda c: c.execute(_LARGE))
        one.execute("rollback")
        _refused(one, lambda c: c.execute("update wide set id = id + 100000 returning v"))
        _refused(one, lambda c: c.execute("insert into wide select id + 100000, v from wide returning v"))
        _refused(one, lambda c: c.execute("update single set v = w.v from wide w where w.id = single.id"))
        _refused(one, lambda c: c.execute("delete from wide where v in (select v || 'x' from wide)"))
        _refused(one, lambda c: c.execute("merge into wide t using (select id + 100000 as id, v from wide) s on t.id = s.id when not matched then insert values (s.id, s.v)"))
        with pytest.raises(psycopg.errors.OutOfMemory), one.cursor().copy("copy (update wide set id = id + 100000 returning v) to stdout") as copy:
            for _ in copy:
                pass
        # What is read goes on as it comes.
        with one.cursor().copy("copy (select v from wide order by v) to stdout") as copy:
            copied = [row[0] for row in copy.rows()]
        assert len(copied) == 60_000 and copied == sorted(copied)
        # A cursor holds what it has read ahead, unless its rows are to outlive their transaction.
        one.execute("begin; declare c cursor for select v from wide order by v")
        assert len(one.execute("fetch 100 from c").fetchall()) == 100
        one.execute("rollback")
        _refused(one, lambda c: c.execute("declare c cursor with hold for select v from wide order by v"))
        one.execute("rollback")

        def unfinished(connection):
            with connection.cursor().copy("copy wide from stdin") as copy:
                copy.write("1000000\t")
                for _ in range(60):
                    copy.write("y" * (1 << 20))
                    time.sleep(0.001)

        _refused(one, unfinished)
        # It goes on, and so does everybody.
        assert one.execute("select count(*) from wide").fetchone() == (60_000,)
    _given_back(made)
    assert _resident(made) - before < 250 << 20


def test_many_sessions_share_what_there_is(made):
    _fill(made, 11_000)
    # Until it is cancelled.
    hold = "select count(*), (select pg_sleep(60)) is null from (select v from wide order by v offset 1) x"
    with made.server.connect(user="plain") as one, made.server.connect(user="plain") as two:
        for number, each in enumerate((one, two)):
            each.execute("begin")
            each.execute(f"create table own_{number} (id int)")
        holding = threading.Thread(target=lambda: pytest.raises(psycopg.errors.QueryCanceled, one.execute, hold))
        holding.start()
        deadline = time.monotonic() + 60
        while _taken(made) < _ALL / 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        with pytest.raises(psycopg.errors.OutOfMemory) as refused:
            two.execute(hold)
        assert "raise limits.row_bytes in" in refused.value.diag.message_hint
        one.cancel()
        holding.join()
        two.execute("rollback")
        one.execute("rollback")
    _given_back(made)


def test_portals_with_names_are_counted(herd):
    """Their parameters stay until they are closed."""
    from protocol.frames import bind, parse, query, sync
    from protocol.raw import Raw

    large = b"x" * 20_000_000
    with Raw(herd) as raw:
        raw.transcript(query("begin") + parse("select length($1::text)", name="s") + sync(), 2)
        codes = []
        for n in range(30):
            raw.send(bind(large, statement="s", portal=f"p{n}") + sync())
            codes += [dict((f[:1], f[1:]) for f in body.decode().split("\0") if f)["C"] for kind, body in raw.until_ready() if kind == "E"]
            if codes:
                break
        assert codes == ["53200"] and n > 5
        assert raw.transcript(query("rollback") + query("select 1"), 2)[-1] == "Z I"


def _copied(connection, rows: int) -> None:
    with connection.cursor().copy("copy talks (id) from stdin") as copy:
        for i in range(rows):
            copy.write_row((i + 100_000,))


_TALKS = {
    "copy": (_copied, 0),
    "insert": (lambda c, rows: c.execute("insert into talks select g, null from generate_series(1, %d) g" % rows), 0),
    # Its rows go as batches, each of which answers as one.
    "batches": (lambda c, rows: c.execute("insert into talks select g, null from generate_series(1, %d) g on conflict do nothing" % rows), 1),
}


@pytest.mark.parametrize("how", _TALKS)
def test_what_triggers_say_is_told_as_it_comes(made, how):
    """A client's notices wait in the router no longer than it takes to tell them; what comes faster is limited, and the client is told."""
    run, left_out = _TALKS[how]
    rows, size = 3000, 100_000
    with made.server.connect() as boss:
        boss.execute("drop table if exists talks")
        boss.execute("create table talks (id int primary key, v text)")
        boss.execute("select create_distributed_table('talks', 'id')")
        boss.execute(f"create or replace function talk() returns trigger language plpgsql as $$ begin raise notice '%', repeat('x', {size}); return new; end $$")
        boss.execute("create trigger talk before insert on talks for each row execute function talk()")
        boss.execute("grant all on talks to plain")
    heard, warned = 0, []

    def hear(diag):
        nonlocal heard
        if diag.severity_nonlocalized == "NOTICE":
            heard += len(diag.message_primary) == size
        else:
            warned.append(diag.message_primary)

    before = _resident(made)
    with made.server.connect(user="plain") as one:
        one.add_notice_handler(hear)
        run(one, rows)
        assert one.execute("select count(*) from talks").fetchone() == (rows,)
    told = heard + sum(int(w.split()[0]) for w in warned)
    assert told == rows, (heard, warned)
    assert bool(warned) == bool(left_out), warned
    assert _resident(made) - before < 100 << 20
    _given_back(made)


def test_cursors_without_rows_are_counted(made):
    """A cursor has its text and its columns, however few rows."""
    with made.server.connect(user="plain", autocommit=True) as c:
        columns = ", ".join(f"id as {'c' * 50}{n}" for n in range(1000))
        declared = 0
        with pytest.raises(psycopg.errors.OutOfMemory):
            for declared in range(60):
                c.execute(f'declare "t{declared}" cursor with hold for select id /* {"x" * 1_000_000} */ from wide where v < v')
        assert 5 < declared < _SESSION // 1_000_000
        c.execute("close all")
        _given_back(made)
        before = _taken(made)
        c.execute(f"declare w cursor with hold for select {columns} from wide where v < v")
        assert _taken(made) - before > 100_000
        c.execute("close w")
        c.execute(f"declare w cursor with hold for select /* {'x' * 1_000_000} */ 1 as one")
        assert _taken(made) - before > 1_000_000
        c.execute("discard all")
    _given_back(made)


@pytest.mark.parametrize("temporary", [False, True])
@pytest.mark.parametrize("conflict", ["", " on conflict (id) do update set v = excluded.v", " on conflict do nothing returning id"])
def test_too_many_rows_for_an_insert_end_the_transaction_alone(made, temporary, conflict):
    with made.server.connect() as boss:
        boss.execute("truncate wide")
        boss.execute("create table if not exists source (id int, v text)")
        boss.execute("truncate source")
        boss.execute("insert into source select g, repeat('y', 1000) || g from generate_series(1, 60000) g")
    with made.server.connect() as client:
        if temporary:
            client.execute("create temporary table z (i int)")
        client.execute("begin")
        client.execute("select 1 from wide where id = 1 for update")
        with pytest.raises(psycopg.Error) as e:
            client.execute(f"insert into wide select id, v from source{conflict}")
        assert e.value.sqlstate == "53200", e.value
        assert not client.broken
        client.execute("rollback")
        assert client.execute("select count(*) from wide").fetchone() == (0,)
        if temporary:
            assert client.execute("select count(*) from z").fetchone() == (0,)
    _given_back(made)
