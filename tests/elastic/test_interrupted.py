"""Moves, splits and merges that are cancelled, overtaken by a change of the table, or whose router is killed: the herd is right, and nothing is left of them."""

import threading
import time

import psycopg
import pytest

from harness import router

from .places import Asked, reached

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(300)]

ROWS = 900
# In the order in which a move, a split or a merge comes by; the last ones are those of any commit over several nodes.
PLACES = [
    "move.prepared", "move.rows", "move.copied", "move.followed", "move.locked", "two_phase.announced", "two_phase.prepared", "two_phase.decided",
]


def _table(elastic, name: str) -> None:
    elastic.a.run(
        f"drop table if exists {name}", f"create table {name} (id int primary key, v int not null)",
        f"select create_distributed_table('{name}', 'id', colocate_with => 'none')", f"insert into {name} select g, g from generate_series(1, {ROWS}) g",
    )


def _to(elastic, table: str, shard: int) -> int:
    return elastic.shards(table)[shard] % 3 + 1


def _call(elastic, kind: str, table: str, shard: int) -> str:
    match kind:
        case "move":
            return f"select herd.move_shard('{table}', {shard}, {_to(elastic, table, shard)})"
        case "split":
            return f"select herd.split_shard('{table}', {shard})"
        case "merge":
            # Of six: the other half, or another pair where these are one already.
            other = (shard + 3) % 6
            one, second = (other, shard) if {other, shard} <= set(elastic.shards(table)) else (2, 5)
            return f"select herd.merge_shards('{table}', {one}, {second})"
    raise ValueError(kind)


@pytest.mark.parametrize(
    "place, kind", [*((place, "move") for place in PLACES), ("move.rows", "split"), ("move.locked", "split"), ("two_phase.decided", "split"), *((place, "merge") for place in PLACES)])
def test_a_router_that_dies(elastic, place, kind):
    _table(elastic, "i_dies")
    before = elastic.shards("i_dies")
    after = {
        "move": before | {3: _to(elastic, "i_dies", 3)}, "split": before | {9: before[3]}, "merge": {shard: node for shard, node in before.items() if shard != 3},
    }[kind]
    dying = elastic.router(f"{place}:abort")
    with pytest.raises(psycopg.OperationalError):
        dying.server.run(_call(elastic, kind, "i_dies", 3))
    with elastic.b.connect() as connection:
        # At once, before anything is cleaned up; who needs what stands prepared waits for it.
        assert connection.execute("update i_dies set v = v + 1").rowcount == ROWS
        for id in range(1, 40):
            assert connection.execute("select v from i_dies where id = %s", (id,)).fetchone() == (id + 1,)
        elastic.is_tidy()
        state, error = connection.execute("select state, error from herd.jobs where about like '%i_dies%' order by id desc limit 1").fetchone()
        assert (state, elastic.shards("i_dies")) == (("done", after) if place == "two_phase.decided" else ("failed", before)), error
        assert connection.execute("select count(*), sum(v) from i_dies").fetchone() == (ROWS, ROWS * (ROWS + 1) // 2 + ROWS)
        assert connection.execute("select object, problem from herd.verify").fetchall() == []
    # And it can be done again.
    elastic.b.run(_call(elastic, kind, "i_dies", 3))
    elastic.is_tidy()


def test_what_changes_the_catalog_commits_by_two_phases(elastic):
    """Whatever the session has chosen for rows."""
    _table(elastic, "i_phases")
    dying = elastic.router("one_phase.commit_sent:abort")
    with dying.server.connect() as connection:
        connection.execute("set herd.two_phase = off")
        for kind in ("move", "split"):
            connection.execute(_call(elastic, kind, "i_phases", 3))
        for change in ("alter table i_phases add column w int", "select undistribute_table('i_phases')", "select create_distributed_table('i_phases', 'id')"):
            connection.execute(change)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("update i_phases set v = v + 1")
    elastic.is_tidy()


@pytest.fixture
def waiting(elastic, tmp_path, request):
    """A router whose move (split, merge) waits when the rows are there; its error, once it has gone on."""
    _table(elastic, "i_waits")
    tmp_path.chmod(0o777)
    flag = tmp_path / "flag"
    slow = elastic.router(f"move.copied:wait:{flag}")
    call = _call(elastic, getattr(request, "param", "move"), "i_waits", 1)
    asked = Asked(lambda: slow.server.run(call))
    reached(flag, asked)

    def goes_on():
        flag.unlink(missing_ok=True)
        asked.join(120)
        return asked.said[0]

    yield goes_on
    goes_on()
    slow.stop()


@pytest.mark.parametrize(
    "waiting, change",
    [
        *(("move", change) for change in (
            "alter table i_waits add column w int default 5", "create index on i_waits (v)", "alter table i_waits rename to i_other",
            "alter table i_waits alter column v type int using v + 1", "drop table i_waits", "select undistribute_table('i_waits')",
            "create table i_more (id int primary key); select create_distributed_table('i_more', 'id', colocate_with => 'i_waits')",
        )),
        ("split", "alter table i_waits add column w int default 5"),
        ("split", "drop table i_waits"),
        ("merge", "create index on i_waits (v)"),
        ("merge", "drop table i_waits"),
    ],
    indirect=["waiting"],
)
def test_a_change_of_the_table_ends_it(elastic, waiting, change):
    elastic.b.run("drop table if exists i_more, i_other")
    elastic.b.run(*change.split("; "))
    error = waiting()
    assert error is not None and error.sqlstate == "55006", error
    elastic.is_tidy()
    elastic.b.run("drop table if exists i_waits, i_more, i_other")


def test_a_second_one_is_refused_and_the_first_can_be_cancelled(elastic, waiting):
    with elastic.b.connect() as connection:
        with pytest.raises(psycopg.errors.ObjectInUse):
            connection.execute(f"select herd.move_shard('i_waits', 2, {_to(elastic, 'i_waits', 2)})")
        # It is told twice a second.
        deadline = time.monotonic() + 90
        while True:
            job = connection.execute("select id, state, step, has_owner, rows_done > 0 from herd.jobs where about like '%i_waits%' and state = 'running'").fetchall()
            if [row[1:] for row in job] == [("running", "index", True, True)]:
                break
            assert time.monotonic() < deadline, job
            time.sleep(0.1)
        assert connection.execute("select herd.cancel_job(%s)", (job[0][0],)).fetchone() == (True,)
        error = waiting()
        assert error.sqlstate == "57014", error
        elastic.is_tidy()
        assert connection.execute("select state from herd.jobs where id = %s", (job[0][0],)).fetchone() == ("cancelled",)
        assert connection.execute("select herd.cancel_job(%s)", (job[0][0],)).fetchone() == (False,)
        assert connection.execute("select count(*), sum(v) from i_waits").fetchone() == (ROWS, ROWS * (ROWS + 1) // 2)
    elastic.moves("i_waits", 1)
    elastic.is_tidy()


def test_a_shard_that_moves_is_not_clustered(elastic, waiting):
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        elastic.b.run("select herd.cluster('i_waits', 'i_waits_pkey')")
    assert waiting() is None
    elastic.is_tidy()


@pytest.mark.parametrize("waiting", ["move", "split", "merge"], indirect=True)
def test_writes_and_truncate_in_between_come_along(elastic, waiting):
    with elastic.b.connect() as connection:
        connection.execute("truncate i_waits")
        connection.execute("insert into i_waits select g, -g from generate_series(1, 3000) g")
        # Some of them stay in their shard, and come to its other half; or leave it for the one that it is merged with.
        connection.execute("update i_waits set id = id + 5000 where id % 7 = 0")
        connection.execute("delete from i_waits where id % 3 = 0")
        assert waiting() is None
        expected = sorted(id for id in (g + 5000 if g % 7 == 0 else g for g in range(1, 3001)) if id % 3)
        for id in expected[::50]:
            assert connection.execute("select count(*) from i_waits where id = %s", (id,)).fetchone() == (1,)
        assert [id for id, in connection.execute("select id from i_waits order by id")] == expected
    elastic.is_tidy()


def test_a_try_that_fails_late_loses_nothing(elastic):
    """What was applied under locks is undone with its transaction, and comes again in the next try."""
    _table(elastic, "i_late")
    stop, added = threading.Event(), [0] * 4

    def write(of: int):
        with elastic.b.connect() as connection:
            while not stop.is_set():
                connection.execute("insert into i_late select g, 1 from generate_series(%s::int, %s::int) g", ((of + 1) * 1_000_000 + added[of], (of + 1) * 1_000_000 + added[of] + 19))
                added[of] += 20

    writers = [threading.Thread(target=write, args=(of,)) for of in range(len(added))]
    with elastic.nodes[0].server.connect() as holder, elastic.a.connect() as mover:
        for writer in writers:
            writer.start()
        holder.execute("begin")
        holder.execute("select from herd.shard for update")
        release = threading.Timer(5, lambda: holder.execute("rollback"))
        release.start()
        mover.execute("set lock_timeout = '300ms'")
        mover.execute(f"select herd.move_shard('i_late', 2, {_to(elastic, 'i_late', 2)})")
        release.join()
        stop.set()
        for writer in writers:
            writer.join(60)
        assert mover.execute("select count(*) from i_late").fetchone() == (ROWS + sum(added),)
    elastic.is_tidy()


def test_a_node_without_logical_decoding_is_refused():
    """And nothing else of the herd suffers."""
    nodes = [router.node(f"replica{i}") for i in range(2)]
    try:
        home, other = (router.conninfo(n) for n in nodes)
        only = router.Router(home, [other], shards=2)
        try:
            only.server.run("create table r (id int primary key)", "select create_distributed_table('r', 'id')")
            with only.server.connect() as connection:
                node = connection.execute("select name from herd.nodes where name <> (select node from herd.shards where shard = 0)").fetchone()[0]
                with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="wal_level = logical"):
                    connection.execute(f"select herd.move_shard('r', 0, '{node}')")
                assert connection.execute("select count(*) from herd.jobs").fetchone() == (0,)
        finally:
            only.stop()
    finally:
        for node in nodes:
            node.stop()


def test_its_copy_is_complete_while_its_progress_is_being_told(elastic, waiting):
    with elastic.nodes[0].server.connect(autocommit=False) as holder:
        holder.execute("select from herd.job where about like '%i_waits%' and state = 'running' for update")
        told = "select 1 from pg_stat_activity where query like 'UPDATE herd.job%' and wait_event_type = 'Lock'"
        deadline = time.monotonic() + 90
        while not elastic.on_node(1, told):
            assert time.monotonic() < deadline, "nobody tells"
            time.sleep(0.05)
        # It follows the changes now, and has no reason to wait but this one.
        over = threading.Timer(1.5, holder.commit)
        over.start()
        error = waiting()
        over.join()
    assert error is None, error
    elastic.is_tidy()
