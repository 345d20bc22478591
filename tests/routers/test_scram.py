"""SCRAM-SHA-256: the router checks by home's verifiers and passes the client's keys on to the nodes."""

import time
from pathlib import Path

import psycopg
import pytest

from harness import router
from promises.login import Attempt

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-scram")]

_PASSWORDS = {"postgres": "the boss", "ann": "a'nn \\ ünd", "bob": "b"}


@pytest.fixture(scope="module")
def scram():
    """Two servers that ask everyone for a password, and a router that does.

    The keys of a client are those of one verifier: a role that was on the servers before needs the same on all of them.
    """
    made = []
    verifier = None
    try:
        for n in (1, 2):
            server = router.node(f"scram{n}")
            made.append(server)
            with server.server.connect() as connection:
                connection.execute(f"alter role postgres password '{verifier or _PASSWORDS['postgres']}'")
                verifier = connection.execute("select rolpassword from pg_authid where rolname = 'postgres'").fetchone()[0]
            Path(server.data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")
            with psycopg.connect(server.server.conninfo, password=_PASSWORDS["postgres"], autocommit=True) as connection:
                connection.execute("select pg_reload_conf()")
        home, other = (router.conninfo(n, password="'the boss'") for n in made[:2])
        made.append(router.Router(home, [other], more='auth = "scram"\n'))
        yield made[-1], made[:2]
    finally:
        for each in reversed(made):
            each.stop()


def _connect(server, user: str, password: str | None) -> psycopg.Connection:
    return psycopg.connect(f"{server.conninfo} user={user}", password=password, autocommit=True)


@pytest.fixture(scope="module")
def roles(scram):
    """Made through the router, so that every node has the same verifiers."""
    with _connect(scram[0].server, "postgres", _PASSWORDS["postgres"]) as boss:
        for name in ("ann", "bob"):
            password = _PASSWORDS[name].replace("'", "''")
            boss.execute(f"create role {name} login password '{password}'")
        boss.execute("create table pass (id int primary key, v int)")
        boss.execute("select create_distributed_table('pass', 'id')")
        boss.execute("insert into pass select g, g from generate_series(1, 30) g")
        boss.execute("grant select, update on pass to ann")


def test_the_servers_ask_for_passwords(scram):
    for server in scram[1]:
        with pytest.raises(psycopg.OperationalError, match="password"):
            server.server.connect().close()


def test_right_passwords(scram, roles):
    with _connect(scram[0].server, "ann", _PASSWORDS["ann"]) as ann:
        assert ann.execute("select session_user, current_user").fetchone() == ("ann", "ann")
        assert ann.execute("select count(*), sum(v) from pass").fetchone() == (30, 465)
        for key in range(1, 31):
            assert ann.execute("select v from pass where id = %s", (key,)).fetchone() == (key,)
        ann.execute("update pass set v = v + 1")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ann.execute("delete from pass where id = 1")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ann.execute("delete from pass")
    with _connect(scram[0].server, "bob", _PASSWORDS["bob"]) as bob:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bob.execute("select count(*) from pass")


@pytest.mark.parametrize(
    ("user", "password"),
    [("ann", "wrong"), ("ann", _PASSWORDS["bob"]), ("ann", ""), ("nobody_of_that_name", "x"), ("postgres", "wrong")],
)
def test_wrong_passwords(scram, roles, user, password):
    with pytest.raises(psycopg.OperationalError) as refused:
        _connect(scram[0].server, user, password or "''")
    assert f'password authentication failed for user "{user}"' in str(refused.value)


def test_a_changed_password(scram, roles):
    with _connect(scram[0].server, "ann", _PASSWORDS["ann"]) as ann:
        ann.execute("alter role ann password 'new one'")
    with pytest.raises(psycopg.OperationalError):
        _connect(scram[0].server, "ann", _PASSWORDS["ann"])
    with _connect(scram[0].server, "ann", "new one") as ann:
        assert ann.execute("select count(*) from pass").fetchone() == (30,)
        ann.execute(f"alter role ann password '{_PASSWORDS['ann'].replace(chr(39), chr(39) * 2)}'")
    with _connect(scram[0].server, "ann", _PASSWORDS["ann"]) as ann:
        assert ann.execute("select count(*) from pass").fetchone() == (30,)


def test_a_role_without_a_password(scram, roles):
    with _connect(scram[0].server, "postgres", _PASSWORDS["postgres"]) as boss:
        boss.execute("create role open_door login")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        _connect(scram[0].server, "open_door", "anything")


def test_nothing_of_passwords_is_logged(scram, roles):
    log = scram[0].log()
    assert not any(password in log for password in ("the boss", _PASSWORDS["ann"], "new one"))


def test_scram_iterations_are_the_servers(scram, roles):
    """A password is hashed as often as the session says, and a name that is nobody's claims what home's passwords have."""
    one, nodes = scram
    with _connect(one.server, "postgres", _PASSWORDS["postgres"]) as boss:
        try:
            boss.execute("set scram_iterations = 10000")
        except psycopg.errors.UndefinedObject:
            pytest.skip("before PostgreSQL 16 there is no such setting")
        boss.execute("create role often login password 'o'")
        boss.execute("set scram_iterations = 2000000000")
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="scram_iterations"):
            boss.execute("alter role often password 'x'")
        boss.execute("reset scram_iterations")
        boss.execute("create role plainly login password 'p'")
    stored = []
    for node in nodes:
        with psycopg.connect(node.server.conninfo, password=_PASSWORDS["postgres"]) as boss:
            stored.append(boss.execute("select rolpassword from pg_authid where rolname in ('often', 'plainly') order by rolname").fetchall())
    assert stored[0] == stored[1]
    assert [verifier.split(":")[0] for verifier, in stored[0]] == ["SCRAM-SHA-256$10000", "SCRAM-SHA-256$4096"]
    _connect(one.server, "often", "o").close()

    def claims(user: str) -> str:
        attempt = Attempt(one.port, user=user)
        attempt.start()
        return attempt.first()["i"]

    assert (claims("often"), claims("nobody_here")) == ("10000", "4096")
    with psycopg.connect(nodes[0].server.conninfo, password=_PASSWORDS["postgres"], autocommit=True) as home:
        home.execute("alter system set scram_iterations = 7000")
        home.execute("select pg_reload_conf()")
        deadline = time.monotonic() + 90
        while claims("nobody_here") != "7000":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        home.execute("alter system reset scram_iterations")
        home.execute("select pg_reload_conf()")
