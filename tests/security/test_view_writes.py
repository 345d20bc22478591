"""Who writes through a view does it with the rights of its owner, on every node; and all copies of a reference table get it."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

_TABLES = """
create schema desk
create table desk.note (id int primary key, owner name not null default 'nobody', body text, stars int default 0)
create table desk.kind (id int primary key, code text unique, stars int default 1)
insert into desk.note select g, case when g % 2 = 0 then 'mallory' else 'victim' end, 'body ' || g, g from generate_series(1, 40) g
insert into desk.kind select g, 'code ' || g, g from generate_series(1, 10) g
"""

_DISTRIBUTED = """
select create_distributed_table('desk.note', 'id')
select create_reference_table('desk.kind')
"""

# `leak` tells what it should not see. It is cheap, so PostgreSQL calls it as early as it may.
_VIEWS = """
create view desk.own as select id, body, stars, owner from desk.note where owner = current_user with check option
create view desk.barred with (security_barrier) as select id, body, stars from desk.note where owner = 'mallory'
create view desk.asked with (security_invoker) as select id, body, stars, owner from desk.note
create view desk.closed as select id, body, owner from desk.note
create view desk.some as select id, body, stars, owner from desk.note
create view desk.kinds as select id, code, stars from desk.kind
create view desk.over_kinds (number, name) as select id, code from desk.kinds where stars > 0
create function public.leak_body(text) returns bool language plpgsql stable cost 0.0000001 as $$ begin if substr($1, 6)::int % 2 <> 0 then raise exception 'leaked %', $1; end if; return true; end $$
grant usage on schema desk to mallory, victim
grant select, insert, update, delete on desk.own, desk.barred, desk.asked, desk.kinds, desk.over_kinds to mallory, victim
grant select (id, body), update (body), insert (id, body, owner) on desk.some to mallory, victim
grant select, update on desk.note to victim
"""

_STATEMENTS = """
select * from desk.note
update desk.note set stars = 1
update desk.own set body = 'mine' where id = 2
update desk.own set body = 'mine' where id = 3
update desk.own set stars = stars + 1 returning id, stars
insert into desk.own (id, body, owner) values (100, 'x', current_user) returning *
insert into desk.own (id, body) values (101, 'x')
insert into desk.own (id, body, owner) values (102, 'x', 'victim'), (103, 'y', 'victim')
insert into desk.own (id, body, owner) select g, 'z', current_user from generate_series(110, 120) g
update desk.own set owner = 'somebody' where id = 2
update desk.own set owner = 'somebody'
delete from desk.own where id = 4 returning id, owner
delete from desk.own where id > 30 returning id
update desk.barred set stars = 0 where public.leak_body(body)
update desk.barred set stars = 0 where public.leak_body(body) and id = 5
delete from desk.barred where public.leak_body(body) and id > 20
update desk.asked set stars = 3 where id = 6
update desk.asked set stars = 3
insert into desk.asked (id, body) values (200, 'x')
insert into desk.asked (id, body) select g, 'x' from generate_series(201, 205) g
delete from desk.asked where id = 6
update desk.closed set body = 'x' where id = 7
update desk.closed set body = 'x'
insert into desk.closed (id, body) values (300, 'x')
insert into desk.closed (id, body) values (301, 'x'), (302, 'y')
insert into desk.closed (id, body) select g, 'x' from generate_series(303, 310) g
delete from desk.closed
update desk.some set body = 'some' where id < 5
update desk.some set body = 'some' where id < 5 returning id, body
update desk.some set body = 'some' where stars < 5
update desk.some set stars = 1
update desk.some set body = 'some' returning stars
insert into desk.some (id, body) values (400, 'x'), (401, 'y')
insert into desk.some (id, stars) values (402, 1), (403, 2)
insert into desk.some (id, body) select g, 'x' from generate_series(404, 410) g
delete from desk.some where id = 400
insert into desk.kinds (id, code) values (50, 'new'), (51, 'newer') returning *
insert into desk.kinds (id, code) select g, 'g' || g from generate_series(60, 63) g
insert into desk.kinds (id, code, stars) values (70, 'random', (random() * 0)::int) returning *
insert into desk.kinds (id, code) values (50, 'again') on conflict (id) do update set code = excluded.code, stars = 9 returning *
update desk.kinds set stars = stars + 1
update desk.kinds set stars = (random() * 0)::int where id = 3 returning *
update desk.kinds set stars = (select max(stars) from desk.kinds) where id = 4
update desk.over_kinds set name = name || '!' where number < 4 returning *
delete from desk.over_kinds where number = 5
delete from desk.kinds where stars > 9 returning id
update desk.kind set stars = 1
""".strip().splitlines()


def _prepare(server, *scripts):
    for script in scripts:
        server.run(*script.strip().splitlines())


def _said(connection, query):
    """Rows, sorted, or the tag; or the SQLSTATE."""
    try:
        cursor = connection.execute(query)
        return sorted(map(str, cursor.fetchall())) if cursor.description else cursor.statusmessage
    except psycopg.Error as e:
        return e.diag.sqlstate


@pytest.fixture
def both(place, oracle):
    oracle.run("drop role if exists mallory", "drop role if exists victim", "create role mallory login", "create role victim login")
    _prepare(oracle, _TABLES, _VIEWS)
    _prepare(place.server, _TABLES, _DISTRIBUTED, _VIEWS)
    yield place, oracle
    for server in (place.server, oracle):
        server.run("drop schema desk cascade", "drop function public.leak_body(text)")
    oracle.run("drop owned by mallory, victim", "drop role mallory, victim")


@pytest.mark.parametrize("role", ["mallory", "victim", "postgres"])
@pytest.mark.parametrize("in_block", [False, True], ids=["alone", "in_block"])
def test_rights_are_the_owners(both, role, in_block):
    """The base table is nobody's but its owner's."""
    herd, oracle = both
    different = []
    with herd.server.connect(user=role, autocommit=True) as here, oracle.connect(user=role, autocommit=True) as there:
        for query in _STATEMENTS:
            said = []
            for connection in (there, here):
                if in_block:
                    connection.execute("begin")
                said.append(_said(connection, query))
                if in_block:
                    connection.execute("commit")
            if said[0] != said[1]:
                different.append((query, *said))
    for table in ("note", "kind"):
        query = f"select * from desk.{table} order by id"
        with herd.server.connect() as here, oracle.connect() as there:
            if here.execute(query).fetchall() != there.execute(query).fetchall():
                different.append((query, "the same", "other rows"))
    assert not different, "\n".join(f"{q}\n  one server: {t}\n  herd:       {h}" for q, t, h in different)
    copies = set()
    for number in range(len(herd.nodes)):
        with herd.on_node(number) as node:
            copies.add(str(node.execute("select * from desk.kind order by id").fetchall()))
    assert len(copies) == 1
