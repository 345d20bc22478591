"""herd.bulk_load: batches commit one by one, and what is committed when one fails is said exactly."""

import re

import psycopg
import pytest

pytestmark = pytest.mark.real_herd


def copy_in(connection, statement, lines):
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for line in lines:
                copy.write(line)
        return cursor.rowcount


def count(connection, table="t"):
    return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def committed(error) -> int:
    found = re.search(r"(\d+) rows of this statement are committed", error.diag.message_detail or "")
    assert found, error.diag.message_detail
    return int(found.group(1))


def test_settings_and_their_other_names(db):
    for name, alias in [
        ("herd.bulk_load", "yb_disable_transactional_writes"),
        ("herd.upsert", "yb_enable_upsert_mode"),
    ]:
        db.execute(f"SET {alias} = on")
        assert db.execute(f"SHOW {name}").fetchone() == ("on",)
        db.execute(f"RESET {name}")
        assert db.execute(f"SHOW {alias}").fetchone() == ("off",)
    for name, alias in [("herd.batch_rows", "ysql_session_max_batch_size"), ("herd.in_flight_rows", "ysql_max_in_flight_ops")]:
        db.execute(f"SET {alias} = 77")
        assert db.execute(f"SHOW {name}").fetchone() == ("77",)
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            db.execute(f"SET {name} = -1")


@pytest.mark.parametrize("format", ["text", "csv"])
def test_a_failing_copy_keeps_the_batches_before(db, format):
    db.execute("SET herd.bulk_load = on; ".rstrip("; "))
    db.execute("SET herd.batch_rows = 100")
    comma = "\t" if format == "text" else ","
    lines = [f"{i}{comma}{i}{comma}x\n" for i in range(1, 5001)]
    lines[4000] = f"4001{comma}oops{comma}x\n"
    with pytest.raises(psycopg.errors.InvalidTextRepresentation) as raised:
        copy_in(db, f"COPY t FROM STDIN (FORMAT {format})", lines)
    there = count(db)
    assert committed(raised.value) == there
    assert 3000 <= there <= 4900
    first = int(re.search(r"all up to row (\d+) of the data", raised.value.diag.message_detail).group(1))
    # The promise is about every row before it.
    assert db.execute("SELECT count(*) FROM t WHERE id <= %s", (first,)).fetchone()[0] == first
    assert first > 3000
    # The next statement is an ordinary one again.
    assert copy_in(db, f"COPY t FROM STDIN (FORMAT {format})", [f"9999{comma}1{comma}y\n"]) == 1


def test_without_it_nothing_is_kept(db):
    lines = [f"{i}\t{i}\tx\n" for i in range(1, 5001)]
    lines[4000] = "4001\toops\tx\n"
    with pytest.raises(psycopg.errors.InvalidTextRepresentation) as raised:
        copy_in(db, "COPY t FROM STDIN", lines)
    assert raised.value.diag.message_detail is None
    assert count(db) == 0


def test_header_lines_go_before_every_batch(db):
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 10")
    lines = ["id,a,b\n"] + [f'{i},{i},"two\nlines"\n' for i in range(1000)]
    assert copy_in(db, "COPY t FROM STDIN (FORMAT csv, HEADER match)", lines) == 1000
    assert count(db) == 1000
    assert db.execute("SELECT count(DISTINCT b), sum(a) FROM t").fetchone() == (1, 499500)


def test_binary_copy(db):
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 10")
    with db.cursor() as cursor:
        with cursor.copy("COPY t (id, a) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "int4"])
            for i in range(500):
                copy.write_row((i, -i))
        assert cursor.rowcount == 500
    assert db.execute("SELECT count(*), sum(a), min(b) FROM t").fetchone() == (500, -124750, "none")


def test_bad_statements_fail_before_data_is_asked_for(db):
    db.execute("SET herd.bulk_load = on")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        copy_in(db, "COPY t (nonsense) FROM STDIN", [])
    with pytest.raises(psycopg.errors.SyntaxError):
        copy_in(db, "COPY t FROM STDIN (nonsense)", ["1\t1\t1\n"])
    assert copy_in(db, "COPY t FROM STDIN", []) == 0


def test_batches_are_seen_while_the_rest_is_on_its_way(db, watcher):
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 50")
    db.execute("SET herd.in_flight_rows = 100")
    with db.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            for i in range(3000):
                copy.write(f"{i}\t1\tx\n" + "")
                # psycopg gathers what is written; libpq's socket does the rest.
            copy.write("".join(f"{i}\t1\tx\n" for i in range(3000, 60000)))
            seen = 0
            for _ in range(100):
                seen = count(watcher)
                if seen:
                    break
            assert seen > 0
    assert count(db) == 60000


def test_insert_select_in_batches(db):
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 100")
    done = db.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 5000) g")
    assert done.rowcount == 5000
    with pytest.raises(psycopg.errors.UniqueViolation) as raised:
        db.execute("INSERT INTO t SELECT CASE g WHEN 9000 THEN 1 ELSE g END, g FROM generate_series(5001, 10000) g")
    there = count(db)
    assert committed(raised.value) == there - 5000
    assert 3000 < there - 5000 < 5000
    assert "all up to" not in raised.value.diag.message_detail


def test_insert_select_with_on_conflict_and_returning(db):
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 100")
    db.execute("INSERT INTO t SELECT g, 0 FROM generate_series(1, 500) g")
    rows = db.execute(
        "INSERT INTO t SELECT g, g FROM generate_series(401, 1000) g ON CONFLICT (id) DO UPDATE SET a = -1 RETURNING id, a"
    ).fetchall()
    assert sorted(rows) == [(i, -1 if i <= 500 else i) for i in range(401, 1001)]
    assert count(db) == 1000


def test_many_rows_of_values(db):
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 10")
    values = ", ".join(f"({i}, {i})" for i in range(400))
    assert db.execute(f"INSERT INTO t VALUES {values} RETURNING id").rowcount == 400
    values = ", ".join(f"({i if i != 700 else 1}, {i})" for i in range(400, 800))
    with pytest.raises(psycopg.errors.UniqueViolation) as raised:
        db.execute(f"INSERT INTO t VALUES {values}")
    assert committed(raised.value) == count(db) - 400 > 0


def test_colocated_insert_select_commits_node_by_node(db, bulk_herd):
    db.execute("DROP TABLE IF EXISTS s")
    db.execute("CREATE TABLE s (id int PRIMARY KEY, a int)")
    db.execute("SELECT create_distributed_table('s', 'id', colocate_with => 't')")
    db.execute("INSERT INTO s SELECT g, g FROM generate_series(1, 1000) g")
    with bulk_herd.node_servers[0].connect() as node:
        on_first = node.execute("SELECT id FROM s ORDER BY id").fetchall()
    assert 0 < len(on_first) < 1000
    db.execute("INSERT INTO t VALUES (%s, 0)", (on_first[0][0],))
    db.execute("SET herd.bulk_load = on")
    with pytest.raises(psycopg.errors.UniqueViolation) as raised:
        db.execute("INSERT INTO t SELECT id, a FROM s")
    assert committed(raised.value) == 1000 - len(on_first)
    assert count(db) == 1000 - len(on_first) + 1


def test_in_a_transaction_it_is_all_or_nothing(db):
    notices = []
    db.add_notice_handler(lambda n: notices.append(n.message_primary))
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 10")
    db.execute("BEGIN")
    db.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 500) g")
    copy_in(db, "COPY t FROM STDIN", [f"{i}\t1\tx\n" for i in range(1000, 1500)])
    db.execute("ROLLBACK")
    assert count(db) == 0
    assert len(notices) == 2 and all("all or nothing" in n for n in notices)


def test_a_source_that_reads_its_target_does_not_see_its_own_rows(db):
    notices = []
    db.add_notice_handler(lambda n: notices.append(n.message_primary))
    db.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 20000) g")
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 20")
    db.execute("INSERT INTO t SELECT id + 20000, a FROM t")
    assert any("reads the table it writes to" in n for n in notices)
    assert count(db) == 40000
    db.execute("CREATE VIEW through AS SELECT * FROM t")
    try:
        db.execute("INSERT INTO t SELECT id + 40000, a FROM through")
        assert count(db) == 80000
    finally:
        db.execute("DROP VIEW through")


def test_reference_tables_stay_the_same_everywhere(db, bulk_herd):
    notices = []
    db.add_notice_handler(lambda n: notices.append(n.message_primary))
    db.execute("DROP TABLE IF EXISTS r")
    db.execute("CREATE TABLE r (id int PRIMARY KEY, a int)")
    db.execute("SELECT create_reference_table('r')")
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 10")
    with pytest.raises(psycopg.errors.UniqueViolation):
        copy_in(db, "COPY r FROM STDIN", [f"{i % 900}\t1\n" for i in range(1000)])
    assert any("reference table" in n for n in notices)
    for node in bulk_herd.node_servers:
        with node.connect() as connection:
            assert count(connection, "r") == 0


def test_sequences_are_filled_in(db):
    db.execute("DROP TABLE IF EXISTS s")
    db.execute("CREATE TABLE s (id bigserial PRIMARY KEY, a int)")
    db.execute("SELECT create_distributed_table('s', 'id')")
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 10")
    copy_in(db, "COPY s (a) FROM STDIN", [f"{i}\n" for i in range(1000)])
    db.execute("INSERT INTO s (a) SELECT g FROM generate_series(1, 1000) g")
    assert db.execute("SELECT count(*), count(DISTINCT id) FROM s").fetchone() == (2000, 2000)


def test_a_cancelled_copy_tells_what_is_committed(db, watcher):
    import threading
    import time

    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 100")

    def cancel():
        for _ in range(3000):
            if count(watcher) > 0:
                break
            time.sleep(0.02)
        db.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(psycopg.errors.QueryCanceled) as raised:
        db.execute("INSERT INTO t SELECT g, 1, repeat('x', 500) FROM generate_series(1, 3000000) g")
    thread.join()
    assert committed(raised.value) == count(db) > 0


def test_ordinary_roles_may_load(bulk_herd, db):
    db.execute("DROP ROLE IF EXISTS loader")
    db.execute("CREATE ROLE loader LOGIN")
    db.execute("GRANT SELECT, INSERT, UPDATE ON t TO loader")
    try:
        with psycopg.connect(bulk_herd.server.conninfo.replace("user=postgres", "user=loader"), autocommit=True) as loader:
            for upsert in ["off", "on"]:
                loader.execute("SET herd.bulk_load = on")
                loader.execute(f"SET herd.upsert = {upsert}")
                loader.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 5000) g")
                copy_in(loader, "COPY t FROM STDIN", [f"{i}\t1\tx\n" for i in range(10000 if upsert == "off" else 5000, 15000)])
        # 1 to 4999 once, 5000 to 14999 as COPY has them.
        assert db.execute("SELECT count(*), sum(a) FROM t").fetchone() == (14999, sum(range(1, 5000)) + 10000)
    finally:
        db.execute("DROP TABLE t")
        db.execute("DROP ROLE loader")


def test_what_nodes_say_of_batches_is_told(db):
    db.execute("CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'row %', new.id; RETURN new; END $$")
    db.execute("CREATE TRIGGER tells BEFORE INSERT ON t FOR EACH ROW WHEN (new.id % 100 = 0) EXECUTE FUNCTION tells()")
    told = []
    db.add_notice_handler(lambda notice: told.append(notice.message_primary))
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 10")
    assert copy_in(db, "COPY t FROM STDIN", [f"{i}\t{i}\tx\n" for i in range(1, 1001)]) == 1000
    assert sorted(told) == sorted(f"row {i}" for i in range(100, 1001, 100))
    db.execute("DROP TRIGGER tells ON t")
    db.execute("DROP FUNCTION tells()")
