"""A node without shards whose server is gone for good can be removed, and nothing waits for it from then on."""

import psycopg
import pytest

from harness import processes, router
from harness.started import Routers
from harness.until import until

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-gone"), pytest.mark.timeout(300)]


class Grown(Routers):
    """Home, a node with shards, and one that has come later."""

    def start(self):
        self.nodes = [self.kept(router.node(f"gone{i}", {"wal_level": "logical"})) for i in range(3)]
        home, other, _ = map(router.conninfo, self.nodes)
        self.routers = [self.kept(router.Router(home, [other], shards=4)) for _ in range(2)]


@pytest.fixture
def grown():
    made = Grown()
    yield made
    made.stop()


@pytest.mark.parametrize("way", ["dead", "hung"])
def test_it_is_removed(grown, way):
    a, b = grown.a, grown.b
    a.run(
        "create table gone_t (id int primary key, v int)", "select create_distributed_table('gone_t', 'id')", "insert into gone_t select g, 0 from generate_series(1, 40) g",
        "create table gone_r (id int primary key)", "select create_reference_table('gone_r')", f"select citus_add_node('127.0.0.1', {grown.nodes[2].port})",
        "insert into gone_r values (1)",
    )
    process = grown.nodes[2].process
    if way == "dead":
        processes.kill_family(process.pid)
        process.wait()
    else:
        processes.freeze_family(process.pid)
    with a.connect() as connection:
        heard = []
        connection.add_notice_handler(lambda diag: heard.append((diag.severity, diag.message_primary)))
        remove = f"select citus_remove_node('127.0.0.1', {grown.nodes[2].port})"
        if way == "dead":
            with pytest.raises(psycopg.Error):
                connection.execute("insert into gone_r values (2)")
        if way == "hung":
            # It may go on one day.
            with pytest.raises(psycopg.OperationalError) as refused:
                connection.execute(remove)
            assert refused.value.sqlstate == "08001", refused.value
            processes.kill_family(process.pid)
            process.wait()
        connection.execute(remove)
        assert [severity for severity, _ in heard] == ["WARNING"] and "not asked" in heard[0][1]
        connection.execute("insert into gone_r values (3)")
        connection.execute("alter table gone_t add column w int default 5")
        assert connection.execute("select name from herd.nodes").rowcount == 2
    with b.connect() as connection:
        until(lambda: connection.execute("select count(*) from herd.nodes").fetchone() == (2,))
        assert connection.execute("update gone_t set w = 6").rowcount == 40
        connection.execute("insert into gone_r values (4)")
        assert connection.execute("select count(*) from gone_r").fetchone() == (3,)
        connection.execute("select create_distributed_table('gone_more', 'id')" if connection.execute("create table gone_more (id int primary key)") else "")
        assert connection.execute("select object, problem from herd.verify").fetchall() == []
