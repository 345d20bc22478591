"""UPDATE and DELETE that read other tables, wherever they stand in a transaction: what they read is what one server would read."""

import struct
import threading
import time

import psycopg
import pytest

_RUNS = {
    "behind writes": ["begin", "insert into chf_o values (101, 5, 'new')", "update chf_t set v = o.v from chf_o o where o.tid = chf_t.id and o.id > 100 returning chf_t.id, v", "commit"],
    "behind its own": ["begin", "update chf_t set k = 77 where id < 4", "update chf_t t set v = 'n' || (select count(*) from chf_t u where u.k = t.k) where id < 6", "delete from chf_t where k in (select k from chf_t where v = 'n3')", "commit"],
    "a string": ["insert into chf_l values (7, 'l'); update chf_t set v = l.v from chf_l l where l.id = chf_t.id; delete from chf_l where id in (select id from chf_t)"],
    "a savepoint": ["begin", "savepoint s", "delete from chf_t where id in (select tid from chf_o)", "rollback to s", "update chf_t set v = 'kept' where id in (select tid from chf_o where id < 3)", "commit"],
    "repeatable read": ["begin isolation level repeatable read", "select count(*) from chf_t", "OTHER insert into chf_o values (300, 8, 'late')", "update chf_t set v = o.v from chf_o o where o.tid = chf_t.id and o.id >= 300", "commit"],
    "repeatable read from the start": ["begin isolation level repeatable read", "update chf_t set v = 'r' from chf_o o where o.tid = chf_t.id", "OTHER insert into chf_o values (301, 8, 'late')", "select count(*) from chf_o", "commit"],
    "serializable": ["begin isolation level serializable", "delete from chf_t where id not in (select tid from chf_o)", "commit"],
    "read only": ["begin read only", "update chf_t set v = 'r' from chf_o o where o.tid = chf_t.id", "rollback"],
    "a local role": ["begin", "set local role chf_nobody", "update chf_t set v = o.v from chf_o o where o.tid = chf_t.id", "rollback"],
    "a local role, self": ["begin", "set local role chf_nobody", "delete from chf_t where k > (select avg(k) from chf_t)", "rollback"],
    "no right to read": ["set role chf_nobody", "update chf_t set v = o.v from chf_o o where o.tid = chf_t.id", "delete from chf_t where id in (select tid from chf_o)", "delete from chf_t where exists (select from chf_o)", "update chf_t set v = 'x' where id in (select id from chf_l)", "reset role"],
    "no right to change": ["set role chf_nobody", "update chf_o set v = t.v from chf_t t where t.id = chf_o.tid", "reset role"],
    "a policy": ["set role chf_nobody", "set my.tenant = 'b'", "update chf_t set v = s.v from chf_s s where s.k = chf_t.id returning id, chf_t.v", "delete from chf_t where id in (select k from chf_s) returning id", "reset role"],
    "a view's own rights": ["set role chf_nobody", "update chf_t set v = w.v from chf_w w where w.tid = chf_t.id and w.id < 5 returning chf_t.id, chf_t.v, w.*", "delete from chf_t where id in (select tid from chf_w) returning id", "reset role"],
    "a setting": ["set my.v = '4'", "delete from chf_t where id in (select tid from chf_o where id < current_setting('my.v')::int)"],
    "a temporary table": ["create temp table chf_o (tid int, v text)", "insert into chf_o values (9, 'temp')", "update chf_t set v = o.v from chf_o o where o.tid = chf_t.id returning id"],
    "a key": ["update chf_t set id = chf_t.id + 500 from chf_o o where o.tid = chf_t.id and o.id < 7", "update chf_t set id = chf_t.id + 500 where id in (select tid from chf_o where id between 8 and 12) returning id, v"],
    "twice": ["prepare p (int) as update chf_t set v = v || '!' where id in (select tid from chf_o where id < $1) returning id, v", "execute p(3)", "execute p(6)", "execute p(null)", "deallocate p"],
    "an error in what is read": ["delete from chf_t where id in (select 1 / (id - 7) from chf_o)"],
    "an error in the change": ["begin", "delete from chf_t where id = 1", "update chf_t set k = 1 / (o.id - 7) from chf_o o where o.tid = chf_t.id", "rollback"],
    "more than one row": ["update chf_t set v = (select v from chf_o)"],
    "triggers": ["update chf_g set k = o.id from chf_o o where o.tid = chf_g.id and o.id < 4 returning *"],
    "merge": ["begin", "insert into chf_o values (40, 40, 'new'), (41, 2, 'two')", "merge into chf_t t using chf_o o on t.id = o.id when matched then update set v = o.v when not matched then insert (id, v) values (o.id, o.v) returning merge_action(), t.id, t.v",
              "savepoint s", "merge into chf_t t using chf_l l on t.id = l.id + 20 when matched then delete when not matched then insert (id, v) values (l.id + 20, l.v)", "rollback to s", "commit"],
    "merge of the same row twice": ["begin", "merge into chf_t t using chf_o o on t.id = o.tid % 3 + 22 when matched then delete when not matched then insert (id) values (o.tid % 3 + 22)", "rollback"],
    "merge, no rights": ["set role chf_nobody", "merge into chf_t t using chf_o o on t.id = o.id when not matched then insert (id) values (o.id)", "merge into chf_g t using (values (1), (30)) o(id) on t.id = o.id when not matched then insert (id) values (o.id)", "reset role"],
    "merge, a policy": ["set role chf_nobody", "set my.tenant = 'b'", "merge into chf_s t using (values (2, 'x'), (3, 'y'), (21, 'z')) s(k, v) on t.k = s.k when matched then update set v = s.v when not matched then insert values (s.k, s.v, 'b') returning merge_action(), t.*",
                        "merge into chf_s t using (values (2, 'x'), (22, 'y')) s(k, v) on t.k = s.k when matched then update set v = s.v when not matched then insert values (s.k, s.v, 'a')", "delete from chf_s where k in (3, 21) and tenant = 'b'", "reset role"],
    "merge, triggers": ["merge into chf_g g using chf_o o on g.id = o.id + 3 when matched then update set k = o.id when not matched then insert values (o.id + 3, o.tid) returning merge_action(), g.*"],
    "merge, foreign keys": ["merge into chf_f f using (values (3), (9), (10)) s(id) on f.id = s.id when not matched then insert values (s.id)", "merge into chf_f f using (values (3), (99)) s(id) on f.id = s.id when not matched then insert values (s.id)", "delete from chf_f where id in (9, 10)"],
    "merge through a view": ["merge into chf_w w using (select id, k, v from chf_t where id > 7 and id < 10 or id > 22) s on w.id = s.id when matched then update set v = s.v when not matched then insert (id, tid, v) values (s.id, s.k, s.v)", "select * from chf_o order by id"],
    "merge from a view": ["merge into chf_t t using chf_w on t.id = chf_w.tid + 20 when matched then update set v = chf_w.v when not matched then insert (id, v) values (chf_w.tid + 20, chf_w.v) returning t.id, t.v, chf_w.id"],
    "merge, nothing read": ["merge into chf_t t using (select id from chf_o where id < 0) o on t.id = o.id when not matched then insert (id) values (o.id) when not matched by source and t.id > 20 then delete returning merge_action(), t.id"],
    "merge in WITH": ["with m as (merge into chf_t t using chf_o o on t.id = o.id + 20 when matched then delete when not matched then insert (id, v) values (o.id + 20, o.v) returning merge_action() as did, t.id) select did, count(*), sum(id) from m group by did"],
    "foreign keys": ["delete from chf_p where id in (select tid from chf_o)", "delete from chf_p where id not in (select tid from chf_o)"],
}
_ENDS = ["select * from chf_t order by id", "select count(*) from chf_o", "select * from chf_l order by id", "select * from chf_g order by id"]

_DROPS = [
    "drop view if exists chf_w", "drop table if exists chf_t, chf_o, chf_l, chf_s, chf_g, chf_f, chf_p", "drop function if exists chf_up()", "drop sequence if exists chf_n", "drop role if exists chf_nobody",
]


@pytest.fixture(scope="module")
def tables(oracle, herd):
    for server in (oracle, herd):
        server.run(
            *_DROPS, "create role chf_nobody", "create sequence chf_n", "create table chf_t (id int primary key, k int, v text)", "create table chf_o (id int primary key, tid int, v text)",
            "create table chf_l (id int, v text)", "create table chf_s (k int, v text, tenant text)", "create table chf_g (id int primary key, k int)",
            "create table chf_p (id int primary key)", "create table chf_f (id int)",
            "create function chf_up() returns trigger language plpgsql as $$ begin new.k := new.k * 10; return new; end $$", "create trigger up before update on chf_g for each row execute function chf_up()",
        )
    herd.run("select create_distributed_table('chf_t', 'id')", "select create_distributed_table('chf_o', 'id', colocate_with => 'none')", "select create_distributed_table('chf_s', 'k')", "select create_distributed_table('chf_g', 'id')")
    herd.run("select create_distributed_table('chf_p', 'id')", "select create_distributed_table('chf_f', 'id', colocate_with => 'chf_p')")
    for server in (oracle, herd):
        server.run("alter table chf_f add foreign key (id) references chf_p")
    for server in (oracle, herd):
        server.run(
            "insert into chf_s select g, 'of ' || t, t from generate_series(1, 9) g, unnest(array['a', 'b']) t where (g % 2 = 0) = (t = 'b')", "alter table chf_s enable row level security",
            "create policy p on chf_s using (tenant = current_setting('my.tenant', true))", "grant all on chf_s to chf_nobody", "grant all on chf_t to chf_nobody",
            "create view chf_w as select id, tid, v from chf_o where id < 10", "grant select on chf_w to chf_nobody", "insert into chf_p select generate_series(1, 12)", "insert into chf_f values (11), (3)",
        )
    yield
    for server in (oracle, herd):
        server.run(*_DROPS)


@pytest.fixture
def made(tables, oracle, herd):
    for server in (oracle, herd):
        server.run(
            "truncate chf_t, chf_o, chf_l, chf_g", "insert into chf_t select g, g % 5, 't' || g from generate_series(1, 24) g", "insert into chf_o select g, g % 12, 'o' || g from generate_series(1, 11) g",
            "insert into chf_l values (1, 'l1'), (5, null)", "insert into chf_g select g, 0 from generate_series(1, 6) g", "insert into chf_p select generate_series(1, 12) on conflict do nothing",
        )


@pytest.mark.parametrize("name", _RUNS)
def test_as_one_server(made, oracle, herd, name):
    def said(server):
        lines = []
        with server.connect(autocommit=True) as connection, server.connect(autocommit=True) as another:
            connection.execute("set statement_timeout = '60s'")
            for sql in _RUNS[name] + _ENDS:
                of, sql = (another, sql.removeprefix("OTHER ")) if sql.startswith("OTHER ") else (connection, sql)
                try:
                    cursor = of.execute(sql)
                    while cursor.nextset():
                        pass
                    lines.append((sql, sorted(cursor.fetchall(), key=str) if cursor.description else cursor.statusmessage))
                except psycopg.Error as e:
                    lines.append((sql, e.sqlstate))
        return lines

    assert said(herd) == said(oracle)


def test_who_may_not_read_is_told_so(made, herd):
    with herd.connect() as connection:
        connection.execute("set role chf_nobody")
        for sql in _RUNS["no right to read"][1:-1]:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql)


def test_binary_parameters_and_answers(made, oracle, herd):
    def said(server):
        with server.connect() as connection:
            answers = []
            for sql, values, formats in [
                ("update chf_t set v = o.v, k = $1 from chf_o o where o.tid = chf_t.id and o.id < $2 returning chf_t.id, chf_t.v, k", [struct.pack("!i", 5), struct.pack("!i", 4)], [1, 1]),
                ("delete from chf_t where id in (select tid from chf_o where id = any($1)) returning id", [struct.pack("!iiiii", 1, 0, 23, 2, 1) + struct.pack("!iiii", 4, 5, 4, 6)], [1]),
                ("update chf_t set v = $1 where k > (select avg(tid) - $2::int from chf_o) returning id", [b"text", struct.pack("!i", 4)], [0, 1]),
                ("merge into chf_t t using unnest($1::int[], $2::text[]) s(id, v) on t.id = s.id when matched then update set v = s.v when not matched then insert (id, v) values (s.id, s.v) returning t.id, t.v, merge_action()", [struct.pack("!iiiii", 1, 0, 23, 3, 1) + struct.pack("!iiiiii", 4, 5, 4, 60, 4, 61), b"{a,b,NULL}"], [1, 0]),
                ("merge into chf_t t using (values ($1::int, $3::text), ($2, null)) s(id, v) on t.id = s.id when matched then update set v = s.v when not matched then insert (id, v) values (s.id, s.v) returning t.id, t.v", [struct.pack("!i", 6), struct.pack("!i", 62), b"bytes"], [1, 1, 1]),
                ("update chf_t set v = $1 where k = (select max(k) from chf_t where id < $2) returning v", [None, b"9"], [0, 0]),
            ]:
                result = connection.pgconn.exec_params(sql.encode(), values, param_formats=formats, result_format=1)
                rows = sorted([str(result.get_value(i, j)) for j in range(result.nfields)] for i in range(result.ntuples))
                answers.append((result.error_message, result.command_status, rows))
            return answers

    expected = said(oracle)
    assert all(not message for message, _, _ in expected)
    assert said(herd) == expected


def test_all_is_read_before_anything_is_written(made, oracle, herd):
    """The change waits for another one, and then writes what it has read before that was committed."""

    def said(server):
        with server.connect(autocommit=True) as one, server.connect(autocommit=True) as two:
            one.execute("begin")
            one.execute("update chf_t set k = 1000 where id in (3, 4, 5)")
            done = threading.Thread(target=two.execute, args=("update chf_t set v = (select max(k) || ' of ' || count(*) from chf_t)",))
            done.start()
            time.sleep(1)
            assert done.is_alive()
            one.execute("commit")
            done.join(60)
            assert not done.is_alive()
            return one.execute("select distinct v from chf_t").fetchall(), one.execute("select max(k) from chf_t").fetchall()

    assert said(herd) == said(oracle) == ([("4 of 24",)], [(1000,)])


def test_no_row_is_changed_twice(made, herd):
    with herd.connect() as connection:
        connection.execute("update chf_t set id = t.id + 1000, k = (select max(id) from chf_t) from chf_t t where t.id = chf_t.id")
        assert connection.execute("select count(*), min(id), max(id), min(k), max(k) from chf_t").fetchone() == (24, 1001, 1024, 24, 24)


def test_a_change_is_cancelled_while_it_reads(made, herd):
    with herd.connect() as connection:
        sleeper = threading.Timer(1, connection.cancel)
        sleeper.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("delete from chf_t where id in (select tid from chf_o where id = 3 and pg_sleep(12) is not null)")
        assert connection.execute("select count(*) from chf_t").fetchone() == (24,)


def test_it_says_what_it_reads(made, herd):
    with herd.connect() as connection:
        plan = "\n".join(row[0] for row in connection.execute("explain update chf_t set v = o.v from chf_o o where o.tid = chf_t.id and o.id < 9"))
        assert "Rows read for every node: SELECT id, tid, v FROM public.chf_o WHERE id < 9" in plan, plan
        assert "{rows 0}" in plan
        plan = "\n".join(row[0] for row in connection.execute("explain merge into chf_t t using chf_o o on t.id = o.id when not matched then insert (id) values (o.id)"))
        assert "Rows read for the nodes of their keys: SELECT o.id, o.id FROM public.chf_o o" in plan, plan
