"""Queries on one plain PostgreSQL and on herds whose tables lie in several ways: turns interleaved, the same answers, or it ends."""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator

from common import herd, peak_kib, plain, print_table
from harness.server import Server


@contextlib.contextmanager
def servers(ways: dict[str, Callable[[Server], None]], fill_plain: Callable[[Server], None]) -> Iterator[tuple[dict, dict]]:
    """`plain` and a herd for each way, filled: the servers by name, and the herds' routers by their process ids."""
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(plain())
        fill_plain(postgres.server)
        found, routers = {"plain": postgres.server}, {}
        for way, fill in ways.items():
            made = stack.enter_context(herd())
            fill(made.server)
            found[way], routers[way] = made.server, made.process_id(made.port)
            print(f"{way}: filled", flush=True)
        yield found, routers


def compare(
    title: str, queries: dict[int, str], found: dict[str, Server], routers: dict[str, int], rounds: int, seconds: int,
    is_ordered: Callable[[int, str], bool], check: Callable[[int, list], None] = lambda number, rows: None,
) -> None:
    """`seconds` of one query at most. `is_ordered`: the query's ORDER BY is total. `check` sees what plain PostgreSQL answers."""
    with contextlib.ExitStack() as stack:
        connections = {way: stack.enter_context(server.connect()) for way, server in found.items()}
        for connection in connections.values():
            connection.execute(f"SET statement_timeout = '{seconds}s'")
        table, sums = [], dict.fromkeys(connections, 0.0)
        for number, query in queries.items():
            times: dict[str, list[float]] = {way: [] for way in connections}
            for _ in range(rounds):
                answers = {}
                for way, connection in connections.items():
                    started = time.perf_counter()
                    answers[way] = connection.execute(query, prepare=False).fetchall()
                    times[way].append(time.perf_counter() - started)
                for way, rows in answers.items():
                    keep = (lambda rows: rows) if is_ordered(number, query) else (lambda rows: sorted(rows, key=repr))
                    if keep(rows) != keep(answers["plain"]):
                        raise SystemExit(f"Q{number}, {way}: another answer: {rows[:3]} instead of {answers['plain'][:3]}")
                check(number, answers["plain"])
            medians = {way: statistics.median(each) for way, each in times.items()}
            for way, took in medians.items():
                sums[way] += took
            peaks = [peak_kib(routers[way]) / 1024 for way in routers]
            table.append([f"Q{number}", *medians.values(), *(medians[way] / medians["plain"] for way in routers), *peaks])
            print(*(f"{cell:.3f}" if isinstance(cell, float) else cell for cell in table[-1]), flush=True)
        table.append(["sum", *sums.values(), *(sums[way] / sums["plain"] for way in routers), *(peak_kib(routers[way]) / 1024 for way in routers)])
        head = ["query", *(f"{way} s" for way in connections), *(f"{way}/plain" for way in routers), *(f"router MB, {way}" for way in routers)]
        print_table(title, head, table)
