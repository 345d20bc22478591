"""An old cast that programs bring along, numbers as text without being asked: the herd's own functions are not in doubt about what `||` means."""

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(300)]

TYPES = ("int", "bigint", "oid")
MOVE = "select herd.move_shard('oc', 0, %s)"
ELSEWHERE = "select name from herd.nodes where name not in (select node from herd.shards where name = 'oc' and shard = 0)"
STATEMENTS = [
    "create table oc (id int primary key, v int, s bigserial, w text default 'x')", "insert into oc select g, g from generate_series(1, 1000) g",
    "select create_distributed_table('oc', 'id', shard_count => 4)", "create table oc_ref (id int primary key, v int)",
    "select create_reference_table('oc_ref')", "insert into oc_ref select g, g from generate_series(1, 10) g", "update oc set v = v + 1",
    "alter table oc add column z int default 3", "alter table oc add constraint c check (v > 0)", "create index on oc (v)",
    "create view oc_view as select * from oc", "create sequence oc_sequence", "select nextval('oc_sequence')",
    MOVE, "select herd.split_shard('oc', 1)", "select herd.rebalance()", "create materialized view oc_total as select count(*) from oc",
    "refresh materialized view oc_total", "vacuum oc", "truncate oc", "drop materialized view oc_total", "select undistribute_table('oc')", "drop table oc, oc_ref cascade",
    "drop sequence oc_sequence", "create table oc (at timestamptz, id int) partition by range (at)", "select create_distributed_table('oc', 'id')",
    "select herd.create_time_partitions('oc', '1 day', now() + interval '3 days')", "alter table oc rename to oc_renamed", "drop table oc_renamed",
]


def test_casts_of_numbers_to_text(herd):
    with herd.connect() as connection:
        try:
            for of in TYPES:
                connection.execute(f"create cast ({of} as text) with inout as implicit")
            for sql in STATEMENTS:
                connection.execute(sql, connection.execute(ELSEWHERE).fetchone() if sql == MOVE else None)
        finally:
            connection.execute("drop table if exists oc, oc_ref, oc_renamed cascade")
            for of in TYPES:
                connection.execute(f"drop cast if exists ({of} as text)")
