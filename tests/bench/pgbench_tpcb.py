"""pgbench's TPC-B through a herd, its four tables distributed: the sums agree.

    python tests/bench/pgbench_tpcb.py [--scale 10] [--seconds 30] [--clients 16]
"""

import re
import time

from common import arguments, herd, pgbench, print_table, value

KEYS = {"pgbench_accounts": "aid", "pgbench_branches": "bid", "pgbench_tellers": "tid", "pgbench_history": "aid"}


def main() -> None:
    chosen = arguments(__doc__, scale=10, seconds=30, clients=16)
    with herd() as many:
        server = many.server
        pgbench(server, "-i", "-s", chosen.scale, "-I", "dt", "-q")
        for table, key in KEYS.items():
            server.run(f"select create_distributed_table('{table}', '{key}')")
        started = time.monotonic()
        pgbench(server, "-i", "-s", chosen.scale, "-I", "gvp", "-q")
        load_seconds = time.monotonic() - started
        rates = []
        for mode in ("simple", "extended", "prepared"):
            said = pgbench(server, "-n", "-M", mode, "-c", chosen.clients, "-j", 2, "-T", max(chosen.seconds // 3, 1))
            rates.append([mode, float(re.search(r"tps = ([\d.]+)", said).group(1)), re.search(r"failed transactions: (\d+)", said).group(1)])
        print_table(f"TPC-B, scale {chosen.scale}, {chosen.clients} clients", ["protocol", "tps", "failed"], rates)
        sums = {
            name: value(server, f"select coalesce(sum({column}), 0) from {name}")
            for name, column in {
                "pgbench_accounts": "abalance", "pgbench_branches": "bbalance", "pgbench_tellers": "tbalance", "pgbench_history": "delta",
            }.items()
        }
        count = value(server, "select count(*) from pgbench_accounts")
        print_table("sums", ["table", "sum"], [[name, int(total)] for name, total in sums.items()])
        print(f"loaded {count:,} accounts in {load_seconds:.1f} s; sums {'agree' if len(set(sums.values())) == 1 else 'DO NOT AGREE'}")
        if len(set(sums.values())) != 1 or count != chosen.scale * 100_000:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
