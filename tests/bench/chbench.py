"""CH-benCHmark's 22 queries: a herd of two nodes whose tables lie as a person would place them (by warehouse, but for items, suppliers, nations
and regions), one with each table by a column of its own, and one plain PostgreSQL. Turns interleaved; the same answers, or it ends.

    python tests/bench/chbench.py [--warehouses 8] [--customers 600] [--items 10000] [--rounds 3] [--shards 8] [--seconds 300] [--only 1,6]

Rows are those of the tests (`applications/programs/chbench_rows.py`), ten districts of a warehouse, as many orders as customers.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from queries import Server, compare, servers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from applications.pairs import statements  # noqa: E402
from applications.programs import chbench_queries, chbench_rows  # noqa: E402
from applications.test_chbench import NOT_TOTALLY_ORDERED, PLACEMENTS, schema_of  # noqa: E402

# What TPC-C's own transactions look up, and the joins by items.
_INDEXES = ("CREATE INDEX ON orders (o_w_id, o_d_id, o_c_id)", "CREATE INDEX ON order_line (ol_i_id)", "CREATE INDEX ON stock (s_i_id)")


def _fill(server: Server, sizes: chbench_rows.Sizes, placement: str, distribute: str) -> None:
    with server.connect() as connection:
        for statement in [*statements(schema_of(placement)), *statements(distribute)]:
            connection.execute(statement)
        for table, rows in chbench_rows.rows(sizes):
            with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        for statement in (*_INDEXES, "VACUUM ANALYZE"):
            connection.execute(statement)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warehouses", type=int, default=8)
    parser.add_argument("--customers", type=int, default=600)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=300, help="of one query")
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    numbers = [int(n) for n in chosen.only.split(",") if n] or list(chbench_queries.QUERIES)
    sizes = chbench_rows.Sizes(chosen.warehouses, 10, chosen.customers, chosen.items)
    herds = {
        placement: partial(_fill, sizes=sizes, placement=placement, distribute=text.replace("shard_count => 6", f"shard_count => {chosen.shards}"))
        for placement, text in PLACEMENTS.items()
    }
    with servers(herds, partial(_fill, sizes=sizes, placement="by warehouse", distribute="")) as (found, routers):
        compare(
            f"CH-benCHmark, {chosen.warehouses} warehouses, {chosen.warehouses * 10 * chosen.customers} orders, {chosen.shards} shards, medians of {chosen.rounds}",
            {number: chbench_queries.QUERIES[number] for number in numbers}, found, routers, chosen.rounds, chosen.seconds,
            is_ordered=lambda number, query: "order by" in query and number not in NOT_TOTALLY_ORDERED,
        )


if __name__ == "__main__":
    main()
