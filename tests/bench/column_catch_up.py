"""How fast stores of column copies catch up: they are stopped, W1's table changes without them, and they are started again. Rows a second from the
start of their processes until all is applied, of both stores together; and the processor time they took.

    python tests/bench/column_catch_up.py [--rows 1000000] [--seconds 15] [--rounds 1]
"""

import time

from column_stores import Stores
from common import SBTEST1, arguments, herd, pgbench, print_table, value

_C = "68487932199-96439406143-93774651418-41631865787-96406072701-20604855487-25459966574-28203206787-41238978918-19503783441"
_ONE_ROW = f"""\\set n :n + 1
\\set id 1000000000 + :client_id * 10000000 + :n
\\set k random(1, 1000000)
insert into sbtest1 (id, k, c, pad) values (:id, :k, '{_C}', '22195207048-70116052123-74140395089-76317954521-98694025897');
"""
_ONE_UPDATE = "\\set id random(1, {rows})\nupdate sbtest1 set k = k + 1 where id = :id;\n"


def caught_up(made, stores: Stores, change) -> tuple[int, float, float]:
    """How many rows were changed, and how long the stores took to have all of it, in seconds and in seconds of processor time."""
    stores.stop()
    changed = change()
    ends = stores.ends()
    begun = time.monotonic()
    made.up()
    stores.wait_until_applied(ends)
    return changed, time.monotonic() - begun, stores.processor_s()


def main() -> None:
    chosen = arguments(__doc__, rows=1_000_000, seconds=15, rounds=1)
    with herd(columns=True) as made:
        for node in made.node_servers:
            node.run("alter system set synchronous_commit = off", "select pg_reload_conf()")
        server, stores = made.server, Stores(made)
        script, updates = made.root / "one_row.sql", made.root / "one_update.sql"
        script.write_text(_ONE_ROW)
        updates.write_text(_ONE_UPDATE.format(rows=chosen.rows))

        def load() -> int:
            server.run(f"insert into sbtest1 select i, i % 1000, '{_C}', md5(i::text) from generate_series(1, {chosen.rows}) i")
            return chosen.rows

        def clients(file) -> int:
            said = pgbench(server, "-n", "-f", file, "-D", "n=0", "-c", 64, "-j", 2, "-T", chosen.seconds)
            return int(said.split("actually processed: ")[1].split()[0])

        def statement(sql: str, count: int) -> int:
            server.run(sql)
            return count

        changes = {
            "INSERT of all rows, one statement": load,
            "INSERTs of one row, 64 clients": lambda: clients(script),
            "UPDATE of all rows, one statement": lambda: statement(f"update sbtest1 set k = k + 1 where id <= {chosen.rows}", chosen.rows),
            "UPDATEs of one row, 64 clients": lambda: clients(updates),
            "DELETE of half of them, one statement": lambda: statement(f"delete from sbtest1 where id <= {chosen.rows} and id % 2 = 0", chosen.rows // 2),
        }
        table = []
        for _ in range(chosen.rounds):
            server.run(*SBTEST1, "select create_distributed_table('sbtest1', 'id')", "select herd.add_column_copy('sbtest1')")
            stores.wait_until_ready()
            for name, change in changes.items():
                count, seconds, processor = caught_up(made, stores, change)
                table.append([name, count, seconds, round(count / seconds), processor / count * 1e6])
            by_columns = "select count(*), sum(k), max(id), count(distinct c) from sbtest1"
            with server.connect() as connection:
                connection.execute("set herd.columns = on")
                got = connection.execute(by_columns).fetchone()
                connection.execute("set herd.columns = off")
                if got != connection.execute(by_columns).fetchone():
                    raise SystemExit(f"columns show another table than rows: {got}")
        print_table("Catching up, two stores", ["change", "rows", "s", "rows/s", "processor µs/row"], table)
        print("columns and rows agree;", value(server, "select pg_size_pretty(sum(file_bytes)) from herd.column_copies"), "of files")


if __name__ == "__main__":
    main()
