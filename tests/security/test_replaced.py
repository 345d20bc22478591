"""A distributed table that its owner has dropped past the routers and made anew, split in another way, is his affair: nobody else's statements suffer."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

_ANEW = {
    "more columns": "create table hers.anew (id int, other int, v int) partition by hash (id, other)",
    "another type": "create table hers.anew (id text, v int) partition by hash (id)",
    "another column": "create table hers.anew (v bigint, id int) partition by hash (v)",
    "an expression": "create table hers.anew (id int, v int) partition by hash ((id + 1))",
    "another strategy": "create table hers.anew (id int, v int) partition by range (id)",
}


@pytest.mark.parametrize("how", _ANEW)
def test_only_that_table_suffers(place, how):
    place.server.run("create table hers.anew (id int primary key, v int)", "create table fine (id int primary key)",
                     "select create_distributed_table('hers.anew', 'id')", "select create_distributed_table('fine', 'id')",
                     "alter table hers.anew owner to mallory", "insert into hers.anew select g, g from generate_series(1, 20) g")
    try:
        with place.on_node(0, "mallory") as home:
            home.execute("drop table hers.anew")
            home.execute(_ANEW[how])
        # Any change of the catalog: routers load it.
        with place.as_role("victim") as victim:
            victim.execute("create temporary table x (a int)")
        place.server.run("create table another (id int)", "insert into fine values (1), (2), (3)", "drop table another")
        with place.server.connect() as boss:
            assert boss.execute("select count(*) from fine").fetchone() == (3,)
            for sql in ("select * from hers.anew", "select 1 from hers.anew where v = 1", "insert into hers.anew (v) values (1)", "delete from hers.anew"):
                with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="made anew past the routers") as refused:
                    boss.execute(sql)
                assert "forget_dropped" in refused.value.diag.message_hint
            named = boss.execute("select object from herd.verify where problem like '%made anew past the routers%'").fetchall()
            assert named == [("hers.anew",)]
            boss.execute("drop table hers.anew")
            assert boss.execute("select count(*) from herd.relation where name = 'anew'").fetchone() == (0,)
        with place.server.connect() as boss:
            boss.execute("create table hers.anew (id int primary key, v int)")
            boss.execute("select create_distributed_table('hers.anew', 'id')")
            boss.execute("insert into hers.anew select g, g from generate_series(1, 20) g")
            assert boss.execute("select count(*) from hers.anew").fetchone() == (20,)
            assert boss.execute("select object, problem from herd.verify where object like '%anew%'").fetchall() == []
    finally:
        place.server.run("drop table if exists hers.anew", "drop table fine")
