"""herd.progress: what runs now, how far it has come, and who may see it."""

import threading
import time

import psycopg
import pytest

pytestmark = pytest.mark.real_herd

COLUMNS = "pid, datname, relation, command, type, bytes_processed, bytes_total, tuples_processed, tuples_excluded, tuples_committed, nodes"


def progress(connection):
    return connection.execute(f"SELECT {COLUMNS} FROM herd.progress").fetchall()


def wait_for(connection, found):
    for _ in range(3000):
        for row in progress(connection):
            if found(row):
                return row
        time.sleep(0.02)
    raise AssertionError("it is not in herd.progress")


def test_copy_from(db, watcher):
    assert progress(watcher) == []
    data = "".join(f"{i}\t{i}\tx\n" for i in range(40000)).encode()
    with db.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            copy.write(data)
            row = wait_for(watcher, lambda r: r[7] > 0)
            assert row[0] == db.pgconn.backend_pid
            assert row[1:5] == ("postgres", "public.t", "COPY FROM", "PIPE")
            assert 0 < row[5] <= len(data) and row[6] == 0
            assert 0 < row[7] <= 40000 and row[8:10] == (0, 0)
            assert sum(row[10].values()) >= row[7] and len(row[10]) == 2 and all(row[10].values())
            assert watcher.execute("SELECT relid = 't'::regclass, started_at <= now() FROM herd.progress").fetchone() == (True, True)
            # By the extended protocol, and joined.
            name = watcher.execute(
                "SELECT c.relname FROM herd.progress p JOIN pg_class c ON c.oid = p.relid WHERE p.pid = %s",
                (db.pgconn.backend_pid,),
            ).fetchone()
            assert name == ("t",)
    assert progress(watcher) == []


def test_what_a_where_excludes_only_nodes_know(db, watcher):
    with db.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN WHERE id > 100") as copy:
            copy.write("".join(f"{i}\t{i}\tx\n" for i in range(40000)))
            assert wait_for(watcher, lambda r: r[7] > 0)[8] is None


@pytest.mark.parametrize("upsert", ["off", "on"])
def test_insert_in_batches(db, watcher, upsert):
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 100")
    db.execute(f"SET herd.upsert = {upsert}")
    thread = threading.Thread(target=db.execute, args=("INSERT INTO t SELECT g, g FROM generate_series(1, 200000) g",))
    thread.start()
    row = wait_for(watcher, lambda r: r[9] > 0)
    thread.join()
    assert row[2:5] == ("public.t", "INSERT", "QUERY")
    assert 0 < row[9] <= row[7] <= 200000
    assert progress(watcher) == []


def test_copy_to(db, watcher):
    db.execute("INSERT INTO t SELECT g, g, repeat('x', 1000) FROM generate_series(1, 30000) g")
    with db.cursor() as cursor:
        with cursor.copy("COPY t TO STDOUT") as copy:
            for _ in range(100):
                copy.read()
            # The client reads no further for now.
            row = wait_for(watcher, lambda r: r[7] > 0)
            assert row[2:5] == ("public.t", "COPY TO", "PIPE") and 0 < row[7] < 30000
            for _ in copy:
                pass
    assert progress(watcher) == []


def test_ones_own_and_nobody_elses(bulk_herd, db):
    db.execute("DROP ROLE IF EXISTS curious")
    db.execute("CREATE ROLE curious LOGIN")
    try:
        with db.cursor() as cursor, psycopg.connect(
            bulk_herd.server.conninfo.replace("user=postgres", "user=curious"), autocommit=True
        ) as curious:
            with cursor.copy("COPY t FROM STDIN") as copy:
                copy.write("".join(f"{i}\t{i}\tx\n" for i in range(40000)))
                wait_for_it = bulk_herd.server.connect()
                wait_for(wait_for_it, lambda r: r[7] > 0)
                wait_for_it.close()
                assert curious.execute("SELECT count(*) FROM herd.progress").fetchone() == (0,)
                # Nor is it in the text of the statement.
                told = curious.execute("SELECT current_query(), count(*) FROM herd.progress").fetchone()[0]
                told += "".join(line for (line,) in curious.execute("EXPLAIN (VERBOSE) SELECT * FROM herd.progress"))
                assert "COPY" not in told, told
                db_count = curious.execute("SELECT current_user").fetchone()
                assert db_count == ("curious",)
    finally:
        db.execute("DROP ROLE curious")


def test_failed_statements_leave_the_list(db, watcher):
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        with db.cursor() as cursor:
            with cursor.copy("COPY t FROM STDIN") as copy:
                copy.write("x\t1\tx\n")
    assert progress(watcher) == []
