"""What the measurements share: a fresh herd and a plain PostgreSQL set up alike, rows for sbtest1, a table printer.

Machines are noisy: only ratios taken side by side in one run count, so everything that compares alternates.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import binaries  # noqa: E402
from harness.fake_herd import FakeHerd  # noqa: E402
from harness.herd import Herd  # noqa: E402
from harness.idle import allow_many_files  # noqa: E402
from harness.plain_postgres import PlainPostgres  # noqa: E402
from harness.server import Server  # noqa: E402

SBTEST1 = (
    "drop table if exists sbtest1",
    "create table sbtest1 (id integer not null, k integer not null default 0, c character(120) not null default '', "
    "pad character(60) not null default '', primary key (id))",
    "create index k_1 on sbtest1 (k)",
)
SBTEST1_ROWS = """
insert into sbtest1 select i, (i * 7919::int8) % {count},
    lpad((i * 2654435761 % 100000000000)::text, 11, '0') || '-' || md5(i::text) || '-' || md5((i * 3)::text),
    md5((i * 5)::text) from generate_series({first}, {last}::int8) i
"""
_POSTGRES_SETTINGS = {"synchronous_commit": "off", "shared_buffers": "1GB", "fsync": "on", "max_connections": "300"}


def arguments(description: str, **defaults: int) -> argparse.Namespace:
    """Command-line options, each with its default: --seconds 20 …"""
    parser = argparse.ArgumentParser(description=description)
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args()


@contextlib.contextmanager
def herd(nodes: int = 2, shards: int = 32, columns: bool = False):
    """A fresh herd; a plain PostgreSQL instead if PGHERD_TEST_FAKE=1, to try a script out."""
    allow_many_files()
    made = FakeHerd("bench") if os.environ.get("PGHERD_TEST_FAKE") == "1" else Herd(nodes, shards, columns)
    try:
        yield made
    finally:
        made.stop()


@contextlib.contextmanager
def plain(**settings: str):
    made = PlainPostgres("plain", _POSTGRES_SETTINGS | settings)
    try:
        yield made
    finally:
        made.stop()


def fill_sbtest1(server: Server, rows: int, distributed: bool) -> None:
    """W1's table with the same rows on every server."""
    server.run(*SBTEST1, SBTEST1_ROWS.format(count=rows, first=1, last=rows))
    if distributed:
        server.run("select create_distributed_table('sbtest1', 'id')")
    server.run("vacuum analyze sbtest1")


def run(*command: object, **environment: str) -> str:
    """Runs a program to its end; its output, or SystemExit with it."""
    done = subprocess.run(
        [str(part) for part in command], env=os.environ | {"PGSSLMODE": "disable", "PGGSSENCMODE": "disable"} | environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} exited {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def pgbench(server: Server, *options: object) -> str:
    return run(
        binaries.postgres_bin() / "pgbench", "-h", server.host, "-p", server.port, "-U", server.user, *options, server.dbname
    )


class Background:
    """pgbench at work until it is `ended`, each transaction in its log."""

    def __init__(self, server: Server, directory: Path, name: str, script: str, *options: object):
        self.prefix = directory / name
        file = directory / f"{name}.sql"
        file.write_text(script)
        command = [
            binaries.postgres_bin() / "pgbench", "-h", server.host, "-p", server.port, "-U", server.user, "-n", "-f", file, "-T", 36_000,
            "--log", f"--log-prefix={self.prefix}.log", *options, server.dbname,
        ]
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"PGSSLMODE": "disable", "PGGSSENCMODE": "disable"},
        )

    def ended(self) -> int:
        """How many transactions there were; what pgbench says instead, if any failed. To pgbench SIGALRM is the end of its time."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGALRM)
        said = self.process.communicate()[0]
        if self.process.returncode or "number of failed transactions: 0 " not in said:
            raise SystemExit(said[-1500:])
        return int(re.search(r"actually processed: (\d+)", said).group(1))

    def waits(self) -> list[tuple[float, float]]:
        """Of each transaction when it had ended (Unix time), and its milliseconds."""
        found = []
        for path in self.prefix.parent.glob(f"{self.prefix.name}.log*"):
            for line in path.read_text().splitlines():
                fields = line.split()
                found.append((int(fields[4]) + int(fields[5]) / 1e6, int(fields[2]) / 1000))
        return found


def value(server: Server, sql: str):
    with server.connect() as connection:
        return connection.execute(sql).fetchone()[0]


def peak_kib(process_id: int) -> int:
    """The most that a process had resident since its peak was forgotten."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    raise SystemExit("the router is gone")


def forget_peak(process_id: int) -> None:
    """The peak begins anew with what is resident now."""
    Path(f"/proc/{process_id}/clear_refs").write_text("5")


def print_table(title: str, head: list[str], rows: list[list]) -> None:
    texts = [[f"{cell:,.2f}" if isinstance(cell, float) else f"{cell:,}" if type(cell) is int else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [head, *texts]) for i in range(len(head))]
    print(f"\n{title}\n" + "  ".join(cell.ljust(width) for cell, width in zip(head, widths)))
    for row in texts:
        print("  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths))))
    sys.stdout.flush()
