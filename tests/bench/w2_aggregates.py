"""W2: Q1–Q5 on sbtest1 in a herd of 2 nodes × 32 shards and on one plain PostgreSQL: the same answers, and the times.

    python tests/bench/w2_aggregates.py [--rows 1000000] [--rounds 7]
"""

import statistics
import time

from common import arguments, fill_sbtest1, herd, plain, print_table

QUERIES = {
    "Q1": "select count(1) from sbtest1",
    "Q2": "select count(1), min(k), max(k), sum(k) from sbtest1",
    "Q3": "select count(1), min(k), max(k), sum(k) from sbtest1 where c like '1%'",
    "Q4": "select id, k, c, pad from sbtest1 where c like '1%' order by c offset 100 limit 10",
    "Q5": "select id, k, c, pad from sbtest1 where c like '1%' order by id offset 100 limit 10",
}


def measure(connection, sql: str) -> tuple[list, float]:
    started = time.perf_counter()
    rows = connection.execute(sql, prepare=False).fetchall()
    return rows, (time.perf_counter() - started) * 1000


def main() -> None:
    chosen = arguments(__doc__, rows=1_000_000, rounds=7)
    with plain() as postgres, herd() as many:
        fill_sbtest1(postgres.server, chosen.rows, distributed=False)
        fill_sbtest1(many.server, chosen.rows, distributed=True)
        table, worst = [], []
        with postgres.server.connect() as one, many.server.connect() as other:
            for name, sql in QUERIES.items():
                times: tuple[list, list] = ([], [])
                for _ in range(chosen.rounds):
                    expected, mine = measure(one, sql)
                    got, theirs = measure(other, sql)
                    times[0].append(mine)
                    times[1].append(theirs)
                    if got != expected:
                        raise SystemExit(f"{name}: another answer: {got[:3]} instead of {expected[:3]}")
                medians = [statistics.median(each) for each in times]
                table.append([name, *medians, medians[1] / medians[0], "same"])
                if name == "Q5":
                    worst = [medians[1], 3 * medians[0] + 2]
        print_table(f"W2, {chosen.rows:,} rows, medians of {chosen.rounds}", ["query", "plain ms", "herd ms", "herd/plain", "answer"], table)
        print(f"Q5: {worst[0]:.2f} ms, allowed 3 x plain + 2 = {worst[1]:.2f} ms: {'kept' if worst[0] <= worst[1] else 'NOT kept'}")


if __name__ == "__main__":
    main()
