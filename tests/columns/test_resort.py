"""A copy that is sorted is sorted anew once much of it has changed: seen by where its rows are in the store's file, beside writers and readers, and a store that dies in
the middle of it."""

import json
import os
import pathlib
import signal
import threading
import time

import pytest

from harness import processes

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(600)]

_ROWS = 640_000
_NEW = 10_000_000


def _groups(columns) -> list[int]:
    """In how many row groups of each store's file are the rows of a narrow range?"""
    number, found = columns.id("c_sorted"), []
    shards = """select md5(string_agg(c.relname::text, ',' order by c.relname::text collate "C"))
                from pg_partition_tree('c_sorted') t join pg_class c on c.oid = t.relid where t.isleaf"""
    for node, store in zip(columns.herd.node_servers, columns.stores):
        with node.connect() as connection:
            table = {"copy": int(number), "schema": "public", "name": "c_sorted", "shards": connection.execute(shards).fetchone()[0]}
        with store.connect(user="herd", dbname="herd") as connection:
            sql = f"SELECT count(DISTINCT rowid // 122880) FROM copy_{number} WHERE k BETWEEN 400000 AND 402000"
            found.append(int(connection.execute(json.dumps({"tables": [table], "types": ["int8"], "wait_ms": 30000}) + "\n" + sql).fetchone()[0]))
    return found


def _unsorted(columns) -> list[int | None]:
    with columns.server.connect() as connection:
        return [n for (n,) in connection.execute("select unsorted from herd.column_copies where relation = 'public.c_sorted' order by node").fetchall()]


def _sorts(columns) -> list[int]:
    return [(pathlib.Path(columns.herd.dir) / f"column{n}.log").read_text().count("is sorted anew") for n in (1, 2)]


def test_is_sorted_again_when_much_has_changed(columns):
    columns.server.run(
        "drop table if exists c_sorted", "create table c_sorted (id bigint primary key, k bigint not null, v text)",
        "select create_distributed_table('c_sorted', 'id')", f"insert into c_sorted select g, (g::int8 * 7919) % 1000003, 'v' from generate_series(1, {_ROWS}) g",
    )  # fmt: skip
    columns.add("c_sorted", ", order_by => array['k']")
    assert _groups(columns) == [1, 1] and _unsorted(columns) == [0, 0]
    before, end, failures, done = _sorts(columns), threading.Event(), [], [0]

    def write() -> None:
        with columns.server.connect() as connection:
            while not end.is_set():
                new = _NEW + done[0]
                connection.execute("insert into c_sorted values (%s, %s, 'w')", (new, done[0] * 997 % 1000003))
                done[0] += 1
                connection.execute("update c_sorted set v = 'again', k = k + 1 where id = %s", (done[0] * 31 % _ROWS + 1,))

    def read() -> None:
        with columns.server.connect() as connection:
            connection.execute("set herd.columns = on")
            while not end.is_set():
                least = _ROWS + done[0]
                total, new = connection.execute(f"select count(*), count(*) filter (where id >= {_NEW}) from c_sorted").fetchone()
                # One more may be there that was not acknowledged to its writer yet.
                if not least <= total <= _ROWS + done[0] + 1 or total - new != _ROWS:
                    failures.append((least, total, new))

    threads = [threading.Thread(target=f) for f in (write, read)]
    [t.start() for t in threads]
    try:
        columns.server.run("update c_sorted set k = (k * 31 + 7) % 1000003 where id % 3 <> 0")
        deadline = time.monotonic() + 300
        while _sorts(columns)[0] == before[0]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.1)
        killed = processes.with_argument(str(columns.herd.dir / "column1.toml"))
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        columns.herd.up()
        columns.ready("c_sorted")
        while max(n if n is not None else _ROWS for n in _unsorted(columns)) > 20_000:
            assert time.monotonic() < deadline, (_unsorted(columns), _sorts(columns))
            time.sleep(0.1)
    finally:
        end.set()
        [t.join() for t in threads]
    assert not failures and killed and done[0] > 10, (failures[:3], killed, done)
    assert max(_groups(columns)) <= 2, _groups(columns)
    after = _sorts(columns)
    assert after[0] >= before[0] + 2 and after[1] >= before[1] + 1, (before, after)
    total = "select count(*), sum(id), sum(k), sum(k * (id % 1000)), min(v), max(v), sum(length(v)) from c_sorted"
    with columns.server.connect() as connection:
        connection.execute("set herd.columns = on")
        was, by_columns = columns.reads()[0], connection.execute(total).fetchone()
        assert columns.reads()[0] > was
        connection.execute("set herd.columns = off")
        assert connection.execute(total).fetchone() == by_columns
    columns.server.run("drop table c_sorted")
