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
    deadline = time.monotonic() + 60
    while (left := _left(place, oids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == 0


def _two(place, *sql: str) -> None:
    """Two sessions at a time do this, so that two idle connections are left with it."""
    with place.server.connect(autocommit=True) as one, place.server.connect(autocommit=True) as other:
        for each in (one, other):
            for statement in (*sql, "begin", "select 1"):
                each.execute(statement)
        for each in (one, other):
            each.execute("commit")


def _on_another_connection(place, sql: str, ask: str) -> tuple:
    """What a session is that says who it is on one connection, and asks on another."""
    with place.server.connect(autocommit=True) as session, place.server.connect(autocommit=True) as busy:
        session.execute(sql)
        busy.execute("begin")
        busy.execute("select 1")
        return session.execute(ask).fetchone()


@pytest.mark.parametrize("gone", ["drop role stand", "alter role stand rename to former"])
def test_a_role_by_the_name_of_a_former_one_is_another(place, gone):
    """A pooled connection that was given a role keeps that role: not the one that has the name now."""
    place.server.run("drop role if exists stand, former", "create role stand")
    _two(place, "set role stand")
    place.server.run(gone, "create role stand")
    assert _on_another_connection(place, "set role stand", "select current_user") == ("stand",)
    place.server.run("drop role if exists stand, former")


def test_a_role_is_taken_again_behind_another_session_user(place):
    place.server.run("drop role if exists sits", "create role sits")
    _two(place, "set session authorization sits", "set role sits")
    said = _on_another_connection(place, "set role sits", "select session_user, current_user, current_setting('role')")
    assert said == ("postgres", "sits", "sits")
    place.server.run("drop role sits")
