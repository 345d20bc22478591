"""W2 by column copies: Q1–Q5 through a router whose nodes have stores, beside the same herd without them, a plain PostgreSQL, and DuckDB
itself (PyPI's `duckdb`, where it is installed) on a file with one table of the same rows. Turns interleaved, in both directions: five runs of a query
each, of which the median counts. The same answers, or it ends.

    python tests/bench/w2_columns.py [--rows 1000000] [--rounds 9] [--sorted 0] [--kept 1]

--sorted 1: the copy is sorted by c. --kept 0: stores (started again) keep no totals, so that each run computes them, as the first two of a query do in
any case; with 1 they are there from the third run on, as nothing is written meanwhile.
"""

import statistics
import tempfile
import time

from column_stores import Stores
from common import arguments, fill_sbtest1, herd, plain, print_table
from harness.server import Server
from w2_aggregates import QUERIES, measure

try:
    import duckdb
except ImportError:
    duckdb = None


# Of a query in one turn.
RUNS = 5


def filled_duckdb(source: Server, directory: str):
    connection = duckdb.connect(f"{directory}/all.duckdb", config={"threads": 2})
    connection.execute("create table sbtest1 (id integer, k integer, c varchar, pad varchar)")
    path = f"{directory}/rows.csv"
    with source.connect() as server, open(path, "wb") as out, server.cursor().copy("copy sbtest1 to stdout (format csv)") as copy:
        for piece in copy:
            out.write(piece)
    connection.execute(f"insert into sbtest1 select * from read_csv('{path}', header = false, columns = {{'id': 'integer', 'k': 'integer', 'c': 'varchar', 'pad': 'varchar'}})")
    connection.execute("checkpoint")
    return connection


def measure_duckdb(connection, sql: str) -> tuple[list, float]:
    started = time.perf_counter()
    rows = connection.execute(sql).fetchall()
    return rows, (time.perf_counter() - started) * 1000


def keeps_nothing(stores: Stores) -> None:
    """From now on stores compute every answer anew."""
    stores.stop()
    for number in range(1, stores.herd.nodes + 1):
        path = stores.herd.dir / f"column{number}.toml"
        path.write_text(path.read_text() + 'kept_memory = "0"\n')
    stores.herd.up()
    stores.wait_until_ready()


def main() -> None:
    chosen = arguments(__doc__, rows=1_000_000, rounds=9, sorted=0, kept=1)
    with plain() as postgres, herd(columns=True) as many, tempfile.TemporaryDirectory() as directory:
        fill_sbtest1(postgres.server, chosen.rows, distributed=False)
        fill_sbtest1(many.server, chosen.rows, distributed=True)
        order = ", order_by => array['c']" if chosen.sorted else ""
        many.server.run(f"select herd.add_column_copy('sbtest1'{order})")
        stores = Stores(many)
        print(f"copied in {stores.wait_until_ready():.1f} s")
        if not chosen.kept:
            keeps_nothing(stores)
        embedded = filled_duckdb(postgres.server, directory) if duckdb else None
        table = []
        with postgres.server.connect() as one, many.server.connect() as by_columns, many.server.connect() as by_rows:
            by_rows.execute("set herd.columns = off")
            for name, sql in QUERIES.items():
                ways = {"plain": lambda: measure(one, sql), "rows": lambda: measure(by_rows, sql), "columns": lambda: measure(by_columns, sql)}
                if embedded:
                    ways["duckdb"] = lambda: measure_duckdb(embedded, sql)
                times: dict[str, list[float]] = {way: [] for way in ways}
                for turn in range(chosen.rounds):
                    answers = {}
                    for way in list(ways)[:: 1 if turn % 2 else -1]:
                        runs = [ways[way]() for _ in range(RUNS)]
                        answers[way] = [rows for rows, _ in runs]
                        times[way].append(statistics.median(took for _, took in runs))
                    if any(answers[way] != answers["plain"] for way in ("rows", "columns")):
                        raise SystemExit(f"{name}: another answer: {answers}")
                medians = {way: statistics.median(each) for way, each in times.items()}
                table.append(
                    [name, *(medians[way] for way in ("plain", "rows", "columns")), medians.get("duckdb", float("nan")), medians["plain"] / medians["columns"]]
                )
        head = ["query", "plain ms", "herd, rows ms", "herd, columns ms", "DuckDB ms", "plain/columns"]
        print_table(f"W2, {chosen.rows:,} rows, medians of {chosen.rounds}{', sorted by c' if chosen.sorted else ''}{'' if chosen.kept else ', nothing kept'}", head, table)


if __name__ == "__main__":
    main()
