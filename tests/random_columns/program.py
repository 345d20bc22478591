"""A random program over column copies: tables, then queries, with changes of rows between them."""

import random
from collections.abc import Generator
from dataclasses import replace

from random_sql.pair import Done
from random_sql.step import MODES, Step

from .queries import Queries
from .tables import Tables

_SETTINGS = [
    # What cannot be asked of a store in time goes to rows, and shows nothing.
    "set herd.columns = on", "set herd.freshness_wait = '10s'",
]  # fmt: skip
_CHANGES = 0.07
_AGAIN = 0.08


class Program:
    def __init__(self, seed: str):
        self.rng = random.Random(seed)
        self.tables = Tables(self.rng)

    def steps(self, statements: int) -> Generator[Step, Done, None]:
        """The tables, then about so many queries."""
        rng = self.rng
        for sql in _SETTINGS:
            yield Step(sql, herd_only=True, setup=True)
        for step in self.tables.made():
            yield step
        asked = 0
        while asked < statements:
            if rng.random() < _CHANGES:
                for step in self.tables.change():
                    yield step
            step = Queries(rng, self.tables).step()
            yield step
            asked += 1
            if rng.random() < _AGAIN:
                # By another protocol.
                yield replace(step, mode=rng.choice(MODES))
                asked += 1
