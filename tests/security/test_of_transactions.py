"""What one client sets for a transaction is that transaction's: no other client meets it, whatever way it was set in."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

_WAYS = [
    "set transaction_read_only = on", "set local transaction_read_only = on", "set transaction_deferrable = on", "set transaction_isolation = 'repeatable read'",
    "select set_config('transaction_read_only', 'on', true)", "select set_config('transaction_read_only', 'on', false)",
    "select set_config('transaction_deferrable', 'on', false)", "do $$ begin set transaction_read_only = on; end $$",
]


@pytest.fixture(scope="module")
def table(place):
    place.server.run("create table of_tx (id int primary key, v int)", "select create_distributed_table('of_tx', 'id')", "insert into of_tx select g, g from generate_series(1, 20) g")
    yield
    place.server.run("drop table of_tx")


def _goes_on(place, connection):
    """The session that has set it, and as many others as there may be connections that have it."""
    assert connection.execute("select current_setting('transaction_read_only')").fetchone() == ("off",)
    connection.execute("update of_tx set v = v + 1 where id = 3")
    for _ in range(4):
        with place.server.connect() as other:
            assert other.execute("select count(*) from of_tx").fetchone() == (20,)
            other.execute("update of_tx set v = v + 1")


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_in_a_block(place, table, way, end):
    with place.server.connect() as connection:
        connection.execute("begin")
        try:
            connection.execute(way)
            connection.execute("select count(*) from of_tx")
            connection.execute(end)
        except psycopg.Error:
            connection.execute("rollback")
        _goes_on(place, connection)


@pytest.mark.parametrize("way", _WAYS)
def test_by_itself(place, table, way):
    with place.server.connect() as connection:
        try:
            connection.execute(way)
        except psycopg.Error:
            pass
        _goes_on(place, connection)


@pytest.mark.parametrize("name", ["transaction_read_only", "transaction_deferrable"])
def test_at_login(place, table, name):
    with place.server.connect(options=f"-c {name}=on") as connection:
        _goes_on(place, connection)
