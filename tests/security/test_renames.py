"""The catalog follows the table that was renamed, and no other, whoever calls what routers call."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]


@pytest.fixture
def tables(place):
    """`hers.ref` of mallory is a reference table, `hers.mine` is distributed; `his.local` is victim's own."""
    place.server.run("create schema his authorization victim", "grant usage on schema his to public")
    with place.as_role("mallory") as mallory:
        mallory.execute("create table hers.ref (id int primary key)")
        mallory.execute("create table hers.mine (id int primary key)")
    place.server.run("select create_reference_table('hers.ref')", "select create_distributed_table('hers.mine', 'id')")
    with place.as_role("victim") as victim:
        victim.execute("create table his.local (id int primary key)")
        victim.execute("create table his.parted (id int primary key) partition by hash (id)")
        victim.execute("insert into his.local values (1), (2)")
    yield
    place.server.run("drop schema his cascade", "drop schema hers cascade", "create schema hers authorization mallory")


def _known(place):
    with place.server.connect() as root:
        return root.execute("select schema || '.' || name from herd.tables where schema in ('hers', 'his') order by 1").fetchall()


@pytest.mark.parametrize("table, target", [("ref", "his.local"), ("mine", "his.parted")])
def test_another_table_is_not_followed(place, tables, table, target):
    """Renamed past the router, or in a transaction of her own, so that the old name is gone."""
    schema, name = target.split(".")
    call = f"select herd.follow_rename('hers', '{table}', '{schema}', '{name}')"
    with place.on_node(0, "mallory", autocommit=False) as mallory:
        mallory.execute(f"alter table hers.{table} rename to away")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            mallory.execute(call)
        mallory.rollback()
    with place.as_role("mallory") as mallory, pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        mallory.execute(call)
    assert _known(place) == [("hers.mine",), ("hers.ref",)]
    with place.as_role("victim") as victim:
        victim.execute("insert into his.local values (3)")
        assert victim.execute("select count(*) from his.local").fetchone() == (3,)


def test_names_that_change_places(place, tables):
    with place.as_role("mallory", autocommit=False) as mallory:
        mallory.execute("alter table hers.ref rename to aside")
        mallory.execute("alter table hers.mine rename to ref")
        mallory.execute("alter table hers.aside rename to mine")
        mallory.execute("insert into hers.ref values (1), (2), (3), (4)")
        mallory.commit()
        assert mallory.execute("select count(*) from hers.ref").fetchone() == (4,)
        mallory.commit()
    with place.server.connect() as root:
        assert root.execute("select name, kind from herd.tables where schema = 'hers' order by 1").fetchall() == [("mine", "reference"), ("ref", "distributed")]
