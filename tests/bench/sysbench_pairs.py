"""sysbench's transactions on a herd and on one plain PostgreSQL, turn by turn: medians of the ratios of pairs.

    python tests/bench/sysbench_pairs.py [--pairs 5] [--seconds 10] [--threads 64] [--rows 100000]

Needs Debian's `sysbench`. The table is distributed by hash of its key.
"""

import statistics

from common import arguments, herd, plain, print_table
from sysbench_all import figures, prepare, sysbench

SCRIPTS = ("oltp_point_select", "oltp_read_only", "oltp_read_write")


def main() -> None:
    chosen = arguments(__doc__, pairs=5, seconds=10, threads=64, rows=100_000)
    table = []
    with herd() as many, plain() as one:
        for script in SCRIPTS:
            prepare(many.server, script, chosen)
            sysbench(one.server, script, "prepare", f"--table_size={chosen.rows}")
            one.server.run("vacuum analyze sbtest1")
            pairs = []
            for turn in range(chosen.pairs + 1):
                rates = {}
                for name in ("plain", "herd") if turn % 2 else ("herd", "plain"):
                    server = one.server if name == "plain" else many.server
                    said = sysbench(server, script, "run", f"--threads={chosen.threads}", f"--time={chosen.seconds}", f"--table_size={chosen.rows}")
                    rates[name], _, _, errors = figures(said)
                if turn:
                    # The first pair warms up.
                    pairs.append((rates["herd"], rates["plain"]))
                print(f"{script}: herd {rates['herd']:,.0f}/s, plain {rates['plain']:,.0f}/s, {errors} errors", flush=True)
            one.server.run("drop table sbtest1")
            ratios = sorted(h / p for h, p in pairs)
            table.append([script, *(statistics.median(side) for side in zip(*pairs)), statistics.median(ratios), ratios[0], ratios[-1]])
    print_table(f"sysbench, {chosen.threads} threads, {chosen.pairs} pairs of {chosen.seconds} s", ["script", "herd/s", "plain/s", "ratio", "least", "most"], table)


if __name__ == "__main__":
    main()
