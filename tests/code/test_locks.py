"""FOR UPDATE over several nodes locks the rows it returns, or is refused."""

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@pytest.mark.parametrize("lock", ["for update", "for update skip locked", "for share", "for no key update nowait"])
@pytest.mark.parametrize(
    "query",
    [
        "select * from (select id from d order by v limit 3 {}) s",
        "select * from (select id from d {}) s limit 3",
    ],
)
def test_a_limit_in_a_subquery_would_lock_more_than_it_returns(db, query, lock):
    db.refused(query.format(lock), "LIMIT")


def test_what_is_locked_is_what_was_returned(db):
    rest = "select id from code.d order by id for update skip locked"
    with db.herd.server.connect() as other:
        db.run("begin")
        assert len(db.rows("select id from d where v <= 25 order by v for update")) == 25
        assert [r[0] for r in other.execute(rest)] == list(range(26, 41))
        db.run("rollback", "begin")
        assert db.rows("select id from d where id = 7 order by v limit 1 for update skip locked") == [(7,)]
        assert [r[0] for r in other.execute(rest)] == [i for i in range(1, 41) if i != 7]
        db.run("rollback")


def test_workers_run_no_text_that_is_put_together(db):
    """A parallel worker's locks end with it: nobody could see what it read."""
    db.run(
        "CREATE TABLE many AS SELECT g AS id FROM generate_series(1, 2000) g",
        "CREATE FUNCTION counted(k int, t text) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS "
        "$$ DECLARE n bigint; BEGIN EXECUTE format('SELECT count(*) FROM code.%I', t) INTO n; RETURN n + k; END $$",
        "SET parallel_setup_cost = 0",
        "SET parallel_tuple_cost = 0",
        "SET min_parallel_table_scan_size = 0",
        "SET parallel_leader_participation = off",
        "SET max_parallel_workers = 5",
    )
    db.refused("SELECT max(counted(id, 'd')) FROM many")
    assert db.one("SELECT max(counted(id, 'l')) FROM many") == 2020
    with db.connection.transaction():
        assert db.one("SELECT max(counted(id, 'l')) FROM many") == 2020
        assert db.one("SHOW max_parallel_workers") == "5"
        db.run("SET LOCAL max_parallel_workers = 4", "DO $$ BEGIN PERFORM code.counted(1, 'l'); END $$")
        assert db.one("SHOW max_parallel_workers") == "4"
    assert db.one("SHOW max_parallel_workers") == "5"
