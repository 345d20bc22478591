"""One client's cost is its own: what it sends takes neither the others' time nor all of the memory."""

import contextlib
import threading
import time
import urllib.request

import psycopg
import pytest

from harness import ports, processes, router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-costs"), pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def made():
    nodes = [router.node(f"costs{n}") for n in (1, 2)]
    metrics = ports.free_row(1)
    more = (
        f'threads = 1\nmetrics = "127.0.0.1:{metrics}"\n'
        "[limits]\nprepared_bytes_per_session = 800000\nprepared_bytes = 1200000\nplan_bytes = 400000\n"
    )
    home, other = map(router.conninfo, nodes)
    one = router.Router(home, [other], more=more)
    one.metrics = metrics
    try:
        with one.server.connect() as boss:
            boss.execute("create table cost (id int primary key, v int)")
            boss.execute("select create_distributed_table('cost', 'id')")
            boss.execute("insert into cost select g, g from generate_series(1, 100) g")
            body = " or ".join(["v::text = c"] * 5_000)
            boss.execute(f"create function cost_of(c text) returns bigint language sql stable as $$select count(*) from cost where {body}$$")
        yield one
    finally:
        for each in (one, *nodes):
            each.stop()


def _figure(made, name: str) -> int:
    page = urllib.request.urlopen(f"http://127.0.0.1:{made.metrics}/metrics", timeout=30).read().decode()
    return next(int(line.split()[1]) for line in page.splitlines() if line.startswith(f"{name} "))


# Enough that reading and planning takes seconds; and what bounds it, if something does: its SQLSTATE.
_LARGE = {
    "nested comments": (f"select 1 {'/*' * 400_000}{'*/' * 400_000}", None),
    # A node's lexer looks at all that is left again for each.
    "comments without an end": (f"select 1 {'/*' * 15_000}", "42601"),
    "many ors": (f"select count(*) from cost where {' or '.join(f'v = {n}' for n in range(60_000))}", None),
    # A function's query stands in its call's place, with the value wherever it reads it.
    "values of functions": (f"select cost_of('{'x' * 10_000}')", "54001"),
    # What PostgreSQL itself refuses: the grammar's stack, a node's own.
    "nested ors": (f"select count(*) from cost where {'(v = 1 or ' * 60_000}true{')' * 60_000}", "42601"),
    "many operators": ("select 1 " + "+ 1" * 60_000, "54001"),
    "many signs": ("select " + "+" * 30_000 + "1", "42601"),
}


def _longest_wait(made, work) -> tuple[float, float]:
    """How long the work took, and the longest that another's statement waited meanwhile: one thread serves all clients."""
    done, failures = threading.Event(), []

    def run() -> None:
        try:
            work()
        except psycopg.Error as error:
            failures.append(error)
        done.set()

    waits = [0.0]
    with made.server.connect() as other:
        other.execute("select 1")
        thread = threading.Thread(target=run)
        started = time.monotonic()
        thread.start()
        while not done.is_set():
            before = time.monotonic()
            assert other.execute("select 1").fetchone() == (1,)
            waits.append(time.monotonic() - before)
        taken = time.monotonic() - started
        thread.join()
    assert not failures, failures
    return taken, max(waits)


def _judge(what: str, taken: float, wait: float) -> None:
    """Either it was quick, or others were served meanwhile; machines are slow and busy."""
    assert wait < max(1.0, taken / 3), f"{what} took {taken:.2f} s, another waited {wait:.2f} s"


@pytest.mark.parametrize("what", _LARGE)
def test_others_are_served_while_a_large_text_is_read(made, what):
    text, refused = _LARGE[what]
    with made.server.connect() as one:
        said = []

        def large() -> None:
            try:
                said.append(one.execute(text).fetchone() and None)
            except psycopg.Error as error:
                said.append(error.sqlstate)

        taken, wait = _longest_wait(made, large)
    assert said == [refused], f"{what}: {said}"
    _judge(what, taken, wait)
    # It is long, or it would show nothing.
    assert what != "many ors" or taken > 1


def test_others_are_served_while_a_large_view_is_planned(made):
    """A short statement is as long as the views that it names."""
    with made.server.connect() as one:
        one.execute(f"create view wide as select id, v from cost where {' or '.join(f'v = {n}' for n in range(8_000))}")
        taken, wait = _longest_wait(made, lambda: one.execute("select count(*) from wide w join wide x using (id)"))
        one.execute("drop view wide")
    _judge("planning a view", taken, wait)


def test_nested_comments_take_no_longer_than_others(made):
    """The router reads them once: its own time, not the node's, which is the client's own. A node never sees a text that ends in one."""
    pairs = 400_000
    flat, nested = f"select 1 /*{'  ' * (2 * pairs - 2)}*/", f"select 1 {'/*' * pairs}{'*/' * pairs}"
    assert len(flat) == len(nested)
    with made.server.connect() as connection:

        def quickest(text: str) -> float:
            """The best of some: what else the machine does counts least there."""
            times = []
            for _ in range(5):
                before = time.monotonic()
                connection.execute(text)
                times.append(time.monotonic() - before)
            return min(times)

        one, other = quickest(flat), quickest(nested)
        # Read once for each level it would be hundreds of thousands of times as long.
        assert other < 20 * one + 0.05, f"{other:.3f} s of nested comments, {one:.3f} s of one as long"
        assert connection.execute("select id from cost /*/*/**/*/*/ where id = 5").fetchone() == (5,)
        assert connection.execute("select v /* /* x */ */ from cost where id = 7 -- /*/*").fetchone() == (7,)


def test_prepared_statements_have_a_limit_in_bytes(made):
    text = "select v from cost where id = $1 and v not in (" + ",".join(str(n) for n in range(20_000, 24_000)) + ")"
    assert len(text) > 20_000
    with made.server.connect() as first, made.server.connect() as second:
        def prepare(connection, number: int) -> str | None:
            # Statements of their own, so that no plan is shared.
            result = connection.pgconn.prepare(f"s{number}".encode(), f"{text} and v <> {number}".encode())
            return (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode() or None

        said = [prepare(first, n) for n in range(12)]
        assert None in said and "53200" in said, said
        kept = said.count(None)
        assert 4 <= kept <= 9
        assert _figure(made, "herd_prepared_bytes") <= 1_200_000
        # Others have their own, up to what there is in all.
        more = [prepare(second, n) for n in range(100, 112)]
        assert more[0] is None and "53200" in more
        assert _figure(made, "herd_prepared_bytes") <= 1_200_000
        first.execute("deallocate all")
        assert prepare(first, 200) is None
        # One that is too long for anybody.
        result = first.pgconn.prepare(b"long", ("select '" + "x" * 210_000 + "'").encode())
        assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"54000"
        assert first.execute("select v from cost where id = 3").fetchone() == (3,)
    deadline = time.monotonic() + 60
    while _figure(made, "herd_prepared_bytes") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _figure(made, "herd_prepared_bytes") == 0


def test_kept_plans_have_a_limit_in_bytes(made):
    with made.server.connect() as connection:
        for n in range(20):
            connection.execute(f"select count(*) from cost where v <> {n} and v not in ({','.join(str(m) for m in range(n, n + 1_000))})")
            assert _figure(made, "herd_plan_bytes") <= 400_000
        # A text that is larger than what there is for all is answered, and not kept.
        connection.execute(f"select count(*) from cost where v::text <> '{'x' * 300_000}'")
        assert _figure(made, "herd_plan_bytes") <= 400_000


_MANY = {
    "an argument": ["prepare p (text) as select " + " + ".join("length($1)" for _ in range(120)), f"execute p ('{'x' * 1_000_000}')"],
    "its own statements": [f"prepare big as select '{'x' * 100_000}'", "select count(*) from " + ", ".join(f"pg_prepared_statements a{n}" for n in range(400))],
    "a view": [f"create view costly as select id, '{'x' * 1_000_000}'::text as x from cost", "select count(*) from " + ", ".join(f"costly a{n}" for n in range(40))],
}


@pytest.mark.parametrize("what", _MANY)
def test_what_is_put_in_many_times_has_a_limit(made, what):
    """A short statement does not become one of gigabytes."""
    before = _memory(made)
    with made.server.connect() as connection:
        *first, last = _MANY[what]
        for sql in first:
            connection.execute(sql)
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            connection.execute(last)
        assert connection.execute("select 1").fetchone() == (1,)
        connection.execute("drop view if exists costly")
    assert _memory(made) - before < 100


def test_what_is_put_in_once_may_be_long(made):
    with made.server.connect() as connection:
        connection.execute("prepare p (text) as select length($1)")
        assert connection.execute(f"execute p ('{'x' * 40_000_000}')").fetchone() == (40_000_000,)


def _memory(made) -> int:
    """The most memory the router has had, in MiB."""
    return processes.peak_kib(made.process.pid) // 1024


def _named_twice(first: str, each: str, times: int) -> str:
    """WITH queries that each name the last one twice: what they are analysed for doubles with each."""
    queries = [f"c0 as ({first})", *(f"c{n + 1} as ({each.format(n)})" for n in range(times))]
    return f"explain with {', '.join(queries)} select count(*) from c{times}"


_CONSTANTS = "select " + ", ".join(f"1 as c{n}" for n in range(500))
_DOUBLED = {
    "columns of no table": _named_twice(_CONSTANTS, "select * from c{0} x natural join c{0} y", 12),
    "joined constants": _named_twice(_CONSTANTS, "select x.* from c{0} x join c{0} y on x.c1 = y.c1", 10),
    "a table's rows": _named_twice("select * from cost", "select x.* from c{0} x join c{0} y on x.id = y.id", 12),
    "one arm and the other": _named_twice("select id from cost where id = 1", "select id from c{0} union all select id from c{0}", 13),
    "what may be left out": _named_twice("select * from cost", "select x.* from c{0} x left join c{0} y on x.id = y.id", 11),
}


@pytest.mark.parametrize("what", _DOUBLED)
def test_others_are_served_while_queries_that_double_are_planned(made, what):
    before = _memory(made)
    with made.server.connect() as one:

        def planned() -> None:
            # Refused when it is too much, or PostgreSQL's own affair.
            with contextlib.suppress(psycopg.errors.StatementTooComplex, psycopg.errors.FeatureNotSupported):
                one.execute("set statement_timeout = '2s'")
                one.execute(_DOUBLED[what])

        try:
            taken, wait = _longest_wait(made, planned)
        except AssertionError as error:
            assert "statement timeout" in str(error)
            return
    assert wait < 1.0, f"{what} took {taken:.1f} s, another waited {wait:.1f} s"
    assert _memory(made) - before < 700


def test_what_doubles_too_often_is_refused(made):
    sql = _named_twice(_CONSTANTS, "select x.* from c{0} x join c{0} y on x.c1 = y.c1", 13)
    with made.server.connect() as one:
        with pytest.raises(psycopg.errors.StatementTooComplex, match="too complex to be planned") as refused:
            one.execute(sql)
        assert "temporary table" in (refused.value.diag.message_hint or "")
        assert one.execute("select v from cost where id = 4").fetchone() == (4,)
        few = _named_twice("select * from cost", "select x.* from c{0} x join c{0} y on x.id = y.id", 5).removeprefix("explain ")
        assert one.execute(few).fetchone() == (100,)


def test_sqlstates_that_clients_make_up_are_counted_as_one(made):
    with made.server.connect() as one:
        for number in range(20):
            with pytest.raises(psycopg.Error, match="made up"):
                one.execute(f"do $$ begin raise exception using message = 'made up', errcode = 'PA{number:03}'; end $$")
        with pytest.raises(psycopg.errors.SerializationFailure):
            one.execute("do $$ begin raise exception using errcode = '40001'; end $$")
    page = urllib.request.urlopen(f"http://127.0.0.1:{made.metrics}/metrics", timeout=30).read().decode()
    counted = dict(line.split() for line in page.splitlines() if line.startswith("herd_errors_total"))
    assert int(counted['herd_errors_total{sqlstate="other"}']) >= 20
    assert int(counted['herd_errors_total{sqlstate="40001"}']) >= 1
    assert not [name for name in counted if '"PA' in name]


_REFUSED = [
    "drop table cost",
    "truncate cost",
    "alter table cost add x int",
    "create index on cost (v)",
    "alter table cost rename to costs",
    "create trigger t before update on cost for each row execute function suppress_redundant_updates_trigger()",
]


def test_who_may_not_change_a_table_keeps_nobody_waiting(made):
    """As in PostgreSQL, rights are looked at before locks are taken."""
    stop, said = threading.Event(), set()

    def change(sql: str) -> None:
        with made.server.connect(user="cost_nobody") as own:
            while not stop.is_set():
                try:
                    own.execute(sql)
                except psycopg.Error as error:
                    said.add((error.sqlstate, error.diag.message_primary))

    with made.server.connect() as other:
        other.execute("create role cost_nobody login")
        threads = [threading.Thread(target=change, args=(sql,)) for sql in _REFUSED * 6]
        try:
            for thread in threads:
                thread.start()
            waits, until = [], time.monotonic() + 5
            while time.monotonic() < until:
                before = time.monotonic()
                assert other.execute("select v from cost where id = 3").fetchone() == (3,)
                waits.append(time.monotonic() - before)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            other.execute("drop role cost_nobody")
    waits.sort()
    assert {code for code, _ in said} == {"42501"}, said
    assert {text for _, text in said} <= {"must be owner of table cost", "permission denied for table cost"}, said
    print(f"{len(waits)} statements, one waited {waits[len(waits) // 2]:.3f} s, the longest {waits[-1]:.2f} s")
    # A busy machine makes it some hundredths of a second.
    assert waits[len(waits) // 2] < 0.25, f"{len(waits)} statements, one waited {waits[len(waits) // 2]:.2f} s, the longest {waits[-1]:.2f} s"


def test_others_are_served_while_a_large_value_of_a_key_is_read(made):
    value = "{" + ",".join(f'"{n}":1' for n in range(300_000)) + "}"
    with made.server.connect() as one:
        one.execute("create table cost_json (id jsonb, v int)")
        one.execute("select create_distributed_table('cost_json', 'id')")

        def ask() -> None:
            assert one.execute("select v from cost_json where id = %s::text::jsonb", (value,)).fetchall() == []
            assert one.execute("insert into cost_json values (%s, 1)", (value,)).rowcount == 1

        taken, wait = _longest_wait(made, ask)
        one.execute("drop table cost_json")
    assert wait < max(0.5, taken / 8), f"took {taken:.1f} s, another waited {wait:.1f} s"


def test_others_are_served_while_a_table_is_made_of_queries_that_double(made):
    """The query is planned once more when the table is there."""
    sql = _named_twice("select * from cost", "select x.* from c{0} x left join c{0} y on x.id = y.id", 11).removeprefix("explain ")
    with made.server.connect() as one:

        def make() -> None:
            assert one.execute(f"create table cost_as as {sql}").statusmessage == "SELECT 1"

        taken, wait = _longest_wait(made, make)
        one.execute("drop table if exists cost_as")
    assert wait < 1.0, f"took {taken:.1f} s, another waited {wait:.1f} s"


def test_deep_json_is_a_key_like_any(made):
    value = "[" * 5_000 + "]" * 5_000
    with made.server.connect() as one:
        one.execute("create table cost_deep (id jsonb, v int)")
        one.execute("select create_distributed_table('cost_deep', 'id')")
        one.execute(f"insert into cost_deep values ('{value}', 1)")
        one.execute("insert into cost_deep values (%s, 2)", (value,))
        assert one.execute("select v from cost_deep where id = %s order by v", (psycopg.types.json.Jsonb([]),)).fetchall() == []
        assert one.execute("select sum(v) from cost_deep where id = %s::text::jsonb", (value,)).fetchone() == (3,)
        # Where it lies is where PostgreSQL itself would have it.
        assert one.execute("select count(*) from cost_deep").fetchone() == (2,)
        with pytest.raises(psycopg.errors.StatementTooComplex):
            one.execute("insert into cost_deep values (%s, 3)", ("[" * 1_000_000 + "]" * 1_000_000,))
        one.execute("drop table cost_deep")


def test_planning_can_be_cancelled(made):
    sql = _named_twice("select * from cost", "select x.* from c{0} x left join c{0} y on x.id = y.id", 12)
    with made.server.connect() as one:
        timer = threading.Timer(0.25, one.cancel)
        before = time.monotonic()
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            one.execute(sql)
        taken = time.monotonic() - before
        timer.join()
        assert one.execute("select v from cost where id = 4").fetchone() == (4,)
    assert taken < 3, f"cancelled after {taken:.1f} s"
