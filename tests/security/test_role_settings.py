"""ALTER ROLE … SET and ALTER DATABASE … SET are for sessions that begin afterwards, and for those alone: not for older ones whose
connections to nodes are made anew, nor undone for newer ones by connections that were there before. As on plain PostgreSQL."""

import psycopg
import pytest

from harness.plain_postgres import PlainPostgres

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security"), pytest.mark.timeout(180)]

_SETUP = [
    "create role rs login", "create role rs_other", "create role rs_boss login superuser", "grant rs_other to rs", "create schema rs_s",
    "create table rs_d (k int primary key, v text)", "create table rs_s.rs_d (k int primary key, v text)", "create table rs_home (k int)",
    "insert into rs_d select g, 'public' from generate_series(1, 12) g", "insert into rs_s.rs_d select g, 'rs_s' from generate_series(1, 12) g",
    "grant usage on schema rs_s to public", "grant all on rs_d, rs_s.rs_d, rs_home to public",
]  # fmt: skip
_DISTRIBUTE = ["select create_distributed_table('rs_d', 'k')", "select create_distributed_table('rs_s.rs_d', 'k')"]
# A parameter that was once set is '' and not NULL behind a pooler (docs/security.md).
_WHO = (
    "current_user::text, session_user::text, current_setting('role'), current_setting('work_mem'), current_setting('search_path'),"
    " nullif(current_setting('my.own', true), ''), current_setting('statement_timeout'), current_setting('session_replication_role'), current_setting('timezone')"
)
_ASK = [f"select {_WHO}", f"select distinct {_WHO}, v from rs_d", f"select {_WHO}, v from rs_d where k = 3", f"select {_WHO}, v from rs_d where k = 8"]
_SETTINGS = {
    "role": ["alter role rs set role = rs_other"],
    "own role": ["alter role rs set role = rs"],
    "path": ["alter role rs set search_path = rs_s, public"],
    "values": ["alter role rs set work_mem = '6789kB'", "alter role rs set statement_timeout = '77s'", "alter role rs set timezone = 'Asia/Tokyo'"],
    "custom": ["alter role rs set my.own = '7'"],
    "database": ["alter database postgres set work_mem = '5MB'", "alter role rs in database postgres set my.own = 'db'"],
    "everybody": ["alter role all set work_mem = '3MB'"],
    "all": ["alter role rs set role = rs_other", "alter role rs set my.own = '8'", "alter role rs set search_path = rs_s", "alter database postgres set statement_timeout = '66s'"],
}
_RESET = ["alter role rs reset all", "alter role rs_boss reset all", "alter role rs in database postgres reset all", "alter role all reset all", "alter database postgres reset all"]
# What sessions then say, one after the other.
_SAYS = [
    "set work_mem = '2MB'", "reset work_mem", "set role rs_other", "reset role", "set role none", "set my.own = 'mine'", "reset my.own", "set search_path = public, rs_s", "reset search_path",
    "set statement_timeout to default", "set role rs_other", "reset all", "set my.own = 'mine'", "discard all", "set session authorization rs", "reset session authorization",
    "begin", "set local role none", "select count(*) from rs_d", "reset role", "set local work_mem to default", "commit",
    "begin", "set work_mem = '1MB'", "set role rs_other", "rollback", "set role rs_other", "begin", "reset role", "select v from rs_d where k = 5", "commit",
]  # fmt: skip


class Side:
    """Plain PostgreSQL, or the herd."""

    def __init__(self, server):
        self.server, self.sessions = server, {}

    def login(self, name: str, role: str = "rs", **more) -> None:
        self.sessions[name] = self.server.connect(user=role, autocommit=True, **more)

    def run(self, name: str, sql: str):
        try:
            cursor = self.sessions[name].execute(sql)
            return sorted(cursor.fetchall()) if cursor.description else cursor.statusmessage
        except psycopg.Error as error:
            return error.sqlstate

    def fresh(self, role: str = "rs") -> None:
        """Somebody logs in as the role: from then on connections that were made before its change serve nobody."""
        self.server.connect(user=role).close()

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()
        self.sessions = {}


@pytest.fixture(scope="module")
def sides(place):
    plain = PlainPostgres("role-settings")
    try:
        plain.server.run(*_SETUP)
        place.server.run(*_SETUP[:-2], *_DISTRIBUTE, *_SETUP[-2:])
        yield Side(place.server), Side(plain.server)
    finally:
        plain.stop()
        place.server.run("drop table rs_d, rs_s.rs_d, rs_home", "drop schema rs_s", "drop role rs, rs_other, rs_boss")


@pytest.fixture
def both(sides):
    """Runs the same on both sides, which must agree."""

    def run(name: str, *statements: str) -> None:
        for sql in statements:
            ours, theirs = (side.run(name, sql) for side in sides)
            assert ours == theirs, f"{name}: {sql}"

    def login(*names: str, role: str = "rs", **more) -> None:
        for name in names:
            for side in sides:
                side.login(name, role, **more)

    def fresh(role: str = "rs") -> None:
        for side in sides:
            side.fresh(role)

    run.login, run.fresh = login, fresh
    login("boss", role="postgres")
    try:
        yield run
    finally:
        for side in sides:
            for sql in _RESET:
                side.sessions["boss"].execute(sql)
            side.close()


@pytest.mark.parametrize("kind", _SETTINGS)
def test_settings_are_for_sessions_that_begin_afterwards(both, kind):
    both.login("before")
    both("before", *_ASK)
    both("boss", *_SETTINGS[kind])
    both.login("after")
    for name in ("before", "after", "before"):
        both(name, *_ASK)
    for sql in _SAYS:
        for name in ("before", "after"):
            both(name, sql)
            if sql not in ("begin", "rollback"):
                both(name, *_ASK[:2])
            both(name, *_ASK)
    # And back: who began with them goes on with them.
    both("boss", *_RESET)
    both.fresh()
    both.login("last")
    for name in ("after", "before", "last", "after"):
        both(name, "reset all", *_ASK, "discard all", *_ASK)


def test_connections_at_rest_are_given_what_each_session_began_with(both):
    """Connections of both kinds of logins, which sessions of both kinds get in turn."""
    both.login("before", "idle")
    both("boss", *_SETTINGS["all"])
    both.login("after", "later")
    for _ in range(3):
        for name in ("before", "after", "idle", "later"):
            both(name, "begin", *_ASK)
        for name in ("after", "before", "later", "idle"):
            both(name, *_ASK, "commit", *_ASK)


def test_nodes_that_join_an_open_block_have_what_it_began_with(both):
    both.login("before")
    both("before", "begin", "insert into rs_home values (1)", "set local my.own = 'here'")
    both("boss", *_SETTINGS["all"])
    both.fresh()
    both("before", *_ASK, "savepoint a", "reset my.own", *_ASK, "rollback to a", *_ASK, "commit", *_ASK)


def test_what_a_client_asks_for_is_what_reset_leads_to(both):
    both("boss", *_SETTINGS["all"], "alter role rs set application_name = 'of the role'")
    both.login("asks", options="-c work_mem=11MB -c my.own=asked -c search_path=public")
    both.login("names", application_name="")
    both("names", "show application_name")
    both("asks", *_ASK, "set work_mem = '1MB'", "reset work_mem", *_ASK, "set my.own = 'x'", "reset my.own", *_ASK, "set search_path = rs_s", "reset all", *_ASK, "discard all", *_ASK)


def test_code_that_reads_and_sets_them(both):
    both("boss", "create function rs_sets(text, text) returns text language plpgsql as $$ begin perform set_config($1, $2, false); return current_setting($1); end $$")
    try:
        both.login("before")
        both("boss", *_SETTINGS["all"], *_SETTINGS["values"])
        both.login("after")
        for name in ("before", "after"):
            both(name, "select rs_sets('work_mem', '6789kB')", *_ASK, "select rs_sets('my.own', 'code')", *_ASK, "begin", "select rs_sets('statement_timeout', '5min')", *_ASK, "rollback", *_ASK, "reset all", *_ASK)
    finally:
        both("boss", "drop function rs_sets")


def test_a_renamed_role_that_sessions_begin_with_is_who_it_was(both):
    both("boss", *_SETTINGS["role"])
    both.login("after")
    both("after", *_ASK)
    both("boss", "alter role rs_other rename to rs_former", "create role rs_other")
    try:
        both("after", "select current_user::text", "set role none", "select current_user::text", "reset role", "select current_user::text, v from rs_d where k = 3")
    finally:
        both("boss", "drop role rs_other", "alter role rs_former rename to rs_other")


def test_what_only_superusers_may_set(sides, both):
    """A superuser's sessions have what they began with. Others' can't be given it on a connection that began otherwise: they are told to connect again."""
    both.login("before", role="rs_boss")
    both("boss", "alter role rs_boss set session_replication_role = replica")
    both.login("after", role="rs_boss")
    for name in ("before", "after", "before"):
        both(name, *_ASK, "set role rs_other", *_ASK, "reset session_replication_role", "reset role", *_ASK, "reset session_replication_role", *_ASK)
    both.login("small")
    both("boss", "alter role rs set session_replication_role = replica", "alter role rs set log_min_duration_statement = '1h'")
    both.login("new")
    both("new", *_ASK)
    herd, _ = sides
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="connect again"):
        herd.sessions["small"].execute("select 1")
    both("boss", "alter role rs reset session_replication_role")
    both.fresh()
    both("small", *_ASK)


@pytest.mark.parametrize("more", [[], ["alter role rs set search_path = rs_s, public"]])
def test_a_role_among_the_settings_that_is_renamed(both, more):
    """Who logs in then has none, with a warning, as on PostgreSQL; and has it again once there is one of that name. So for members."""
    both("boss", "alter role rs set role = rs_other", *more)
    try:
        both.login("first")
        both("first", *_ASK)
        for turn, rename in enumerate(("rs_other rename to rs_else", "rs_else rename to rs_other", "rs_other rename to rs_else")):
            both("boss", f"alter role {rename}")
            both.login(f"later{turn}")
            both(f"later{turn}", *_ASK, "reset all", *_ASK)
    finally:
        both("boss", "alter role rs_else rename to rs_other")
    for turn, change in enumerate(("revoke rs_other from rs", "grant rs_other to rs")):
        both("boss", change)
        both.login(f"member{turn}")
        both(f"member{turn}", *_ASK, "reset all", *_ASK)
