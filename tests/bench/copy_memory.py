"""Peak memory of the router while a gigabyte of W1's rows goes through it, in and out.

    python tests/bench/copy_memory.py [--megabytes 1000] [--limit_mib 100]

Ends with an error if the router ever held more than the limit, or if rows are missing.
"""

import threading
import time

from common import SBTEST1, arguments, forget_peak, herd, peak_kib, print_table

ROWS_A_WRITE = 500


class Sampler:
    """The peak, read while it happens: a router that died would take it along."""

    def __init__(self, process_id: int):
        self.process_id, self.peak, self._ended = process_id, 0, threading.Event()

    def __enter__(self):
        forget_peak(self.process_id)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            self.peak = max(self.peak, peak_kib(self.process_id))

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        self.peak = max(self.peak, peak_kib(self.process_id))


def chunks(megabytes: int):
    """W1's rows as COPY text, in pieces; each is yielded with its number of rows."""
    sent, number = 0, 0
    while sent < megabytes * 1_000_000:
        rows = []
        for number in range(number + 1, number + ROWS_A_WRITE + 1):
            word = f"{number * 2654435761 % 100000000000:011d}-"
            rows.append(f"{number}\t{number * 7919 % 5000011}\t{word * 9}{word[:11]}\t{word * 4}{word[:11]}\n")
        data = "".join(rows).encode()
        sent += len(data)
        yield data, ROWS_A_WRITE


def copy_from(connection, megabytes: int, options: str = "") -> int:
    rows = 0
    with connection.cursor() as cursor, cursor.copy(f"COPY sbtest1 FROM STDIN{options}") as copy:
        for data, count in chunks(megabytes):
            copy.write(data)
            rows += count
    return rows


def copy_to(connection) -> int:
    sent = 0
    with connection.cursor() as cursor, cursor.copy("COPY sbtest1 TO STDOUT") as copy:
        for data in copy:
            sent += len(data)
    return sent


def main() -> None:
    chosen = arguments(__doc__, megabytes=1000, limit_mib=100)
    table = []
    with herd() as many:
        if not hasattr(many, "process_id"):
            raise SystemExit("needs a real herd: unset PGHERD_TEST_FAKE")
        process_id = many.process_id(many.port)
        for name, settings, options in [
            ("COPY FROM", [], ""),
            ("COPY FROM, bulk_load", ["SET herd.bulk_load = on"], ""),
            ("COPY FROM (REPLACE)", [], " (REPLACE)"),
        ]:
            many.server.run(*SBTEST1, "SELECT create_distributed_table('sbtest1', 'id')")
            with many.server.connect() as connection, Sampler(process_id) as sampler:
                for setting in settings:
                    connection.execute(setting)
                started = time.monotonic()
                rows = copy_from(connection, chosen.megabytes, options)
                seconds = time.monotonic() - started
            table.append([name, rows, seconds, sampler.peak / 1024])
            with many.server.connect() as connection:
                there = connection.execute("SELECT count(*) FROM sbtest1").fetchone()[0]
            if there != rows:
                raise SystemExit(f"{name}: {rows} rows were sent, {there} are there")
        with many.server.connect() as connection, Sampler(process_id) as sampler:
            started = time.monotonic()
            copy_to(connection)
            seconds = time.monotonic() - started
        table.append(["COPY TO", rows, seconds, sampler.peak / 1024])
    print_table(f"{chosen.megabytes} MB of W1's rows", ["", "rows", "s", "peak MiB of the router"], table)
    if max(row[3] for row in table) > chosen.limit_mib:
        raise SystemExit(f"more than {chosen.limit_mib} MiB")


if __name__ == "__main__":
    main()
