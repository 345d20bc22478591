"""REPEATABLE READ and SERIALIZABLE are one snapshot of all nodes, taken when PostgreSQL takes it, and never of a table's part."""

import threading

import psycopg
import pytest

from promises.cluster import Cluster

pytestmark = pytest.mark.timeout(300)

BEGINS = {
    "BEGIN": ("begin isolation level {level}",),
    "SET TRANSACTION": ("begin", "set transaction isolation level {level}"),
    "SHOW, SET TRANSACTION": ("begin", "show application_name", "set transaction isolation level {level}"),
    "transaction_isolation": ("begin", "set local transaction_isolation = '{level}'"),
    "SESSION CHARACTERISTICS": ("set session characteristics as transaction isolation level {level}", "begin"),
    "default": ("set default_transaction_isolation = '{level}'", "begin", "set local lock_timeout = '10s'"),
}


def _fill(server, distribute: bool):
    server.run("drop table if exists rep, rep_local", "create table rep (k int primary key, v int)", "create table rep_local (k int primary key, v int)")
    if distribute:
        server.run("select create_distributed_table('rep', 'k')")
    server.run("insert into rep select g, 0 from generate_series(1, 40) g", "insert into rep_local select g, 0 from generate_series(1, 40) g")


@pytest.fixture
def filled(herd, oracle):
    _fill(herd, True)
    _fill(oracle, False)


def _rows(connection, sql):
    return connection.execute(sql).fetchall()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("begin", BEGINS.values(), ids=BEGINS)
def test_nodes_that_join_later_show_the_same_moment(filled, herd, oracle, begin, level):
    def told(server):
        with server.connect() as reader, server.connect() as writer:
            for sql in begin:
                reader.execute(sql.format(level=level))
            said = [_rows(reader, "select v from rep where k = 3")]
            writer.execute("update rep set v = 5")
            writer.execute("update rep_local set v = 5")
            for sql in ("select count(*) from rep where v = 5", "select v from rep where k = 4", "select sum(v) from rep_local", "select k from rep where v = 5 order by k limit 3"):
                said.append(_rows(reader, sql))
            with pytest.raises(psycopg.errors.SerializationFailure):
                reader.execute("update rep set v = 6 where k = 4")
            reader.execute("rollback")
            return said

    assert told(herd) == told(oracle)


@pytest.mark.parametrize("first", [(), ("show work_mem",), ("set local lock_timeout = '20s'",)], ids=["alone", "SHOW", "SET LOCAL"])
@pytest.mark.parametrize("lock", ["lock table rep in share mode", "lock table rep_local in share mode"])
def test_who_locks_first_sees_what_was_committed_by_then(filled, herd, oracle, lock, first):
    def told(server):
        server.run("create sequence if not exists rep_values")
        # Connections that others have taken values on forget them first.
        for _ in range(3):
            server.run("select nextval('rep_values')")
        with server.connect() as reader, server.connect() as writer:
            writer.execute("begin")
            writer.execute("update rep set v = v + 1")
            writer.execute("update rep_local set v = v + 1")
            reader.execute("begin isolation level repeatable read")
            for sql in first:
                reader.execute(sql)
            waits = threading.Thread(target=lambda: reader.execute(lock))
            waits.start()
            waits.join(0.5)
            assert waits.is_alive()
            writer.execute("commit")
            waits.join(60)
            said = [_rows(reader, "select sum(v) from rep_local"), _rows(reader, "select sum(v) from rep"), _rows(reader, "select v from rep where k = 7")]
            with server.connect() as other:
                other.execute("insert into rep values (100, 9)" if "local" in lock else "insert into rep_local values (100, 9)")
            said += [_rows(reader, "select count(*) from rep"), _rows(reader, "select count(*) from rep_local")]
            reader.execute("commit")
            return said

    assert told(herd) == told(oracle)


READS = ("select count(*) from rep_kind", "select v from rep_kind where k = 7", "select v from rep_kind where k = 8", "copy rep_kind to stdout", "declare c cursor for select * from rep_kind",
         "insert into rep_local select k + 1000, v from rep_kind", "update rep_kind set v = 1", "with w as (select * from rep_kind) select sum(v) from w")


@pytest.mark.real_herd
@pytest.mark.parametrize("snapshot", ["on", "default", "off"])
@pytest.mark.parametrize("change", ["distributed", "reference", "local"])
def test_a_table_of_another_kind_is_not_read_in_part(filled, herd, change, snapshot):
    make = {"distributed": "select create_distributed_table('rep_kind', 'k')", "reference": "select create_reference_table('rep_kind')", "local": "select undistribute_table('rep_kind')"}[change]
    for sql in READS:
        herd.run("drop table if exists rep_kind", "create table rep_kind (k int primary key, v int)")
        if change == "local":
            herd.run("select create_distributed_table('rep_kind', 'k')")
        herd.run("insert into rep_kind select g, 0 from generate_series(1, 40) g")
        with herd.connect() as reader:
            if snapshot != "default":
                reader.execute(f"set herd.snapshot = {snapshot}")
            reader.execute("begin isolation level repeatable read")
            reader.execute("select 1 from pg_class limit 1")
            herd.run(make)
            with pytest.raises(psycopg.errors.SerializationFailure):
                if sql.startswith("copy"):
                    with reader.cursor().copy(sql) as rows:
                        list(rows)
                else:
                    reader.execute(sql)
            reader.execute("rollback")
            assert _rows(reader, "select count(*) from rep_kind") == [(40,)]


@pytest.mark.real_herd
def test_nor_by_who_waited_for_its_lock_at_another_router():
    made = Cluster(nodes=2)
    try:
        one, two = made.router().start().server, made.router().start().server
        for block in (False, True):
            one.run("drop table if exists waited", "create table waited (k int primary key, v int)", "insert into waited select g, 0 from generate_series(1, 40) g")
            with one.connect() as changes, two.connect() as reads:
                reads.execute("set default_transaction_isolation = 'repeatable read'")
                if block:
                    reads.execute("begin")
                    reads.execute("select 1 from pg_class limit 1")
                changes.execute("begin")
                changes.execute("select create_distributed_table('waited', 'k')")
                said = []

                def read():
                    try:
                        said.append(_rows(reads, "select count(*) from waited"))
                    except psycopg.Error as e:
                        said.append(e.sqlstate)

                waits = threading.Thread(target=read)
                waits.start()
                waits.join(0.7)
                changes.execute("commit")
                waits.join(60)
                assert said == (["40001"] if block else [[(40,)]])
    finally:
        made.stop()


@pytest.mark.real_herd
def test_what_it_costs_and_who_turns_it_off(filled, herd):
    with herd.connect() as reader, herd.connect() as writer:
        reader.execute("set herd.snapshot = off")
        reader.execute("begin isolation level repeatable read")
        assert _rows(reader, "select v from rep where k = 3") == [(0,)]
        writer.execute("update rep set v = 5")
        assert _rows(reader, "select count(*) from rep where v = 5")[0][0] in range(1, 40)
        reader.execute("rollback")
        assert _rows(reader, "show herd.snapshot") == [("off",)]
