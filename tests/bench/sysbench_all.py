"""sysbench's OLTP scripts against a herd: no error, and the counts are right.

    python tests/bench/sysbench_all.py [--seconds 20] [--threads 64] [--rows 100000]

Needs Debian's `sysbench`. Each script starts on fresh tables, which are distributed before it runs.
"""

import re

from common import SBTEST1, arguments, herd, print_table, run, value

SCRIPTS = ("oltp_insert", "oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_update_index", "oltp_delete", "bulk_insert")


def sysbench(server, script: str, command: str, *options: str) -> str:
    return run(
        "sysbench", script, "--db-driver=pgsql", f"--pgsql-host={server.host}", f"--pgsql-port={server.port}",
        f"--pgsql-user={server.user}", f"--pgsql-db={server.dbname}", "--report-interval=0", *options, command,
    )


def prepare(server, script: str, chosen) -> int:
    """Fresh, distributed tables; returns how many rows sbtest1 has."""
    tables = [f"sbtest{i}" for i in range(1, chosen.threads + 1)]
    server.run(f"drop table if exists {', '.join(tables)}")
    if script == "oltp_insert":
        # W1: the client gives the keys.
        server.run(*SBTEST1, "select create_distributed_table('sbtest1', 'id')")
        return 0
    if script == "bulk_insert":
        sysbench(server, script, "prepare", f"--threads={chosen.threads}")
        for table in tables:
            server.run(f"select create_distributed_table('{table}', 'id')")
        return 0
    sysbench(server, script, "prepare", f"--table_size={chosen.rows}")
    server.run("select create_distributed_table('sbtest1', 'id')", "analyze sbtest1")
    return chosen.rows


def check(server, script: str, rows: int, writes: int, chosen) -> str:
    """What must be in the tables after a script."""
    if script == "bulk_insert":
        counts = [value(server, f"select count(*) from sbtest{i}") for i in range(1, chosen.threads + 1)]
        return "right" if min(counts) > 0 else f"WRONG: an empty table {counts}"
    count, distinct = (value(server, f"select count({what}) from sbtest1") for what in ("*", "distinct id"))
    expected = {"oltp_insert": rows + writes}.get(script, rows)
    if count != distinct:
        return f"WRONG: {count} rows, {distinct} ids"
    if script == "oltp_delete":
        return "right" if 0 <= count < rows else f"WRONG: {count} of {rows}"
    return "right" if count == expected else f"WRONG: {count}, expected {expected}"


def figures(said: str) -> tuple[float, float, int, int]:
    """Transactions a second, 95th percentile in ms, writes, errors."""
    return (
        float(re.search(r"(?:transactions|events):\s+\d+\s+\(([\d.]+) per sec", said).group(1)) if "per sec" in said else 0.0,
        float(re.search(r"95th percentile:\s+([\d.]+)", said).group(1)),
        int(re.search(r"write:\s+(\d+)", said).group(1)),
        int(re.search(r"ignored errors:\s+(\d+)", said).group(1)),
    )


def main() -> None:
    chosen = arguments(__doc__, seconds=20, threads=64, rows=100_000)
    table = []
    with herd() as many:
        for script in SCRIPTS:
            rows = prepare(many.server, script, chosen)
            options = ["--auto_inc=off"] if script == "oltp_insert" else []
            if script != "bulk_insert":
                options.append(f"--table_size={max(rows, 1)}")
            said = sysbench(many.server, script, "run", f"--threads={chosen.threads}", f"--time={chosen.seconds}", *options)
            rate, high, writes, errors = figures(said)
            table.append([script, rate, high, errors, check(many.server, script, rows, writes, chosen)])
            print(f"{script}: {rate:,.0f}/s, {errors} errors, counts {table[-1][-1]}", flush=True)
    print_table(f"sysbench, {chosen.threads} threads, {chosen.seconds} s each", ["script", "tps", "p95 ms", "errors", "counts"], table)


if __name__ == "__main__":
    main()
