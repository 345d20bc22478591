"""Runs a file that run.py wrote: `python -m random_sql.replay FILE [--nodes 3] [--herd PORT]`, from the directory `tests`."""

import argparse
import sys
from pathlib import Path

from harness.herd import Herd
from harness.plain_postgres import PlainPostgres
from harness.server import Server

from .pair import Pair
from .step import read


def replayed(pair: Pair, text: str) -> list[str]:
    """Every difference of its statements, one after another."""
    pair.fresh()
    found = []
    for number, step in enumerate(read(text), 1):
        done = pair.check(step)
        print(f"{number}: {step.text()[:2000]}\n   {done.refused or done.sqlstate or f'{done.rows} rows'}")
        for line in done.different:
            print(f"   DIFFERENT {line}")
            found.append(f"{number}: {line}")
        if any(line.startswith("connection") for line in done.different):
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--herd", type=int, default=0, help="port of a router that runs already, its nodes on the ports behind")
    options = parser.parse_args()
    own = None if options.herd else Herd(nodes=options.nodes, shards=8)
    plain = PlainPostgres("oracle")
    try:
        port = options.herd or own.port
        pair = Pair(Server("herd", port), [Server(f"node {i}", port + i) for i in range(1, options.nodes + 1)], plain.server)
        found = replayed(pair, options.file.read_text())
        pair.close()
    finally:
        plain.stop()
        if own:
            own.stop()
    print(f"{len(found)} differences")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
