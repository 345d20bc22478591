"""Jobs in the background: whoever asks for one need not stay, and a router that is killed leaves it to another, at every place."""

import threading
import time

import psycopg
import pytest

from .conftest import NODES
from .places import reached

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]

ROWS = 600
PLACES = [
    "move.prepared", "move.rows", "move.copied", "move.followed", "move.locked", "two_phase.announced", "two_phase.prepared", "two_phase.decided",
]


def _table(elastic, name: str, owner: str = "postgres") -> None:
    elastic.a.run(
        f"drop table if exists {name}", f"create table {name} (id int primary key, v int not null)",
        f"select create_distributed_table('{name}', 'id', colocate_with => 'none')", f"insert into {name} select g, g from generate_series(1, {ROWS}) g",
        f"alter table {name} owner to {owner}",
    )


def _wait(elastic, job: int, through=None) -> str:
    with (through or elastic.b).connect() as connection:
        return connection.execute("select herd.wait_job(%s)", (job,)).fetchone()[0]


def _is_whole(elastic, table: str) -> None:
    with elastic.b.connect() as connection:
        assert connection.execute(f"select count(*), sum(v) from {table}").fetchone() == (ROWS, ROWS * (ROWS + 1) // 2)
        assert connection.execute("select object, problem from herd.verify").fetchall() == []
    elastic.is_tidy()


def _calls(elastic, kind: str, table: str) -> str:
    node = elastic.shards(table)[3] % NODES + 1
    return {
        "move": f"herd.move_shard('{table}', 3, {node}, background => true)",
        "split": f"herd.split_shard('{table}', 3, background => true)",
        "split away": f"herd.split_shard('{table}', 3, node => '{node}', background => true)",
        "merge": f"herd.merge_shards('{table}', 3, 0, background => true)",
        "merge away": f"herd.merge_shards('{table}', 3, 0, background => true)",
        "isolate": f"herd.isolate_tenant('{table}', 7, background => true)",
        "rebalance": "herd.rebalance(background => true)",
    }[kind]


def _is_done(elastic, kind: str, table: str, before: dict[int, int]) -> None:
    after = elastic.shards(table)
    match kind:
        case "move":
            assert after == before | {3: before[3] % NODES + 1}
        case "split":
            assert after == before | {9: before[3]}
        case "split away":
            assert after == before | {9: before[3] % NODES + 1}
        case "merge" | "merge away":
            assert after == {shard: node for shard, node in before.items() if shard != 3} | {0: before[3]}
        case "isolate":
            assert len(after) > len(before)
        case "rebalance":
            counts = [list(after.values()).count(n) for n in range(1, NODES + 1)]
            assert max(counts) - min(counts) <= 1


def _apart(elastic, kind: str, table: str) -> None:
    """Two halves that are to be merged are on one node, and on two where one has to come."""
    if kind == "merge away":
        elastic.moves(table, 3)


@pytest.mark.parametrize("kind", ["move", "split", "split away", "merge", "merge away", "isolate", "rebalance"])
def test_is_done_without_who_asked(elastic, kind):
    _table(elastic, "b_alone")
    if kind == "rebalance":
        elastic.without_tables()
        _table(elastic, "b_alone")
        for shard, node in elastic.shards("b_alone").items():
            if node != 1:
                elastic.a.run(f"select herd.move_shard('b_alone', {shard}, 1)")
    _apart(elastic, kind, "b_alone")
    before = elastic.shards("b_alone")
    with elastic.a.connect() as connection:
        cursor = connection.execute(f"select {_calls(elastic, kind, 'b_alone')}")
        assert cursor.description[0].type_code == psycopg.adapters.types["int8"].oid
        job = cursor.fetchone()[0]
    said = _wait(elastic, job)
    _is_done(elastic, kind, "b_alone", before)
    _is_whole(elastic, "b_alone")
    if kind.startswith("split"):
        assert said == "9"
    if kind.startswith("merge"):
        assert said == "0"
    if kind == "isolate":
        assert "key 7" in said
    with elastic.b.connect() as connection:
        state, result, tries = connection.execute("select state, result, tries from herd.jobs where id = %s", (job,)).fetchone()
        assert (state, result, tries) == ("done", said, 1)
        parts = connection.execute("select kind, state from herd.jobs where parent = %s order by id", (job,)).fetchall()
    assert {state for _, state in parts} == {"done"}
    expected = {"move": ["move"], "split": ["split"], "split away": ["split", "move"], "merge": ["merge"], "merge away": ["move", "merge"]}.get(kind)
    assert expected is None or [kind for kind, _ in parts] == expected


@pytest.mark.parametrize("place, kind", [
    *((place, "move") for place in PLACES), *((place, "split away") for place in ("move.rows", "move.locked", "two_phase.prepared", "two_phase.decided")),
    *((place, "merge") for place in ("move.prepared", "move.copied", "move.locked", "two_phase.prepared", "two_phase.decided")), *((place, "merge away") for place in ("move.rows", "two_phase.decided")),
    ("move.copied", "isolate"), ("two_phase.decided", "isolate"),
])
def test_another_router_goes_on(elastic, place, kind):
    """The one that works on it dies at the place; nobody asks for anything again."""
    _table(elastic, "b_dies")
    _apart(elastic, kind, "b_dies")
    before = elastic.shards("b_dies")
    call = _calls(elastic, kind, "b_dies")
    # Who is asked begins with it.
    dying = elastic.router(f"{place}:abort")
    with dying.server.connect() as connection:
        job = connection.execute(f"select {call}").fetchone()[0]
        deadline = time.monotonic() + 120
        while dying.process.poll() is None:
            assert time.monotonic() < deadline, "it was not that router which worked on it"
            time.sleep(0.05)
    _wait(elastic, job)
    _is_done(elastic, kind, "b_dies", before)
    _is_whole(elastic, "b_dies")
    with elastic.b.connect() as connection:
        assert connection.execute("select state from herd.jobs where id = %s", (job,)).fetchone() == ("done",)


@pytest.mark.parametrize("place", ["move.copied", "two_phase.decided"])
def test_another_router_empties_the_node(elastic, place):
    """The one that drains it dies in one of the moves."""
    elastic.without_tables()
    _table(elastic, "b_drained")
    before = elastic.shards("b_drained")
    assert list(before.values()).count(3) > 1
    dying = elastic.router(f"{place}:abort")
    with dying.server.connect() as connection:
        job = connection.execute("select herd.drain_node('node3', background => true)").fetchone()[0]
    deadline = time.monotonic() + 120
    while dying.process.poll() is None:
        assert time.monotonic() < deadline, "it was not that router which worked on it"
        time.sleep(0.05)
    _wait(elastic, job)
    after = elastic.shards("b_drained")
    assert set(after) == set(before) and 3 not in after.values()
    assert elastic.on_node(3, "select 1 from pg_class where relnamespace = 'herd_shards'::regnamespace and relkind = 'r' and relname ~ 'b_drained'") == []
    _is_whole(elastic, "b_drained")
    # And the one that fills it again.
    dying = elastic.router(f"{place}:abort")
    with dying.server.connect() as connection:
        job = connection.execute("select herd.rebalance(background => true)").fetchone()[0]
    dying.process.wait(120)
    _wait(elastic, job)
    filled = elastic.shards("b_drained")
    assert sorted(list(filled.values()).count(n) for n in range(1, NODES + 1)) == sorted(list(before.values()).count(n) for n in range(1, NODES + 1))
    _is_whole(elastic, "b_drained")


def test_what_is_asked_wrongly_is_said_at_once(elastic):
    _table(elastic, "b_wrong")
    with elastic.a.connect() as connection:
        jobs = connection.execute("select count(*) from herd.jobs").fetchone()
        for call, code in {
            "move_shard('b_wrong', 99, 2, background => true)": "42704", "move_shard('b_wrong', 1, 99, background => true)": "42704",
            "move_shard('b_none', 1, 2, background => true)": "42P01", "drain_node('nowhere', background => true)": "42704",
            "split_shard('b_wrong', 99, background => true)": "42704", "rebalance(background => 'perhaps')": "22023",
            "rebalance(background => null)": "22023", "rebalance(background => true, background => false)": "42601", "cluster('b_none', 'b_none_pkey', background => true)": "42P01", "cluster('b_wrong', background => true)": "22004", "repair(background => true)": "42883", "wait_job(123456789)": "42704", "wait_job('x')": "22023",
            "restore_point('x', background => true)": "42883",
        }.items():
            with pytest.raises(psycopg.Error) as error:
                connection.execute(f"select herd.{call}")
            assert error.value.sqlstate == code, (call, error.value)
        with pytest.raises(psycopg.errors.ActiveSqlTransaction), connection.transaction():
            connection.execute("select herd.rebalance(background => true)")
        assert connection.execute("select count(*) from herd.jobs").fetchone() == jobs
        node = elastic.shards("b_wrong")[1]
        # As without a background.
        assert connection.execute(f"select herd.move_shard('b_wrong', 1, {node % NODES + 1}, background => false)").fetchone()[0] > 0
    elastic.is_tidy()


def test_a_role_may_what_it_may(elastic):
    """A job is made in the name of him who asked for it: he owns his tables alone."""
    elastic.a.run("drop role if exists b_member", "create role b_member login")
    _table(elastic, "b_hers")
    calls = [_calls(elastic, kind, "b_hers") for kind in ("move", "split", "isolate", "rebalance")]
    with elastic.a.connect(user="b_member") as connection:
        for call in (*calls, "herd.wait_job(1)", "herd.cancel_job(1)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select {call}")
        # Who may change the herd, but does not own the table, hears it from the job.
        elastic.a.run("create role b_owner", "grant postgres to b_member", "alter table b_hers owner to b_owner")
        for call in calls[:3]:
            job = connection.execute(f"select {call}").fetchone()[0]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                _wait(elastic, job)
    elastic.a.run("drop table b_hers", "drop role b_member, b_owner")
    elastic.is_tidy()


@pytest.fixture
def waiting(elastic, tmp_path):
    """A job in the background of a router that waits when the rows are there; what lets it go on."""
    _table(elastic, "b_waits")
    tmp_path.chmod(0o777)
    flag = tmp_path / "flag"
    slow = elastic.router(f"move.copied:wait:{flag}")
    node = elastic.shards("b_waits")[1] % NODES + 1
    with slow.server.connect() as connection:
        job = connection.execute(f"select herd.move_shard('b_waits', 1, {node}, background => true)").fetchone()[0]
        reached(flag)
    yield job, slow, flag
    flag.unlink(missing_ok=True)
    slow.stop()


def test_is_cancelled(elastic, waiting):
    job, _, flag = waiting
    with elastic.b.connect() as connection:
        deadline = time.monotonic() + 90
        while True:
            row = connection.execute("select state, step, has_owner, rows_done > 0 from herd.jobs where id = %s", (job,)).fetchone()
            if row == ("running", "shard 1 of table public.b_waits", True, True) or row[0] == "running" and row[3]:
                break
            assert time.monotonic() < deadline, row
            time.sleep(0.1)
        assert connection.execute("select herd.cancel_job(%s)", (job,)).fetchone() == (True,)
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select herd.wait_job(%s)", (job,))
        assert connection.execute("select distinct state from herd.jobs where %s in (id, parent)", (job,)).fetchall() == [("cancelled",)]
    _is_whole(elastic, "b_waits")


def test_is_cancelled_whenever_that_is(elastic):
    """Between two moves of a series nothing runs that could be cancelled."""
    elastic.without_tables()
    _table(elastic, "b_series")
    for attempt in range(6):
        for shard, node in elastic.shards("b_series").items():
            if node != 1:
                elastic.a.run(f"select herd.move_shard('b_series', {shard}, 1)")
        with elastic.a.connect() as connection:
            job = connection.execute("select herd.rebalance(background => true)").fetchone()[0]
            time.sleep(0.17 * attempt)
            connection.execute("select herd.cancel_job(%s)", (job,))
            connection.execute("set statement_timeout = '90s'")
            try:
                connection.execute("select herd.wait_job(%s)", (job,))
            except psycopg.errors.QueryCanceled as error:
                # Not by its own time limit.
                assert "herd.cancel_job" in str(error) or "it was cancelled" in str(error)
            assert connection.execute("select count(*) from herd.jobs where %s in (id, parent) and ended_at is null", (job,)).fetchone() == (0,)
    _is_whole(elastic, "b_series")


def test_settings_of_who_asks_count(elastic):
    """A key is read by them."""
    elastic.a.run(
        "drop table if exists b_times", "create table b_times (at timestamptz primary key)",
        "select create_distributed_table('b_times', 'at', 'range', bounds => array['FROM (minvalue) TO (maxvalue)'])",
        "insert into b_times select '2026-07-01 00:00+00'::timestamptz + g * interval '1 hour' from generate_series(0, 48) g",
    )
    with elastic.a.connect() as connection:
        connection.execute("set timezone = 'America/New_York'")
        connection.execute("set datestyle = 'SQL, DMY'")
        job = connection.execute("select herd.isolate_tenant('b_times', '02/07/2026 00:00', background => true)").fetchone()[0]
        connection.execute("select herd.wait_job(%s)", (job,))
        bounds = {row[0] for row in connection.execute("select bound from herd.shards where name = 'b_times'").fetchall()}
    assert any("2026-07-02 04:00:00+00" in bound for bound in bounds), bounds
    # So they do without a background.
    with elastic.a.connect() as connection:
        connection.execute("set timezone = 'Asia/Tokyo'")
        connection.execute("set datestyle = 'SQL, DMY'")
        shard = connection.execute("select herd.isolate_tenant('b_times', '03/07/2026 00:00')").fetchone()[0]
        bounds = {row[0] for row in connection.execute("select bound from herd.shards where name = 'b_times'").fetchall()}
    assert any("2026-07-02 15:00:00+00" in bound for bound in bounds), (shard, bounds)
    with elastic.a.connect() as connection:
        connection.execute("set timezone = 'Asia/Tokyo'")
        connection.execute("set datestyle = 'SQL, DMY'")
        before = connection.execute("select shard, bound from herd.shards where name = 'b_times'").fetchall()
        first = next(shard for shard, bound in before if "MINVALUE" in bound)
        connection.execute(f"select herd.split_shard('b_times', {first}, at => '01/07/2026 12:00')")
        bounds = {row[0] for row in connection.execute("select bound from herd.shards where name = 'b_times'").fetchall()}
    assert any("2026-07-01 03:00:00+00" in bound for bound in bounds), bounds
    elastic.a.run("drop table b_times")
    elastic.is_tidy()


def test_who_waits_can_be_cancelled_without_it(elastic, waiting):
    job, _, flag = waiting
    with elastic.b.connect() as connection:
        connection.execute("set statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select herd.wait_job(%s)", (job,))
        flag.unlink()
    _wait(elastic, job)
    _is_whole(elastic, "b_waits")


def test_a_router_that_is_stopped_leaves_it_to_another(elastic, waiting):
    job, slow, flag = waiting
    stopping = threading.Thread(target=slow.stop)
    stopping.start()
    _wait(elastic, job)
    flag.unlink(missing_ok=True)
    stopping.join()
    _is_whole(elastic, "b_waits")


def test_a_change_of_the_table_only_delays_it(elastic, waiting):
    job, _, flag = waiting
    elastic.b.run("alter table b_waits add column w int default 5")
    flag.unlink()
    _wait(elastic, job)
    with elastic.b.connect() as connection:
        assert connection.execute("select array_agg(state order by id) from herd.jobs where parent = %s", (job,)).fetchone()[0] == ["failed", "done"]
        assert connection.execute("select sum(w) from b_waits").fetchone() == (5 * ROWS,)
    _is_whole(elastic, "b_waits")


def test_a_table_that_is_gone_ends_it(elastic, waiting):
    job, _, flag = waiting
    elastic.b.run("drop table b_waits")
    flag.unlink()
    with pytest.raises(psycopg.errors.UndefinedTable):
        _wait(elastic, job)
    elastic.is_tidy()


def test_two_jobs_of_one_table_come_one_after_the_other(elastic):
    _table(elastic, "b_two")
    before = elastic.shards("b_two")
    with elastic.a.connect() as one, elastic.b.connect() as other:
        jobs = [
            connection.execute(f"select herd.move_shard('b_two', {shard}, {before[shard] % NODES + 1}, background => true)").fetchone()[0]
            for shard, connection in ((0, one), (1, other), (2, one), (4, other))
        ]
    for job in jobs:
        _wait(elastic, job)
    after = elastic.shards("b_two")
    assert all(after[shard] == before[shard] % NODES + 1 for shard in (0, 1, 2, 4)), (before, after)
    _is_whole(elastic, "b_two")
