"""Runs random programs on a herd and on a plain PostgreSQL, and says where they differ.

    python -m random_sql.run --seed 7 --statements 5000 --nodes 3

from the directory `tests`. Every difference is made small (shrink.py) and written as a file that
`python -m random_sql.replay FILE` runs again.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.herd import Herd
from harness.plain_postgres import PlainPostgres
from harness.server import Server
from promises import program as house

from .compare import kind, reason
from .pair import Done, Pair
from .program import Program
from .shrink import is_read, shrink
from .step import Step, written

# Statements of one schema.
_ROUND = 120
# Differences of one kind that are made small; the others are counted.
_SHRUNK_MAX = 2
# Statements of a reproduction that are printed; the file has all.
_SHOWN_MAX = 15


@dataclass
class Found:
    """A difference, and the steps that lead to it, itself last."""

    steps: list[Step]
    different: list[str]


@dataclass
class Figures:
    statements: int = 0
    # Of these, statements that write nothing.
    reads: int = 0
    compared: int = 0
    errors: int = 0
    rows: int = 0
    different: int = 0
    undetermined: int = 0
    refused: Counter = field(default_factory=Counter)
    kinds: Counter = field(default_factory=Counter)
    files: list[str] = field(default_factory=list)


class Run:
    """Programs of one seed, one after another, until there are enough statements or time is over."""

    def __init__(self, pair: Pair, seed: int, out: Path, shrink_seconds: float, program=Program, round_: int = _ROUND):
        """`program`: what makes the steps of a seed; `round_`: statements of one of them."""
        self.pair, self.seed, self.out, self.shrink_seconds = pair, seed, out, shrink_seconds
        self.program, self.round = program, round_
        self.figures = Figures()
        self.refusals: list[str] = []

    def go(self, statements: int, seconds: float, first: int = 0) -> Figures:
        started = time.monotonic()
        number = first
        while self.figures.statements < statements and not (seconds and time.monotonic() - started > seconds):
            self.one(number)
            number += 1
        (self.out / f"seed{self.seed}-refused.txt").write_text("".join(self.refusals))
        return self.figures

    def one(self, number: int) -> None:
        program = self.program(f"{self.seed}/{number}")
        steps = program.steps(self.round)
        history: list[Step] = []
        self.pair.fresh()
        step = next(steps)
        while True:
            history.append(step)
            done = self.pair.check(step)
            self._count(step, done)
            if done.different and not self._difference(number, Found(list(history), done.different)):
                break
            try:
                step = steps.send(done)
            except StopIteration:
                break

    def _count(self, step: Step, done: Done) -> None:
        figures = self.figures
        if not step.herd_only:
            figures.statements += 1
            figures.reads += is_read(step)
            figures.rows += done.rows
            figures.errors += bool(done.sqlstate and not done.refused)
            figures.compared += not done.refused
        if done.refused and not step.herd_only:
            figures.refused[reason(done.refused)] += 1
            self.refusals.append(f"-- {done.refused}\n{step.text()}\n")

    def _difference(self, number: int, found: Found) -> bool:
        """Reports it. False: the two sides can't be brought together again."""
        last = found.steps[-1]
        can_ask = is_read(last) and not found.different[0].startswith("connection")
        pair, first = self.pair, found.different[0]
        if can_ask and pair.is_idle() and (pair.is_unasked(first) or pair.is_at_the_limit(first, last) or not pair.is_determined(last)):
            self.figures.undetermined += 1
            return True
        self.figures.different += 1
        what = kind(found.different)
        self.figures.kinds[what] += 1
        print(f"\n== seed {self.seed}, program {number}, statement {len(found.steps)}: {found.different[0][:700]}\n   {last.text()[:1500]}", flush=True)
        goes_on = can_ask and self.pair.is_idle()
        if self.figures.kinds[what] <= _SHRUNK_MAX:
            small = shrink(self.pair, found.steps, found.different, self.shrink_seconds) if self.shrink_seconds else None
            name = self.out / f"seed{self.seed}-{number}-{len(found.steps)}.sql"
            kept = small.steps if small else found.steps
            said = (small.different if small else found.different)[0]
            name.write_text(written(kept, [f"seed {self.seed}, program {number}", *said.splitlines()]))
            self.figures.files.append(str(name))
            print(f"   {'minimal' if small else 'whole'} reproduction: {name}", flush=True)
            if len(kept) <= _SHOWN_MAX:
                for step in kept:
                    print(f"      {step.text()[:400]};", flush=True)
            goes_on &= not self.shrink_seconds
        return goes_on


def run(seed: int, statements: int = 2000, seconds: float = 0.0, nodes: int = 3, shards: int = 8, program: int = 0, out: str = "", shrink_seconds: float = 60.0, herd: str = "", cluster=None) -> dict:
    """`herd`: port of a router that runs already, its nodes on the ports behind. `cluster`: a harness.Herd."""
    own, plain = None, None
    try:
        if herd:
            port = int(herd)
            router, servers = Server("herd", port), [Server(f"node {i}", port + i) for i in range(1, nodes + 1)]
        else:
            own = None if cluster else Herd(nodes=nodes, shards=shards)
            router, servers = (cluster or own).server, (cluster or own).node_servers
        plain = PlainPostgres("oracle")
        directory = Path(out or "/tmp/random_sql")
        directory.mkdir(parents=True, exist_ok=True)
        pair = Pair(router, servers, plain.server)
        work = Run(pair, seed, directory, shrink_seconds)
        try:
            figures = work.go(statements, seconds, program)
        finally:
            pair.close()
        return {
            "statements": figures.statements, "compared": figures.compared, "errors": figures.errors, "rows": figures.rows, "different": figures.different,
            "undetermined": figures.undetermined, "refused": sum(figures.refused.values()), "refused_by_reason": dict(figures.refused.most_common()), "kinds": dict(figures.kinds), "files": figures.files,
        }
    finally:
        if plain:
            plain.stop()
        if own:
            own.stop()


def command(what: str, run, doc: str, **defaults) -> None:
    """The program of a `run`, whose arguments are these: it fails where anything was different."""

    def checked(**choices) -> dict:
        figures = run(**choices)
        assert figures["different"] == 0, str(figures)
        return figures

    house.main(what, checked, house.arguments(doc, **defaults))


def main() -> None:
    command("random statements", run, __doc__, statements=5000, seconds=0.0, nodes=3, shards=8, program=0, out="", shrink_seconds=60.0, herd="")


if __name__ == "__main__":
    main()
