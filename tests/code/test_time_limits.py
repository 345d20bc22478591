"""`statement_timeout` is of a statement, not of the steps that the router takes for it; and nothing but waiting for a lock meets `lock_timeout`."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]

SLOW = "create function slow(int) returns int language plpgsql immutable as 'begin perform pg_sleep(2.5); return $1; end'"


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
    c.execute("set statement_timeout = '60s'")
    assert c.execute(sql).fetchone() == (sum(keys),)
    c.execute("set statement_timeout = '4s'")
    _late(c, sql)
    # Each alone is in time.
    assert c.execute(f"select sum(slow(id)) from d where id in ({keys[0]}, {keys[1]})").fetchone() == (sum(keys),)


def test_what_is_read_and_what_is_written(slow):
    c, keys = slow
    c.execute("set statement_timeout = '4s'")
    c.execute("begin")
    _late(c, f"insert into copied select v, slow(n) from (select max(id) v, sum(slow(id))::int n from d where id in ({keys[0]}, {keys[1]}) offset 0) x")
    c.execute("rollback")
    assert c.execute("select count(*) from copied").fetchone() == (0,)


def test_each_statement_of_a_string_has_its_own_time(slow):
    c, keys = slow
    c.execute("set statement_timeout = '4s'")
    c.execute(f"select slow({keys[0]}); select count(*) from d; select slow({keys[1]}); select count(*) from d")


def test_the_last_step_of_a_program(slow):
    c, _ = slow
    c.execute("set statement_timeout = '2s'")
    _late(c, "do $$ begin perform count(*) from d; perform pg_sleep(1.5); perform pg_sleep(1.5); end $$")
    c.execute("begin")
    _late(c, "do $$ begin perform count(*) from d; loop insert into copied values ((select max(id) from d) + 1, 1) on conflict do nothing; end loop; end $$")
    c.execute("rollback")


def test_a_handler_catches_it_once(slow):
    """As on one server: only by its name, its time is not limited again, and what the block did is undone."""
    c, keys = slow
    c.execute("truncate copied; set statement_timeout = '1s'")
    for wait in ("perform pg_sleep(5)", f"perform slow(sum(slow(id))::int) from d where id in ({keys[0]}, {keys[1]})", "loop perform 1; end loop"):
        for condition in ("query_canceled", "sqlstate '57014'", "operator_intervention"):
            body = f"declare said text; begin begin insert into copied select id, 1 from d; {wait}; exception when others then raise 'others'; when {condition} then get stacked diagnostics said = message_text; perform pg_sleep(0.7); insert into copied values (1000, length(said)) on conflict do nothing; end; end"
            c.execute(f"do $$ {body} $$")
            assert c.execute("select * from copied").fetchall() == [(1000, len("canceling statement due to statement timeout"))]
            c.execute("truncate copied")
    _late(c, "do $$ begin perform count(*) from d; perform pg_sleep(5); exception when others then null; end $$")
    c.execute("reset statement_timeout")


def test_a_handler_catches_a_cancel(slow):
    c, keys = slow
    both = f"id in ({keys[0]}, {keys[1]})"
    c.execute("truncate copied")
    for wait in ("perform pg_sleep(20)", f"perform sum(slow(id) + slow(id)) from d, generate_series(1, 9) where {both}", f"loop perform count(*) from d where {both}; end loop"):
        timer = threading.Timer(1, c.cancel)
        timer.start()
        c.execute(f"do $$ begin begin insert into copied select id, 1 from d; {wait}; exception when query_canceled then perform count(*) from d; insert into copied values (1000, length(sqlerrm)); end; insert into copied values (1001, 0); end $$")
        timer.join()
        assert c.execute("select * from copied order by id").fetchall() == [(1000, len("canceling statement due to user request")), (1001, 0)]
        c.execute("truncate copied")
    timer = threading.Timer(1, c.cancel)
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
        c.execute("do $$ begin perform count(*) from d; perform pg_sleep(20); exception when others then null; end $$")
    timer.join()
    # A time limit goes on behind it.
    c.execute("set statement_timeout = '3s'")
    timer = threading.Timer(1, c.cancel)
    timer.start()
    _late(c, "do $$ begin begin perform count(*) from d; perform pg_sleep(20); exception when query_canceled then null; end; loop perform 1; end loop; end $$")
    timer.join()
    # One that code raises itself says nothing of it.
    c.execute("set statement_timeout = '1500ms'")
    _late(c, "do $$ begin begin perform count(*) from d; raise query_canceled; exception when query_canceled then null; end; loop perform count(*) from d; end loop; end $$")
    c.execute("reset statement_timeout")


def test_a_handler_catches_a_deadlock_over_nodes(slow, code_herd):
    c, keys = slow
    with code_herd.server.connect() as other:
        other.execute("set search_path = time_limits; begin")
        other.execute(f"update d set v = v + 1 where id = {keys[0]}")
        c.execute("begin")
        c.execute(f"update d set v = v + 1 where id = {keys[1]}")
        waits = threading.Thread(target=other.execute, args=(f"update d set v = v + 1 where id = {keys[1]}",))
        waits.start()
        time.sleep(0.5)
        c.execute(f"do $$ begin begin update d set v = v + 1 where id = {keys[0]}; perform count(*) from d; exception when deadlock_detected then insert into copied values (1, 40); end; end $$")
        assert c.execute("select * from copied").fetchall() == [(1, 40)]
        c.execute("commit")
        waits.join()
        other.execute("rollback")
    assert c.execute("select sum(v) from d").fetchone() == (21,)


def test_a_program_that_waits_for_no_lock_meets_no_lock_timeout(slow):
    c, _ = slow
    c.execute("set statement_timeout = 0; set lock_timeout = '300ms'")
    c.execute("do $$ begin perform count(*) from d; perform pg_sleep(0.8); perform count(*) from d; end $$")
    c.execute("reset lock_timeout")
