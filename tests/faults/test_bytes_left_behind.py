"""What nodes add up stays there: rows of megabytes do not travel to become one number. Counted on the wire, not timed."""

import pytest

from harness import router
from promises.proxy import Proxy

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("faults-bytes"), pytest.mark.timeout(120)]

_ROWS, _LONG = 60, 500_000


@pytest.fixture(scope="module")
def watched():
    things = []
    try:
        nodes = [router.node(f"bytes{n}") for n in (1, 2)]
        things += nodes
        doors = [Proxy(node.port) for node in nodes]
        things += doors
        home, other = (router.conninfo(node, port=str(door.port)) for node, door in zip(nodes, doors))
        one = router.Router(home, [other])
        things.append(one)
        with one.server.connect() as connection:
            connection.execute("create table big (id int primary key, g int, b bytea)")
            connection.execute("select create_distributed_table('big', 'id')")
            connection.execute("alter table big alter b set storage external")
            connection.execute(f"insert into big select n, n % 3, convert_to(repeat('x', {_LONG}), 'UTF8') from generate_series(1, {_ROWS}) n")
        yield one.server, doors
    finally:
        for thing in reversed(things):
            thing.stop()


def _left(watched, sql: str) -> tuple[list, int]:
    server, doors = watched
    with server.connect() as connection:
        connection.execute("select count(*) from big")
        before = sum(door.bytes_from for door in doors)
        rows = connection.execute(sql).fetchall()
        return rows, sum(door.bytes_from for door in doors) - before


_ALL = _ROWS * _LONG


@pytest.mark.parametrize("sql, expected", [
    ("select sum(length(b)) from big", [(_ALL,)]), ("select sum(length(b)), count(b), max(length(b)) from big where id > 0", [(_ALL, _ROWS, _LONG)]),
    ("select g, sum(length(b)) from big group by g order by g", [(g, _ALL // 3) for g in range(3)]),
    ("select count(*) from big where length(b) > 10", [(_ROWS,)]), ("select s from (select sum(octet_length(b)) as s from big) q where s > 1", [(_ALL,)]),
])  # fmt: skip
def test_sums_of_long_values_move_no_values(watched, sql, expected):
    rows, left = _left(watched, sql)
    assert rows == expected
    # Descriptions, settings and what other routers say; 30 MB if the values themselves were moved.
    assert left < 100_000, f"{left} bytes left the nodes"


def test_values_that_are_asked_for_are_counted(watched):
    """The measure itself: they do leave the nodes, as text of twice the length."""
    rows, left = _left(watched, "select b from big where id <= 20")
    assert len(rows) == 20 and left > 20 * _LONG
