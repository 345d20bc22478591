"""A node dies (SIGKILL) while a job in the background stands at a place, and comes back: the job is done, and nothing is lost or left.

The herd is that of the other tests here. Places and nodes of `_QUICK` always; all of them with HERD_ALL_PLACES=1, which takes some minutes.
It does not know what the router does at the places.
"""

import os
import time

import pytest

from .places import Asked, reached

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]

ROWS = 600
HOME, SOURCE, TARGET = 1, 2, 3
VICTIMS = {"home": HOME, "source": SOURCE, "target": TARGET}
PLACES = [
    "move.prepared", "move.rows", "move.copied", "move.followed", "move.locked", "two_phase.announced", "two_phase.prepared", "two_phase.decided",
]
_ALL = [(place, kind, victim) for kind in ("move", "split") for place in PLACES for victim in VICTIMS]
_QUICK = [
    ("move.rows", "move", "source"), ("move.rows", "split", "home"), ("move.locked", "split", "target"), ("two_phase.prepared", "move", "target"),
    ("two_phase.decided", "split", "home"), ("two_phase.decided", "move", "source"),
]
_CASES = _ALL if os.environ.get("HERD_ALL_PLACES") else _QUICK


@pytest.mark.parametrize("place, kind, victim", _CASES)
def test_a_node_that_dies(elastic, tmp_path, place, kind, victim):
    before, shard = _filled(elastic, "k_dies")
    tmp_path.chmod(0o777)
    flag = tmp_path / "flag"
    slow = elastic.router(f"{place}:wait:{flag}")
    try:
        call = {"move": f"herd.move_shard('k_dies', {shard}, {TARGET}, background => true)", "split": f"herd.split_shard('k_dies', {shard}, node => '{TARGET}', background => true)"}[kind]
        with slow.server.connect() as connection:
            job = connection.execute(f"select {call}").fetchone()[0]
            reached(flag)
        elastic.kills(VICTIMS[victim])
        # It goes on while the node is away.
        flag.unlink()
        time.sleep(0.5)
        elastic.starts(VICTIMS[victim])
        with elastic.b.connect() as connection:
            connection.execute("set statement_timeout = '120s'")
            connection.execute("select herd.wait_job(%s)", (job,))
            after = elastic.shards("k_dies")
            assert after == (before | {shard: TARGET} if kind == "move" else before | {shard + len(before): TARGET}), (before, after)
            assert connection.execute("select count(*), count(distinct id), sum(v) from k_dies").fetchone() == (ROWS, ROWS, ROWS * (ROWS + 1) // 2)
            assert connection.execute("update k_dies set v = v + 1").rowcount == ROWS
        elastic.is_tidy()
        _is_free(elastic, "k_dies")
        with elastic.b.connect() as connection:
            assert connection.execute("select object, problem from herd.verify").fetchall() == []
    finally:
        flag.unlink(missing_ok=True)
        slow.stop()


@pytest.mark.parametrize("place", ["move.copied", "move.followed"])
def test_a_target_that_forgets_what_it_was_given(elastic, tmp_path, place):
    """Copies are not flushed before the moment of the switch: a node that stops before that, and is there again for it, has not all of them."""
    before, shard = _filled(elastic, "k_forgets")
    tmp_path.chmod(0o777)
    flag = tmp_path / "flag"
    slow = elastic.router(f"{place}:wait:{flag}")
    try:
        # What no commit flushes is not on the disk for long.
        for sql in ("alter system set wal_writer_delay = '10s'", "alter system set wal_writer_flush_after = '1GB'", "select pg_reload_conf()"):
            elastic.on_node(TARGET, sql)
        time.sleep(0.5)
        with slow.server.connect() as connection:
            job = connection.execute(f"select herd.move_shard('k_forgets', {shard}, {TARGET}, background => true)").fetchone()[0]
            reached(flag)
        elastic.kills(TARGET)
        elastic.starts(TARGET)
        flag.unlink()
        with elastic.b.connect() as connection:
            connection.execute("set statement_timeout = '120s'")
            connection.execute("select herd.wait_job(%s)", (job,))
            assert elastic.shards("k_forgets") == before | {shard: TARGET}
            assert connection.execute("select count(*), count(distinct id), sum(v) from k_forgets").fetchone() == (ROWS, ROWS, ROWS * (ROWS + 1) // 2)
            assert connection.execute("select object, problem from herd.verify").fetchall() == []
        elastic.is_tidy()
    finally:
        flag.unlink(missing_ok=True)
        slow.stop()
        for sql in ("alter system reset wal_writer_delay", "alter system reset wal_writer_flush_after", "select pg_reload_conf()"):
            elastic.on_node(TARGET, sql)


def test_who_waits_for_a_move_is_told(elastic, tmp_path):
    """A call that is not in the background ends with an error, leaves nothing, and is made again."""
    before, shard = _filled(elastic, "k_waits")
    tmp_path.chmod(0o777)
    flag = tmp_path / "flag"
    call = f"select herd.move_shard('k_waits', {shard}, {TARGET})"
    slow = elastic.router(f"move.rows:wait:{flag}")
    asked = Asked(lambda: slow.server.run(call))
    try:
        reached(flag, asked)
        elastic.kills(SOURCE)
        flag.unlink()
        asked.join(90)
        elastic.starts(SOURCE)
        [sqlstate] = asked.sqlstates
        assert sqlstate and sqlstate[:2] in ("08", "57"), asked.said
        elastic.is_tidy()
        assert elastic.shards("k_waits") == before
        elastic.b.run(call)
        with elastic.b.connect() as connection:
            assert connection.execute("select count(*), count(distinct id), sum(v) from k_waits").fetchone() == (ROWS, ROWS, ROWS * (ROWS + 1) // 2)
        elastic.is_tidy()
    finally:
        flag.unlink(missing_ok=True)
        slow.stop()


def _filled(elastic, table: str) -> tuple[dict[int, int], int]:
    """The table's shards, with their nodes, and one that is on SOURCE."""
    elastic.a.run(
        f"drop table if exists {table}", f"create table {table} (id int primary key, v int not null)",
        f"select create_distributed_table('{table}', 'id', colocate_with => 'none')", f"insert into {table} select g, g from generate_series(1, {ROWS}) g",
    )
    before = elastic.shards(table)
    return before, next(shard for shard, node in sorted(before.items()) if node == SOURCE)


def _is_free(elastic, table: str) -> None:
    """Nobody holds a lock on the table or a shard of it."""
    held = "select l.mode, c.relname, a.query from pg_locks l join pg_class c on c.oid = l.relation left join pg_stat_activity a using (pid) where c.relname ~ %s and l.granted"
    deadline = time.monotonic() + 90
    while found := [(number, *row) for number in (HOME, SOURCE, TARGET) for row in elastic.on_node(number, held, (table,))]:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
