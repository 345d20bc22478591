"""What the clients' tests share: connection strings and runs of programs in other languages."""

import os
import subprocess
from pathlib import Path

import pytest

from harness import binaries

HERE = Path(__file__).parent
# What the programs in other languages print, in this order, each after `ok `.
STEPS = ("connect", "create", "insert", "prepared", "aggregates", "types", "transactions", "batch", "copy", "cursor", "errors")


@pytest.fixture
def need():
    """Skips a test, with a line that says so, where a language is not installed; PGHERD_TEST_ALL_CLIENTS=1 makes it fail."""

    def check(*tools: str) -> None:
        for tool in tools:
            if binaries.tool(tool) is None:
                missing = pytest.fail if os.environ.get("PGHERD_TEST_ALL_CLIENTS") == "1" else pytest.skip
                missing(f"{tool} is not installed: its client is not tested here")

    return check


@pytest.fixture
def run():
    """Runs a command with the herd's address in its environment and returns what it printed; fails with its output."""

    def call(*command: str, cwd: Path = HERE, seconds_max: float = 120, **environment: str) -> str:
        done = subprocess.run(
            [str(part) for part in command], cwd=cwd, env=os.environ | environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=seconds_max,
        )
        if done.returncode != 0:
            pytest.fail(f"{' '.join(map(str, command))} exited {done.returncode}\n{done.stdout}\n{done.stderr}", pytrace=False)
        return done.stdout

    return call


@pytest.fixture
def steps():
    """Asserts that a program did every step, so that none is left out silently."""

    def check(output: str, without: tuple[str, ...] = ()) -> None:
        done = [line.removeprefix("ok ") for line in output.splitlines() if line.startswith("ok ")]
        assert done == [step for step in STEPS if step not in without], output

    return check


@pytest.fixture
def table(herd):
    """A fresh distributed table `name (id int primary key, v int, t text)`; dropped at the end."""
    made = []

    def make(name: str, rows: int = 0) -> str:
        herd.run(f"drop table if exists {name}", f"create table {name} (id int primary key, v int, t text)")
        herd.run(f"select create_distributed_table('{name}', 'id')")
        made.append(name)
        if rows:
            values = ", ".join(f"({i}, {i % 10}, 't{i}')" for i in range(1, rows + 1))
            herd.run(f"insert into {name} values {values}")
        return name

    yield make
    for name in made:
        herd.run(f"drop table if exists {name}")
