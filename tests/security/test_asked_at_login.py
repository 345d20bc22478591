"""What a client asks for when it logs in is judged then, also where an earlier session of the same client has left it on a connection;
and what one client's settings leave there keeps nobody out."""

import psycopg
import pytest

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def sides(oracle, herd):
    def drop():
        for side in (oracle, herd):
            with side.connect() as boss:
                for role in ("asks", "is_asked_for"):
                    if boss.execute("select 1 from pg_roles where rolname = %s", (role,)).fetchone():
                        boss.execute(f"drop owned by {role}")
                        boss.execute(f"drop role {role}")

    drop()
    for side in (oracle, herd):
        side.run("create role asks login", "create role is_asked_for")
    yield oracle, herd
    drop()


def _login(side, options: str, ask: str = "select current_user, session_user") -> tuple:
    try:
        with psycopg.connect(f"{side.conninfo} user=asks", options=options, autocommit=True) as connection:
            return connection.execute(ask).fetchone()
    except psycopg.Error as error:
        return (str(error).split("FATAL:")[-1].strip(),)


@pytest.mark.parametrize("grant, revoke, options", [
    ("grant is_asked_for to asks", "revoke is_asked_for from asks", "-c role=is_asked_for"),
    ("grant set on parameter log_duration to asks", "revoke set on parameter log_duration from asks", "-c log_duration=on"),
])
def test_a_right_that_was_taken_away(sides, grant, revoke, options):
    answers = []
    for side in sides:
        seen = [_login(side, options)]
        side.run(grant)
        seen += [_login(side, options) for _ in range(3)]
        side.run(revoke)
        seen += [_login(side, options) for _ in range(3)] + [_login(side, "")]
        answers.append(seen)
    assert answers[1] == answers[0]
    assert answers[0][0] == answers[0][4] != answers[0][1]


def test_a_seed_is_no_setting_that_others_must_lose(sides):
    plain, herd = sides
    numbers = []
    for side in sides:
        with side.connect() as connection:
            connection.execute("set seed to 0.5")
            numbers.append([connection.execute("select random()").fetchone() for _ in range(3)])
        for options in ("", "-c role=none", "-c work_mem=8MB"):
            assert _login(side, options, "select 1") == (1,)
        with side.connect() as connection, pytest.raises(psycopg.Error, match="cannot be reset"):
            connection.execute("reset seed")
    assert numbers[0] == numbers[1]
