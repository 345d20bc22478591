"""TPC-H's 22 queries: a herd of two nodes whose tables lie as a person would place them (orders and lineitem by the order's key, the rest on
every node), one with each table by its own key, and one plain PostgreSQL. Turns interleaved; the same answers, or it ends.

    pip install tpchgen-cli==4.0.0            # https://github.com/datafusion-contrib/tpcgen-rs makes the rows that TPC's own dbgen makes
    tpchgen-cli csv -s 1 --output-dir /tmp/sf1
    python tests/bench/tpch.py /tmp/sf1 [--scale 1] [--rounds 3] [--shards 8] [--seconds 600] [--only 1,6]

At scale 1 the answers of Q1, Q6, Q14 and Q17 are also compared with those that TPC gives for its validation.
"""

import argparse
import decimal
import sys
from functools import partial
from pathlib import Path

from queries import Server, compare, servers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from applications.programs import tpch_queries, tpch_rows  # noqa: E402
from applications.test_tpch import OWN_KEYS  # noqa: E402

_COLOCATED = ("orders", "lineitem")
# The first row, its numbers rounded as TPC prints them.
_KNOWN = {
    1: ("A", "F", "37734107.00", "56586554400.73", "53758257134.87", "55909065222.83", "25.52", "38273.13", "0.05", "1478493"),
    6: ("123141078.23",), 14: ("16.38",), 17: ("348406.05",),
}


# By what queries look rows up that have no key of that: without the first one, Q17 and Q20 read all of lineitem for each of thousands of rows.
_INDEXES = ("CREATE INDEX ON lineitem (l_partkey, l_suppkey)", "CREATE INDEX ON orders (o_custkey)", "CREATE INDEX ON partsupp (ps_suppkey)")


def schema(shards: int, placed: bool | None) -> list[str]:
    """`placed`: as a person would; None: not distributed."""
    made = [s.strip() for s in tpch_rows.SCHEMA.split(";") if s.strip()]
    if placed is None:
        return made
    whole = lambda t: placed and t not in _COLOCATED
    return made + [
        f"SELECT create_reference_table('{t}')" if whole(t) else f"SELECT create_distributed_table('{t}', '{OWN_KEYS[t]}', shard_count => {shards})"
        for t in tpch_rows.TABLES
    ]


def fill(server: Server, statements: list[str], rows: Path) -> None:
    with server.connect() as connection:
        for statement in statements:
            connection.execute(statement)
        for table in tpch_rows.TABLES:
            with open(rows / f"{table}.csv", "rb") as lines, connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv, HEADER)") as copy:
                while piece := lines.read(1 << 20):
                    copy.write(piece)
        for statement in (*_INDEXES, "VACUUM ANALYZE"):
            connection.execute(statement)


def check_known(number: int, rows: list[tuple]) -> None:
    if number not in _KNOWN:
        return
    printed = tuple(str(v.quantize(decimal.Decimal("0.01"))) if isinstance(v, decimal.Decimal) else str(v) for v in rows[0])
    if printed != _KNOWN[number]:
        raise SystemExit(f"Q{number}: {printed} instead of TPC's {_KNOWN[number]}")


def options(description: str | None) -> argparse.ArgumentParser:
    """What those who measure these queries are told."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=600, help="of one query")
    parser.add_argument("--only", default="")
    return parser


def wanted(chosen: argparse.Namespace) -> dict[int, str]:
    """The queries that are asked for, by their numbers."""
    numbers = [int(n) for n in chosen.only.split(",") if n] or list(tpch_queries.QUERIES)
    return {number: tpch_queries.QUERIES[number].format(scale=chosen.scale) for number in numbers}


def main() -> None:
    chosen = options(__doc__).parse_args()
    queries = wanted(chosen)
    filled = lambda placed: partial(fill, statements=schema(chosen.shards, placed), rows=chosen.rows)
    with servers({"placed": filled(True), "own keys": filled(False)}, filled(None)) as (found, routers):
        compare(
            f"TPC-H, scale {chosen.scale:g}, {chosen.shards} shards, medians of {chosen.rounds}", queries, found, routers, chosen.rounds, chosen.seconds,
            is_ordered=lambda number, query: "order by" in query, **({"check": check_known} if chosen.scale == 1 else {}),
        )


if __name__ == "__main__":
    main()
