"""Shards that move without pause while another program kills routers and nodes, and what such moves may leave behind: nothing.

It does not know what is in the tables.
"""

import random
import re
import threading

import psycopg

from .cluster import Cluster

_SHARDS = "select s.shard, s.node from herd.shards s where s.name = %s order by s.shard"
# Beside kills any call may be lost, and is made again. These would be wrong however a move is ended.
_NEVER = ("0A000", "XX000", "42P01", "42P07", "42703", "23505", "22000")


class Mover(threading.Thread):
    """Moves shards of `table`, splits them and merges them again, through whichever router answers."""

    def __init__(self, seed: int, cluster: Cluster, table: str, stop: threading.Event):
        super().__init__(daemon=True)
        self.cluster, self.table, self.stop, self.random = cluster, table, stop, random.Random(f"{seed}/moves")
        self.done: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                try:
                    with self.random.choice(self.cluster.routers).server.connect() as connection:
                        while not self.stop.is_set():
                            self._one(connection)
                except psycopg.Error as error:
                    code = error.sqlstate or "lost"
                    assert code not in _NEVER, repr(error)
                    self.codes[code] = self.codes.get(code, 0) + 1
                    self.stop.wait(0.1)
        except BaseException as error:
            self.trouble = error

    def _one(self, connection) -> None:
        shards = dict(connection.execute(_SHARDS, (self.table,)).fetchall())
        nodes = [name for (name,) in connection.execute("select name from herd.nodes order by id")]
        shard = self.random.choice(list(shards))
        kind = self.random.choice(("move", "move", "split", "merge"))
        if kind == "move":
            to = self.random.choice([n for n in nodes if n != shards[shard]])
            connection.execute(f"select herd.move_shard('{self.table}', {shard}, '{to}')")
        elif kind == "split" and len(shards) < 20:
            connection.execute(f"select herd.split_shard('{self.table}', {shard})")
        elif kind == "merge" and len(shards) > 4 and (other := self._half(connection, shard)) is not None:
            connection.execute(f"select herd.merge_shards('{self.table}', {shard}, {other})")
        else:
            return
        self.done[kind] = self.done.get(kind, 0) + 1

    def _half(self, connection, shard: int) -> int | None:
        """The other half of a shard, by its bound."""
        rows = connection.execute("select shard, bound from herd.shards where name = %s", (self.table,)).fetchall()
        bounds = {number: tuple(map(int, re.findall(r"\d+", bound))) for number, bound in rows}
        modulus, remainder = bounds[shard]
        return next((n for n, (m, r) in bounds.items() if m == modulus and m % 2 == 0 and abs(r - remainder) == m // 2), None)
