"""`herd bench` on column copies: they answer, and how far they are behind is told."""

import json
import os
import subprocess

import pytest

from harness import binaries

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(300)]


def test_bench_measures_beside_writers(columns, oracle, tmp_path):
    """Every query is answered by columns, and how far they are behind is told as numbers and as a picture."""
    report, drawing = tmp_path / "w5.json", tmp_path / "w5.svg"
    done = subprocess.run(
        [
            binaries.herd(), "bench", "w5", "--url", columns.server.url, "--vs", f"plain={oracle.url}", "--columns", "--rows", "2000", "--pairs", "1",
            "--seconds", "3", "--clients", "2", "--rate", "50", "--json", report, "--svg", drawing,
        ], capture_output=True, text=True, timeout=200, env=os.environ | {"HERD_PG_BIN": str(binaries.postgres_bin())},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(report.read_text())
    assert (told["columns"], told["rate"], len(told["figures"])) == (True, 50, 6)
    lag = told["lag"]
    assert list(lag) == ["herd"] and lag["herd"]["rows"] > 10 and 0 < lag["herd"]["p50_ms"] <= lag["herd"]["p99_ms"] <= lag["herd"]["max_ms"], lag
    assert len(lag["herd"]["turns"]) == 1 and len(lag["herd"]["turns"][0]) == lag["herd"]["rows"]
    assert drawing.read_text().count("<polyline") == 1 and "columns behind by p50" in done.stdout


def test_bench_asks_columns_for_w2(columns):
    command = [binaries.herd(), "bench", "w2", "--url", columns.server.url, "--columns", "--rows", "2000", "--pairs", "1"]
    before = columns.reads()
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=os.environ | {"HERD_PG_BIN": str(binaries.postgres_bin())})
    assert done.returncode == 0 and "the column copies of sbtest1 were there" in done.stderr, done.stdout + done.stderr
    assert columns.reads()[0] - before[0] >= 20, (before, columns.reads())


def test_bench_says_where_there_can_be_no_copies(oracle):
    for more, said in ((["w2", "--columns"], "none of the servers is a herd"), (["w1", "--columns"], "w2 and w5 do"), (["w2", "--rate", "7"], "w5 does")):
        done = subprocess.run([binaries.herd(), "bench", *more, "--url", oracle.url], capture_output=True, text=True, timeout=60, env=os.environ | {"HERD_PG_BIN": str(binaries.postgres_bin())})
        assert done.returncode == 1 and said in done.stderr, done.stderr


def test_bench_holds_columns_against_duckdb_itself(columns, tmp_path):
    """On a file that is made, and gone afterwards; the answers are the same, or the bench would say so."""
    file, report = tmp_path / "own.duckdb", tmp_path / "w2.json"
    command = [binaries.herd(), "bench", "w2", "--url", columns.server.url, "--columns", "--vs", f"duckdb=duckdb:{file}", "--rows", "3000", "--pairs", "2", "--json", report]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=os.environ | {"HERD_PG_BIN": str(binaries.postgres_bin())})
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(report.read_text())
    assert [server["kind"] for server in told["servers"]] == ["herd", "duckdb"] and told["servers"][1]["version"].startswith("v1."), told["servers"]
    assert all(len(values) == 2 and min(values) > 0 for figure in told["figures"] for values in figure["values"].values()), told["figures"]
    assert not file.exists()


def test_bench_asks_duckdb_for_what_it_knows(oracle, tmp_path):
    (tmp_path / "there").write_text("somebody's")
    for more, said in ((["w1", "--vs", "duckdb=duckdb:"], "w2 is"), (["w2", "--vs", f"duckdb=duckdb:{tmp_path}/there"], "is there already")):
        done = subprocess.run([binaries.herd(), "bench", *more, "--url", oracle.url], capture_output=True, text=True, timeout=60, env=os.environ | {"HERD_PG_BIN": str(binaries.postgres_bin())})
        assert done.returncode == 1 and said in done.stderr, done.stderr
    assert (tmp_path / "there").read_text() == "somebody's"
