"""W6: prepared point selects by pgbench, 64 clients, through the router and straight to one of its nodes, in turn.

    python tests/bench/w6_point_select.py [--rows 1000000] [--seconds 10] [--rounds 3] [--clients 64]

The node has the same rows in a plain table of its own. The promise is 0.8 of direct.
"""

import re
import statistics
import tempfile

from common import arguments, fill_sbtest1, herd, pgbench, plain, print_table


def throughput(server, script: str, chosen) -> float:
    said = pgbench(server, "-n", "-M", "prepared", "-c", chosen.clients, "-j", 2, "-T", chosen.seconds, "-f", script, "-D", f"rows={chosen.rows}")
    if not re.search(r"failed transactions: 0 ", said):
        raise SystemExit(f"transactions failed:\n{said}")
    return float(re.search(r"tps = ([\d.]+)", said).group(1))


def main() -> None:
    chosen = arguments(__doc__, rows=1_000_000, seconds=10, rounds=3, clients=64)
    with herd() as many, plain() as postgres:
        fill_sbtest1(many.server, chosen.rows, distributed=True)
        nodes = getattr(many, "node_servers", None)
        # A database of its own on the second node: the herd knows nothing of the table there.
        direct = nodes[-1] if nodes else postgres.server
        direct.run("drop database if exists w6_direct", "create database w6_direct")
        direct.dbname = "w6_direct"
        fill_sbtest1(direct, chosen.rows, distributed=False)
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write("\\set id random(1, :rows)\nselect c from sbtest1 where id = :id;\n")
            script.flush()
            # Warm both, then alternate.
            rates: dict[str, list[float]] = {"direct": [], "herd": []}
            for turn in range(chosen.rounds):
                for name, server in (("direct", direct), ("herd", many.server)):
                    rates[name].append(throughput(server, script.name, chosen))
                    print(f"round {turn + 1} {name}: {rates[name][-1]:,.0f} tps", flush=True)
        ratios = [h / d for h, d in zip(rates["herd"], rates["direct"])]
        print_table(
            f"W6, {chosen.rows:,} rows, {chosen.clients} clients, prepared",
            ["", "median tps", "lowest", "highest"],
            [[name, statistics.median(each), min(each), max(each)] for name, each in rates.items()],
        )
        print(f"herd / direct: {statistics.median(ratios):.2f} (promised 0.80)")


if __name__ == "__main__":
    main()
