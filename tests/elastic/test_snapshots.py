"""A slot's snapshot has commits that the server itself does not know of yet (crates/pool/src/slot_snapshot.rs): nothing is read at it before all of them have
left the list of those that run. Who reads at once loses a change now and then, in the copy and in the shard.

Here one is held there: its commit is in the log, and waits for a standby that is not there. Two transactions that stay open lead the slot's making to that moment.
"""

import threading
import time

import pytest

from .places import Asked, reached

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]

ROWS = 60
_WAITS_FOR = "select count(*) from pg_locks l join pg_stat_activity a using (pid) where not l.granted and l.locktype = 'transactionid' and l.transactionid = %s::xid and a.backend_type = 'walsender'"


def _until(found, what: str):
    deadline = time.monotonic() + 90
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_commit_that_is_in_the_log_alone_is_waited_for(elastic, tmp_path):
    elastic.a.run(
        "drop table if exists k_late", "create table k_late (id int primary key, v int not null)",
        "select create_distributed_table('k_late', 'id', shard_count => 3, colocate_with => 'none')", f"insert into k_late select g, g from generate_series(1, {ROWS}) g",
    )
    # Not home, which is told how far the job is.
    shard, source = next((shard, node) for shard, node in sorted(elastic.shards("k_late").items()) if node != 1)
    target = source % 3 + 1
    node = elastic.nodes[source - 1].server
    tmp_path.chmod(0o777)
    flag = tmp_path / "flag"
    slow = elastic.router(f"move.prepared:wait:{flag}")
    late = None
    try:
        with node.connect(autocommit=False) as first, node.connect(autocommit=False) as second:
            moving = Asked(lambda: slow.server.run(f"select herd.move_shard('k_late', {shard}, {target})"))
            reached(flag, moving)
            of_first = first.execute("select pg_current_xact_id()::xid::text").fetchone()
            flag.unlink()
            _until(lambda: elastic.on_node(source, _WAITS_FOR, of_first) == [(1,)], "the slot does not wait for the first")
            of_second = second.execute("select pg_current_xact_id()::xid::text").fetchone()
            first.rollback()
            _until(lambda: elastic.on_node(source, _WAITS_FOR, of_second) == [(1,)], "the slot does not wait for the second")
            for sql in ("alter system set synchronous_standby_names = 'nobody'", "select pg_reload_conf()"):
                elastic.on_node(source, sql)
            _until(lambda: elastic.on_node(source, "show synchronous_standby_names") == [("nobody",)], "the setting is not there")
            late = threading.Thread(target=lambda: elastic.on_node(source, "update k_late set v = v + 1000 where id = (select min(id) from k_late)"))
            late.start()
            _until(lambda: elastic.on_node(source, "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and query ~ 'k_late'") == [(1,)], "nothing waits to commit")
            second.rollback()
            # The slot is there now, and its snapshot has that commit.
            time.sleep(2)
            assert moving.is_alive(), moving.said
            [(copy,)] = elastic.on_node(target, "select oid::regclass::text from pg_class where relname ~ '^herd_moving_.*_0$' and relkind = 'r'")
            assert elastic.on_node(target, f"select count(*) from {copy}") == [(0,)]
    finally:
        flag.unlink(missing_ok=True)
        for sql in ("alter system reset synchronous_standby_names", "select pg_reload_conf()"):
            elastic.on_node(source, sql)
        late and late.join(90)
    moving.join(120)
    assert moving.said == [None]
    assert elastic.shards("k_late")[shard] == target
    with elastic.a.connect() as connection:
        assert connection.execute("select count(*), sum(v) from k_late").fetchone() == (ROWS, ROWS * (ROWS + 1) // 2 + 1000)
    elastic.is_tidy()
    slow.stop()
