"""Rows that a router has to hold beyond some memory wait in temporary files of its own, which nobody sees; there, too, is a limit."""

import os
import time
import urllib.request
from pathlib import Path

import psycopg
import pytest

from harness import ports, router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("spool"), pytest.mark.timeout(500)]

_ROWS, _SPOOL = 60_000, 100 << 20


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    nodes = [router.node(f"spool{n}") for n in (1, 2)]
    metrics = ports.free_row(1)
    directory = tmp_path_factory.mktemp("spool")
    more = f'metrics = "127.0.0.1:{metrics}"\n[limits]\nrow_bytes_per_session = {24 << 20}\nspool_bytes = {_SPOOL}\nspool_directory = "{directory}"\n'
    home, other = map(router.conninfo, nodes)
    one = router.Router(home, [other], more=more)
    one.metrics, one.directory = metrics, directory
    try:
        with one.server.connect() as boss:
            boss.execute("create table wide (id int primary key, v text)")
            boss.execute("select create_distributed_table('wide', 'id')")
            boss.execute("create table source (id int, v text)")
            boss.execute("insert into source select g, repeat('y', 1000) || g from generate_series(1, %d) g" % _ROWS)
            boss.execute("insert into wide select * from source")
        yield one
    finally:
        for each in (one, *nodes):
            each.stop()


def _of_page(made, name: str) -> int:
    page = urllib.request.urlopen(f"http://127.0.0.1:{made.metrics}/metrics", timeout=30).read().decode()
    return next(int(line.split()[1]) for line in page.splitlines() if line.startswith(name + " "))


def _open_files(made) -> int:
    links = Path(f"/proc/{made.process.pid}/fd").iterdir()
    return sum(os.readlink(link).startswith(str(made.directory)) for link in links if os.path.islink(link))


def _given_back(made) -> None:
    deadline = time.monotonic() + 60
    while (_of_page(made, "herd_spool_bytes") or _of_page(made, "herd_row_bytes") or _open_files(made)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (_of_page(made, "herd_spool_bytes"), _of_page(made, "herd_row_bytes"), _open_files(made)) == (0, 0, 0)
    assert not list(made.directory.iterdir())


@pytest.mark.parametrize("query", ["select id, v from wide order by id", "select id, v, count(*) over () from wide order by id"])
@pytest.mark.parametrize("scroll", ["", "scroll"])
def test_cursors_with_hold(made, query, scroll):
    with made.server.connect(autocommit=True) as c:
        c.execute(f"declare h {scroll} cursor with hold for {query}")
        assert _of_page(made, "herd_spool_bytes") > 30 << 20
        assert _of_page(made, "herd_row_bytes") < 24 << 20
        assert _open_files(made) == 1
        seen = 0
        while rows := c.execute("fetch 7001 from h").fetchall():
            for row in rows:
                seen += 1
                assert row[:2] == (seen, "y" * 1000 + str(seen))
        assert seen == _ROWS
        if scroll:
            assert [r[0] for r in c.execute("fetch backward 3 from h").fetchall()] == [_ROWS, _ROWS - 1, _ROWS - 2]
            assert c.execute("fetch absolute 17 from h").fetchone()[0] == 17
        c.execute("close h")
    _given_back(made)


def test_row_limits_of_what_is_finished(made):
    from protocol.frames import bind, close, execute, parse, query, sync
    from protocol.raw import Raw

    with Raw(made.server) as raw:
        raw.transcript(query("begin"), 1)
        raw.send(parse("select id, v, rank() over (order by id) from wide order by id") + bind() + execute(rows_max=5) + sync())
        assert sum(kind == "D" for kind, _ in raw.until_ready()) == 5
        assert _of_page(made, "herd_spool_bytes") > 30 << 20
        raw.send(execute() + sync())
        assert sum(kind == "D" for kind, _ in raw.until_ready()) == _ROWS - 5
        raw.transcript(query("commit"), 1)
        raw.send(close("P", "") + sync())
        raw.until_ready()
    _given_back(made)


@pytest.mark.parametrize("temporary", [False, True])
@pytest.mark.parametrize("conflict", ["", " on conflict (id) do update set v = excluded.v", " on conflict do nothing returning id"])
def test_insert_select_in_a_transaction(made, temporary, conflict):
    with made.server.connect() as client:
        if temporary:
            client.execute("create temporary table z (i int)")
        client.execute("begin")
        client.execute("create table if not exists into_here (id int primary key, v text)")
        client.execute("select create_distributed_table('into_here', 'id')")
        client.execute("select 1 from wide where id = 1 for update")
        client.execute(f"insert into into_here select id, v from source{conflict}")
        assert client.execute("select count(*), sum(id), min(length(v)) from into_here").fetchone() == (_ROWS, _ROWS * (_ROWS + 1) // 2, 1001)
        client.execute("rollback")
    _given_back(made)


def test_rows_that_changes_return(made):
    with made.server.connect() as c:
        rows = c.execute("update wide set id = -id where id > 0 returning id, v").fetchall()
        assert sorted(rows) == sorted((-n, "y" * 1000 + str(n)) for n in range(1, _ROWS + 1))
        c.execute("rollback")
    _given_back(made)


def test_more_than_there_may_be(made):
    """Said so, and the session goes on."""
    with made.server.connect(autocommit=True) as c:
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded) as refused:
            c.execute("declare h cursor with hold for select a.id, a.v, a.v || b from wide a, generate_series(1, 4) b")
        assert "limits.spool_bytes" in refused.value.diag.message_hint
        assert c.execute("select count(*) from wide").fetchone() == (_ROWS,)
        assert c.execute("select count(*) from pg_cursors").fetchone() == (0,)
    _given_back(made)


def test_a_directory_that_is_gone(made):
    hidden = made.directory.with_name("elsewhere")
    made.directory.rename(hidden)
    try:
        with made.server.connect(autocommit=True) as c:
            with pytest.raises(psycopg.OperationalError) as refused:
                c.execute("declare h cursor with hold for select id, v from wide")
            assert refused.value.sqlstate == "58030" and "spool_directory" in refused.value.diag.message_hint
            assert c.execute("select count(*) from wide").fetchone() == (_ROWS,)
    finally:
        hidden.rename(made.directory)
    _given_back(made)
