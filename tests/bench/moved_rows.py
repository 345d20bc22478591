"""A join of two large tables by other columns than their keys: all rows move, home or (`herd.shuffle`) each to the node of its value. How many
a second, what the router takes for it, and what a row costs beside a row of COPY through the same router.

    python tests/bench/moved_rows.py [--rows 10000000] [--rounds 3] [--shards 8]
"""

import statistics
import time

from common import arguments, forget_peak, herd, peak_kib, print_table

_JOIN = "select count(*), sum(a.v + b.v) from moved_a a join moved_b b on a.x = b.y"
_PIECE = 20_000


def _lines(count: int):
    for first in range(0, count, _PIECE):
        yield "".join(f"{i}\t{(i * 7919) % count}\t{i % 1000}\n" for i in range(first, min(first + _PIECE, count))).encode()


def main() -> None:
    chosen = arguments(__doc__, rows=10_000_000, rounds=3, shards=8)
    with herd(shards=chosen.shards) as many, many.server.connect() as connection:
        copies = []
        for table, column in (("moved_a", "x"), ("moved_b", "y")):
            connection.execute(f"create table {table} (id int primary key, {column} int, v int)")
            connection.execute(f"select create_distributed_table('{table}', 'id')")
            pieces = list(_lines(chosen.rows))
            started = time.perf_counter()
            with connection.cursor().copy(f"copy {table} from stdin") as copy:
                for piece in pieces:
                    copy.write(piece)
            copies.append(time.perf_counter() - started)
            del pieces
        connection.execute("vacuum analyze")
        pid = many.process_id(many.port)
        ways = {"home": ("off", "off"), "shuffle": ("off", "on")}
        took, peaks = {way: [] for way in ways}, {}
        before = peak_kib(pid) / 1024
        for _ in range(chosen.rounds):
            for way, (broadcast, shuffle) in ways.items():
                connection.execute(f"set herd.broadcast = {broadcast}")
                connection.execute(f"set herd.shuffle = {shuffle}")
                forget_peak(pid)
                started = time.perf_counter()
                count, total = connection.execute(_JOIN).fetchone()
                took[way].append(time.perf_counter() - started)
                peaks[way] = max(peaks.get(way, 0), peak_kib(pid) / 1024)
                if count != chosen.rows or total is None:
                    raise SystemExit(f"{count} rows instead of {chosen.rows}")
        copied, rows = statistics.median(copies), 2 * chosen.rows
        head = ["way", "rows moved", "s", "s (each)", "rows/s", "us a row", "COPY us a row", "row / COPY's row", "router MB before", "router MB at most"]
        lines = []
        for way, seconds in took.items():
            median = statistics.median(seconds)
            each = " ".join(f"{one:.1f}" for one in seconds)
            lines.append([way, rows, median, each, int(rows / median), median / rows * 1e6, copied / chosen.rows * 1e6, (median / rows) / (copied / chosen.rows), before, peaks[way]])
        print_table(f"A join of {chosen.rows:,} by {chosen.rows:,} rows, medians of {chosen.rounds}", head, lines)


if __name__ == "__main__":
    main()
