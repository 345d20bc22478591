"""`statement_timeout` is of a statement, not of the steps that the router takes for it; and nothing but waiting for a lock meets `lock_timeout`."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

SLOW = "create function slow(int) returns int language plpgsql immutable as 'begin perform pg_sleep(1.5); return $1; end'"


@pytest.fixture(scope="module")
def slow(code_herd):
    """A session, and two keys whose rows are on different nodes."""
    with code_herd.server.connect() as c:
        c.execute("create schema time_limits; set search_path = time_limits")
        c.execute("create table d (id int primary key, v int)")
        c.execute("create table copied (id int primary key, v int)")
        c.execute(SLOW)
        c.execute("select create_distributed_table('d', 'id'); select create_distributed_table('copied', 'id')")
        c.execute("insert into d select g, 1 from generate_series(1, 20) g")
        of_node = {}
        for node in code_herd.node_servers:
            with node.connect() as direct:
                for (key,) in direct.execute("select id from time_limits.d").fetchall():
                    of_node.setdefault(node.port, key)
        yield c, list(of_node.values())[:2]
        c.execute("reset all; drop schema time_limits cascade")


def _late(c, sql):
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        c.execute(sql)


def test_the_parts_and_what_is_made_of_them(slow):
    c, keys = slow
    sql = f"select slow(sum(slow(id))::int) from d where id in ({keys[0]}, {keys[1]})"
    c.execute("set statement_timeout = '20s'")
    assert c.execute(sql).fetchone() == (sum(keys),)
    c.execute("set statement_timeout = '2200ms'")
    _late(c, sql)
    # Each alone is in time.
    assert c.execute(f"select sum(slow(id)) from d where id in ({keys[0]}, {keys[1]})").fetchone() == (sum(keys),)


def test_what_is_read_and_what_is_written(slow):
    c, keys = slow
    c.execute("set statement_timeout = '2200ms'")
    c.execute("begin")
    _late(c, f"insert into copied select v, slow(n) from (select max(id) v, sum(slow(id))::int n from d where id in ({keys[0]}, {keys[1]}) offset 0) x")
    c.execute("rollback")
    assert c.execute("select count(*) from copied").fetchone() == (0,)


def test_each_statement_of_a_string_has_its_own_time(slow):
    c, keys = slow
    c.execute("set statement_timeout = '2200ms'")
    c.execute(f"select slow({keys[0]}); select count(*) from d; select slow({keys[1]}); select count(*) from d")


def test_the_last_step_of_a_program(slow):
    c, _ = slow
    c.execute("set statement_timeout = '2s'")
    _late(c, "do $$ begin perform count(*) from d; perform pg_sleep(1.5); perform pg_sleep(1.5); end $$")
    c.execute("begin")
    _late(c, "do $$ begin perform count(*) from d; loop insert into copied values ((select max(id) from d) + 1, 1) on conflict do nothing; end loop; end $$")
    c.execute("rollback")


def test_a_program_that_waits_for_no_lock_meets_no_lock_timeout(slow):
    c, _ = slow
    c.execute("set statement_timeout = 0; set lock_timeout = '300ms'")
    c.execute("do $$ begin perform count(*) from d; perform pg_sleep(0.8); perform count(*) from d; end $$")
    c.execute("reset lock_timeout")
