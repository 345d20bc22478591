"""Narrow ranges of a hashed key are planned once on a node's connection. Nobody sees that: neither who reads settings, nor who comes next on the connection."""

import pytest

pytestmark = pytest.mark.real_herd
RANGE = "select count(*), sum(v) from one_plan where id between %s and %s"


@pytest.fixture(scope="module")
def ranges(herd):
    herd.run(
        "create table one_plan (id int primary key, v int)", "select create_distributed_table('one_plan', 'id')",
        "insert into one_plan select g, g from generate_series(1, 2000) g",
        "create function one_plan_mode(n int) returns text language plpgsql stable as $$ begin return current_setting('plan_cache_mode'); end $$",
        "select create_distributed_function('one_plan_mode(int)')", "create role one_plan_role login", "grant select on one_plan to one_plan_role",
        "alter role one_plan_role set plan_cache_mode = force_custom_plan",
    )
    yield herd
    herd.run("drop function one_plan_mode(int)", "drop table one_plan", "drop role one_plan_role")


def _mode_everywhere(connection, mode):
    modes = lambda sql, *values: {row[0] for row in connection.execute(sql, *values).fetchall()}  # noqa: E731
    assert modes("show plan_cache_mode") == {mode}
    assert modes("select current_setting('plan_cache_mode')") == {mode}
    assert modes("select current_setting('plan_cache_mode') from one_plan") == {mode}
    assert modes("select one_plan_mode(id) from one_plan") == {mode}
    for function in ("current_setting('plan_cache_mode')", "one_plan_mode(id)"):
        for _ in range(2):
            assert modes(f"select {function} from one_plan where id between %s and %s", (1, 60)) == {mode}
    assert modes("select current_setting('plan_cache_mode') from one_plan where id = 7") == {mode}


def _ranges(connection, times=20):
    for n in range(1, times):
        assert connection.execute(RANGE, (n, n + 9), prepare=True).fetchone() == (10, 10 * n + 45)


def test_nobody_sees_how_ranges_are_planned(ranges):
    with ranges.connect() as one, ranges.connect() as other:
        _ranges(one)
        for connection in (one, other):
            _mode_everywhere(connection, "auto")
        _ranges(other)
        with one.transaction():
            _ranges(one)
            _mode_everywhere(one, "auto")
        one.execute("create temp table mine (n int)")
        _ranges(one)
        _mode_everywhere(one, "auto")
        assert one.execute("select count(*) from mine").fetchone() == (0,)


def test_what_a_session_or_its_role_says_stands(ranges):
    with ranges.connect() as own, ranges.connect() as other:
        own.execute("set plan_cache_mode = force_custom_plan")
        for connection, mode in ((own, "force_custom_plan"), (other, "auto")) * 2:
            _ranges(connection)
            _mode_everywhere(connection, mode)
        own.execute("reset plan_cache_mode")
        _ranges(own)
        _mode_everywhere(own, "auto")
    with ranges.connect(user="one_plan_role") as connection:
        _ranges(connection)
        assert connection.execute("show plan_cache_mode").fetchone() == ("force_custom_plan",)
        _ranges(connection)
        assert connection.execute("select current_setting('plan_cache_mode') from one_plan limit 1").fetchone() == ("force_custom_plan",)
        connection.execute("discard all")
        _ranges(connection)
        assert connection.execute("show plan_cache_mode").fetchone() == ("force_custom_plan",)
