"""Point reads with a standby beside each node: all on primaries, on standbys, and on whichever has least to do, in turn.

    python tests/bench/replica_reads.py [--rows 100000] [--seconds 10] [--rounds 3] [--clients 32]

On one machine all servers share its cores: what is gained shows where they have their own.
"""

import re
import statistics
import tempfile

from common import arguments, fill_sbtest1, pgbench, print_table
from replicas.conftest import Replicas

WAYS = ("primary", "replica", "any")


def throughput(server, way: str, script: str, chosen) -> float:
    server.run(f"alter role postgres set herd.read_from = '{way}'")
    said = pgbench(server, "-n", "-M", "prepared", "-c", chosen.clients, "-j", 2, "-T", chosen.seconds, "-f", script, "-D", f"rows={chosen.rows}")
    if not re.search(r"failed transactions: 0 ", said):
        raise SystemExit(f"transactions failed:\n{said}")
    return float(re.search(r"tps = ([\d.]+)", said).group(1))


def main() -> None:
    chosen = arguments(__doc__, rows=100_000, seconds=10, rounds=3, clients=32)
    servers = Replicas(routers=1)
    try:
        fill_sbtest1(servers.a, chosen.rows, distributed=True)
        servers.wait_until_applied()
        rates: dict[str, list[float]] = {way: [] for way in WAYS}
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write("\\set id random(1, :rows)\nselect c from sbtest1 where id = :id;\n")
            script.flush()
            for turn in range(chosen.rounds):
                for way in WAYS:
                    rates[way].append(throughput(servers.a, way, script.name, chosen))
                    print(f"round {turn + 1} {way}: {rates[way][-1]:,.0f} tps", flush=True)
        print_table(
            f"point reads, {chosen.clients} clients", ["", "median tps", "lowest", "highest"],
            [[way, statistics.median(each), min(each), max(each)] for way, each in rates.items()],
        )
        with servers.a.connect() as connection:
            print_table("reads", ["node", "port", "state", "reads"], connection.execute("select node, port, state, reads from herd.replicas order by 1, 3").fetchall())
    finally:
        servers.stop()


if __name__ == "__main__":
    main()
