"""What clients see of foreign keys between distributed tables in the catalogs: what there is on plain PostgreSQL, and no more."""

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def both(oracle, herd):
    for server in (oracle, herd):
        server.run(
            "drop schema if exists seen cascade", "create schema seen",
            "create table seen.kind (k int primary key)", "create table seen.parent (id int primary key, k int constraint of_kind references seen.kind, v int check (v > 0))",
            "create table seen.child (id int, n int, primary key (id, n), other int)", "create table seen.part (id int, n int, m int unique, check (m > n))",
            "create table seen.dated (id int not null, at date not null, primary key (id, at)) partition by range (at)",
            "create table seen.dated_1 partition of seen.dated for values from ('2026-01-01') to ('2026-02-01')", "alter table seen.part drop constraint part_m_key",
        )
    herd.run("select create_reference_table('seen.kind')", "select create_distributed_table('seen.parent', 'id')", "select create_distributed_table('seen.child', 'id')",
             "select create_distributed_table('seen.part', 'id')", "select create_distributed_table('seen.dated', 'id')")
    for server in (oracle, herd):
        server.run("alter table seen.child add constraint of_parent foreign key (id) references seen.parent on delete cascade", "alter table seen.part add constraint of_child foreign key (id, n) references seen.child",
                   "alter table seen.part add column at date", "alter table seen.part add constraint of_dated foreign key (id, at) references seen.dated")
    with oracle.connect() as o, herd.connect() as h:
        yield o, h
    for server in (oracle, herd):
        server.run("drop schema seen cascade")


QUERIES = [
    "select conrelid::regclass::text, conname, contype, confrelid::regclass::text, conparentid <> 0 from pg_constraint where contype = 'f' and connamespace = 'seen'::regnamespace order by 1, 2",
    "select pg_catalog.pg_constraint.conname from pg_catalog.pg_constraint left join pg_class r on r.oid = pg_catalog.pg_constraint.confrelid where conrelid = 'seen.child'::regclass order by 1",
    "select t.relname, c.conname, pg_get_constraintdef(c.oid, true) from pg_class t left outer join pg_constraint c on c.conrelid = t.oid and c.contype = 'f' where t.relnamespace = 'seen'::regnamespace and t.relkind in ('r', 'p') order by 1, 2",
    "with k as (select * from pg_constraint where conrelid = any ('{seen.child,seen.part}'::regclass[]) and contype = 'f') select count(*), min(conname) from k",
    "select exists (select from pg_constraint pg_constraint where conname ~ '^of_child_' and connamespace = 'seen'::regnamespace)",
    "select table_name, constraint_name, constraint_type from information_schema.table_constraints where table_schema = 'seen' and constraint_type <> 'CHECK' order by 1, 2",
    "select table_name, constraint_name, column_name, ordinal_position, position_in_unique_constraint from information_schema.key_column_usage where table_schema = 'seen' order by 1, 2, 4",
    "select constraint_name, unique_constraint_schema, unique_constraint_name, delete_rule from information_schema.referential_constraints where constraint_schema = 'seen' order by 1, 3",
    "select table_schema, table_name, column_name, constraint_name from information_schema.constraint_column_usage where constraint_schema = 'seen' order by 2, 3, 4",
    "select tc.constraint_name, kcu.column_name, ccu.table_name from information_schema.table_constraints tc join information_schema.key_column_usage kcu on tc.constraint_name = kcu.constraint_name and tc.table_name = kcu.table_name "
    "join information_schema.constraint_column_usage ccu on ccu.constraint_name = tc.constraint_name where tc.constraint_type = 'FOREIGN KEY' and tc.table_name = 'child' order by 1, 2, 3",
]


@pytest.mark.parametrize("query", QUERIES)
def test_as_on_postgresql(both, query):
    oracle, herd = both
    assert herd.execute(query).fetchall() == oracle.execute(query).fetchall()
    # Prepared, too, with a parameter.
    prepared = f"select * from ({query}) q where %s::int = 1"
    for _ in range(7):
        assert herd.execute(prepared, (1,), prepare=True).fetchall() == oracle.execute(query).fetchall()


def test_an_owners_partitions_are_there(both):
    """A foreign key to a table that its owner has partitioned is there once more for each of these."""
    _, herd = both
    rows = herd.execute("select conname, confrelid::regclass::text from pg_constraint where conrelid = 'seen.part'::regclass and contype = 'f' and conname ~ 'dated' order by 1").fetchall()
    assert [r[1] for r in rows] == ["seen.dated", "seen.dated_1"]


def test_rows_with_more_than_columns(both):
    """Who looks at a system column has all rows; so has a view, which nodes keep."""
    _, herd = both
    count = "select count({}) from pg_constraint where contype = 'f'"
    assert herd.execute(count.format("ctid")).fetchone()[0] > herd.execute(count.format("oid")).fetchone()[0]
    herd.execute("create view seen.all_of_them as select count(*) as n from pg_constraint where contype = 'f'")
    assert herd.execute("select n from seen.all_of_them").fetchone() == herd.execute(count.format("ctid")).fetchone()


def test_columns_by_schema_and_view(both):
    """Names of columns may say which view's they are, and in which schema."""
    _, herd = both
    assert herd.execute("select herd.table_sizes.name, herd.table_sizes.* from herd.table_sizes where herd.table_sizes.schema = 'seen' and herd.table_sizes.kind = 'reference'").fetchone()[0] == "kind"
    assert herd.execute("select count(herd.locks.node) from herd.locks").fetchone() == (0,)
