"""Tables that change their kind or are clustered: as jobs they are seen, cancelled, and done by another router when theirs dies, at every place."""

import subprocess
import threading
import time

import psycopg
import pytest

from harness import binaries

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]

ROWS = 3000
KINDS = ["distribute", "reference", "undistribute", "cluster"]
# What `herd.tables` calls them.
BEFORE = {"distribute": None, "reference": None, "undistribute": "distributed", "cluster": "distributed"}
AFTER = {"distribute": "distributed", "reference": "reference", "undistribute": None, "cluster": "distributed"}


def _table(elastic, kind: str, table: str, rows: int = ROWS) -> None:
    elastic.a.run(
        f"drop table if exists {table}", f"create table {table} (id int primary key, v int not null)", f"create index {table}_v on {table} (v)",
        f"insert into {table} select g, {rows} - g from generate_series(1, {rows}) g",
    )
    if BEFORE[kind]:
        elastic.a.run(f"select create_distributed_table('{table}', 'id', colocate_with => 'none')")


def _call(kind: str, table: str, more: str = "") -> str:
    return {
        "distribute": f"create_distributed_table('{table}', 'id', colocate_with => 'none'{more})", "reference": f"create_reference_table('{table}'{more})",
        "undistribute": f"undistribute_table('{table}'{more})", "cluster": f"herd.cluster('{table}', '{table}_v'{more})",
    }[kind]


def _is(elastic, table: str, kind: str | None, rows: int = ROWS) -> None:
    with elastic.b.connect() as connection:
        found = connection.execute("select kind from herd.tables where name = %s", (table,)).fetchone()
        assert (found and found[0]) == kind
        assert connection.execute(f"select count(*), coalesce(sum(v), 0) from {table}").fetchone() == (rows, rows * (rows - 1) // 2)
        assert connection.execute("select object, problem from herd.verify").fetchall() == []


def _partitions(elastic, table: str) -> dict[str, int]:
    """The node of each of a table's partitions."""
    with elastic.b.connect() as connection:
        sql = "select s.partition, n.id from herd.shards s join herd.nodes n on n.name = s.node where s.name = %s"
        return dict(connection.execute(sql, (table,)).fetchall())


def _in_order(elastic, table: str) -> bool:
    """Whether each shard has its rows in the order of `v`."""
    found = [[v for v, in elastic.on_node(node, f"select v from {partition}")] for partition, node in _partitions(elastic, table).items()]
    return all(values == sorted(values) for values in found)


def _until(ask, seconds_max: float = 90):
    deadline = time.monotonic() + seconds_max
    while not (said := ask()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return said


def _job(elastic, where: str):
    """What is shown of the one job of which this holds."""
    with elastic.b.connect() as connection:
        cursor = connection.execute(f"select * from herd.jobs where {where} order by id desc limit 1")
        row = cursor.fetchone()
        return row and dict(zip((column.name for column in cursor.description), row))


def _hears(elastic, job: int) -> None:
    """Until its router has looked whether anybody wants the end of it, which it does now and then. One that has just done so does not look again."""
    (then,), = elastic.on_node(1, "select clock_timestamp()")
    deadline = time.monotonic() + 10
    while not elastic.on_node(1, "select 1 from herd.job where id = %s and updated_at > %s", (job, then)) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)


def _last(elastic) -> int:
    return elastic.on_node(1, "select coalesce(max(id), 0) from herd.job")[0][0]


class Slow:
    """A router that waits at a place, and a call that runs through it."""

    def __init__(self, elastic, place: str, flag):
        flag.parent.chmod(0o777)
        self.flag, self.router, self.error = flag, elastic.router(f"{place}:wait:{flag}"), None

    def begin(self, *statements: str, **who) -> None:
        def run():
            try:
                with self.router.server.connect(**who) as connection:
                    for statement in statements:
                        connection.execute(statement)
            except psycopg.Error as error:
                self.error = error

        self.thread = threading.Thread(target=run)
        self.thread.start()
        _until(self.flag.exists)

    def end(self) -> psycopg.Error | None:
        self.flag.unlink(missing_ok=True)
        self.thread.join()
        return self.error


@pytest.fixture
def slow(elastic, tmp_path):
    made = []

    def make(place: str) -> Slow:
        made.append(Slow(elastic, place, tmp_path / "flag"))
        return made[-1]

    yield make
    for one in made:
        one.flag.unlink(missing_ok=True)
        one.router.stop()


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_is_seen_and_cancelled(elastic, slow, kind, cancelled):
    _table(elastic, kind, "l_seen")
    before = _last(elastic)
    working = slow("cluster.shards" if kind == "cluster" else "kind.copied")
    working.begin(f"select {_call(kind, 'l_seen')}")
    job = _until(lambda: _job(elastic, f"id > {before} and rows_done > 0"))
    assert (job["kind"], job["state"], job["has_owner"], job["parent"]) == (kind, "running", True, None)
    assert "public.l_seen" in job["about"] and job["step"] == ("rewrite" if kind == "cluster" else "copy")
    assert job["bytes_done"] > 0 and job["bytes_total"] > 0
    # Of as many nodes as there are: the first shard of each.
    assert 0 < job["rows_done"] < ROWS if kind == "cluster" else job["rows_done"] == ROWS
    if cancelled:
        with elastic.b.connect() as connection:
            assert connection.execute("select herd.cancel_job(%s)", (job["id"],)).fetchone() == (True,)
        _hears(elastic, job["id"])
    error = working.end()
    ended = _until(lambda: _job(elastic, f"id = {job['id']} and ended_at is not null"))
    if cancelled:
        assert isinstance(error, psycopg.errors.QueryCanceled) and "herd.cancel_job" in str(error), error
        assert ended["state"] == "cancelled"
    else:
        assert error is None and (ended["state"], ended["step"], ended["error"]) == ("done", "done", None), (error, ended)
    assert ended["bytes_done"] > 0
    _is(elastic, "l_seen", BEFORE[kind] if cancelled else AFTER[kind])
    if kind == "cluster":
        assert _in_order(elastic, "l_seen") != cancelled
    elastic.is_tidy()
    # And then it can be done.
    if cancelled:
        elastic.a.run(f"select {_call(kind, 'l_seen')}")
        _is(elastic, "l_seen", AFTER[kind])


@pytest.mark.parametrize("kind", ["distribute", "reference", "undistribute"])
def test_an_empty_table_is_no_job(elastic, slow, kind):
    _table(elastic, kind, "l_empty", rows=0)
    before = _last(elastic)
    working = slow("kind.copied")
    working.begin(f"select {_call(kind, 'l_empty')}")
    time.sleep(1.2)
    assert working.end() is None
    assert _last(elastic) == before


def test_partitions_are_measured_together(elastic, slow):
    elastic.a.run(
        "drop table if exists l_parts", "create table l_parts (id int, at int, primary key (id, at)) partition by range (at)",
        *(f"create table l_parts_{n} partition of l_parts for values from ({n}) to ({n + 1})" for n in range(3)),
        "insert into l_parts select g, g % 3 from generate_series(1, 9000) g",
        # Autovacuum would make them larger meanwhile.
        "vacuum l_parts",
    )
    (bytes_total,), = elastic.on_node(1, "select sum(pg_table_size(relid)) from pg_partition_tree('l_parts')")
    before = _last(elastic)
    working = slow("kind.rows")
    working.begin("select create_distributed_table('l_parts', 'id')")
    job = _until(lambda: _job(elastic, f"id > {before}"))
    assert job["bytes_total"] == bytes_total
    assert working.end() is None
    done = _job(elastic, f"id = {job['id']}")
    assert (done["state"], done["rows_done"], done["bytes_total"]) == ("done", 9000, bytes_total)
    elastic.a.run("drop table l_parts")


def test_bytes_are_those_of_all_nodes(elastic, slow):
    _table(elastic, "undistribute", "l_sizes", rows=60000)
    sizes = [elastic.on_node(node, "select sum(pg_table_size(relid)) from pg_partition_tree('l_sizes')")[0][0] for node in (1, 2, 3)]
    before = _last(elastic)
    working = slow("kind.copied")
    working.begin("select undistribute_table('l_sizes')")
    assert _until(lambda: _job(elastic, f"id > {before} and rows_done = 60000"))["bytes_total"] == sum(sizes)
    assert working.end() is None
    elastic.a.run("drop table l_sizes")


@pytest.mark.parametrize("kind", ["distribute", "cluster"])
def test_who_keeps_its_row_is_waited_for(elastic, slow, kind):
    """Work that is done is not thrown away because somebody looks at the job for long."""
    _table(elastic, kind, "l_kept")
    before = _last(elastic)
    working = slow("cluster.shards" if kind == "cluster" else "kind.copied")
    working.begin(f"select {_call(kind, 'l_kept')}")
    job = _until(lambda: _job(elastic, f"id > {before} and rows_done > 0"))["id"]
    with elastic.nodes[0].server.connect() as home:
        with home.transaction():
            home.execute("select from herd.job where id = %s for update", (job,))
            working.flag.unlink()
            time.sleep(4)
        assert working.end() is None
    assert _job(elastic, f"id = {job}")["state"] == "done"
    _is(elastic, "l_kept", AFTER[kind])
    elastic.is_tidy()


@pytest.mark.parametrize("when", ["in its course", "at its end"])
@pytest.mark.parametrize("kind", ["distribute", "cluster"])
def test_goes_on_without_its_row(elastic, slow, kind, when):
    """The connection that tells of it is lost: whoever waits for the work has it done nevertheless."""
    _table(elastic, kind, "l_lost")
    before = _last(elastic)
    working = slow("cluster.shards" if kind == "cluster" else "kind.copied")
    working.begin(f"select {_call(kind, 'l_lost')}")
    job = _until(lambda: _job(elastic, f"id > {before} and rows_done > 0"))["id"]
    assert elastic.on_node(1, f"select pg_terminate_backend(owner_pid) from herd.job where id = {job}") == [(True,)]
    if when == "in its course":
        _until(lambda: _job(elastic, f"id = {job} and state = 'failed'"))
    assert working.end() is None
    _is(elastic, "l_lost", AFTER[kind])
    assert kind != "cluster" or _in_order(elastic, "l_lost")
    elastic.is_tidy()


@pytest.mark.parametrize("end, state", [("commit", "done"), ("rollback", "failed"), ("rollback to before", "failed")])
def test_a_block_ends_its_job(elastic, slow, end, state):
    """It is seen while it works; what becomes of it, the transaction says."""
    _table(elastic, "distribute", "l_block")
    before = _last(elastic)
    working = slow("kind.copied")
    with working.router.server.connect() as connection:
        connection.execute("begin")
        connection.execute("savepoint before")
        done = []
        thread = threading.Thread(target=lambda: done.append(connection.execute(f"select {_call('distribute', 'l_block')}").fetchone()))
        thread.start()
        job = _until(lambda: _job(elastic, f"id > {before} and rows_done = {ROWS}"))["id"]
        working.flag.unlink()
        thread.join()
        assert done == [("",)]
        _until(lambda: _job(elastic, f"id = {job}")["step"] == "commit")
        time.sleep(4)
        open_still = _job(elastic, f"id = {job}")
        assert (open_still["state"], open_still["step"]) == ("running", "commit")
        with elastic.b.connect() as other, pytest.raises(psycopg.errors.LockNotAvailable, match="its client's transaction"):
            other.execute("select herd.cancel_job(%s)", (job,))
        connection.execute(end)
        connection.execute("commit")
    ended = _until(lambda: _job(elastic, f"id = {job} and ended_at is not null"))
    assert (ended["state"], ended["error"]) == (state, None if state == "done" else "its transaction was rolled back")
    _is(elastic, "l_block", AFTER["distribute"] if end == "commit" else None)
    elastic.is_tidy()


def _wait(elastic, job: int) -> str:
    with elastic.b.connect() as connection:
        return connection.execute("select herd.wait_job(%s)", (job,)).fetchone()[0]


@pytest.mark.parametrize("rows", [0, ROWS])
@pytest.mark.parametrize("kind", KINDS)
def test_is_done_in_the_background(elastic, kind, rows):
    _table(elastic, kind, "l_alone", rows)
    with elastic.a.connect() as connection:
        cursor = connection.execute(f"select {_call(kind, 'l_alone', ', background => true')}")
        assert cursor.description[0].type_code == psycopg.adapters.types["int8"].oid
        job = cursor.fetchone()[0]
    assert _wait(elastic, job) == ("6" if kind == "cluster" else "done")
    shown = _job(elastic, f"id = {job}")
    assert (shown["state"], shown["tries"], shown["about"]) == ("done", 1, "public.l_alone")
    part = _job(elastic, f"parent = {job}")
    assert (part["kind"], part["state"]) == (kind, "done")
    if kind == "distribute":
        assert part["rows_done"] == rows
    _is(elastic, "l_alone", AFTER[kind], rows)
    assert kind != "cluster" or _in_order(elastic, "l_alone")
    elastic.is_tidy()


KIND_PLACES = ["kind.rows", "kind.copied", "kind.done", "two_phase.announced", "two_phase.prepared", "two_phase.decided", "two_phase.finished"]


@pytest.mark.parametrize("kind, place", [
    *((kind, place) for kind in ("distribute", "undistribute") for place in KIND_PLACES), ("reference", "kind.copied"), ("reference", "kind.done"), ("reference", "two_phase.decided"), ("cluster", "cluster.shards"),
])
def test_another_router_goes_on(elastic, kind, place):
    """The one that works on it dies at the place; nobody asks for anything again."""
    _table(elastic, kind, "l_dies")
    dying = elastic.router(f"{place}:abort")
    with dying.server.connect() as connection:
        job = connection.execute(f"select {_call(kind, 'l_dies', ', background => true')}").fetchone()[0]
        _until(lambda: dying.process.poll() is not None, 60)
    assert _wait(elastic, job) == ("6" if kind == "cluster" else "done")
    _is(elastic, "l_dies", AFTER[kind])
    assert kind != "cluster" or _in_order(elastic, "l_dies")
    elastic.is_tidy()
    with elastic.b.connect() as connection:
        states = [state for state, in connection.execute("select state from herd.jobs where parent = %s order by id", (job,)).fetchall()]
    # Once, whatever became of the first.
    assert states.count("done") == 1 and len(states) == (1 if place in ("two_phase.decided", "two_phase.finished") else 2), states


def test_who_clusters_on_passes_over_what_was_done(elastic, slow):
    _table(elastic, "cluster", "l_on")
    working = slow("cluster.shards")
    with working.router.server.connect() as connection:
        job = connection.execute(f"select {_call('cluster', 'l_on', ', background => true')}").fetchone()[0]
    _until(lambda: elastic.on_node(1, f"select 1 from herd.job where parent = {job} and jsonb_array_length(arguments -> 'done') > 0"))
    before = _files(elastic, "l_on")
    working.router.process.kill()
    assert _wait(elastic, job) == "6"
    assert _in_order(elastic, "l_on")
    # Those that were done have the same files.
    (done,), = elastic.on_node(1, f"select arguments -> 'done' from herd.job where parent = {job} order by id limit 1")
    after = _files(elastic, "l_on")
    assert {name for name in after if after[name] == before[name]} == set(done) and 0 < len(done) < 6
    elastic.is_tidy()


def _files(elastic, table: str) -> dict:
    return {name: elastic.on_node(node, f"select pg_relation_filenode('{name}')")[0][0] for name, node in _partitions(elastic, table).items()}


@pytest.fixture
def waiting(elastic, slow):
    """A table that is distributed in the background by a router which waits when the rows are there; who asked."""
    elastic.a.run("drop role if exists l_member")
    elastic.a.run("create role l_member login superuser")
    _table(elastic, "distribute", "l_waits")
    working = slow("kind.copied")
    with working.router.server.connect(user="l_member") as connection:
        job = connection.execute(f"select {_call('distribute', 'l_waits', ', background => true')}").fetchone()[0]
    _until(working.flag.exists)
    yield job, working
    working.flag.unlink(missing_ok=True)
    elastic.a.run("drop role if exists l_member")


@pytest.mark.parametrize("which", ["job", "part"])
def test_is_cancelled_in_the_background(elastic, waiting, which):
    job, working = waiting
    shown = _until(lambda: _job(elastic, f"id = {job} and rows_done = {ROWS}"))
    assert (shown["kind"], shown["state"], shown["has_owner"], shown["step"]) == ("create_distributed_table", "running", True, "table public.l_waits")
    number = job if which == "job" else _job(elastic, f"parent = {job}")["id"]
    with elastic.b.connect() as connection:
        assert connection.execute("select herd.cancel_job(%s)", (number,)).fetchone() == (True,)
    _hears(elastic, number)
    working.flag.unlink()
    with pytest.raises(psycopg.errors.QueryCanceled):
        _wait(elastic, job)
    elastic.is_tidy()
    states = elastic.on_node(1, f"select distinct state from herd.job where {job} in (id, parent)")
    assert states == [("cancelled",)]
    _is(elastic, "l_waits", None)


def test_others_of_the_table_wait(elastic, waiting):
    """As they do without a job: who writes, and who changes it, finds it distributed."""
    job, working = waiting
    done = []

    def run(statement):
        elastic.b.run(statement)
        done.append(statement)

    threads = [threading.Thread(target=run, args=[s]) for s in ("insert into l_waits values (0, 0)", "alter table l_waits add column w int default 7")]
    [thread.start() for thread in threads]
    time.sleep(0.7)
    assert not done
    working.flag.unlink()
    assert _wait(elastic, job) == "done"
    [thread.join() for thread in threads]
    with elastic.a.connect() as connection:
        assert connection.execute("select count(*), sum(w) from l_waits").fetchone() == (ROWS + 1, 7 * (ROWS + 1))
        assert connection.execute("select object, problem from herd.verify").fetchall() == []


def test_a_role_that_is_gone_ends_it(elastic, waiting):
    """Whoever takes it over has nobody in whose name to do it."""
    job, working = waiting
    working.router.process.kill()
    elastic.a.run("drop role l_member")
    with pytest.raises(psycopg.errors.UndefinedObject, match="role"):
        _wait(elastic, job)
    elastic.is_tidy()
    _is(elastic, "l_waits", None)


@pytest.mark.parametrize("change", ["drop table l_waits", "alter table l_waits rename to l_other"])
def test_a_table_that_is_gone_ends_it(elastic, waiting, change):
    job, working = waiting
    working.router.process.kill()
    elastic.a.run(change)
    try:
        assert _wait(elastic, job) == "done"
        # The other router was quicker.
    except psycopg.errors.UndefinedTable:
        pass
    elastic.is_tidy()
    elastic.a.run("drop table if exists l_other, l_waits")


def test_a_role_may_what_it_may(elastic):
    elastic.a.run("drop role if exists l_plain", "create role l_plain login")
    _table(elastic, "cluster", "l_hers")
    elastic.a.run("alter table l_hers owner to l_plain")
    with elastic.a.connect(user="l_plain") as connection:
        # Her own table she clusters; jobs are for who may change the herd.
        assert connection.execute(f"select {_call('cluster', 'l_hers')}").fetchone() == (6,)
        for call in (*(_call(kind, "l_hers", ", background => true") for kind in KINDS), "herd.cancel_job(1)", "count(*) from herd.jobs"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select {call}")
    elastic.a.run("drop table l_hers", "drop role l_plain")


def test_an_owner_sees_to_his_table_as_a_job(elastic, slow):
    """Who may change the herd sees it, and ends it."""
    elastic.a.run("drop role if exists l_plain", "create role l_plain login")
    _table(elastic, "cluster", "l_his")
    elastic.a.run("alter table l_his owner to l_plain")
    before = _last(elastic)
    working = slow("cluster.shards")
    working.begin(f"select {_call('cluster', 'l_his')}", user="l_plain")
    job = _until(lambda: _job(elastic, f"id > {before}"))["id"]
    with elastic.b.connect() as connection:
        connection.execute("select herd.cancel_job(%s)", (job,))
    _hears(elastic, job)
    assert isinstance(working.end(), psycopg.errors.QueryCanceled)
    assert _job(elastic, f"id = {job}")["state"] == "cancelled"
    elastic.a.run("drop table l_his", "drop role l_plain")
    elastic.is_tidy()


def test_what_is_asked_wrongly_is_said_at_once(elastic):
    _table(elastic, "distribute", "l_wrong")
    with elastic.a.connect() as connection:
        for call, code in {
            "create_distributed_table('l_none', 'id', background => true)": "42P01", "create_distributed_table('l_wrong', background => true)": "22004",
            "create_distributed_table('l_wrong', 'id', 'wheel', background => true)": "22023", "create_distributed_table('l_wrong', 'id', background => 1)": "22023",
            "create_reference_table('l_none', background => true)": "42P01", "herd.cluster('l_wrong', 'l_wrong_v', background => true)": "42809",
            "citus_add_node('localhost', 1, background => true)": "42883",
            # Not another one that is called so.
            "create_distributed_table('l_wrong', 'id', colocate_with => 'l_nowhere.l_wrong', background => true)": "42P01",
        }.items():
            with pytest.raises(psycopg.Error) as error:
                connection.execute(f"select {call}")
            assert error.value.sqlstate == code, (call, error.value)
        for call in (_call(kind, "l_wrong", ", background => true") for kind in KINDS):
            with pytest.raises(psycopg.errors.ActiveSqlTransaction, match=call.split("(")[0].replace(".", r"\.")), connection.transaction():
                connection.execute(f"select {call}")
        # Without it, it is what it always was.
        assert connection.execute(f"select {_call('distribute', 'l_wrong', ', background => false')}").fetchone() == ("",)
    # What only the work can tell, the job says.
    with elastic.a.connect() as connection:
        job = connection.execute("select create_distributed_table('l_wrong', 'id', background => true)").fetchone()[0]
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="already distributed"):
            connection.execute("select herd.wait_job(%s)", (job,))
        assert connection.execute("select state, tries from herd.jobs where id = %s", (job,)).fetchone() == ("failed", 1)


def test_a_table_that_is_new_can_be_asked_for(elastic):
    """Made beside the routers, which have not heard of it, as without a job."""
    elastic.a.run("drop table if exists l_new, l_new_too")
    with elastic.a.connect() as connection, elastic.nodes[0].server.connect() as home:
        connection.execute("select 1")
        for table, more in (("l_new", ", colocate_with => 'none'"), ("l_new_too", ", colocate_with => 'l_new'")):
            home.execute(f"create table {table} (id int primary key)")
            home.commit()
            job = connection.execute(f"select create_distributed_table('{table}', 'id'{more}, background => true)").fetchone()
            assert connection.execute("select herd.wait_job(%s)", job).fetchone() == ("done",)
    elastic.a.run("drop table l_new, l_new_too")


def test_words_mean_what_they_mean_to_who_asks(elastic):
    """Names by his search path, and the number of shards by his settings."""
    elastic.a.run(
        "drop schema if exists l_mine cascade", "create schema l_mine", "create table l_mine.one (id int primary key)", "create table l_mine.two (id int primary key)",
    )
    with elastic.a.connect() as connection:
        connection.execute("set search_path = l_mine")
        connection.execute("set citus.shard_count = 4")
        for call in ("create_distributed_table('one', 'id', colocate_with => 'none', background => true)", "create_distributed_table('two', 'id', colocate_with => 'one', background => true)"):
            connection.execute("select herd.wait_job(%s)", connection.execute(f"select {call}").fetchone())
        tables = connection.execute("select name, shard_count, colocation from herd.tables where schema = 'l_mine' order by name").fetchall()
    assert [(name, shards) for name, shards, _ in tables] == [("one", 4), ("two", 4)] and tables[0][2] == tables[1][2]
    elastic.a.run("drop schema l_mine cascade")


def test_the_command_line_shows_it(elastic, slow):
    _table(elastic, "distribute", "l_watched")
    before = _last(elastic)
    working = slow("kind.copied")
    working.begin(f"select {_call('distribute', 'l_watched')}")
    _until(lambda: _job(elastic, f"id > {before}"))
    command = [str(binaries.herd()), "jobs", "--watch", "--url", f"postgresql://postgres@127.0.0.1:{elastic.b.port}/postgres"]
    watching = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert watching.stderr.readline().startswith("distribute of table public.l_watched: copy: ")
    assert working.end() is None
    _, said = watching.communicate(timeout=90)
    assert watching.returncode == 0 and said.splitlines()[-1] == "distribute of table public.l_watched: done", said
