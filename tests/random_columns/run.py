"""Runs random programs on a herd with column copies and on a plain PostgreSQL, and says where they differ, and how much columns answered.

    python -m random_columns.run --seed 7 --statements 5000

from the directory `tests`. Differences are made small and written as files, as those of random_sql are; `python -m random_columns.run
--replay FILE` runs one again.
"""

from collections import Counter
from pathlib import Path

from harness.herd import Herd
from harness.plain_postgres import PlainPostgres
from random_sql.replay import replayed
from random_sql.run import Figures, Run, command

from .pair import ColumnPair
from .program import Program

# Statements of one set of tables.
_ROUND = 400


def go(pair: ColumnPair, seed: int, out: Path, statements: int, seconds: float, first: int = 0, shrink_seconds: float = 60.0) -> tuple[Figures, dict]:
    """The figures, and how many queries were answered by columns, by rows after stores were asked, and by rows from the start."""
    before = pair.reads()
    work = Run(pair, seed, out, shrink_seconds, program=Program, round_=_ROUND)
    figures = work.go(statements, seconds, first)
    columns, in_vain = (now - was for now, was in zip(pair.reads(), before))
    queries = figures.reads
    return figures, {"queries": queries, "columns": columns, "asked_in_vain": in_vain, "share": round(columns / max(1, queries), 3)}


def run(seed: int, statements: int = 5000, seconds: float = 0.0, nodes: int = 2, shards: int = 8, program: int = 0, out: str = "", shrink_seconds: float = 60.0, replay: str = "", why: int = 0) -> dict:
    own, plain = None, None
    try:
        own, plain = Herd(nodes=nodes, shards=shards, columns=True), PlainPostgres("oracle")
        pair = ColumnPair(own, plain.server)
        pair.why = Counter() if why else None
        directory = Path(out or "/tmp/random_columns")
        directory.mkdir(parents=True, exist_ok=True)
        try:
            if replay:
                found = replayed(pair, Path(replay).read_text())
                return {"different": len(found), "reads": pair.reads()}
            figures, share = go(pair, seed, directory, statements, seconds, program, shrink_seconds)
        finally:
            pair.close()
        refused = Counter(figures.refused)
        return {
            "statements": figures.statements, "errors": figures.errors, "rows": figures.rows, "different": figures.different, "undetermined": figures.undetermined,
            "refused": sum(refused.values()), "refused_by_reason": dict(refused.most_common(5)), "kinds": dict(figures.kinds), "files": figures.files, **share, "why": dict(pair.why.most_common(why)) if why else {},
        }  # fmt: skip
    finally:
        if plain:
            plain.stop()
        if own:
            own.stop()


def main() -> None:
    command("random queries over column copies", run, __doc__, statements=5000, seconds=0.0, nodes=2, shards=8, program=0, out="", shrink_seconds=60.0, replay="", why=0)


if __name__ == "__main__":
    main()
