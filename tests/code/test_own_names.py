"""Functions of users' own that have a name of PostgreSQL's, which the router would answer itself, are called."""

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@pytest.mark.parametrize(
    ("made", "call", "value"),
    [
        ("pg_backend_pid() returns int language sql as 'select 42'", "code.pg_backend_pid()", 42),
        ("pg_terminate_backend(int) returns text language sql as 'select ''hi'''", "code.pg_terminate_backend(1)", "hi"),
        ("pg_cancel_backend(int) returns text language sql as 'select ''hi'''", "code.pg_cancel_backend(1)", "hi"),
        ("citus_version() returns text language sql as 'select ''hi'''", "code.citus_version()", "hi"),
        ("citus_version() returns text language sql as 'select ''hi'''", "citus_version()", "hi"),
    ],
)
def test_a_function_of_ones_own(db, made, call, value):
    db.run("SET search_path = code, public", f"CREATE FUNCTION code.{made}")
    assert db.one(f"SELECT {call}") == value
    assert db.one("SELECT pg_backend_pid()") != 42
