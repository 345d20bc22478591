"""COPY's options of YugabyteDB: ROWS_PER_TRANSACTION, REPLACE, DISABLE_FK_CHECK."""

import psycopg
import pytest

from .test_bulk_load import committed, copy_in, count

pytestmark = pytest.mark.real_herd


def test_rows_per_transaction(db):
    lines = [f"{i}\t{i}\tx\n" for i in range(1, 3001)]
    assert copy_in(db, "COPY t FROM STDIN WITH (ROWS_PER_TRANSACTION 100)", lines) == 3000
    db.execute("DELETE FROM t WHERE id <> 2500")
    with pytest.raises(psycopg.errors.UniqueViolation) as raised:
        copy_in(db, "COPY t FROM STDIN WITH (ROWS_PER_TRANSACTION 100)", lines)
    assert committed(raised.value) == count(db) - 1 > 1000


def test_zero_rows_per_transaction_is_one_transaction(db):
    db.execute("SET herd.bulk_load = on")
    db.execute("SET herd.batch_rows = 10")
    with pytest.raises(psycopg.errors.UniqueViolation):
        copy_in(db, "COPY t FROM STDIN (ROWS_PER_TRANSACTION 0)", [f"{i % 900}\t1\tx\n" for i in range(1000)])
    assert count(db) == 0


def test_of_a_local_table(db):
    db.execute("DROP TABLE IF EXISTS l")
    db.execute("CREATE TABLE l (id int PRIMARY KEY, a int)")
    with pytest.raises(psycopg.errors.UniqueViolation) as raised:
        copy_in(db, "COPY l FROM STDIN (ROWS_PER_TRANSACTION 50)", [f"{i % 900}\t1\n" for i in range(1000)])
    assert committed(raised.value) == count(db, "l") == 900
    copy_in(db, "COPY l FROM STDIN (REPLACE, ROWS_PER_TRANSACTION 50)", [f"{i % 900}\t2\n" for i in range(1000)])
    assert db.execute("SELECT count(*), sum(a) FROM l").fetchone() == (900, 1800)


def test_in_a_transaction(db):
    notices = []
    db.add_notice_handler(lambda n: notices.append(n.message_primary))
    db.execute("BEGIN")
    copy_in(db, "COPY t FROM STDIN (ROWS_PER_TRANSACTION 10)", [f"{i}\t1\tx\n" for i in range(500)])
    db.execute("ROLLBACK")
    assert count(db) == 0
    assert notices == ["ROWS_PER_TRANSACTION: a statement in a transaction is all or nothing"]


@pytest.mark.parametrize(
    "statement, error",
    [
        ("COPY t FROM STDIN (DISABLE_FK_CHECK)", psycopg.errors.FeatureNotSupported),
        ("COPY t TO STDOUT (ROWS_PER_TRANSACTION 5)", psycopg.errors.FeatureNotSupported),
        ("COPY t TO STDOUT (REPLACE)", psycopg.errors.FeatureNotSupported),
        ("COPY t FROM STDIN (ROWS_PER_TRANSACTION -1)", psycopg.errors.InvalidParameterValue),
        ("COPY t FROM STDIN (ROWS_PER_TRANSACTION many)", psycopg.errors.InvalidParameterValue),
        ("COPY t FROM STDIN (ROWS_PER_TRANSACTION)", psycopg.errors.SyntaxError),
        ("COPY t FROM STDIN (ROWS_PER_TRANSACTION 1, ROWS_PER_TRANSACTION 2)", psycopg.errors.SyntaxError),
        ("COPY t FROM '/tmp/x' (REPLACE)", psycopg.errors.FeatureNotSupported),
    ],
)
def test_what_is_refused(db, statement, error):
    with pytest.raises(error):
        copy_in(db, statement, [])


def test_of_a_temporary_table(db):
    db.execute("CREATE TEMP TABLE tmp (id int)")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        copy_in(db, "COPY tmp FROM STDIN (REPLACE)", [])
    db.execute("DISCARD ALL")
