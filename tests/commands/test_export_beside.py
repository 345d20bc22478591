"""`herd export` beside writers, moves of shards, changes of the schema, lost nodes and full disks: each row once, or an error and no file."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest

from commands import exports
from commands.exports import csv, export, parquet
from commands.terminal import on_a_terminal
from harness import unprivileged
from harness.herd import Herd

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("export-beside"), pytest.mark.timeout(600)]

ACCOUNTS, BALANCE = 300, 1000
SLOW_ROWS = 600
WIDE_ROWS = 160_000
# Of 400 MB the program holds a row group for each of three files, and what its allocator keeps for the next; the router what waits for a client.
MEMORY_MAX_KIB = 300 * 1024
# A process has had what its parent has, until it runs its program: who measures it has to be small.
MEASURED = "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
SCHEMA = (
    "CREATE TABLE bank (account int PRIMARY KEY, balance int NOT NULL, note text DEFAULT repeat('x', 500))",
    "SELECT create_distributed_table('bank', 'account')",
    f"INSERT INTO bank SELECT i, {BALANCE} FROM generate_series(1, {ACCOUNTS}) i",
    "CREATE TABLE still (id int PRIMARY KEY, x text)",
    "SELECT create_distributed_table('still', 'id', colocate_with => 'none')",
    "INSERT INTO still SELECT i, repeat('x', i % 100) FROM generate_series(1, 3000) i",
    # A role for which each row takes a while.
    "CREATE ROLE slow_reader LOGIN",
    "CREATE TABLE slow (id int PRIMARY KEY, x text)",
    "SELECT create_distributed_table('slow', 'id')",
    f"INSERT INTO slow SELECT i, repeat('x', 1000) FROM generate_series(1, {SLOW_ROWS}) i",
    "GRANT SELECT ON slow TO slow_reader",
    "ALTER TABLE slow ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY slowly ON slow USING (pg_sleep(0.04) IS NOT NULL)",
    "CREATE TABLE wide (id int PRIMARY KEY, x text)",
    "SELECT create_distributed_table('wide', 'id')",
    f"INSERT INTO wide SELECT i, repeat(md5(i::text), 80) FROM generate_series(1, {WIDE_ROWS}) i",
)


@pytest.fixture(scope="module")
def herd():
    made = Herd(nodes=3, shards=8)
    try:
        made.server.run(*SCHEMA)
        yield made
    finally:
        made.stop()


@pytest.fixture
def folder():
    path = unprivileged.new_directory("export")
    yield path
    unprivileged.remove_directory(path)


class Beside:
    """Does something again and again until told to stop, and raises what went wrong in it."""

    def __init__(self, *steps):
        self.stopped, self.done, self.error = threading.Event(), 0, None
        self.threads = [threading.Thread(target=self._run, args=(step,)) for step in steps]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        if self.error:
            raise self.error

    def _run(self, step) -> None:
        try:
            while not self.stopped.is_set():
                step(self.done)
                self.done += 1
        except Exception as error:  # noqa: BLE001
            self.error = error


def transfers(server, seed: int):
    """Money goes from account to account, on different nodes."""
    connection = server.connect()

    def step(number: int) -> None:
        low, high = sorted(((number * 7 + seed) % ACCOUNTS + 1, (number * 13 + seed * 5) % ACCOUNTS + 1))
        if low != high:
            with connection.transaction():
                connection.execute("UPDATE bank SET balance = balance - 1 WHERE account = %s", (low,))
                connection.execute("UPDATE bank SET balance = balance + 1 WHERE account = %s", (high,))

    return step


@pytest.mark.parametrize("what", ["bank", "SELECT account, balance FROM bank", "SELECT * FROM bank ORDER BY note, account"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_one_snapshot_beside_writers(herd, folder, what, form):
    with Beside(*(transfers(herd.server, seed) for seed in range(4))) as writers:
        for turn in range(3):
            before = writers.done
            export(herd.server, what, form, folder / str(turn))
            assert writers.done > before
    for turn in range(3):
        if form == "parquet":
            rows = parquet(folder / str(turn), "account, balance")
        else:
            rows = [tuple(map(int, line.split(b",")[:2])) for line in csv(folder / str(turn))[1]]
        assert sorted(account for account, _ in rows) == list(range(1, ACCOUNTS + 1))
        # Money on its way is on one side.
        assert sum(balance for _, balance in rows) == ACCOUNTS * BALANCE


def test_each_row_once_while_shards_move(herd, folder):
    with herd.server.connect() as connection:
        places = (
            "SELECT s.number, n.name FROM herd.shard s JOIN herd.relation r ON r.colocation = s.colocation AND r.name = 'still' JOIN herd.node n ON n.id = s.node ORDER BY 1"
        )

        def move(number: int) -> None:
            shard, now = connection.execute(places).fetchall()[number % 8]
            names = [name for (name,) in connection.execute("SELECT name FROM herd.node ORDER BY id").fetchall()]
            connection.execute("SELECT herd.move_shard('still', %s, %s)", (shard, names[(names.index(now) + 1) % 3]))

        with Beside(move) as moves:
            deadline, turn = time.monotonic() + 240, 0
            while (moves.done < 8 or turn < 8) and not moves.error:
                assert time.monotonic() < deadline, f"{moves.done} moves and {turn} exports"
                form = ("csv", "parquet")[turn % 2]
                export(herd.server, "still", form, folder / str(turn))
                ids = [i for (i,) in parquet(folder / str(turn), "id")] if turn % 2 else [int(row.split(b",")[0]) for row in csv(folder / str(turn))[1]]
                assert sorted(ids) == list(range(1, 3001))
                turn += 1


def test_a_table_that_is_changed_is_waited_for(herd, folder):
    """Both ways: an export waits for who changes the table on a node, and who changes it waits for an export."""
    with herd.node_servers[1].connect(autocommit=False) as changing:
        changing.execute("LOCK TABLE still IN ACCESS EXCLUSIVE MODE")
        begun = subprocess.Popen(
            exports.command("still", "--url", herd.server.url, "--format", "csv", "--dir", folder / "d"), env=exports.environment(), stderr=subprocess.PIPE, text=True
        )
        # Longer than locks are waited for at a time: all are given up, and taken again.
        time.sleep(5)
        assert begun.poll() is None
        changing.rollback()
    assert begun.wait(timeout=120) == 0, begun.stderr.read()
    assert len(csv(folder / "d")[1]) == 3000
    slow = begin_slow(herd, folder / "slow")
    try:
        with herd.server.connect() as connection:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                connection.execute("SET lock_timeout = '1s'")
                connection.execute("TRUNCATE slow")
        assert slow.wait(timeout=120) == 0, slow.stderr.read()
        assert len(csv(folder / "slow")[1]) == SLOW_ROWS
    finally:
        slow.kill()


def waits_for(server, table: str) -> None:
    """Until somebody waits for a lock of this table."""
    deadline = time.monotonic() + 90
    with server.connect() as connection:
        while not connection.execute("SELECT 1 FROM pg_locks WHERE relation = %s::regclass AND NOT granted", (table,)).fetchone():
            assert time.monotonic() < deadline, table
            time.sleep(0.02)


def test_a_partition_that_is_attached_in_between(herd, folder):
    """PostgreSQL shows its rows to snapshots of before, and ATTACH PARTITION does not wait for readers: an error, not some of the rows."""
    home = herd.node_servers[0]
    herd.server.run(
        "CREATE TABLE parted (id int, x text) PARTITION BY RANGE (id)", "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE parted_2 (id int, x text)", "INSERT INTO parted VALUES (1, 'a')", "INSERT INTO parted_2 VALUES (11, 'b')",
    )  # fmt: skip
    with home.connect(autocommit=False) as holding, home.connect(autocommit=False) as catalog:
        holding.execute("LOCK TABLE parted IN ACCESS EXCLUSIVE MODE")
        begun = subprocess.Popen(
            exports.command("parted", "--url", herd.server.url, "--format", "csv", "--dir", folder / "d"), env=exports.environment(), stderr=subprocess.PIPE, text=True
        )
        waits_for(home, "parted")
        # What is asked of the cut, before rows are.
        catalog.execute("LOCK TABLE herd.relation IN ACCESS EXCLUSIVE MODE")
        holding.commit()
        waits_for(home, "herd.relation")
        home.run("SET session_replication_role = replica", "ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (10) TO (20)")
        catalog.commit()
    assert begun.wait(timeout=120) == 1
    assert "a partition was attached meanwhile" in begun.stderr.read()
    assert not (folder / "d").exists()
    export(herd.server, "parted", "csv", folder / "d")
    assert [row.strip() for row in csv(folder / "d")[1]] == [b"1,a", b"11,b"]


def begin_slow(herd, folder: Path) -> subprocess.Popen:
    """An export that takes some seconds; its files have been begun, and rows are being read on all nodes."""
    url = f"postgresql://slow_reader@127.0.0.1:{herd.port}/postgres"
    arguments = exports.command("slow", "--url", url, "--format", "csv", "--dir", folder, "--enable-row-security")
    begun = subprocess.Popen(arguments, env=exports.environment(), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 90
    while len(copies(herd)) < 3 or len(list(folder.glob("*.csv.part"))) < 3:
        assert begun.poll() is None, begun.stderr.read()
        assert time.monotonic() < deadline, copies(herd)
        time.sleep(0.05)
    return begun


def copies(herd) -> list[tuple]:
    """The COPYs of the slow reader: a node's number and the backend."""
    found = []
    for number, node in enumerate(herd.node_servers):
        with node.connect() as connection:
            rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE usename = 'slow_reader' AND state = 'active' AND query LIKE 'COPY%'")
            found += [(number, pid) for (pid,) in rows.fetchall()]
    return found


def test_nothing_is_left_where_a_node_fails_half_way(herd, folder):
    begun = begin_slow(herd, folder / "d")
    names = sorted(path.name for path in (folder / "d").glob("*.csv*"))
    assert names == ["slow-1.csv.part", "slow-2.csv.part", "slow-3.csv.part"]
    number, pid = next(each for each in copies(herd) if each[0] == 1)
    with herd.node_servers[number].connect() as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
    assert begun.wait(timeout=90) == 1
    said = begun.stderr.read()
    assert "terminating connection due to administrator command" in said, said
    assert not (folder / "d").exists()
    # The others were told to end.
    deadline = time.monotonic() + 90
    while copies(herd):
        assert time.monotonic() < deadline, copies(herd)
        time.sleep(0.1)


def test_nothing_that_looks_whole_is_left_of_one_that_is_killed(herd, folder):
    begun = begin_slow(herd, folder / "d")
    begun.kill()
    begun.wait(timeout=90)
    assert all(path.suffix == ".part" for path in (folder / "d").iterdir())
    again = exports.run(herd.server, "still", "csv", folder / "d")
    assert again.returncode == 1 and "is not empty" in again.stderr, again.stderr


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_full_disk(herd, folder, form):
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root: a full disk is not tested here")
    small = folder / "small"
    small.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"a small file system can't be mounted here: {done.stderr.strip()}")
    try:
        done = exports.run(herd.server, "wide", form, small)
        assert done.returncode == 1 and "No space left on device" in done.stderr, done.stderr
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", small], check=False)


@pytest.mark.parametrize("what, form", [("wide", "csv"), ("wide", "parquet"), ("SELECT * FROM wide ORDER BY x", "csv"), ("SELECT a.x, b.id FROM wide a JOIN wide b ON b.id = a.id", "csv")])
def test_memory_does_not_grow_with_rows(herd, folder, what, form):
    """400 MB pass through; neither the program nor the router holds them."""
    router = herd.process_id(herd.port)
    before = peak_kib(router)
    arguments = exports.command(what, "--url", herd.server.url, "--format", form, "--dir", folder / "d")
    done = subprocess.run([sys.executable, "-c", MEASURED, *arguments], env=exports.environment(), stdout=subprocess.PIPE, text=True, timeout=280)
    assert done.returncode == 0
    assert sum(path.stat().st_size for path in (folder / "d").iterdir()) > (WIDE_ROWS * 2000 if form == "csv" else 1_000_000)
    # Of the program itself, and of the largest psql that it has waited for.
    assert int(done.stdout.split()[-1]) < MEMORY_MAX_KIB
    assert peak_kib(router) - before < 64 * 1024


@pytest.mark.parametrize("what, shown", [("still", r"([\d,]+) of about 3,000 rows"), ("SELECT * FROM still", r"([\d,]+) rows \d+s")])
def test_a_terminal_shows_a_bar(herd, folder, what, shown):
    herd.server.run("ANALYZE still")
    code, said = on_a_terminal("export", what, "--url", herd.server.url, "--format", "csv", "--dir", folder / "d")
    assert code == 0 and re.search(r"3000 rows in \d files? of ", said), said
    # Not every step is drawn.
    seen = [int(rows.replace(",", "")) for rows in re.findall(shown, said)]
    assert seen and seen == sorted(seen) and 0 < seen[-1] <= 3000, said
    piped = exports.run(herd.server, what, "csv", folder / "piped")
    files = {path.name for path in (folder / "piped").iterdir()}
    lines = re.findall(r"^(\S+): ([\d,]+) rows$", piped.stderr, re.MULTILINE)
    assert {name for name, _ in lines} == files and sum(int(rows.replace(",", "")) for _, rows in lines) == 3000, piped.stderr


def test_full_export_as_a_hint(herd):
    """A plain SELECT, with the comment that BaikalDB reads: rows come as they are there, and the router holds few of them."""
    router = herd.process_id(herd.port)
    before, rows = peak_kib(router), 0
    with herd.server.connect() as connection, connection.cursor() as cursor:
        for _ in cursor.stream('/*{"full_export":true}*/ SELECT * FROM wide'):
            rows += 1
    assert rows == WIDE_ROWS
    assert peak_kib(router) - before < 64 * 1024


def peak_kib(process_id: int) -> int:
    """The most that a process has had resident."""
    status = Path(f"/proc/{process_id}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def test_what_is_said_and_limits_of_a_role_end_nothing(herd, folder):
    herd.server.run(
        "create or replace function noisy(i int) returns int language plpgsql as $$ begin raise info '%', repeat('y', 100); perform pg_sleep(0.001); return i; end $$",
        "drop role if exists limited", "create role limited login", "grant select on still to limited",
    )
    try:
        with herd.server.connect() as connection:
            if connection.info.server_version >= 170000:
                connection.execute("alter role limited set transaction_timeout = '1s'")
            connection.execute("alter role limited set statement_timeout = '1s'")
        assert export(herd.server, "select noisy(id) from still", "csv", folder / "query", user="limited") == ["query.csv"]
        assert len(csv(folder / "query")[1]) == 3000
        assert export(herd.server, "still", "csv", folder / "table", user="limited") and len(csv(folder / "table")[1]) == 3000
    finally:
        herd.server.run("revoke select on still from limited", "drop role limited")


def test_one_folder_is_one_exports(herd, folder):
    """Another one is at work in it."""
    folder.mkdir(exist_ok=True)
    (folder / ".herd-export.part").touch()
    done = exports.run(herd.server, "still", "csv", folder)
    assert done.returncode == 1 and "not empty" in done.stderr, done.stderr
    assert [path.name for path in folder.iterdir()] == [".herd-export.part"]


def test_nobody_need_listen(herd, folder):
    arguments = exports.command("still", "--url", f"postgresql://postgres@127.0.0.1:{herd.server.port}/postgres", "--format", "csv", "--dir", folder)
    with open("/dev/full", "w") as full:
        assert subprocess.run(arguments, env=exports.environment(), stdin=subprocess.DEVNULL, stdout=full, stderr=full, timeout=120).returncode == 0
    assert len(csv(folder)[1]) == 3000


def test_no_columns_and_columns_as_text(herd, folder):
    herd.server.run("create table if not exists no_columns ()")
    done = exports.run(herd.server, "no_columns", "parquet", folder)
    assert done.returncode == 1 and "Parquet needs a column" in done.stderr, done.stderr
    done = exports.run(herd.server, "still", "csv", folder, "--as-text", "x")
    assert done.returncode == 1 and "--as-text is for Parquet" in done.stderr, done.stderr
