"""Tables with generated columns have column copies without them, and can be written to whatever their replica identity is."""

import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(300)]


def test_generated_columns_under_a_full_replica_identity(columns):
    with columns.server.connect() as connection:
        connection.execute("create table c_made (id int primary key, v int, twice int generated always as (v * 2) stored)")
        connection.execute("alter table c_made replica identity full")
        connection.execute("select create_distributed_table('c_made', 'id')")
        connection.execute("insert into c_made (id, v) select g, g from generate_series(1, 100) g")
        if int(columns.herd.node_servers[0].connect().execute("show server_version_num").fetchone()[0]) < 180000:
            columns.add("c_made")
            assert connection.execute("update c_made set v = v + 1").rowcount == 100
            return
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="c_made.*generated") as refused:
            connection.execute("select herd.add_column_copy('c_made')")
        assert "REPLICA IDENTITY DEFAULT" in refused.value.diag.message_hint
        assert connection.execute("update c_made set v = v + 1").rowcount == 100
        connection.execute("alter table c_made replica identity default")
        columns.add("c_made")
        assert connection.execute("update c_made set v = v + 1").rowcount == 100
        # Stores leave what they can't have: it is theirs no more, and can be written to.
        connection.execute("alter table c_made replica identity full")
        deadline = time.monotonic() + 60
        while True:
            try:
                assert connection.execute("update c_made set v = v + 1").rowcount == 100
                break
            except psycopg.errors.InvalidColumnReference:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        connection.execute("alter table c_made replica identity default")
        columns.ready("c_made")
        assert connection.execute("select sum(v) from c_made").fetchone() == (5050 + 300,)
