"""Who may not read a table may not read its columns; and what a copy is refused for."""

import os
import signal
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def secret(columns):
    columns.server.run(
        "drop table if exists c_secret", "drop role if exists c_reader", "create role c_reader login",
        "create table c_secret (id int primary key, k int, hidden text)", "select create_distributed_table('c_secret', 'id')",
        "insert into c_secret select g, g, 'h' from generate_series(1, 50) g", "grant select (id, k) on c_secret to c_reader",
    )  # fmt: skip
    columns.add("c_secret")
    return columns


def _as_reader(columns):
    connection = psycopg.connect(columns.server.conninfo.replace("user=postgres", "user=c_reader"), autocommit=True)
    connection.execute("set herd.columns = on")
    return connection


def test_rights_are_the_clients(secret):
    before = secret.reads()
    with _as_reader(secret) as reader:
        assert reader.execute("select count(*), sum(k) from c_secret").fetchone() == (50, 1275)
        assert reader.execute("select count(*) from c_secret where k > 10").fetchone() == (40,)
        for sql in ["select min(hidden) from c_secret", "select count(*) from c_secret where hidden = 'h'", "select hidden, count(*) from c_secret group by 1"]:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(sql)
        secret.server.run("revoke select (k) on c_secret from c_reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("select count(*), sum(k) from c_secret")
        secret.server.run("grant select (k) on c_secret to c_reader")
    assert secret.reads()[0] - before[0] == 2


def test_policies_are_heeded(secret):
    secret.server.run("create policy few on c_secret using (id <= 5)", "alter table c_secret enable row level security")
    try:
        with _as_reader(secret) as reader:
            assert reader.execute("select count(*) from c_secret").fetchone() == (5,)
    finally:
        secret.server.run("alter table c_secret disable row level security", "drop policy few on c_secret")


def test_a_transaction_reads_its_own_rows(secret):
    with secret.server.connect(autocommit=False) as connection:
        connection.execute("set herd.columns = on")
        connection.execute("insert into c_secret values (1000, 0, 'mine')")
        assert connection.execute("select count(*) from c_secret").fetchone() == (51,)
        connection.rollback()


def test_what_can_have_no_copy_is_refused(secret):
    secret.server.run(
        "drop table if exists c_local, c_keyless", "create table c_local (id int primary key)",
        "create table c_keyless (id int)", "select create_distributed_table('c_keyless', 'id')",
    )  # fmt: skip
    with secret.server.connect() as connection:
        for sql, state, said in [
            ("select herd.add_column_copy('c_local')", "0A000", "not distributed"),
            ("select herd.add_column_copy('c_keyless')", "55000", "no primary key"),
            ("select herd.add_column_copy('c_secret', '{id,nothing}')", "42703", "nothing"),
            ("select herd.add_column_copy('c_secret', '{k}')", "22023", "id"),
            ("select herd.drop_column_copy('c_keyless')", "42704", "no column copy"),
        ]:
            with pytest.raises(psycopg.Error) as error:
                connection.execute(sql)
            assert error.value.sqlstate == state and said in str(error.value), (sql, error.value)


def test_only_members_of_the_herds_owner_add_copies(secret):
    with _as_reader(secret) as reader, pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.execute("select herd.drop_column_copy('c_secret')")


def test_column_copies_tell_of_every_node(secret):
    copies = "select relation, node, state, rows, lag_bytes is not null, lag < '1 min', file_bytes > 0 from herd.column_copies where relation = 'public.c_secret' order by node"
    # A copy may be made anew on a busy machine: it says why, and is there again.
    deadline = time.monotonic() + 120
    with secret.server.connect() as boss:
        found = boss.execute(copies).fetchall()
        while [r[2:3] + r[4:] for r in found] != [("ready", True, True, True)] * 2:
            assert time.monotonic() < deadline, boss.execute("select * from herd.column_copies where relation = 'public.c_secret'").fetchall()
            time.sleep(0.1)
            found = boss.execute(copies).fetchall()
        assert {r[1] for r in found} == {name for name, in boss.execute("select name from herd.nodes")}
        assert sum(r[3] for r in found) == 50
        assert boss.execute("select count(*) from herd.column_copies c join herd.nodes n on n.name = c.node where c.state = 'ready'").fetchone()[0] >= 2
    with _as_reader(secret) as reader:
        assert len(reader.execute(copies).fetchall()) == 2


def _by_columns(secret, one) -> None:
    """Until stores have answered."""
    deadline, before = time.monotonic() + 90, secret.reads()[0]
    while secret.reads()[0] == before:
        assert time.monotonic() < deadline
        assert one.execute("select count(*), sum(k) from c_secret").fetchone() == (50, 1275)
        time.sleep(0.2)


def test_a_store_that_stands_still_is_not_waited_for_again_and_again(secret):
    """Its connections stand, and nothing comes: rows answer, at once from the second statement on; when it goes on, so do columns."""
    secret.ready("c_secret")
    store = secret.store_pids()[0]
    with secret.server.connect(autocommit=True) as one:
        one.execute("set herd.columns = on")
        one.execute("set herd.freshness_wait = '100ms'")
        # On a busy machine one may have been silent before, and be left alone.
        _by_columns(secret, one)
        os.kill(store, signal.SIGSTOP)
        try:
            took = []
            for _ in range(4):
                began = time.monotonic()
                assert one.execute("select count(*), sum(k) from c_secret").fetchone() == (50, 1275)
                took.append(time.monotonic() - began)
            # The first one has waited for some seconds.
            assert max(took[1:]) < max(1, took[0] / 2) and 1 < took[0] < 40, took
            states = one.execute("select state, why from herd.column_copies where relation = 'public.c_secret' order by 1").fetchall()
            assert [state for state, _ in states] == ["ready", "unreachable"], states
        finally:
            os.kill(store, signal.SIGCONT)
        _by_columns(secret, one)
