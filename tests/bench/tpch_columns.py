"""TPC-H's 22 queries where every table has a column copy: a herd whose tables lie as a person would place them (`tpch.py`), asked by columns where it can
and by rows, and DuckDB itself (PyPI's `duckdb`) on the same rows with as many threads. Turns interleaved; both ways of the herd answer the same, or it ends.

    python tests/bench/tpch_columns.py /tmp/sf1 [--scale 1] [--rounds 3] [--shards 8] [--nodes 2] [--seconds 600] [--only 1,6]

The last columns tell how many of the parts that nodes are asked are answered by stores, and why the others are not.
"""

import os
import re
import statistics
import tempfile
import time
from pathlib import Path

import duckdb
from column_stores import Stores
from common import herd, print_table
from tpch import check_known, fill, options, schema, tpch_rows, wanted


def filled_duckdb(rows: Path, directory: str):
    connection = duckdb.connect(f"{directory}/all.duckdb", config={"threads": os.cpu_count() or 1})
    for statement in filter(str.strip, tpch_rows.SCHEMA.split(";")):
        # Keys are what DuckDB would keep an index for, which no copy has either.
        connection.execute(re.sub(r",\s*PRIMARY KEY \([^)]*\)| PRIMARY KEY", "", statement))
    for table in tpch_rows.TABLES:
        connection.execute(f"COPY {table} FROM '{rows}/{table}.csv' (FORMAT csv, HEADER)")
    connection.execute("CHECKPOINT")
    return connection


def parts(connection, query: str) -> tuple[int, int, str]:
    """How many parts stores answer, of how many, and why not."""
    lines = [row[0].strip() for row in connection.execute("EXPLAIN (COSTS off) " + query, prepare=False).fetchall()]
    said = [line.split("Columns: ", 1)[1] for line in lines if "Columns: " in line]
    refused = [text.removeprefix("no: ") for text in said if text.startswith("no: ")]
    return len(said) - len(refused), len(said), "; ".join(dict.fromkeys(refused))[:90]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--nodes", type=int, default=2)
    chosen = parser.parse_args()
    with herd(chosen.nodes, columns=True) as made, tempfile.TemporaryDirectory() as directory:
        fill(made.server, schema(chosen.shards, True), chosen.rows)
        for table in tpch_rows.TABLES:
            made.server.run(f"SELECT herd.add_column_copy('{table}')")
        print(f"copied in {Stores(made).wait_until_ready():.1f} s", flush=True)
        embedded = filled_duckdb(chosen.rows, directory)
        table = []
        with made.server.connect() as by_columns, made.server.connect() as by_rows:
            by_columns.execute(f"SET statement_timeout = '{chosen.seconds}s'")
            by_rows.execute(f"SET statement_timeout = '{chosen.seconds}s'")
            by_rows.execute("SET herd.columns = off")
            for number, query in wanted(chosen).items():
                ways = {way: lambda c=c: c.execute(query, prepare=False).fetchall() for way, c in (("rows", by_rows), ("columns", by_columns))}
                ways["duckdb"] = lambda: embedded.execute(query).fetchall()
                times: dict[str, list[float]] = {way: [] for way in ways}
                for turn in range(chosen.rounds + 1):
                    answers = {}
                    for way in list(ways)[:: 1 if turn % 2 else -1]:
                        started = time.perf_counter()
                        answers[way] = ways[way]()
                        # The first turn warms up.
                        times[way] += [1000 * (time.perf_counter() - started)] if turn else []
                    if sorted(answers["columns"], key=repr) != sorted(answers["rows"], key=repr):
                        raise SystemExit(f"Q{number}: another answer: {answers['columns'][:3]} instead of {answers['rows'][:3]}")
                    if chosen.scale == 1:
                        check_known(number, answers["columns"])
                medians = {way: statistics.median(each) for way, each in times.items()}
                table.append([f"Q{number}", *medians.values(), medians["rows"] / medians["columns"], medians["columns"] / medians["duckdb"], *parts(by_columns, query)])
                print(*(f"{cell:.2f}" if isinstance(cell, float) else cell for cell in table[-1]), flush=True)
        head = ["query", "rows ms", "columns ms", "DuckDB ms", "rows/columns", "columns/DuckDB", "by stores", "of parts", "why not"]
        print_table(f"TPC-H by columns, scale {chosen.scale:g}, {chosen.nodes} nodes, {chosen.shards} shards, medians of {chosen.rounds}", head, table)


if __name__ == "__main__":
    main()
