"""What a default partition takes changes with its table's other partitions, for all backends that have used its shards."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]

CLIENTS = 6


@pytest.fixture
def p(pair):
    pair.a.run(
        "drop table if exists p, p_1, p_2",
        "create table p (a int, v text) partition by list (a)",
        "create table p_1 partition of p for values in (1)", "create table p_rest partition of p default",
        "select create_distributed_table('p', 'v')",
    )
    yield pair
    pair.a.run("drop table if exists p, p_1, p_2")


def _use_all(clients):
    """Many backends know the shards' bounds then: transactions beside one another have one each."""
    for c in clients:
        c.execute("begin")
        for v in range(20):
            c.execute(f"insert into p_rest values (7, 'k{v}')")
    for c in clients:
        c.execute("commit")


def _all_refuse(clients, sql):
    for c in clients:
        with pytest.raises(psycopg.errors.CheckViolation):
            c.execute(sql)


def _clients(p):
    return [router.connect() for router in (p.a, p.b) for _ in range(CLIENTS // 2)]


@pytest.mark.parametrize("made", ["create table p_2 partition of p for values in (2)", "create table p_2 (a int, v text); alter table p attach partition p_2 for values in (2)"])
def test_rows_of_a_new_partition_are_refused(p, made):
    clients = _clients(p)
    _use_all(clients)
    for sql in made.split("; "):
        clients[0].execute(sql)
    for v in range(20):
        _all_refuse(clients, f"insert into p_rest values (2, 'k{v}')")
        _all_refuse(clients, f"update p_rest set a = 2 where v = 'k{v}'")
    for c in clients:
        c.close()


@pytest.mark.parametrize("gone", ["drop table p_1", "alter table p detach partition p_1", "alter table p detach partition p_1 concurrently"])
def test_rows_of_a_partition_that_has_gone_are_taken(p, gone):
    clients = _clients(p)
    _use_all(clients)
    _all_refuse(clients, "insert into p_rest values (1, 'k1')")
    clients[0].execute(gone)
    for c in clients:
        for v in range(20):
            c.execute(f"insert into p_rest values (1, 'k{v}')")
    assert clients[0].execute("select count(*) from p where a = 1").fetchone() == (20 * len(clients),)
    for c in clients:
        c.close()
