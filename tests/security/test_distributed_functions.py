"""Functions that are distributed by an argument: whose it is to say so, and whose names they look up where they run."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

_BODY = "select count(*) from acc where id = p"


@pytest.fixture
def victim(place):
    """Owns `his.acc` and functions that count its rows of a key; `alone` runs with his rights."""
    place.server.run(
        "create schema his authorization victim",
        "create table his.acc (id int primary key, v text)",
        "select create_distributed_table('his.acc', 'id')",
        "alter table his.acc owner to victim",
        "insert into his.acc select i, 'v' || i from generate_series(1, 20) i",
    )
    with place.as_role("victim") as victim:
        victim.execute("set search_path = his, public")
        victim.execute(f"create function counted(p int) returns bigint language sql stable as '{_BODY}'")
        victim.execute(
            f"create function alone(p int) returns bigint language sql stable security definer set search_path = his as '{_BODY}'")
        victim.execute("grant usage on schema his to mallory")
        yield victim
    place.server.run("drop schema his cascade", "drop schema if exists hers cascade", "create schema hers authorization mallory",
                     "revoke usage on schema hers from victim")


def _distribute(conn, function):
    conn.execute(f"select create_distributed_function('{function}', 'p')")


def _refused(conn, sql):
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        conn.execute(sql)


def test_it_is_the_owners_to_say(place, victim):
    with place.as_role("mallory") as mallory:
        for sql in (
            "select create_distributed_function('his.counted(int)', 'p')",
            "select create_distributed_function('his.counted(int)')",
            "alter function his.counted(int) set herd.distribution_argument = '1'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                mallory.execute(sql)
        # Its query stands in its place, and is the caller's.
        assert victim.execute("select counted(1)").fetchone() == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mallory.execute("set search_path = his; select counted(1)")
        victim.execute("revoke execute on function counted(int) from public")
        # Statement by statement, for who may call it.
        assert victim.execute("select counted(1)").fetchone() == (1,)
        mallory.execute("set search_path = his")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mallory.execute("select counted(1)")
        mallory.execute("reset search_path")
        victim.execute("grant execute on function counted(int) to public")
        _distribute(victim, "counted(int)")
        assert victim.execute("select counted(1)").fetchone() == (1,)
        # She may call it, and has no right to the table.
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mallory.execute("set search_path = his; select counted(1)")
        mallory.execute("reset search_path")
        _distribute(victim, "alone(int)")
        assert [mallory.execute(f"select his.alone({i})").fetchone()[0] for i in (1, 2, 20, 21)] == [1, 1, 1, 0]
        victim.execute("revoke execute on function alone(int) from public")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mallory.execute("select his.alone(1)")


def test_a_callers_path_can_not_change_what_is_proved(place, victim):
    """Where it runs with its owner's rights, the caller's path must not have it look at what was not proved."""
    victim.execute(f"create function lent(p int) returns bigint language sql stable security definer as '{_BODY}'")
    _refused(victim, "select create_distributed_function('lent(int)', 'p')")
    victim.execute("alter function lent(int) set herd.distribution_argument = '1'")
    with place.as_role("mallory") as mallory:
        mallory.execute("create table hers.acc (id int, other int)")
        place.server.run("select create_distributed_table('hers.acc', 'other')")
        mallory.execute("insert into hers.acc select 7, g from generate_series(1, 50) g")
        mallory.execute("grant usage on schema hers to victim; grant select on hers.acc to victim")
        for path in ("hers, his", "his, hers", "his"):
            mallory.execute(f"set search_path = {path}")
            _refused(mallory, "select lent(7)")
        # Hers is found first, and is distributed by another column.
        _distribute(victim, "counted(int)")
        mallory.execute("set search_path = hers, his")
        _refused(mallory, "select his.counted(7)")
        # A function of his that may look into either schema.
        victim.execute(f"create function wide(p int) returns bigint language sql stable set search_path = his, hers as '{_BODY}'")
        _refused(victim, "select create_distributed_function('wide(int)', 'p')")
        # Temporary tables come first, whatever path a function has.
        _distribute(victim, "alone(int)")
        mallory.execute("create temp table acc (id int, v text); insert into acc values (1, 'mine')")
        _refused(mallory, "select his.alone(1)")


def test_others_of_its_name(place, victim):
    """Which function a call means is found along the caller's path, and must be certain."""
    _distribute(victim, "counted(int)")
    with place.as_role("mallory") as mallory:
        mallory.execute("create function hers.counted(p text) returns bigint language sql as 'select 666::bigint'")
        mallory.execute("create function hers.counted(p int) returns bigint language sql as 'select 666::bigint'")
        mallory.execute("grant usage on schema hers to victim")
        # Nothing in a schema that is not on the path.
        assert victim.execute("select counted(3)").fetchone() == (1,)
        victim.execute("set search_path = his, hers")
        _refused(victim, "select counted(3)")
        assert victim.execute("select his.counted(3)").fetchone() == (1,)
        assert victim.execute("select hers.counted(3)").fetchone() == (666,)


def test_a_word_that_is_written_by_hand_proves_nothing(place, victim):
    for number in ("0", "2", "x", "99999999999999999999", "1"):
        victim.execute(
            f"create or replace function odd(p int) returns bigint language sql stable set herd.distribution_argument = '{number}' as "
            "'select count(*) from acc'")
        _refused(victim, "select odd(1)")


def test_its_code_stays_proved(place, victim):
    """Another router's session, with plans and prepared statements of the function as it was."""
    _distribute(victim, "counted(int)")
    with place.as_role("victim") as other:
        other.execute("set search_path = his")
        for _ in range(3):
            assert other.execute("select counted(%s)", (5,), prepare=True).fetchone() == (1,)
        victim.execute("create or replace function counted(p int) returns bigint language sql stable strict as 'select count(*) from acc'")
        # Of all keys now: nothing that one node could count, but statement by statement it can be.
        assert other.execute("select counted(5)").fetchone() == (20,)
        assert other.execute("select counted(%s)", (5,), prepare=True).fetchone() == (20,)
        assert other.execute("select counted(%s)", (None,), prepare=True).fetchone() == (None,)
        victim.execute(
            "create or replace function counted(p int) returns bigint language sql stable set herd.distribution_argument = '1' as "
            f"'{_BODY}'")
        assert other.execute("select counted(%s)", (5,), prepare=True).fetchone() == (1,)


def test_names_are_what_they_were_proved_to_be_when_it_runs(place, victim):
    """What sets the search path in the same statement, or in code that the body calls."""
    place.server.run(
        "create schema elsewhere authorization victim", "grant usage on schema elsewhere to public", "create table elsewhere.acc (id int, other int)",
        "select create_distributed_table('elsewhere.acc', 'other')", "alter table elsewhere.acc owner to victim",
        "insert into elsewhere.acc select 7, g from generate_series(1, 40) g",
    )
    try:
        victim.execute("create function looked(p int) returns bigint language plpgsql as $$ begin return (select count(*) from acc where id = p); end $$")
        victim.execute("create function move() returns text language plpgsql as $$ begin return set_config('search_path', 'elsewhere', true); end $$")
        victim.execute("create function moved(p int) returns bigint language plpgsql as $$ begin perform his.move(); return (select count(*) from acc where id = p); end $$")
        _distribute(victim, "looked(int)")
        assert victim.execute("select looked(7)").fetchone() == (1,)
        _refused(victim, "select set_config('search_path', 'elsewhere', true), his.looked(7)")
        _refused(victim, "select his.move(), his.looked(7)")
        _refused(victim, "select create_distributed_function('moved(int)', 'p')")
        victim.execute("alter function moved(int) set herd.distribution_argument = '1'")
        _refused(victim, "select moved(7)")
        victim.execute("set search_path = elsewhere")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            victim.execute("select his.looked(7)")
    finally:
        place.server.run("drop schema elsewhere cascade")


def test_rows_that_a_statement_does_not_name(place, victim):
    """A parameter of the name of RETURNING's rows is not meant where those are."""
    if place.server.connect().info.server_version < 180000:
        pytest.skip("RETURNING old needs PostgreSQL 18")
    for row in ("old", "new"):
        victim.execute(
            f"create function of_{row}({row} int) returns bigint language sql as "
            f"$$ update acc set v = v where id = {row} returning (select count(*) from acc a where a.id = length({row}.v)) $$")
        _refused(victim, f"select create_distributed_function('of_{row}(int)', '{row}')")
        victim.execute(
            f"create or replace function of_{row}({row} int) returns bigint language sql as "
            f"$$ update acc set v = v where id = {row} returning (select count(*) from acc a where a.v = {row}.v and a.id = {row}.id) $$")
        _refused(victim, f"select create_distributed_function('of_{row}(int)', '{row}')")
