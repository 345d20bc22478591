"""Column copies that are added in the background: the job ends when all stores have them, shows how far they are, and takes the copy away when it is cancelled."""

import os
import signal
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(300)]

ROWS = 2000


def _table(columns, table: str) -> None:
    columns.server.run(
        f"drop table if exists {table}", f"create table {table} (id int primary key, k int not null)",
        f"select create_distributed_table('{table}', 'id', colocate_with => 'none')", f"insert into {table} select g, g % 7 from generate_series(1, {ROWS}) g",
        f"analyze {table}",
    )


def _job(columns, where: str) -> dict | None:
    with columns.server.connect() as connection:
        cursor = connection.execute(f"select * from herd.jobs where {where} order by id desc limit 1")
        row = cursor.fetchone()
        return row and dict(zip((column.name for column in cursor.description), row))


def _until(ask, seconds_max: float = 120):
    deadline = time.monotonic() + seconds_max
    while not (said := ask()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return said


def _listed(columns, table: str) -> list[int]:
    """On how many rows of the nodes' lists it is."""
    sql = "select count(*) from herd.column_copy where relation = %s::regclass"
    found = []
    for node in columns.herd.node_servers:
        with node.connect() as connection:
            found += connection.execute(sql, (table,)).fetchone()
    return found


@pytest.fixture
def stopped(columns):
    """Stores that stand still until they are told to go on."""
    pids = columns.store_pids()
    assert len(pids) == 2

    def go_on():
        [os.kill(pid, signal.SIGCONT) for pid in pids]

    [os.kill(pid, signal.SIGSTOP) for pid in pids]
    yield go_on
    go_on()


def test_ends_when_stores_have_it(columns):
    _table(columns, "j_done")
    with columns.server.connect() as connection:
        cursor = connection.execute("select herd.add_column_copy('j_done', order_by => array['k'], background => true)")
        assert cursor.description[0].type_code == psycopg.adapters.types["int8"].oid
        job = cursor.fetchone()[0]
        said = connection.execute("select herd.wait_job(%s)", (job,)).fetchone()[0]
    assert said == columns.id("j_done")
    assert columns.states("j_done") == ["ready", "ready"]
    shown, part = _job(columns, f"id = {job}"), _job(columns, f"parent = {job}")
    assert (shown["kind"], shown["state"], shown["tries"]) == ("add_column_copy", "done", 1)
    assert (part["kind"], part["about"], part["state"], part["rows_done"]) == ("column copy", "table public.j_done", "done", ROWS)
    assert part["bytes_done"] == part["bytes_total"] > 0
    columns.server.run("drop table j_done")


@pytest.mark.parametrize("which", ["job", "part", None])
def test_is_seen_and_cancelled(columns, stopped, which):
    _table(columns, "j_seen")
    with columns.server.connect() as connection:
        job = connection.execute("select herd.add_column_copy('j_seen', background => true)").fetchone()[0]
        part = _until(lambda: _job(columns, f"parent = {job} and step = 'copy'"))
        assert (part["state"], part["rows_done"]) == ("running", 0) and part["bytes_total"] > 0 and _listed(columns, "j_seen") == [1, 1]
        if which is None:
            stopped()
            connection.execute("select herd.wait_job(%s)", (job,))
            assert columns.states("j_seen") == ["ready", "ready"]
        else:
            number = job if which == "job" else part["id"]
            assert connection.execute("select herd.cancel_job(%s)", (number,)).fetchone() == (True,)
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute("select herd.wait_job(%s)", (job,))
            assert _listed(columns, "j_seen") == [0, 0]
            states = connection.execute("select distinct state from herd.jobs where %s in (id, parent)", (job,)).fetchall()
            assert states == [("cancelled",)]
            stopped()
            # It can be added again, and is another one.
            columns.add("j_seen")
    columns.server.run("drop table j_seen")


def _stands(columns, table: str, user: str = "postgres") -> int:
    """A job that has listed a copy, and waits for stores."""
    with columns.server.connect(user=user) as connection:
        job = connection.execute(f"select herd.add_column_copy('{table}', background => true)").fetchone()[0]
    _until(lambda: _job(columns, f"parent = {job} and step = 'copy'"))
    assert _listed(columns, table) == [1, 1]
    return job


@pytest.mark.parametrize("became", ["renamed", "swapped", "not allowed", "gone"])
def test_is_cancelled_whatever_became_of_it(columns, stopped, became):
    """The table is called otherwise by now, or the caller may nothing any more: what the job has listed is taken away, and nothing else."""
    with columns.herd.node_servers[0].connect() as home:
        owner, = home.execute("select nspowner::regrole::text from pg_namespace where nspname = 'herd'").fetchone()
    columns.server.run("drop table if exists j_was, j_old, j_other", "drop role if exists j_member", "create role j_member login", f"grant {owner} to j_member")
    _table(columns, "j_was")
    job = _stands(columns, "j_was", "j_member" if became in ("not allowed", "gone") else "postgres")
    renamed = became in ("renamed", "swapped")
    if became == "swapped":
        _table(columns, "j_other")
        columns.server.run("select herd.add_column_copy('j_other')")
    columns.server.run(*{
        "renamed": ["alter table j_was rename to j_old"], "swapped": ["alter table j_was rename to j_old", "alter table j_other rename to j_was"],
        "not allowed": [f"revoke {owner} from j_member"], "gone": [f"revoke {owner} from j_member", "drop role j_member"],
    }[became])
    with columns.server.connect() as connection:
        assert connection.execute("select herd.cancel_job(%s)", (job,)).fetchone() == (True,)
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select herd.wait_job(%s)", (job,))
        states = connection.execute("select distinct state from herd.jobs where %s in (id, parent)", (job,)).fetchall()
    assert states == [("cancelled",)]
    assert _listed(columns, "j_old" if renamed else "j_was") == [0, 0]
    if became == "swapped":
        assert _listed(columns, "j_was") == [1, 1]
    columns.server.run("drop table if exists j_was, j_old", "drop role if exists j_member")


@pytest.mark.parametrize("passes", [True, False])
def test_what_cannot_be_taken_away_is_tried_again(columns, stopped, passes):
    """And not for ever."""
    _table(columns, "j_stuck")
    job = _stands(columns, "j_stuck")
    with columns.herd.node_servers[1].connect(autocommit=True) as node, columns.server.connect() as connection:
        node.execute("create function j_no() returns trigger language plpgsql as $$ begin raise 'it stays'; end $$")
        node.execute("create trigger j_no before delete on herd.column_copy for each row execute function j_no()")
        connection.execute("select herd.cancel_job(%s)", (job,))
        said = _until(lambda: _job(columns, f"id = {job} and step = 'undo'"))
        assert said["ended_at"] is None and "it stays" in said["error"]
        if passes:
            node.execute("drop function j_no cascade")
        else:
            with columns.herd.node_servers[0].connect() as home:
                home.execute("update herd.job set arguments = arguments || '{\"undone\": 29}' where id = %s", (job,))
        with pytest.raises(psycopg.errors.QueryCanceled, match="by herd.cancel_job" if passes else "can't be taken away: it stays"):
            connection.execute("select herd.wait_job(%s)", (job,))
        node.execute("drop function if exists j_no cascade")
        assert _job(columns, f"id = {job}")["state"] == "cancelled"
        assert _listed(columns, "j_stuck") == ([0, 0] if passes else [1, 1])
    columns.server.run("drop table j_stuck")


def test_goes_on_with_its_own_table(columns, stopped):
    """Names were swapped before another router took it."""
    columns.server.run("drop table if exists j_swap, j_old, j_other")
    _table(columns, "j_swap")
    _table(columns, "j_other")
    job = _stands(columns, "j_swap")
    before = columns.id("j_swap")
    columns.server.run("alter table j_swap rename to j_old", "alter table j_other rename to j_swap")
    os.kill(columns.herd.status()["router"]["pid"], signal.SIGKILL)
    columns.herd.up()
    stopped()
    with columns.server.connect() as connection:
        assert connection.execute("select herd.wait_job(%s)", (job,)).fetchone() == (before,)
    assert columns.states("j_old") == ["ready", "ready"] and _listed(columns, "j_swap") == [0, 0]
    columns.server.run("drop table j_swap, j_old")


@pytest.fixture
def second(columns):
    """Makes another router of the same herd."""
    made = []

    def make(more: str = "", failpoint: str | None = None) -> router.Router:
        home, *others = (f"host=127.0.0.1 port={s.port} user=postgres dbname=postgres" for s in columns.herd.node_servers)
        if failpoint:
            os.environ["HERD_FAILPOINT"] = failpoint
        try:
            made.append(router.Router(home, others, shards=8, more=more))
        finally:
            os.environ.pop("HERD_FAILPOINT", None)
        return made[-1]

    yield make
    [one.stop() for one in made]


@pytest.mark.parametrize("place", ["column_copy.waits", "two_phase.announced", "two_phase.prepared", "two_phase.decided", "two_phase.finished"])
def test_another_router_goes_on(columns, second, place, request):
    """The one that works on it dies at the place, whether the copy is listed by then or not."""
    _table(columns, "j_goes")
    # Nobody waits for stores that are done at once.
    go_on = request.getfixturevalue("stopped") if place == "column_copy.waits" else None
    stores = "".join(
        f'[[column]]\nnode = "{number}"\nstore = "host=127.0.0.1 port={store.port} user=herd dbname=herd"\n' for number, store in enumerate(columns.stores, 1)
    )
    dying = second(stores, f"{place}:abort")
    with dying.server.connect() as connection:
        job = connection.execute("select herd.add_column_copy('j_goes', background => true)").fetchone()[0]
        _until(lambda: dying.process.poll() is not None)
    if go_on:
        go_on()
    with columns.server.connect() as connection:
        assert connection.execute("select herd.wait_job(%s)", (job,)).fetchone() == (columns.id("j_goes"),)
    assert columns.states("j_goes") == ["ready", "ready"] and _listed(columns, "j_goes") == [1, 1]
    columns.server.run("drop table j_goes")


def test_a_router_without_stores_says_so(columns, second):
    _table(columns, "j_none")
    with second().server.connect() as connection, pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="no store"):
        connection.execute("select herd.add_column_copy('j_none', background => true)")
    assert _listed(columns, "j_none") == [0, 0]
    columns.server.run("drop table j_none")


def test_goes_on_behind_a_router_that_died(columns, stopped):
    """What was listed stays listed, and is waited for."""
    _table(columns, "j_dies")
    with columns.server.connect() as connection:
        job = connection.execute("select herd.add_column_copy('j_dies', background => true)").fetchone()[0]
        _until(lambda: _job(columns, f"parent = {job} and step = 'copy'"))
    before = columns.id("j_dies")
    os.kill(columns.herd.status()["router"]["pid"], signal.SIGKILL)
    columns.herd.up()
    stopped()
    with columns.server.connect() as connection:
        assert connection.execute("select herd.wait_job(%s)", (job,)).fetchone() == (before,)
        states = connection.execute("select state from herd.jobs where parent = %s order by id", (job,)).fetchall()
    assert states == [("failed",), ("done",)]
    assert columns.id("j_dies") == before and columns.states("j_dies") == ["ready", "ready"]
    columns.server.run("drop table j_dies")


def test_a_copy_that_is_dropped_ends_it(columns, stopped):
    _table(columns, "j_drop")
    with columns.server.connect() as connection:
        job = connection.execute("select herd.add_column_copy('j_drop', background => true)").fetchone()[0]
        _until(lambda: _job(columns, f"parent = {job} and step = 'copy'"))
        connection.execute("select herd.drop_column_copy('j_drop')")
        with pytest.raises(psycopg.errors.UndefinedObject, match="was dropped"):
            connection.execute("select herd.wait_job(%s)", (job,))
    columns.server.run("drop table j_drop")


def test_one_that_is_there_stays(columns):
    """A job that finds another's copy takes nothing away."""
    _table(columns, "j_there")
    columns.add("j_there")
    before = columns.id("j_there")
    with columns.server.connect() as connection:
        job = connection.execute("select herd.add_column_copy('j_there', background => true)").fetchone()[0]
        with pytest.raises(psycopg.errors.DuplicateObject):
            connection.execute("select herd.wait_job(%s)", (job,))
        assert connection.execute("select herd.cancel_job(%s)", (job,)).fetchone() == (False,)
        for statement, error in (
            ("select herd.add_column_copy('j_there', columns => array['nothing'], background => true)", psycopg.errors.UndefinedColumn),
            ("select herd.add_column_copy('j_nowhere', background => true)", psycopg.errors.UndefinedTable),
        ):
            with pytest.raises(error):
                connection.execute(statement)
        with pytest.raises(psycopg.errors.ActiveSqlTransaction), connection.transaction():
            connection.execute("select herd.add_column_copy('j_there', background => true)")
    assert columns.id("j_there") == before
    columns.server.run("drop table j_there")


def test_all_routers_hear_of_a_copy(columns, second):
    """When it is added, and when it is dropped, without a job too."""
    _table(columns, "j_heard")
    other = second()
    shown = "select count(*) from herd.column_copies where relation::text like '%j_heard'"
    for statement, count in (("select herd.add_column_copy('j_heard')", 2), ("select herd.drop_column_copy('j_heard')", 0)):
        columns.server.run(statement)
        with other.server.connect() as connection:
            assert connection.execute(shown).fetchone() == (count,)
    columns.server.run("drop table j_heard")
