"""Writes to table `rows (id bigint primary key, batch bigint)` of a herd without end, and notes what was acknowledged."""

import threading
import time

import psycopg

# Of one transaction; over two nodes nearly every one has some on both.
ROWS = 8
# What a client may get while a node has no primary: lost connections, and servers that stop, start or follow.
CODES = {None, "08006", "08007", "08001", "57P01", "57P02", "57P03", "25006"}


class Writer:
    """Inserts rows by transactions of two phases, until it is told to stop."""

    def __init__(self, server):
        self._server, self._stop = server, threading.Event()
        self.acknowledged, self.codes = [], []
        self._last, self._longest = time.monotonic(), 0.0
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(3)]
        for thread in self._threads:
            thread.start()

    def _write(self, number: int) -> None:
        batch = number
        while not self._stop.is_set():
            try:
                with self._server.connect() as connection:
                    while not self._stop.is_set():
                        # Never twice: whether one was committed whose answer was lost is unknown.
                        batch += 3
                        connection.execute("insert into rows select %s * 8 + g, %s from generate_series(0, 7) g", (batch, batch))
                        self.acknowledged.append(batch)
                        now = time.monotonic()
                        self._last, self._longest = now, max(self._longest, now - self._last)
            except psycopg.Error as error:
                self.codes.append(error.sqlstate)
                time.sleep(0.05)

    def wait_for(self, more: int, seconds_max: float) -> None:
        before, deadline = len(self.acknowledged), time.monotonic() + seconds_max
        while len(self.acknowledged) < before + more:
            assert time.monotonic() < deadline, f"no writes within {seconds_max} s: {self.codes[-5:]}"
            time.sleep(0.02)

    def longest_pause(self) -> float:
        """Seconds in which none was acknowledged, since it was asked last."""
        longest, self._longest = self._longest, 0.0
        return longest

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
