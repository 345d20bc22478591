"""What a herd writes to disk is its owner's alone, and no password is in it."""

import os

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]


def test_logs_are_closed(herd_many):
    logs = [p for p in herd_many.dir.iterdir() if p.suffix == ".log"]
    assert len(logs) >= 3
    for path in logs:
        assert path.stat().st_mode & 0o077 == 0, f"{path}: {path.stat().st_mode:o}"
    # As root, PostgreSQL runs as another user, who passes through.
    assert herd_many.dir.stat().st_mode & 0o077 == (0o011 if os.geteuid() == 0 else 0)


@pytest.mark.parametrize("sql", [
    "create role forgetful login password 'clear-secret' nonsense",
    "create role forgetful passwort 'clear-secret' password 'clear-secret'",
    "alter role postgres with password 'clear-secret' valid",
    "select 1; create user u password 'clear-secret' from",
    "create role postgres password 'clear-secret'",
    "alter role nobody_there password 'clear-secret'",
])
def test_no_clear_password_in_logs(herd_many, sql):
    with herd_many.server.connect() as connection:
        for prepare in (False, True):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(sql, prepare=prepare)
            assert caught.value.sqlstate in ("42601", "42710", "42704"), caught.value
    for path in herd_many.dir.iterdir():
        if path.suffix == ".log":
            assert b"clear-secret" not in path.read_bytes(), path
