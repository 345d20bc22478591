"""What routers do on connections of their own choosing is done as the role the session has set, and what a role may see or end
goes by who it is, not by its name."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]


@pytest.fixture
def numbered(place):
    """`mallory`'s distributed table whose values come from a sequence that is hers alone; `victim` may insert into it."""
    with place.as_role("mallory") as mallory:
        mallory.execute("create sequence hers.sq; create table hers.ser (k int, s int default nextval('hers.sq'))")
        mallory.execute("grant insert, select on hers.ser to victim")
    place.server.run("select create_distributed_table('hers.ser', 'k')", "grant usage on schema hers to victim")
    yield
    place.server.run("drop table hers.ser", "drop sequence hers.sq", "revoke usage on schema hers from victim")


def _copied(connection):
    with connection.cursor().copy("copy hers.ser (k) from stdin") as copy:
        copy.write("1\n2\n3\n")


def test_values_of_sequences_are_taken_as_the_role_that_is_set(place, numbered):
    with place.server.connect() as boss:
        boss.execute("set role victim")
        for write in (_copied, lambda c: c.execute("insert into hers.ser (k) select generate_series(10, 15)"), lambda c: c.execute("insert into hers.ser (k) values (1), (2), (3)")):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                write(boss)


def test_no_role_of_another_session_takes_them(place, numbered):
    def leave():
        with place.server.connect() as boss:
            boss.execute("set role victim; select pg_sleep(0.3)")

    leaving = [threading.Thread(target=leave) for _ in range(12)]
    [t.start() for t in leaving]
    [t.join() for t in leaving]
    with place.server.connect() as boss:
        for _ in range(12):
            _copied(boss)
            assert boss.execute("insert into hers.ser (k) select generate_series(20, 25)").statusmessage == "INSERT 0 6"


def test_views_of_the_herd_show_what_the_role_that_is_set_may_see(place):
    with place.as_role("mallory") as mallory:
        mallory.execute("create table hers.locked (k int primary key, a int); insert into hers.locked values (1, 1)")
    try:
        with place.as_role("mallory") as one, place.as_role("mallory") as two:
            one.execute("begin; update hers.locked set a = 2")

            def wait():
                two.execute("update hers.locked set a = 3 where 'a secret' <> ''")

            waiting = threading.Thread(target=wait)
            waiting.start()
            with place.server.connect() as boss:
                deadline = time.monotonic() + 60
                while not boss.execute("select 1 from herd.locks").fetchall():
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
                assert "a secret" in str(boss.execute("select * from herd.locks").fetchall())
                boss.execute("set role victim")
                assert "a secret" not in str(boss.execute("select * from herd.locks").fetchall())
            one.execute("commit")
            waiting.join()
    finally:
        place.server.run("drop table hers.locked")


def test_a_name_that_another_has_now_shows_and_ends_nothing(place):
    place.server.run("create role pat login password 'p'", "create role quinn login password 'q'")
    with place.server.connect(user="pat", password="p") as pat:
        pat.execute("select 'a secret of pat'")
        pid = pat.info.backend_pid
        place.server.run("alter role pat rename to pat_of_old", "alter role quinn rename to pat", "alter role pat password 'q'")
        try:
            with place.server.connect(user="pat", password="q") as quinn:
                for view in ("herd.sessions", "pg_stat_activity"):
                    assert "a secret of pat" not in str(quinn.execute(f"select * from {view}").fetchall())
                for function in ("pg_cancel_backend", "pg_terminate_backend"):
                    with pytest.raises(psycopg.errors.InsufficientPrivilege):
                        quinn.execute(f"select {function}({pid})")
            with place.server.connect() as boss:
                assert "a secret of pat" in str(boss.execute("select statement from herd.sessions").fetchall())
                assert boss.execute("select usename::text from pg_stat_activity where pid = %s" % pid).fetchone() == ("pat_of_old",)
        finally:
            pat.close()
            place.server.run("drop role pat", "drop role pat_of_old")


def test_a_role_that_a_block_has_set_stays_on_no_node(place):
    """Nodes that join the block behind SET ROLE, and whose connections another session gets next."""
    place.server.run("create role sue", "create table hers.joined (k int primary key)", "insert into hers.joined select generate_series(1, 20)", "select create_distributed_table('hers.joined', 'k')")
    place.server.run("grant usage on schema hers to sue", "grant select on hers.joined to sue")
    try:
        for end in ("commit", "rollback"):
            with place.server.connect() as boss:
                boss.execute("begin")
                boss.execute("set role sue")
                boss.execute("select count(*) from hers.joined")
                boss.execute(end)
            with place.server.connect() as other:
                for _ in range(3):
                    assert other.execute("select distinct current_user::text from hers.joined").fetchall() == [("postgres",)]
    finally:
        place.server.run("drop table hers.joined", "revoke usage on schema hers from sue", "drop role sue")


def test_a_role_that_is_set_is_who_it_was(place):
    """Renamed, and its name given to another: the session goes on as it, on all nodes."""
    place.server.run(
        "create role rita", "create role rob", "create table hers.roled (k int primary key)", "insert into hers.roled select generate_series(1, 20)",
        "select create_distributed_table('hers.roled', 'k')", "grant usage on schema hers to rita, rob", "grant select on hers.roled to rita",
    )  # fmt: skip
    try:
        with place.server.connect() as boss, place.server.connect() as other:
            boss.execute("set role rita")
            other.execute("begin; set role rita; commit")
            for each in (boss, other):
                assert each.execute("select count(*) from hers.roled").fetchone() == (20,)
            place.server.run("alter role rita rename to rita_of_old", "alter role rob rename to rita")
            for each in (boss, other):
                assert each.execute("select current_user::text").fetchone() == ("rita_of_old",)
                assert each.execute("select count(*) from hers.roled").fetchone() == (20,)
                assert each.execute("select k from hers.roled where k = 7").fetchone() == (7,)
            with place.server.connect() as third:
                third.execute("set role rita")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    third.execute("select count(*) from hers.roled")
            place.server.run("revoke all on hers.roled from rita_of_old", "revoke all on schema hers from rita_of_old", "drop role rita_of_old", "alter role rita rename to rita_of_old", "grant select on hers.roled to rita_of_old")
            for each in (boss, other):
                with pytest.raises(psycopg.Error):
                    each.execute("select count(*) from hers.roled")
                each.execute("reset role")
                assert each.execute("select current_user::text, count(*) from hers.roled group by 1").fetchone() == ("postgres", 20)
    finally:
        place.server.run("drop table hers.roled", "revoke all on schema hers from rita_of_old", "drop role rita_of_old")


def test_who_was_renamed_is_who_it_was_behind_set_session_authorization(place):
    """What names the session's own role tells the name of its login."""
    place.server.run("create role nils login")
    try:
        with place.as_role("nils") as nils:
            assert nils.execute("select 1").fetchone() == (1,)
            place.server.run("alter role nils rename to nils_of_old")
            for sql in ("set session authorization default", "reset role", "set role none"):
                nils.execute(sql)
                nils.execute("create temp table if not exists t (a int)")
                assert nils.execute("select session_user::text, current_user::text, current_setting('role')").fetchone() == ("nils_of_old", "nils_of_old", "none")
    finally:
        place.server.run("drop role nils_of_old")
