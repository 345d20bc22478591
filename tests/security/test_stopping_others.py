"""What one role's sessions do is not others' time and not all of the router's memory: attacks of a reader with fresh eyes, each of which worked."""

import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time

import psycopg
import pytest

from harness import router
from protocol import frames

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("stopping-others"), pytest.mark.timeout(600)]

# Others' statements took less than 0.3 s beside all of these when nothing was attacked; machines are slow and busy. Who is kept waiting is so for as
# long as the attack takes, which is some seconds.
_SOON = 2
_MIB = 1 << 20
# Objects of one role that each lead to the next, and how many seconds two changes of the schema beside them may take (in a debug build).
_CHAIN, _CHAIN_TAKES = 1200, 5


@pytest.fixture(scope="module")
def made():
    nodes = [router.node(f"stopping{n}", {"max_connections": "400"}) for n in (1, 2)]
    home, other = map(router.conninfo, nodes)
    one = router.Router(home, [other], more="threads = 1\n[limits]\nclient_message_bytes = 1073741824\nrow_bytes_per_session = 67108864\n")
    try:
        one.server.run(
            "create role mallory login", "create role victim login", "create schema hers authorization mallory",
            "create table spread (id int primary key, v text)", "select create_distributed_table('spread', 'id')",
            "grant select, insert on spread to mallory", "create view seen as select * from spread", "grant select on seen to victim",
        )
        yield one
    finally:
        for each in (one, *nodes):
            each.stop()


class Others:
    """A victim's statements meanwhile, by another process: this one's threads wait for each other."""

    _CODE = (
        "import psycopg, sys, time\n"
        "c = psycopg.connect(sys.argv[1], autocommit=True); end = time.monotonic() + float(sys.argv[2]); worst = 0\n"
        "print('ready', flush=True)\n"
        "while time.monotonic() < end:\n"
        "    t = time.monotonic(); c.execute(sys.argv[3]); worst = max(worst, time.monotonic() - t); time.sleep(0.02)\n"
        "print(worst)"
    )

    def __init__(self, made, seconds: float, sql: str = "select 1"):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self._CODE, f"{made.server.conninfo} user=victim", str(seconds), sql], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "ready\n"

    def longest(self) -> float:
        return float(self.process.communicate(timeout=300)[0])


class Client:
    """A session that sends bytes, and need not read."""

    def __init__(self, made, user: str = "mallory"):
        self.socket = socket.create_connection(("127.0.0.1", made.port), 120)
        self.socket.sendall(frames.startup(frames.PROTOCOL_3_0, user=user, database="postgres"))
        self.until(b"Z")

    def until(self, kind: bytes) -> list[tuple[bytes, bytes]]:
        got = []
        while not got or got[-1][0] != kind:
            tag, length = struct.unpack(">ci", self._exactly(5))
            got.append((tag, self._exactly(length - 4)))
        return got

    def _exactly(self, count: int) -> bytes:
        pieces = []
        while count:
            piece = self.socket.recv(min(count, 1 << 20))
            assert piece, "closed"
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def send(self, tag: bytes, body: bytes) -> None:
        self.socket.sendall(tag + struct.pack(">i", len(body) + 4) + body)

    def query(self, sql: str) -> None:
        self.send(b"Q", sql.encode() + b"\0")


def _as(made, role: str, **more) -> psycopg.Connection:
    return made.server.connect(user=role, autocommit=True, **more)


def _resident(made, what: str = "VmRSS") -> int:
    with open(f"/proc/{made.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what)) << 10


def _forget_peak(made) -> None:
    with open(f"/proc/{made.process.pid}/clear_refs", "w") as refs:
        refs.write("5")


def test_a_roles_long_settings_keep_nobody_out(made):
    """Home is asked who a role is before he proves anything: what he has set for himself must not make that long."""
    with _as(made, "mallory") as one:
        with contextlib.suppress(psycopg.Error):
            one.execute(f"alter role mallory set application_name = '{'x' * 60_000_000}'")
    over = threading.Event()

    def knocks():
        while not over.is_set():
            with contextlib.suppress(psycopg.Error):
                _as(made, "mallory").close()

    threads = [threading.Thread(target=knocks) for _ in range(24)]
    try:
        for thread in threads:
            thread.start()
        time.sleep(2)
        began = time.monotonic()
        _as(made, "victim").close()
        assert time.monotonic() - began < 5
    finally:
        over.set()
        for thread in threads:
            thread.join()
        made.server.run("alter role mallory reset all")


def test_signals_to_nobody(made):
    idle = [_as(made, "mallory") for _ in range(90)]
    try:
        with made.server.connect() as boss:
            pids = boss.execute("select pid from herd.sessions").fetchall()
        others = Others(made, 12)
        with _as(made, "mallory") as one:
            one.execute("set statement_timeout = '5s'")
            own = ", ".join(str(pid) for (pid,) in pids)
            mine = one.info.backend_pid
            # Pids of no session, but for the victim's, who came last.
            with contextlib.suppress(psycopg.Error):
                one.execute(f"select pg_cancel_backend(g) from generate_series(1, 1500000) g where g not in ({own}, {mine})")
        assert others.longest() < _SOON
    finally:
        for each in idle:
            each.close()


@pytest.mark.parametrize("what", ["select 1 from spread where id in ({})", "select {}", "set search_path = {}"])
def test_a_text_takes_not_a_thousand_times_its_length(made, what):
    """10 MB took 15 GB."""
    sql = what.format(",".join(["1" if "search_path" not in what else "a"] * 1_000_000))
    _forget_peak(made)
    before = _resident(made)
    one = Client(made)
    one.query(sql)
    one.until(b"Z")
    one.socket.close()
    assert _resident(made, "VmHWM") - before < 300 * _MIB


def _steps(queries: int) -> str:
    """A query whose plan is made in half a minute if nobody ends that, with few words."""
    constants = "select " + ", ".join(f"1 as c{n}" for n in range(500))
    each = [f"c0 as ({constants})", *(f"c{n + 1} as (select x.* from c{n} x join c{n} y on x.c1 = y.c1)" for n in range(queries))]
    return f"explain with {', '.join(each)} select count(*) from c{queries}"


@pytest.mark.parametrize("sql", [f"select 1 from spread where id in ({','.join(['1'] * 500_000)})", _steps(13)], ids=["reading", "planning"])
@pytest.mark.parametrize("extended", [False, True])
def test_a_time_limit_holds_while_the_router_reads_and_plans(made, sql, extended):
    """Nodes keep it while they work. The text is another each time: plans are kept."""
    one = Client(made)
    one.query("set statement_timeout = '250ms'")
    one.until(b"Z")
    if extended:
        for tag, body in ((b"P", b"\0" + sql.encode() + b" \0\0\0"), (b"B", bytes(8)), (b"E", bytes(5)), (b"S", b"")):
            one.send(tag, body)
    else:
        one.query(sql)
    answers = one.until(b"Z")
    one.query("select 1")
    still = one.until(b"Z")
    one.socket.close()
    assert [tag for tag, _ in answers if tag not in b"12"] == [b"E", b"Z"] and b"C57014\0Mcanceling statement due to statement timeout\0" in answers[-2][1]
    assert [tag for tag, _ in still] == [b"T", b"D", b"C", b"Z"]


def test_sleepers_take_no_place_of_large_statements(made):
    """A large message is read apart from others' statements, however many such wait for a node."""
    sleepers = [Client(made) for _ in range(64)]
    for each in sleepers:
        each.query(f"select pg_sleep(60) /* {'x' * 17_000} */")
    time.sleep(1)
    large = Client(made)
    others = Others(made, 15)
    large.query(f"select array[{','.join(['1'] * 700_000)}]")
    longest = others.longest()
    for each in [*sleepers, large]:
        each.socket.close()
    assert longest < _SOON


@pytest.mark.skip(reason="620 plans of a second each take minutes in a test build: by hand")
def test_large_plans_that_wait_hold_no_thread(made):
    sql = _steps(13)
    many = [Client(made) for _ in range(620)]
    for each in many:
        each.query(sql)
    time.sleep(2)
    try:
        with _as(made, "victim") as one:
            one.execute("set statement_timeout = '20s'")
            began = time.monotonic()
            one.execute("select count(*) from seen where id = 1")
            assert time.monotonic() - began < 5
    finally:
        for each in many:
            each.socket.close()
        time.sleep(2)


def test_copy_in_small_pieces(made):
    """Frames that are here already are not all worked on before others are served."""
    one = Client(made)
    one.query("copy spread from stdin")
    one.until(b"G")
    others = Others(made, 6)
    one.send(b"d", b"1\t")
    frame = b"d" + struct.pack(">i", 5) + b"x"
    block, end = frame * (65536 // len(frame)), time.monotonic() + 5
    while time.monotonic() < end:
        one.socket.sendall(block)
    longest = others.longest()
    one.socket.close()
    assert longest < _SOON


def test_messages_that_have_not_come_whole_are_counted(made):
    before, size = _resident(made), 100_000_000
    many = [Client(made) for _ in range(20)]
    for each in many:
        with contextlib.suppress(OSError):
            each.socket.sendall(b"Q" + struct.pack(">i", size + 4) + b"x" * (size - 100))
    time.sleep(1)
    grown = _resident(made) - before
    for each in many:
        each.socket.close()
    assert grown < 1200 * _MIB, f"{grown >> 20} MiB"


@pytest.mark.skip(reason="eleven paths of 300 000 names take minutes in a test build: by hand")
def test_what_was_asked_of_long_paths_is_not_kept(made):
    """PostgreSQL looks a schema up once, however often a path names it."""
    with _as(made, "mallory") as one:
        one.execute("create table if not exists hers.closed (i int)")

    def asks(times: int) -> None:
        one = Client(made)
        for sql in (f"set search_path = {','.join(['hers'] * times)}", "select from closed"):
            one.query(sql)
            one.until(b"Z")
        one.socket.close()

    asks(300_000)
    before = _resident(made)
    for n in range(1, 11):
        asks(300_000 - n)
    assert _resident(made) - before < 50 * _MIB


_CAUGHT = "begin perform chain.l{1}($1); exception when others then return 0; end; return 1"


@pytest.mark.parametrize("first, each", [
    pytest.param(["create type chain.l0 as (a int)"], "create type chain.l{0} as (a chain.l{1})", id="types"),
    pytest.param(["create domain chain.l0 as int"], "create domain chain.l{0} as chain.l{1}", id="domains"),
    pytest.param(
        ["create function chain.l0(int) returns int language sql as 'select $1'"],
        "create function chain.l{0}(int) returns int language sql as 'select chain.l{1}($1)'", id="functions",
    ),
    pytest.param(
        ["create function chain.l0(int) returns int language sql as 'select $1'"],
        f"create function chain.l{{0}}(int) returns int language plpgsql as 'begin {_CAUGHT}; end'", id="functions that catch errors",
    ),
    pytest.param(["create view chain.l0 as select 1 as a"], "create view chain.l{0} as select a from chain.l{1}", id="views"),
    pytest.param(
        ["create view chain.l0 as select 1 as a", "create view chain.l1 as select 1 as a"],
        "create view chain.l{0} as select a from chain.l{1} union all select a from chain.l{2}", id="views of the last two",
    ),
])
def test_chains_of_objects(made, first, each):
    """Each leads to the next: what is found out at a change of the catalog grows with their number, not its square, and others are served."""
    made.server.run("create schema chain authorization mallory")
    ports = [psycopg.conninfo.conninfo_to_dict(c)["port"] for c in (made.home, *made.nodes)]
    for port in ports:
        with psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres", autocommit=True) as node:
            node.execute("set role mallory; set check_function_bodies = off")
            for sql in first:
                node.execute(sql)
            for start in range(len(first), _CHAIN, 200):
                node.execute(";".join(each.format(n, n - 1, n - 2) for n in range(start, min(start + 200, _CHAIN))))
    try:
        made.server.run("create table known (i int)", "drop table known")
        others = Others(made, 4)
        began = time.monotonic()
        with _as(made, "mallory") as one:
            one.execute("create table hers.later (i int)")
            one.execute("drop table hers.later")
        took = time.monotonic() - began
        assert others.longest() < _SOON
        assert took < _CHAIN_TAKES
    finally:
        for port in ports:
            with psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres", autocommit=True) as node:
                for start in range(_CHAIN - 1, -1, -200):
                    kind = each.split()[1]
                    names = ", ".join(f"chain.l{n}{'(int)' if kind == 'function' else ''}" for n in range(start, max(start - 200, -1), -1))
                    node.execute(f"drop {kind} {names} cascade")
                node.execute("drop schema chain")
        made.server.run("create table known (i int)", "drop table known")


@pytest.mark.parametrize("statements", [["savepoint a"], ["begin", "commit"], [""], ["show work_mem"], ["deallocate all"]])
def test_small_messages_without_end(made, statements):
    """A client that sends more and more of what needs no node has its turn by time: not until the router has read all of it."""
    one = Client(made)
    one.query("begin" if statements == ["savepoint a"] else "select 1")
    one.until(b"Z")
    some = b"".join(b"Q" + struct.pack(">i", len(sql) + 5) + sql.encode() + b"\0" for sql in statements) * 2000
    stop = threading.Event()

    def unread():
        with contextlib.suppress(OSError):
            while one.socket.recv(1 << 20):
                pass

    def flood():
        with contextlib.suppress(OSError):
            while not stop.is_set():
                one.socket.sendall(some)

    threads = [threading.Thread(target=target) for target in (unread, flood)]
    for thread in threads:
        thread.start()
    longest = Others(made, 5).longest()
    stop.set()
    one.socket.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()
    one.socket.close()
    assert longest < _SOON / 2


def test_notifications_that_nobody_could_be_told_of(made):
    """PostgreSQL keeps them on disk while a session is in a transaction, and sends all of them at once: they count for the session's rows."""
    with _as(made, "mallory") as teller:
        listener = Client(made)
        for sql in ("listen hers", "begin", "select count(*) from pg_class"):
            listener.query(sql)
            listener.until(b"Z")
        before = _resident(made)
        _forget_peak(made)
        for _ in range(50):
            teller.execute("select count(pg_notify('hers', repeat('x', 7900) || g)) from generate_series(1, 1000) g")
        listener.query("commit")
        said = listener.until(b"E")[-1][1]
        assert b"C53200\0" in said and b"out of memory for notifications" in said and b"row_bytes_per_session" in said
        assert _resident(made, "VmHWM") - before < 150 * _MIB
        # Who can be told at once is told of as many.
        second = Client(made)
        second.query("listen hers")
        second.until(b"Z")
        for _ in range(3):
            teller.execute("select count(pg_notify('hers', repeat('x', 7900) || g)) from generate_series(1, 1000) g")
            assert len([1 for _ in range(1000) if second.until(b"A")]) == 1000
