"""Connections to nodes that nobody uses end soon after home says their role is gone, or another than it was."""

import time

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security")]


def _left(place, oid_on: list[int]) -> int:
    """Server processes on all nodes that work for the role with these object ids, one a node."""
    count = 0
    for number, oid in enumerate(oid_on):
        with place.on_node(number) as boss:
            count += boss.execute("select count(*) from pg_stat_activity where usesysid = %s", [oid]).fetchone()[0]
    return count


@pytest.mark.parametrize("change", ["drop role leaver", "alter role leaver rename to leaver2", "alter role leaver nologin"])
def test_idle_connections_of_a_changed_role_end(place, change):
    place.server.run("drop role if exists leaver2", "drop role if exists leaver", "create role leaver login")
    place.server.run("drop table if exists left_d", "create table left_d (k int)", "select create_distributed_table('left_d', 'k')")
    place.server.run("grant select on left_d to leaver")
    with place.as_role("leaver") as leaver:
        assert leaver.execute("select * from left_d").fetchall() == []
    oids = []
    for number in range(3):
        with place.on_node(number) as boss:
            oids.append(boss.execute("select oid from pg_roles where rolname = 'leaver'").fetchone()[0])
    assert _left(place, oids) >= 3
    place.server.run("drop table left_d", change)
    deadline = time.monotonic() + 10
    while (left := _left(place, oids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == 0
