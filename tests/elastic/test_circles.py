"""Transactions that hold tables of a group while a shard of it moves, and then want others of them: the move gives way, whoever waits for whom."""

import time

import pytest

from .places import Asked, reached

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]

# Longer than deadlock_timeout, so that the node has looked for a circle behind the move's wait, and finds the next one behind the other's.
_WAITS = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%herd.lock_tables%' and query_start < clock_timestamp() - interval '1.2 s'"


@pytest.mark.parametrize("tables", [("c_first", "c_second"), ("c_second", "c_first")])
def test_who_waits_for_a_patient_move_goes_on(elastic, tmp_path, tables):
    elastic.a.run(
        "drop table if exists c_first, c_second",
        "create table c_first (id int primary key, v int)", "select create_distributed_table('c_first', 'id', colocate_with => 'none')",
        "create table c_second (id int primary key, v int)", "select create_distributed_table('c_second', 'id', colocate_with => 'c_first')",
        "insert into c_first select g, g from generate_series(1, 500) g", "insert into c_second select g, g from generate_series(1, 500) g",
    )
    held, wanted = tables
    tmp_path.chmod(0o777)
    flag = tmp_path / "flag"
    slow = elastic.router(f"move.copied:wait:{flag}")
    moved = Asked(lambda: elastic.moves("c_first", 1, slow.server))
    reached(flag, moved)
    # Behind the copy's snapshot, which would wait for it.
    with elastic.b.connect(autocommit=False) as user:
        user.execute(f"update {held} set v = v + 1 where id = 7")
        flag.unlink()
        deadline = time.monotonic() + 120
        while not any(elastic.on_node(node, _WAITS) for node in (1, 2, 3)):
            assert time.monotonic() < deadline, "the move is never patient"
            time.sleep(0.02)
        # Of a circle within a node who looks last would be told: 40P01.
        user.execute(f"update {wanted} set v = v + 1 where id = 7")
        user.commit()
    moved.join(120)
    assert moved.sqlstates == [None], moved.said
    sums = "select (select sum(v) from c_first), (select sum(v) from c_second), (select count(*) from c_first join c_second using (id))"
    with elastic.a.connect() as connection:
        assert connection.execute(sums).fetchone() == (125251, 125251, 500)
    slow.stop()
    elastic.is_tidy()
