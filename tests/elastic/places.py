"""Places in the router where it waits, by a failpoint `…:wait:FLAG`. It does not know which they are."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg


class Asked(threading.Thread):
    """A call that is made beside, from now on. `said`, once it has come to its end: its error, or None."""

    def __init__(self, call: Callable[[], object]):
        super().__init__()
        self._call, self.said = call, []
        self.start()

    def run(self):
        try:
            self._call()
            self.said.append(None)
        except psycopg.Error as error:
            self.said.append(error)

    @property
    def sqlstates(self) -> list:
        return [error and error.sqlstate for error in self.said]


def reached(flag: Path, asked: Asked | None = None) -> None:
    """Returns when a router waits there. Whoever makes the call has not come to its end before."""
    deadline = time.monotonic() + 90
    while not flag.exists():
        assert time.monotonic() < deadline and (asked is None or asked.is_alive()), asked and asked.said
        time.sleep(0.02)
