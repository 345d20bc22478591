"""Work queues: FOR UPDATE with LIMIT takes and locks the first rows that are free, of all nodes, and (but for one that a node has looked at) no others."""

import threading

import psycopg
import pytest

from harness.both import both_made

pytestmark = pytest.mark.real_herd

_MAKE = (
    "drop schema if exists wq cascade", "create schema wq", "set search_path = wq, public",
    "create table jobs (id bigint primary key, state text not null default 'new', prio int, worker int, at timestamptz default now())", "create table done (id bigint primary key, worker int)",
    "create table kinds (prio int primary key, name text)",
)
_PLACE = ("select create_distributed_table('jobs', 'id')", "select create_distributed_table('done', 'id')", "select create_reference_table('kinds')")
_FILL = ("insert into jobs (id, prio) select g, g * 7 % 50 from generate_series(1, 200) g", "insert into kinds select g, 'k' || g % 3 from generate_series(0, 49) g")
# Each gives the same rows, and in this order.
ORDERED = [
    "select id from jobs order by prio, id limit 5 for update",
    "select id, prio from jobs where prio > 10 order by prio desc nulls last, id limit 7 offset 3 for update skip locked",
    "select id from jobs order by id offset 195 for no key update",
    "select id from jobs where state = 'new' and id < 50 order by id limit 0 for update",
    "select j.id, k.name from jobs j join kinds k using (prio) where k.name = 'k1' order by j.prio, j.id limit 6 for update of j",
    "select id from jobs where id in (5, 9, 130) order by id desc limit 2 for share",
    "select id from jobs order by id limit all for update",
    "select id, at is not null from jobs order by prio + id, id limit 4 for update nowait",
    "select id from (select * from jobs where prio < 20) j order by prio, id limit 3 for update",
    "update jobs set worker = 1 where id in (select id from jobs where state = 'new' order by prio, id limit 4 for update skip locked) returning id, worker",
    "update jobs set worker = 1 where id = (select id from jobs where state = 'new' order by prio, id limit 1 for update skip locked) returning id, worker",
    "with picked as (select id from jobs where state = 'new' order by prio, id limit 4 for update skip locked) update jobs j set worker = 2 from picked p where p.id = j.id returning j.id",
    "delete from jobs where id in (select id from jobs where prio = 3 order by id limit 2 for update) returning id",
    "with picked as (select id from jobs order by prio, id limit 4 for update skip locked) insert into done select id, 7 from picked returning id",
    "with gone as (delete from jobs where id = any (array(select id from jobs order by prio, id limit 4 for update skip locked)) returning id) insert into done select id, 7 from gone returning id",
]
# A WITH query that locks is run once, whoever names it.
ORDERED += [
    "with picked as (select id, prio from jobs where state = 'new' order by prio, id limit 4 for update skip locked) select p.id, k.name from picked p join kinds k using (prio) order by 1",
    "with picked as (select id from jobs order by prio, id limit 4 for update) select (select count(*) from picked), (select sum(id) from picked), j.id from jobs j join picked p using (id) order by j.id",
    "with few as (select 20 as most), picked as (select id, prio from jobs where prio < (select most from few) order by prio desc, id limit 3 for update), "
    "u as (update jobs j set worker = 3 from picked p where p.id = j.id returning j.id, p.prio) select * from u order by 1",
]
# So many of them.
COUNTED = ["select id from jobs limit 9 for update", "select id from jobs where prio = 7 limit 100 for update skip locked", "select id from jobs offset 190 for update"]


@pytest.fixture(scope="module")
def both(oracle, herd):
    with both_made(oracle, herd, _MAKE, _PLACE, _FILL, "wq") as connections:
        yield connections


@pytest.fixture(autouse=True)
def nothing_open(both):
    yield
    for connection in both:
        connection.execute("rollback")


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("sql", ORDERED)
def test_same_rows(both, sql, block):
    answers = []
    for connection in both:
        if block or not sql.startswith("select"):
            connection.execute("begin")
        rows = connection.execute(sql).fetchall()
        answers.append(rows if sql.startswith("select") else sorted(rows))
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("rollback")
    assert answers[0] == answers[1]


@pytest.mark.parametrize("sql", COUNTED)
def test_so_many_rows(both, sql):
    counts = [len(set(connection.execute(sql).fetchall())) for connection in both]
    assert counts[0] == counts[1] > 0


def test_parameters(both):
    sql = "select id, worker from jobs where prio > %s order by prio, id limit %s offset %s for update skip locked"
    for binary in (False, True):
        answers = [connection.cursor(binary=binary).execute(sql, (4, 6, 2)).fetchall() for connection in both]
        assert answers[0] == answers[1] and len(answers[0]) == 6


@pytest.mark.parametrize("order", ["", "order by prio, id "])
def test_no_more_is_locked_than_must_be(both, herd_many, herd, order):
    _, many = both
    with herd.connect() as other:
        other.execute("set search_path = wq, public")
        many.execute("begin")
        taken = {row[0] for row in many.execute(f"select id from jobs {order}limit 10 for update skip locked").fetchall()}
        other.execute("begin")
        free = {row[0] for row in other.execute("select id from jobs order by id for update skip locked").fetchall()}
        assert not taken & free and len(taken) == 10
        assert 200 - len(free) - 10 <= herd_many.nodes - 1
        other.execute("rollback")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute(f"select id from jobs where id <= {max(taken)} order by id limit 200 for update nowait")
        many.execute("rollback")


def test_each_job_is_done_once(both, herd):
    _, many = both
    many.execute("update jobs set state = 'new', worker = null")
    done, failures = [], []

    def work(number: int):
        try:
            with herd.connect() as connection:
                connection.execute("set search_path = wq, public")
                while True:
                    rows = connection.execute(
                        "update jobs set state = 'done', worker = %s where id in (select id from jobs where state = 'new' order by prio, id limit 3 for update skip locked) returning id",
                        (number,),
                    ).fetchall()
                    if not rows and connection.execute("select count(*) from jobs where state = 'new'").fetchone() == (0,):
                        return
                    done.extend(row[0] for row in rows)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(200)
    assert not failures
    assert sorted(done) == list(range(1, 201))


def test_a_cursor_locks_what_it_has_given(both, herd_many, herd):
    _, many = both
    with herd.connect() as other:
        other.execute("set search_path = wq, public")
        many.execute("begin")
        many.execute("declare c cursor for select id from jobs order by id limit 50 for update")
        assert [row[0] for row in many.execute("fetch 3 from c").fetchall()] == [1, 2, 3]
        other.execute("begin")
        free = {row[0] for row in other.execute("select id from jobs for update skip locked").fetchall()}
        assert 197 - (herd_many.nodes - 1) <= len(free) <= 197
        other.execute("rollback")
        assert len(many.execute("fetch all from c").fetchall()) == 47
        many.execute("rollback")


@pytest.mark.parametrize("sql", [
    "with q as (select id from jobs where id in (1, 2) order by id limit 2 for update) update jobs set worker = 9 from q where jobs.id = q.id returning jobs.id",
    "with q as (select id from jobs where id in (1, 2) order by id limit 2 for update) select * from q", "select id from jobs where id in (1, 2) order by id limit 2 for update",
    "with q as (update jobs set worker = 9 where id in (1, 2) returning id) insert into done select id, 1 from q",
])
def test_who_waits_can_be_cancelled(both, herd, sql):
    """And so a deadlock over several nodes is found: it is broken by a cancel."""
    with herd.connect() as holder, herd.connect() as waiting:
        for connection in (holder, waiting):
            connection.execute("set search_path = wq, public")
        holder.execute("begin")
        holder.execute("select id from jobs where id = 2 for update")
        errors = []

        def wait():
            try:
                waiting.execute(sql)
            except psycopg.Error as error:
                errors.append(error.sqlstate)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.7)
        assert thread.is_alive()
        waiting.cancel_safe(timeout=30)
        thread.join(60)
        assert errors == ["57014"]
        holder.execute("rollback")


def test_workers_queue_at_the_same_row(both, herd):
    """Without SKIP LOCKED all of them wait for the first row: none locks another's first, and then waits for it."""
    _, many = both
    many.execute("update jobs set worker = 0")
    failures, done = [], []

    def work():
        try:
            with herd.connect() as connection:
                connection.execute("set search_path = wq, public")
                for _ in range(15):
                    connection.execute("begin")
                    (row,) = connection.execute("select id from jobs order by id limit 1 for update").fetchall()
                    connection.execute("update jobs set worker = worker + 1 where id = %s", row)
                    connection.execute("commit")
                    done.append(row)
        except psycopg.Error as error:
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(200)
    assert not failures and len(done) == 60
    assert many.execute("select worker from jobs where id = 1").fetchone() == (60,)


def test_locks_go_with_a_savepoint(both, herd_many, herd):
    """What a cursor has read ahead, and locked, behind a savepoint is not given without its lock after it was rolled back."""
    _, many = both
    many.execute("begin")
    many.execute("declare c cursor for select id from jobs order by id limit 10 for update")
    many.execute("savepoint s")
    many.execute("fetch 1 from c")
    many.execute("rollback to s")
    if herd_many.nodes > 1:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="SAVEPOINT"):
            many.execute("fetch 1 from c")


def test_what_nobody_names_locks_nothing(both, herd):
    _, many = both
    with herd.connect() as other:
        other.execute("set search_path = wq, public")
        many.execute("begin")
        sql = "with q as (select id from jobs order by id limit 2 for update), w as (insert into done values (100, 1), (101, 1) returning id) select count(*) from w"
        assert many.execute(sql).fetchone() == (2,)
        assert len(other.execute("select id from jobs for update skip locked").fetchall()) == 200


@pytest.mark.parametrize(("limit", "offset", "state"), [(-2, 0, "2201W"), (5, -1, "2201X")])
@pytest.mark.parametrize("lock", ["", "for update"])
def test_negative_counts(both, limit, offset, state, lock):
    for connection in both:
        with pytest.raises(psycopg.Error) as e:
            connection.execute(f"select id from jobs order by id limit %s offset %s {lock}", (limit, offset))
        assert e.value.sqlstate == state
    answers = [connection.execute(f"select id from jobs order by id limit %s::int8 offset %s::int {lock}", (3, 2)).fetchall() for connection in both]
    assert answers[0] == answers[1]
