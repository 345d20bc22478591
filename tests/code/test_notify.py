"""Listeners are on home: code that would notify on another node is refused, all else is heard."""

import psycopg
import pytest

pytestmark = pytest.mark.real_herd

_BODIES = (
    "begin perform pg_notify('heard', new.k::text); return new; end",
    "begin notify heard; return new; end",
)


@pytest.fixture
def tables(herd):
    drop = ("drop table if exists notifying, notifying_local, notifying_reference cascade", "drop function if exists notifies() cascade")
    herd.run(*drop, *(f"create table notifying{t} (k int primary key, v int)" for t in ("", "_local", "_reference")),
             "select create_distributed_table('notifying', 'k')", "select create_reference_table('notifying_reference')")
    yield
    herd.run(*drop)


@pytest.mark.parametrize("body", _BODIES)
def test_a_trigger_on_a_distributed_table_can_not(herd, tables, body):
    herd.run(f"create function notifies() returns trigger language plpgsql as $$ {body} $$")
    trigger = "create trigger notifies after insert on {} for each row execute function notifies()"
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="notifies listeners"):
        herd.run(trigger.format("notifying"))
    herd.run(trigger.format("notifying_local"))
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="notifies listeners"):
        herd.run("select create_distributed_table('notifying_local', 'k')")


def test_a_function_that_notifies_runs_on_home(herd, tables):
    herd.run("create function notifies() returns void language sql as $$ select pg_notify('heard', 'x') $$",
             "insert into notifying select g, g from generate_series(1, 12) g")
    with herd.connect() as listener:
        listener.execute("listen heard")
        try:
            herd.run("select notifies() from notifying")
        except psycopg.errors.FeatureNotSupported:
            herd.run("select notifies()")
        assert [n.payload for n in listener.notifies(timeout=60, stop_after=1)] == ["x"]


def test_a_local_table_s_trigger_is_heard(herd, tables):
    herd.run(f"create function notifies() returns trigger language plpgsql as $$ {_BODIES[0]} $$",
             "create trigger notifies after insert on notifying_local for each row execute function notifies()")
    with herd.connect() as listener:
        listener.execute("listen heard")
        herd.run("insert into notifying_local select g, g from generate_series(1, 12) g")
        assert len([n for n in listener.notifies(timeout=60, stop_after=12)]) == 12
