"""Who gets in, and as whom: home's word now decides, whatever connections the router still has.

Nodes ask everyone for a password, so that the router can't lend what it has not been given.
"""

from pathlib import Path

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-logins")]

_BOSS = "the boss"


class Place:
    """Two servers that ask for passwords, and routers before them."""

    def __init__(self):
        self.nodes, self.routers, verifier = [], [], None
        for n in (1, 2):
            server = router.node(f"logins{n}")
            self.nodes.append(server)
            with server.server.connect() as connection:
                connection.execute(f"alter role postgres password '{verifier or _BOSS}'")
                verifier = connection.execute("select rolpassword from pg_authid where rolname = 'postgres'").fetchone()[0]
            Path(server.data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")
            with self.node(n) as connection:
                connection.execute("select pg_reload_conf()")
        self.scram, self.second, self.trusting = (self.add('auth = "scram"\n'), self.add('auth = "scram"\n'), self.add('auth = "trust"\n'))
        with self.boss() as boss:
            boss.execute("create table seen (id int primary key, owner text)")
            boss.execute("select create_distributed_table('seen', 'id')")
            boss.execute("insert into seen select g, 'x' from generate_series(1, 20) g")
            boss.execute("grant select on seen to public")

    def add(self, more: str) -> router.Router:
        home, other = (router.conninfo(n, password=f"'{_BOSS}'") for n in self.nodes)
        made = router.Router(home, [other], more=more)
        self.routers.append(made)
        return made

    def node(self, number: int) -> psycopg.Connection:
        """Straight to a node, behind every router's back."""
        return psycopg.connect(self.nodes[number - 1].server.conninfo, password=_BOSS, autocommit=True)

    def boss(self) -> psycopg.Connection:
        return self.connect("postgres", _BOSS)

    def connect(self, user: str, password: str, by: router.Router | None = None, **more) -> psycopg.Connection:
        server = (by or self.scram).server
        return psycopg.connect(f"{server.conninfo} user={user}", password=password, autocommit=True, **more)

    def stop(self) -> None:
        for each in [*self.routers, *self.nodes]:
            each.stop()


@pytest.fixture(scope="module")
def place():
    made = Place()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def roles(place):
    """Makes roles that can log in, with their names as passwords; they are gone afterwards."""
    names = []

    def make(*wanted: str) -> None:
        with place.boss() as boss:
            for name in wanted:
                boss.execute(f"create role {name} login password '{name}'")
                names.append(name)

    yield make
    with place.boss() as boss:
        for (name,) in boss.execute("select rolname from pg_roles where rolname !~ '^pg_' and rolname <> 'postgres'").fetchall():
            boss.execute(f'drop owned by "{name}"')
            boss.execute(f'drop role "{name}"')


def _who(connection) -> tuple:
    """Who one is on home and on the other node."""
    home = connection.execute("select session_user::text, current_user::text").fetchone()
    everywhere = {row[0] for row in connection.execute("select distinct current_user::text || ' ' || session_user::text from seen").fetchall()}
    for key in range(1, 21):
        everywhere.add(connection.execute("select current_user::text || ' ' || session_user::text from seen where id = %s", (key,)).fetchone()[0])
    return home, everywhere


def _is(connection, name: str) -> None:
    assert _who(connection) == ((name, name), {f"{name} {name}"})


def _refused(place, user: str, password: str, sqlstate_or_text: str, by=None) -> None:
    with pytest.raises(psycopg.OperationalError, match=sqlstate_or_text):
        place.connect(user, password, by).close()


def test_the_routers_own_connections_serve_no_client(place, roles):
    """Under trust, nodes ask for a password the client has not: what the router logged in for itself is not lent."""
    with place.connect("postgres", _BOSS, place.scram) as boss:
        boss.execute("create table warm (id int)")
        boss.execute("drop table warm")
    for _ in range(3):
        # Warms the router's own connections of the trusting router, as anyone can: a cancel for a session that is nowhere.
        with psycopg.connect(f"{place.scram.server.conninfo} user=postgres", password=_BOSS) as other:
            key = other.pgconn.backend_pid
        _send_cancel(place.trusting.port, key, 12345)
        with pytest.raises(psycopg.OperationalError, match="password"):
            place.connect("postgres", "", place.trusting).execute("select 1")


def _send_cancel(port: int, pid: int, secret: int) -> None:
    import socket
    import struct

    with socket.create_connection(("127.0.0.1", port), 5) as channel:
        channel.sendall(struct.pack("!iiii", 16, 80877102, pid, secret))
        channel.recv(1)


def test_set_role_of_the_routers_user_hurts_nobody(place, roles):
    roles("ann")
    with place.boss() as boss:
        boss.execute("set role ann")
        boss.execute("set session authorization ann")
        for _ in range(5):
            with place.connect("ann", "ann") as ann:
                _is(ann, "ann")
    with place.boss() as boss:
        _is(boss, "postgres")


@pytest.mark.parametrize("way", ["router", "other router", "home"])
def test_a_name_goes_to_another_role(place, roles, way):
    roles("carla", "dan")
    with place.connect("carla", "carla") as carla, place.connect("dan", "dan") as dan:
        _is(carla, "carla")
        _is(dan, "dan")
    with place.boss() as boss:
        boss.execute("create table hers (id int primary key)")
        boss.execute("alter table hers owner to carla")
    change = ["alter role carla rename to carla_old", "alter role dan rename to carla"]
    _run(place, way, change)
    with place.connect("carla", "dan") as now:
        _is(now, "carla")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            now.execute("select * from hers")
    with place.connect("carla_old", "carla") as old:
        _is(old, "carla_old")
        assert old.execute("select * from hers").fetchall() == []
    _refused(place, "carla", "carla", "password authentication failed")
    with place.boss() as boss:
        boss.execute("drop table hers")


def _run(place, way: str, statements: list[str]) -> None:
    """By this router, by another, or on every node behind the routers' backs."""
    if way == "home":
        connections = [place.node(2), place.node(1)]
    else:
        connections = [place.connect("postgres", _BOSS, place.second if way == "other router" else place.scram)]
    for connection in connections:
        with connection:
            for sql in statements:
                connection.execute(sql)


def test_a_session_that_stays_while_its_name_goes(place, roles):
    """Connections it still has are its own, and new ones are too."""
    roles("eve", "finn")
    with place.connect("eve", "eve") as eve, place.boss() as boss:
        _is(eve, "eve")
        boss.execute("alter role eve rename to eve_old")
        boss.execute("alter role finn rename to eve")
        # A login makes the router know of it; more sessions make it open more connections.
        with place.connect("eve", "finn") as finn:
            _is(finn, "eve")
            assert _who(eve)[0] == ("eve_old", "eve_old")


@pytest.mark.parametrize("way", ["router", "other router", "home"])
def test_nologin_password_and_connect(place, roles, way):
    roles("gus")
    with place.connect("gus", "gus") as gus:
        _is(gus, "gus")
    _run(place, way, ["alter role gus nologin"])
    _refused(place, "gus", "gus", 'role "gus" is not permitted to log in')
    _refused(place, "gus", "wrong", "password authentication failed")
    _run(place, way, ["alter role gus login", "alter role gus valid until '2001-01-01'"])
    _refused(place, "gus", "gus", "password authentication failed")
    _run(place, way, ["alter role gus valid until 'infinity'", "revoke connect on database postgres from public"])
    try:
        _refused(place, "gus", "gus", 'permission denied for database "postgres"')
    finally:
        _run(place, way, ["grant connect on database postgres to public"])
    with place.connect("gus", "gus") as gus:
        _is(gus, "gus")
    _run(place, way, ["alter role gus connection limit 0"])
    _refused(place, "gus", "gus", 'too many connections for role "gus"')


def test_a_changed_password(place, roles):
    roles("hal")
    with place.connect("hal", "hal") as hal:
        _is(hal, "hal")
        hal.execute("alter role hal password 'second'")
        _refused(place, "hal", "hal", "password authentication failed")
        with place.connect("hal", "second") as again:
            _is(again, "hal")
            # Who was in stays in.
            _is(hal, "hal")


@pytest.mark.parametrize("way", ["router", "other router", "home"])
def test_drop_and_create(place, roles, way):
    roles("ida")
    with place.connect("ida", "ida") as ida:
        _is(ida, "ida")
    _run(place, way, ["drop role ida", "create role ida login password 'ida'"] if way != "home" else ["drop role ida"])
    if way == "home":
        # The same verifier on all nodes, as the router sees to it by itself.
        with place.node(1) as home:
            home.execute("create role ida login password 'ida'")
            verifier = home.execute("select rolpassword from pg_authid where rolname = 'ida'").fetchone()[0]
        with place.node(2) as other:
            other.execute(f"create role ida login password '{verifier}'")
    for _ in range(3):
        with place.connect("ida", "ida") as ida:
            _is(ida, "ida")


@pytest.mark.parametrize("way", ["router", "other router", "home"])
def test_settings_of_roles_and_databases(place, roles, way):
    roles("jo")
    with place.boss() as boss:
        boss.execute("create schema if not exists aside")
        boss.execute("create table if not exists aside.only_here as select 1 as x")
        boss.execute("grant usage on schema aside to public")
        boss.execute("grant select on aside.only_here to public")
    show = "select current_setting('work_mem'), current_setting('search_path'), current_setting('my.own', true)"
    with place.connect("jo", "jo") as before:
        assert before.execute(show).fetchone()[:2] == ("4MB", '"$user", public')
        _run(place, way, [
            "alter role jo set search_path = aside, public", "alter role jo in database postgres set my.own = 'yes'",
            "alter database postgres set work_mem = '7MB'",
        ])
        try:
            with place.connect("jo", "jo") as after:
                assert after.execute(show).fetchone() == ("7MB", "aside, public", "yes")
                assert after.execute("select x from only_here").fetchone() == (1,)
                there = {row[0] for row in after.execute("select current_setting('work_mem') from seen").fetchall()}
                assert there == {"7MB"}
                after.execute("set work_mem = '9MB'")
                after.execute("reset work_mem")
                assert after.execute(show).fetchone()[0] == "7MB"
                # The names a session means stay what they were.
                assert before.execute(show).fetchone()[1] == '"$user", public'
            with place.connect("jo", "jo", options="-c search_path=public") as own:
                assert own.execute(show).fetchone() == ("7MB", "public", "yes")
        finally:
            _run(place, way, ["alter database postgres reset work_mem"])
    with place.connect("jo", "jo") as last:
        assert last.execute(show).fetchone()[0] == "4MB"


def test_a_connection_limit_is_none_of_a_superuser(place, roles):
    with place.boss() as boss:
        boss.execute("create role chief superuser login connection limit 0 password 'chief'")
        try:
            with place.connect("chief", "chief") as chief:
                _is(chief, "chief")
            boss.execute("alter role chief nosuperuser")
            _refused(place, "chief", "chief", "too many connections for role")
        finally:
            boss.execute("drop role chief")


def test_strangers_look_like_users(place, roles):
    """The salt of one who is not there is the same on all routers, and does not follow from what anybody may read."""
    roles("kim")
    import hmac

    with place.boss() as boss:
        herd_id = boss.execute("select id from herd.herd").fetchone()[0]
    salts = {by.port: _salt(by.port, "nobody_here") for by in (place.scram, place.second)}
    assert len(set(salts.values())) == 1, salts
    assert salts[place.scram.port] != _salt(place.scram.port, "nobody_else")
    assert len(_salt(place.scram.port, "kim")) == len(salts[place.scram.port])
    # As it once was: from the herd's id, which everybody may read.
    guess = hmac.new((herd_id * 32).encode()[:32], b"salt\0nobody_here", "sha256").digest()[:16]
    assert guess != salts[place.scram.port]
    with place.connect("kim", "kim") as kim, pytest.raises(psycopg.errors.InsufficientPrivilege):
        kim.execute("select * from herd.seal")


def _salt(port: int, user: str) -> bytes:
    """What a server tells a client before the client has proved anything."""
    import base64
    import socket
    import struct

    def read(channel) -> bytes:
        head = channel.recv(5, socket.MSG_WAITALL)
        return channel.recv(struct.unpack("!i", head[1:])[0] - 4, socket.MSG_WAITALL)

    with socket.create_connection(("127.0.0.1", port), 5) as channel:
        body = struct.pack("!i", 196608) + f"user\0{user}\0database\0postgres\0\0".encode()
        channel.sendall(struct.pack("!i", len(body) + 4) + body)
        read(channel)
        first = b"n,,n=,r=abcdefghijklmnop"
        body = b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first
        channel.sendall(b"p" + struct.pack("!i", len(body) + 4) + body)
        said = read(channel)[4:].decode()
    return base64.b64decode(dict(part.split("=", 1) for part in said.split(","))["s"])
