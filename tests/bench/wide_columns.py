"""A wide table: 50 columns, of which a query adds up four over a time range; by columns and by rows of the same herd, in turns, the same answers; and what
is read for it: by rows the table's pages, by columns what stores that have just started read from their files.

    python tests/bench/wide_columns.py [--rows 5000000] [--rounds 5] [--plain 0]        # --plain 1: a plain PostgreSQL with the same rows, too
"""

import contextlib
import statistics
import time

from column_stores import Stores
from common import arguments, herd, plain, print_table, value

_KINDS = {
    "i": (16, "int", "(g * {odd} % 1000003)::int"), "b": (8, "bigint", "g * {odd} % 1000000000039"),
    "n": (8, "numeric(12,2)", "((g * {odd} % 100000007) / 100.0)::numeric(12,2)"), "f": (8, "float8", "(g * {odd} % 1000003) / 7.0::float8"),
    "t": (8, "text", "'text ' || (g * {odd} % 9973)"),
}
_COLUMNS = [(f"{kind}{i}", type_, term.format(odd=i * 7919 + ord(kind))) for kind, (count, type_, term) in _KINDS.items() for i in range(1, count + 1)]
_PIECE = 500_000


def fill(server, rows: int, distributed: bool) -> None:
    server.run(
        "drop table if exists wide",
        f"create table wide (id bigint primary key, at timestamp not null, {', '.join(f'{name} {type_}' for name, type_, _ in _COLUMNS)})",
        *(["select create_distributed_table('wide', 'id')"] if distributed else []),
    )
    terms = ", ".join(term for _, _, term in _COLUMNS)
    for first in range(1, rows + 1, _PIECE):
        last = min(rows, first + _PIECE - 1)
        server.run(f"insert into wide select g, timestamp '2020-01-01' + g * interval '1 second', {terms} from generate_series({first}, {last}::bigint) g")
    server.run("vacuum analyze wide")


def main() -> None:
    chosen = arguments(__doc__, rows=5_000_000, rounds=5, plain=0)
    with herd(columns=True) as made, plain() if chosen.plain else contextlib.nullcontext() as one:
        stores = Stores(made)
        begun = time.monotonic()
        fill(made.server, chosen.rows, True)
        filled = time.monotonic() - begun
        made.server.run("select herd.add_column_copy('wide')")
        print(f"filled in {filled:.0f} s, copied in {stores.wait_until_ready():.1f} s")
        if one:
            fill(one.server, chosen.rows, False)
        bounds = value(made.server, f"select format('at >= ''%s'' and at < ''%s''', timestamp '2020-01-01' + interval '{chosen.rows * 3 // 8} s', timestamp '2020-01-01' + interval '{chosen.rows * 5 // 8} s')")
        sql = f"select count(*), sum(i3), max(b5), sum(n2), min(i11) from wide where {bounds}"
        ways = {"columns": (made.server, "set herd.columns = on"), "rows": (made.server, "set herd.columns = off")} | ({"plain": (one.server, "select 1")} if one else {})
        connections = {way: server.connect() for way, (server, _) in ways.items()}
        for way, (_, first) in ways.items():
            connections[way].execute(first)
        plan = "\n".join(row[0] for row in connections["columns"].execute(f"explain {sql}").fetchall())
        if "Columns: " not in plan or "Columns: no" in plan:
            raise SystemExit(f"columns do not answer:\n{plan}")
        times: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(chosen.rounds + 1):
            answers = {}
            for way, connection in connections.items():
                begun = time.perf_counter()
                answers[way] = connection.execute(sql).fetchone()
                # The first turn is to warm up.
                times[way] += [(time.perf_counter() - begun) * 1000] if turn else []
            if len(set(answers.values())) > 1:
                raise SystemExit(f"different answers: {answers}")
        medians = {way: statistics.median(each) for way, each in times.items()}
        pages = sum(value(node, "select sum(pg_relation_size(inhrelid)) from pg_inherits where inhparent = 'wide'::regclass") for node in made.node_servers)
        files = value(made.server, "select sum(file_bytes) from herd.column_copies")
        stores.stop()
        made.up()
        stores.wait_until_ready()
        before = stores.bytes_read()
        connections["columns"].execute(sql)
        read = stores.bytes_read() - before
        print_table(
            f"Wide table, {chosen.rows:,} rows, medians of {chosen.rounds}", ["way", "ms", "÷ columns", "MB read", "MB in files"],
            [
                ["columns", medians["columns"], 1.0, read / 1e6, int(files) / 1e6], ["rows", medians["rows"], medians["rows"] / medians["columns"], int(pages) / 1e6, int(pages) / 1e6],
                *([["plain PostgreSQL", medians["plain"], medians["plain"] / medians["columns"], "", ""]] if one else []),
            ],
        )


if __name__ == "__main__":
    main()
