"""The application with many tenants, through psycopg: every report and every change as on one PostgreSQL."""

import psycopg
import pytest

from .pairs import Pair
from .programs import tenants

pytestmark = pytest.mark.xdist_group("tenants")


@pytest.fixture(scope="module")
def filled(oracle, herd):
    """Both servers with the application's rows, for tests that only read."""
    made = Pair(oracle, herd, "tenants_read")
    _fill(made)
    yield made
    made.close()


@pytest.fixture
def pair(oracle, herd):
    made = Pair(oracle, herd, "tenants_write")
    _fill(made)
    yield made
    made.close()


def _fill(pair: Pair) -> None:
    pair.run(tenants.SCHEMA)
    pair.distribute(tenants.DISTRIBUTE)
    pair.run(tenants.ROWS)


def test_rows_are_there(filled):
    for table in tenants.TABLES:
        assert filled.same(f"SELECT * FROM {table}") or table == "task_summary"


@pytest.mark.parametrize("name", tenants.REPORTS)
def test_report(filled, name):
    query = tenants.REPORTS[name]
    rows = filled.same(query, ordered="ORDER BY" in query.rsplit(")", 1)[-1])
    assert rows or name in tenants.EMPTY
    # The same as a cursor of the server's, some rows at a time, and in a transaction that reads repeatably.
    for connection in (filled.plain, filled.herd):
        with connection.transaction(), connection.cursor(name="report") as cursor:
            cursor.itersize = 7
            assert sorted(cursor.execute(query), key=repr) == sorted(rows, key=repr)
    with filled.herd.transaction():
        filled.herd.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        assert sorted(filled.herd.execute(query).fetchall(), key=repr) == sorted(rows, key=repr)


def test_changes(pair):
    for name, change in tenants.CHANGES.items():
        tags = pair.change(change)
        assert not any(tag.endswith(" 0") for tag in tags), f"{name} changes nothing"
        for table in tenants.TABLES:
            pair.same(f"SELECT * FROM {table}")


def test_a_change_that_fails_leaves_nothing(pair):
    for connection in (pair.plain, pair.herd):
        with pytest.raises(psycopg.errors.ForeignKeyViolation), connection.transaction():
            connection.execute("TRUNCATE task_summary")
            connection.execute("INSERT INTO task_summary SELECT tenant_id, state, count(*), sum(points) FROM tasks GROUP BY 1, 2")
            connection.execute("INSERT INTO comments VALUES (1, 1, 999999, 1, 'of no task', now())")
    for table in tenants.TABLES:
        pair.same(f"SELECT * FROM {table}")


def test_row_security(pair):
    """Each request says whose it is; whatever it asks for, it gets no other tenant's rows."""
    role = "tenants_app"
    for connection in (pair.plain, pair.herd):
        connection.execute(f"DROP ROLE IF EXISTS {role}")
        connection.execute(f"CREATE ROLE {role}")
    try:
        pair.run(tenants.SECURITY)
        pair.run(f"GRANT USAGE ON SCHEMA {pair.schema} TO {role};\nGRANT ALL ON ALL TABLES IN SCHEMA {pair.schema} TO {role};\n")
        pair.run(f"SET ROLE {role};\n")
        for tenant in (2, 3, 40):
            pair.run(f"SET app.tenant = '{tenant}';\n")
            pair.same("SELECT tenant_id, count(*) FROM tasks GROUP BY 1")
            pair.same("SELECT t.id, count(k.id) FROM tenants t LEFT JOIN tasks k ON k.tenant_id = t.id GROUP BY t.id")
            pair.same("INSERT INTO task_summary SELECT tenant_id, state, count(*), sum(points) FROM tasks GROUP BY 1, 2")
            pair.same("UPDATE tasks SET title = upper(title)")
            pair.same("SELECT * FROM task_summary")
            plain, herd = pair.both("INSERT INTO task_summary SELECT 1, state, count(*), 0 FROM tasks GROUP BY 2 UNION ALL SELECT 1, 'x', 0, 0")
            assert plain[0][0] == herd[0][0] == "42501"
        pair.run("RESET ROLE;\n")
        for table in tenants.TABLES:
            pair.same(f"SELECT * FROM {table}")
    finally:
        for connection in (pair.plain, pair.herd):
            connection.execute("RESET ROLE")
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")
