"""What a session keeps on a connection of its own: its answers stay its own, its notifications come, its loss is told."""

import time

import psycopg
import pytest
from protocol import frames
from protocol.frames import extended, parse, query, sync
from protocol.raw import Raw, transcript

PINS = {
    "a temporary table": query("create temporary table pinned_t (a int)"),
    "an advisory lock": query("select pg_advisory_lock(4711)"),
    "a savepoint": query("begin") + query("savepoint s"),
    "a transaction": query("begin") + query("select 1"),
}
# ParameterDescription counts in 16 bits.
WIDE = "select " + "+".join(f"${i}::int" for i in range(1, 65537))


@pytest.mark.parametrize("pin", PINS, ids=lambda p: p)
def test_replies_stay_in_step(oracle, herd, pin):
    """PostgreSQL says of 65536 parameters what nobody can read: after it each statement gets its own answer, or none."""
    with Raw(herd) as raw:
        raw.transcript(PINS[pin], PINS[pin].count(b"Q\0\0"))
        raw.transcript(parse(WIDE) + sync())
        raw.transcript(query("rollback"))
        for n in range(3):
            said = raw.transcript(query(f"select {n}"))
            assert said[-1] == "closed" or f"D b'\\x00\\x01\\x00\\x00\\x00\\x01{n}'" in said, said
            if said[-1] == "closed":
                return


def test_a_lost_pinned_connection_ends_the_session(herd):
    with Raw(herd) as raw:
        raw.transcript(query("create temporary table pinned_t (a int)"))
        raw.transcript(query("insert into pinned_t values (1)"))
        with herd.connect() as other:
            home = other.execute("select host, port from herd.nodes order by id limit 1").fetchone()
        with psycopg.connect(host=home[0], port=home[1], user="postgres", dbname="postgres", autocommit=True) as node:
            # By its temporary schema: what it runs may be the router's own by now.
            sql = r"""select pg_terminate_backend(pg_stat_get_backend_pid(substring(n.nspname from '\d+$')::int))
                      from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relname = 'pinned_t'"""
            assert node.execute(sql).fetchall() == [(True,)]
        kind, body = raw.read()
        assert kind == "E" and frames.error_fields(body)["C"] == "57P01"
        assert raw.is_closed()


def notifications(raw: Raw, data: bytes, ready: int) -> list[str]:
    """As the client sees them, without pids."""
    raw.send(data)
    got, seen = [], 0
    while seen < ready:
        kind, body = raw.read()
        seen += kind == "Z"
        got.append((kind, body[4:] if kind == "A" else body))
    return transcript(got)


NOTIFIES = {
    "own": query("listen c") + query("notify c, '1'") + query("select 1"),
    "own in a transaction": query("listen c") + query("begin") + query("notify c, '1'") + query("select 1") + query("commit"),
    "own, rolled back": query("listen c") + query("begin") + query("notify c, '1'") + query("rollback") + query("select 2"),
    "listen in a transaction": query("begin") + query("listen c") + query("notify c, '1'") + query("commit"),
    "listen rolled back": query("begin") + query("listen c") + query("rollback") + query("notify c, '1'"),
    "unlisten": query("listen c") + query("unlisten c") + query("notify c, '1'"),
    "pg_notify": query("listen c") + query("select pg_notify('c', 'x') from generate_series(1, 3)"),
    "extended": query("listen c") + extended("select pg_notify('c', $1)", "x") + sync() + query("select 1"),
    "over nodes": query("listen c") + query("begin") + query("notify c, 'x'") + query("select count(*) from proto") + query("commit"),
    "in one string": query("listen c; notify c, 'a'; notify c, 'b'"),
}


@pytest.mark.parametrize("name", NOTIFIES, ids=lambda p: p)
def test_own_notifications_come_as_on_postgresql(tables, oracle, herd, name):
    data = NOTIFIES[name]
    with Raw(oracle) as plain, Raw(herd) as other:
        expected = notifications(plain, data, data.count(b"Q\0\0") + data.count(b"S\0\0\0\4"))
        assert notifications(other, data, data.count(b"Q\0\0") + data.count(b"S\0\0\0\4")) == expected


def test_own_notifications_carry_the_pid_the_client_knows(herd):
    with Raw(herd) as raw:
        raw.transcript(query("listen c"))
        raw.send(query("notify c"))
        said = raw.until_ready()
        assert [body[:4] for kind, body in said if kind == "A"] == [raw.key[:4]]


def test_all_notifications_come_in_order_while_statements_run(herd):
    count = 300
    with Raw(herd) as raw, herd.connect() as other:
        raw.transcript(query("listen busy"))
        other.autocommit = True
        came: list[int] = []

        def take(said):
            came.extend(int(body[4 + 5 : -1]) for kind, body in said if kind == "A")

        for n in range(count):
            if n % 3 == 0:
                raw.send(query("select count(*) from pg_class, generate_series(1, 20)"))
            other.execute(f"notify busy, '{n}'")
            if n % 3 == 0:
                take(raw.until_ready())
        end = time.monotonic() + 60
        while len(came) < count and time.monotonic() < end:
            take([raw.read()])
        assert came == list(range(count))


def test_an_idle_client_hears_at_once(herd):
    with Raw(herd) as raw, herd.connect() as other:
        raw.transcript(query("listen idle"))
        other.autocommit = True
        other.execute("notify idle, 'x'")
        before = time.monotonic()
        kind, body = raw.read()
        assert (kind, body[4:]) == ("A", b"idle\0x\0")
        assert time.monotonic() - before < 10
