"""`herd demo` and `herd bench`, run as a user would: every workload has its figures, wrong answers are errors."""

import json
import os
import re
import subprocess

import pytest

from harness import binaries, ports, unprivileged
from harness.server import Server

WORKLOADS = ("W1 ", "W2 Q1 ", "W2 Q2 ", "W2 Q3 ", "W2 Q4 ", "W2 Q5 ", "W3 ", "W4 ")
# W3's and W1's turns take two seconds each, and machines that test are busy.
_SECONDS_MAX = 500

pytestmark = pytest.mark.timeout(1200)


def command(folder, *arguments, seconds_max: float = _SECONDS_MAX) -> subprocess.CompletedProcess:
    """Runs `herd`. Output goes to files: a daemon that kept a pipe open would make us wait for its end."""
    environment = os.environ | {"HERD_PG_BIN": str(binaries.postgres_bin())}
    out, err = folder / "stdout", folder / "stderr"
    with open(out, "w") as stdout, open(err, "w") as stderr:
        code = subprocess.run(
            [str(binaries.herd()), *map(str, arguments)], env=environment, stdin=subprocess.DEVNULL, stdout=stdout,
            stderr=stderr, timeout=seconds_max,
        ).returncode
    return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())


@pytest.fixture
def folder():
    path = unprivileged.new_directory("demo")
    yield path
    command(path, "down", "--dir", path / "herd")
    unprivileged.remove_directory(path)


def check_demo(folder, done, port: int) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("W")]
    assert len(lines) == len(WORKLOADS), done.stdout
    for workload, line in zip(WORKLOADS, lines):
        assert line.startswith(workload), done.stdout
        plain, herd, ratio, _range = (cell.strip() for cell in line.split("|")[1:])
        assert re.fullmatch(r"[\d .]+ (tps|ms)", plain) and re.fullmatch(r"[\d .]+ (tps|ms)", herd), line
        assert float(ratio) > 0, line
    server = Server("demo", port)
    assert f"postgresql://postgres@127.0.0.1:{port}/postgres" in done.stdout
    with server.connect() as connection:
        assert connection.execute("select count(*) from sbtest1").fetchone() == (2000,)
        assert connection.execute("select count(*) from demo").fetchone() == (2000,)
        distributed = connection.execute("select count(*) from herd.tables where kind = 'distributed'").fetchone()
        assert distributed == (3,)
    # The plain PostgreSQL has ended: its data directory is nobody's.
    assert not (folder / "herd" / "plain" / "node1" / "postmaster.pid").exists()


@pytest.mark.real_herd
def test_demo_runs_twice_and_leaves_a_herd(folder):
    port = ports.free_row(4)
    demo = ["demo", "--dir", folder / "herd", "--rows", 2000]
    check_demo(folder, command(folder, *demo, "--port", port), port)
    # Without --port it is the herd that is there.
    check_demo(folder, command(folder, *demo), port)
    down = command(folder, "down", "--dir", folder / "herd")
    assert down.returncode == 0, down.stderr
    assert command(folder, "status", "--dir", folder / "herd").returncode == 1


@pytest.mark.real_herd
def test_bench_compares_two_servers(herd, oracle, folder):
    report, drawing = folder / "w2.json", folder / "w2.svg"
    done = command(
        folder, "bench", "w2", "--url", herd.url, "--vs", f"plain={oracle.url}", "--rows", 2000, "--pairs", 1,
        "--json", report, "--svg", drawing,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(report.read_text())
    assert [(server["name"], server["kind"]) for server in told["servers"]] == [("herd", "herd"), ("plain", "postgresql")]
    assert len(told["figures"]) == 5
    for figure in told["figures"]:
        assert figure["unit"] == "ms" and set(figure["values"]) == {"herd", "plain"}
        assert figure["medians"]["plain"] / figure["medians"]["herd"] == pytest.approx(figure["ratio_to"]["plain"])
    assert drawing.read_text().count('height="14"') == 10
    for server in (herd, oracle):
        with server.connect() as connection:
            assert connection.execute("select to_regclass('sbtest1')").fetchone() == (None,)


@pytest.mark.real_herd
@pytest.mark.parametrize("workload", ["w1", "w3", "w4", "w4-bulk", "w4-upsert", "w6", "copy"])
def test_bench_runs_every_workload(workload, herd, oracle, folder):
    done = command(
        folder, "bench", workload, "--url", herd.url, "--vs", f"plain={oracle.url}", "--rows", 500, "--pairs", 1,
        "--seconds", 1, "--clients", 3,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ratio" in done.stdout


@pytest.mark.real_herd
def test_bench_measures_everyday_transactions(herd, oracle, folder):
    report = folder / "oltp.json"
    done = command(
        folder, "bench", "oltp", "--url", herd.url, "--vs", f"plain={oracle.url}", "--rows", 300, "--pairs", 1,
        "--seconds", 1, "--clients", 3, "--json", report,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(report.read_text())
    assert told["clients"] == 3
    names = [figure["name"] for figure in told["figures"]]
    kinds = ["five point reads", "read_only", "read_write", "read_only, split by range", "read_write, split by range", "update_index", "update_non_index", "delete", "TPC-B", "TPC-C mix", "TPC-C new orders"]
    assert names == [f"oltp {kind}" for kind in kinds]
    assert all(figure["medians"]["herd"] > 0 for figure in told["figures"])
    for server in (herd, oracle):
        with server.connect() as connection:
            assert connection.execute("select to_regclass('sbtest1'), to_regclass('bench_accounts'), to_regclass('bench_stock')").fetchone() == (None,) * 3


def test_bench_says_so_where_orders_lose_a_line(oracle, folder):
    """Every server has what the standard's conditions ask for, or the measurement fails."""
    oracle.run(
        "create function lose_a_line() returns event_trigger language plpgsql as $$ begin "
        "if to_regclass('bench_order_line') is not null then "
        "execute 'create or replace rule lost as on insert to bench_order_line where new.ol_number = 15 do instead nothing'; end if; end $$",
        "create event trigger lose_a_line on ddl_command_end when tag in ('CREATE TABLE') execute function lose_a_line()",
    )
    try:
        done = command(
            folder, "bench", "oltp-tpcc", "--url", oracle.url, "--rows", 300, "--pairs", 1, "--seconds", 1, "--clients", 1,
        )
        assert done.returncode == 1 and "WRONG" in done.stderr and "3.3.2.4" in done.stderr, done.stdout + done.stderr
    finally:
        oracle.run("drop event trigger lose_a_line", "drop function lose_a_line()")


def test_bench_measures_several_numbers_of_clients(oracle, folder):
    report = folder / "points.json"
    done = command(
        folder, "bench", "oltp-points", "--url", oracle.url, "--rows", 300, "--pairs", 1, "--seconds", 1, "--clients", "1,3",
        "--json", report,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(report.read_text())
    assert told["clients"] == [1, 3]
    assert [figure["name"] for figure in told["figures"]] == [f"oltp five point reads, {n} clients" for n in (1, 3)]


def test_bench_leaves_tables_of_others_alone(oracle, folder):
    oracle.run("create table sbtest1 (mine int)")
    try:
        done = command(folder, "bench", "w2", "--url", oracle.url, "--rows", 500, "--pairs", 1)
        assert done.returncode == 1 and "was not made by `herd bench`" in done.stderr, done.stderr
        with oracle.connect() as connection:
            assert connection.execute("select count(*) from sbtest1").fetchone() == (0,)
    finally:
        oracle.run("drop table sbtest1")


def test_bench_tells_wrong_counts(oracle, folder):
    """A server that acknowledges rows and does not keep them."""
    oracle.run(
        "create function lose() returns event_trigger language plpgsql as $$ begin "
        "create or replace rule lose as on insert to demo where new.id = 7 do instead nothing; end $$",
        "create event trigger lose on ddl_command_end when tag in ('COMMENT') execute function lose()",
    )
    try:
        done = command(folder, "bench", "w4", "--url", oracle.url, "--rows", 500, "--pairs", 1)
        assert done.returncode == 1 and "WRONG" in done.stderr and "499" in done.stderr, done.stderr
    finally:
        oracle.run("drop event trigger lose", "drop function lose()")
