"""What belongs to no table comes to a new node as it is on home: casts, rights on types, settings of roles, what was taken
from everybody, memberships with who granted them; and an owner who holds his tables holds up nobody but the new node."""

import threading
import time

import psycopg
import pytest


pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("add-node-objects"), pytest.mark.timeout(600)]

_CASTS = """
select format('%s as %s %s %s %s', castsource::regtype, casttarget::regtype, castmethod, castcontext, nullif(castfunc, 0)::regprocedure)
  from pg_cast where oid >= 16384 order by 1
"""
_TYPES = """
select t.oid::regtype::text, pg_get_expr(t.typdefaultbin, 0), a.grantee::regrole::text, a.privilege_type, a.is_grantable
  from pg_type t left join aclexplode(t.typacl) a on true where t.typnamespace = 'own'::regnamespace and t.typelem = 0 order by 1, 3, 4
"""
_SETTINGS = """
select r.rolname, setdatabase = 0, unnest(setconfig) from pg_db_role_setting s left join pg_roles r on r.oid = s.setrole
 where s.setrole >= 16384 or (s.setrole = 0 and s.setdatabase = 0) order by 1, 2, 3
"""
_PUBLIC = """
select has_schema_privilege('nobody_in_particular', 'public', 'usage'), has_schema_privilege('nobody_in_particular', 'own', 'usage'),
       has_function_privilege('nobody_in_particular', 'pg_catalog.pg_sleep(float8)', 'execute'),
       has_database_privilege('nobody_in_particular', current_database(), 'temp'),
       has_function_privilege('ann', 'own.of_mood(own.mood)', 'execute with grant option'),
       has_type_privilege('nobody_in_particular', 'own.closed', 'usage')
"""
_DEFAULTS = """
select defaclrole::regrole::text, defaclnamespace::regnamespace::text, defaclobjtype, a.grantee::regrole::text, a.privilege_type, a.is_grantable
  from pg_default_acl left join aclexplode(defaclacl) a on true order by 1, 2, 3, 4, 5
"""
_MEMBERS = """
select roleid::regrole::text, member::regrole::text, case grantor when 10 then 'boss' else grantor::regrole::text end, admin_option
  from pg_auth_members where member >= 16384 order by 1, 2, 3
"""


@pytest.fixture(scope="module")
def objects(pair):
    with pair.a.connect() as a:
        version = int(a.execute("show server_version_num").fetchone()[0])
    pair.a.run(
        "create role ann login", "create role ben login", "create role cleo login", "create role nobody_in_particular",
        "create role team", "create schema own authorization ann", "grant usage on schema own to ben",
        "create type own.mood as enum ('a', 'b')", "create type own.closed as enum ('x')",
        "revoke usage on type own.closed from public", "grant usage on type own.closed to ben with grant option",
        "create function own.of_mood(own.mood) returns int language sql immutable as $$ select pg_catalog.array_position(pg_catalog.enum_range(null::own.mood), $1) $$",
        "revoke execute on function own.of_mood(own.mood) from public", "grant execute on function own.of_mood(own.mood) to ann with grant option",
        "grant execute on function own.of_mood(own.mood) to ben",
        "create cast (own.mood as int) with function own.of_mood(own.mood) as implicit",
        "create cast (own.closed as own.mood) with inout as assignment",
        "alter role ann set search_path = own, \"Odd, name\", '$user'", "alter role ben set work_mem = '7MB'", "alter role cleo set my.value = '50% off'",
        "alter role ben in database postgres set statement_timeout = '77s'",
        "revoke all on schema public from public",
        "revoke execute on function pg_catalog.pg_sleep(float8) from public",
        "revoke temp on database postgres from public",
        "alter default privileges for role ann in schema own grant select on tables to ben with grant option",
        "alter default privileges for role ann revoke execute on routines from public",
        "alter default privileges for role ben grant usage on schemas to public", "alter default privileges for role ben revoke all on tables from ben",
    )  # fmt: skip
    with pair.a.connect() as a:
        # Its default is written with names of its maker's path.
        a.execute("set search_path = own, public")
        a.execute("create function own.first_mood() returns own.mood language sql immutable as $$ select 'a'::own.mood $$")
        a.execute("create domain own.moody as mood default first_mood() check (of_mood(value) > 0)")
    pair.a.run("grant team to ann with admin option", "grant team to ben")
    if version >= 160000:
        with pair.a.connect(user="ann") as ann:
            ann.execute("grant team to ben with admin option")
        with pair.a.connect(user="ben") as ben:
            ben.execute("grant team to cleo")
        pair.a.run("grant team to cleo with inherit false")
    pair.a.run(
        "create table own.ref (id int primary key)", "alter table own.ref owner to ann", "select create_reference_table('own.ref')",
        "create table own.child (k int primary key, m own.mood references own.ref (id))", "alter table own.child owner to ann",
        "select create_distributed_table('own.child', 'k')",
        "insert into own.ref values (1), (2)", "insert into own.child values (1, 'a'), (2, 'b')",
    )  # fmt: skip
    return pair


def test_all_of_it_comes_along(objects):
    new = objects.new_node()
    with objects.a.connect() as a:
        a.execute(f"select citus_add_node('127.0.0.1', {new.port})")
        with objects.nodes[0].server.connect() as home, new.server.connect() as direct:
            for question in (_CASTS, _TYPES, _SETTINGS, _PUBLIC, _DEFAULTS):
                wanted = home.execute(question).fetchall()
                assert wanted and direct.execute(question).fetchall() == wanted, question
            wanted = home.execute(_MEMBERS).fetchall()
            if int(home.execute("show server_version_num").fetchone()[0]) >= 160000:
                assert len(wanted) == 5
            assert direct.execute(_MEMBERS).fetchall() == wanted
            assert direct.execute("select null::own.moody is null").fetchone() == (True,)
        with new.server.connect(user="ann") as ann:
            assert ann.execute("show search_path").fetchone() == ('own, "Odd, name", "$user"',)
        assert a.execute("select count(*) from own.child").fetchone() == (2,)
        assert a.execute("select * from herd.verify").fetchall() == []


def test_an_owner_who_holds_his_table(objects):
    new = objects.new_node()
    done = []

    def add():
        with objects.a.connect() as a:
            done.append(a.execute(f"select citus_add_node('127.0.0.1', {new.port})").fetchone())

    with objects.nodes[0].server.connect(user="ann") as ann:
        ann.execute("begin")
        ann.execute("lock table own.ref in access exclusive mode")
        adding = threading.Thread(target=add)
        adding.start()
        try:
            time.sleep(1.5)
            slowest = 0.0
            with objects.b.connect() as b:
                for n in range(4):
                    began = time.monotonic()
                    b.execute(f"create table others_{n} (id int)")
                    b.execute(f"drop table others_{n}")
                    slowest = max(slowest, time.monotonic() - began)
            assert slowest < 6, slowest
            assert not done
        finally:
            ann.execute("rollback")
            adding.join()
    assert len(done) == 1
    with objects.a.connect() as a, pytest.raises(psycopg.errors.LockNotAvailable):
        with objects.nodes[0].server.connect(user="ann") as ann:
            ann.execute("begin")
            ann.execute("lock table own.ref in access exclusive mode")
            other = objects.new_node()
            a.execute("set lock_timeout = '3s'")
            a.execute(f"select citus_add_node('127.0.0.1', {other.port})")
