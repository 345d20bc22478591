"""Distributed tables that are partitioned by time: what is made, attached, detached and dropped is so on all nodes and for all
routers, and nobody else's rows are seen meanwhile."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]

MONTHS = [("2026-09-01", "2026-10-01"), ("2026-10-01", "2026-11-01"), ("2026-11-01", "2026-12-01")]


@pytest.fixture
def m(pair):
    """By month, with rows before it is distributed, identity column, index, trigger, foreign key and rights."""
    pair.a.run(
        "drop table if exists m, kinds, devices, told",
        "create table kinds (k int primary key)", "insert into kinds values (0), (1), (2)", "select create_reference_table('kinds')",
        "create table devices (device int primary key)", "select create_distributed_table('devices', 'device', colocate_with => 'none', shard_count => 4)",
        "insert into devices select generate_series(0, 99)",
        "create table m (id bigint generated always as identity, device int not null, at timestamptz not null, "
        "k int references kinds, n int default 0, primary key (device, at, id)) partition by range (at)",
        *[f"create table m_{i} partition of m for values from ('{low}') to ('{high}')" for i, (low, high) in enumerate(MONTHS)],
        "create index m_k on m (k)",
        "create or replace function add_one() returns trigger language plpgsql as $$ begin new.n := new.n + 1; return new; end $$",
        "create trigger m_one before insert on m for each row execute function add_one()",
        "insert into m (device, at, k) select g % 50, timestamptz '2026-09-02' + g * interval '2 hours', g % 3 from generate_series(0, 899) g",
        "comment on table m_1 is 'october'",
        "select create_distributed_table('m', 'device', colocate_with => 'devices')",
        "alter table m add foreign key (device) references devices",
    )
    yield pair
    pair.a.run("drop table if exists m, m_1, m_2, devices, kinds")


def _one(connection, sql):
    return connection.execute(sql).fetchone()[0]


def test_rows_that_were_there(m):
    with m.a.connect() as a, m.b.connect() as b:
        for c in (a, b):
            assert c.execute("select count(*), sum(n), count(distinct id) from m").fetchone() == (900, 900, 900)
            assert [_one(c, f"select count(*) from m_{i}") for i in range(3)] == [348, 372, 180]
        assert _one(a, "select obj_description('m_1'::regclass)") == "october"
        assert a.execute("select object, problem from herd.verify").fetchall() == []
        names = [row[0] for row in a.execute("select name from herd.tables where colocation = (select colocation from herd.tables where name = 'm') order by 1")]
        assert names == ["devices", "m", "m_0", "m_1", "m_2"]
    counts = []
    for node in m.nodes:
        with node.server.connect() as direct:
            counts.append(_one(direct, "select count(*) from m"))
            assert direct.execute("select count(*) from pg_trigger where tgrelid = 'm'::regclass and not tgisinternal").fetchone() == (1,)
            assert direct.execute("select count(*) from pg_index where indrelid = 'm'::regclass and indisvalid").fetchone() == (2,)
    assert sum(counts) == 900 and 0 not in counts


def test_identities_foreign_keys_and_triggers(m):
    with m.a.connect() as a:
        before = _one(a, "select max(id) from m")
        assert _one(a, "insert into m (device, at, k) values (7, '2026-11-30', 1) returning n") == 1
        assert _one(a, "insert into m_2 (device, at, k) values (8, '2026-11-30', 1) returning n") == 1
        a.execute("insert into m_2 (device, at, k) select g, '2026-11-30', 1 from generate_series(10, 40) g")
        assert _one(a, f"select count(distinct id) from m where id > {before}") == 33
        with pytest.raises(psycopg.errors.ForeignKeyViolation, match='"m_2"|"m"'):
            a.execute("insert into m (device, at, k) values (7, '2026-11-30', 9)")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            a.execute("insert into m (device, at, k) values (700, '2026-11-30', 1)")
        a.execute("create table m_3 partition of m for values from ('2026-12-01') to ('2027-01-01')")
        assert _one(a, "insert into m (device, at, k) values (7, '2026-12-30', 1) returning n") == 1
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            a.execute("insert into m_3 (device, at, k) values (700, '2026-12-30', 1)")
        a.execute("alter table m detach partition m_3")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            a.execute("insert into m_3 (id, device, at, k) values (1, 700, '2026-12-30', 1)")
        a.execute("drop table m_3")


def test_the_other_router_knows(m):
    with m.a.connect() as a, m.b.connect() as b:
        ask = "select count(*) from m where device = %s and at < %s"
        assert b.execute(ask, (7, "2027-06-01"), prepare=True).fetchone() == (18,)
        a.execute("create table m_3 partition of m for values from ('2027-01-01') to ('2027-02-01')")
        b.execute("insert into m (device, at, k) values (7, '2027-01-03', 1)")
        assert b.execute(ask, (7, "2027-06-01"), prepare=True).fetchone() == (19,)
        assert _one(b, "select count(*) from m_3") == 1
        a.execute("alter table m detach partition m_3 concurrently")
        assert b.execute(ask, (7, "2027-06-01"), prepare=True).fetchone() == (18,)
        assert _one(b, "select count(*) from m_3") == 1
        b.execute("alter table m attach partition m_3 for values from ('2027-01-01') to ('2027-02-01')")
        assert a.execute(ask, (7, "2027-06-01"), prepare=True).fetchone() == (19,)
        b.execute("drop table m_3")
        assert a.execute(ask, (7, "2027-06-01"), prepare=True).fetchone() == (18,)
        for node in m.nodes:
            with node.server.connect() as direct:
                assert _one(direct, "select count(*) from pg_class where relname like 'm\\_3%'") == 0


def test_under_load(m):
    """Partitions come and go while others write: no row is lost, and only rows without a partition are refused."""
    stop, written, errors = threading.Event(), [], []

    def write(server, device):
        with server.connect() as c:
            n = 0
            while not stop.is_set():
                n += 1
                try:
                    c.execute(f"insert into m (device, at, k) values ({device}, '2026-11-{n % 28 + 1} 01:23', 1)")
                    written.append(device)
                except psycopg.Error as error:
                    errors.append(error)

    threads = [threading.Thread(target=write, args=(server, device)) for server, device in [(m.a, 60), (m.b, 61), (m.a, 62)]]
    for thread in threads:
        thread.start()
    with m.a.connect() as a:
        try:
            for _ in range(4):
                a.execute("create table m_x partition of m for values from ('2028-01-01') to ('2028-02-01')")
                a.execute("insert into m (device, at, k) values (99, '2028-01-03', 1)")
                a.execute("alter table m detach partition m_x")
                a.execute("alter table m attach partition m_x for values from ('2028-01-01') to ('2028-02-01')")
                assert _one(a, "select count(*) from m where at > '2027-12-01'") == 1
                a.execute("drop table m_x")
            deadline = time.monotonic() + 60
            while len(written) <= 20 and not errors and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            stop.set()
            for thread in threads:
                thread.join(90)
        assert errors == []
        assert len(written) > 20
        assert _one(a, "select count(*) from m where device between 60 and 62") == len(written)


def test_what_rolls_back(m):
    with m.a.connect(autocommit=False) as a:
        a.execute("create table m_3 partition of m for values from ('2027-01-01') to ('2027-02-01')")
        a.execute("insert into m (device, at, k) select g, '2027-01-03', 1 from generate_series(1, 30) g")
        a.execute("alter table m detach partition m_0")
        assert _one(a, "select count(*) from m") == 900 - 348 + 30
        a.rollback()
        assert _one(a, "select count(*) from m") == 900
        a.rollback()
        with pytest.raises(psycopg.errors.UndefinedTable):
            a.execute("select from m_3")


def test_helpers(m):
    with m.a.connect() as a:
        a.execute("drop table m_0, m_1, m_2")
        a.execute("set timezone = 'Europe/Berlin'")
        assert _one(a, "select herd.create_time_partitions('m', interval '1 month', '2027-02-10', '2026-11-17')") == 4
        assert _one(a, "select herd.create_time_partitions('m', interval '1 month', timestamptz '2027-02-10' + interval '1 month', '2026-11-17')") == 1
        assert _one(a, "select herd.create_time_partitions('m', interval '1 month', '2027-02-10', '2026-11-17')") == 0
        names = [row[0] for row in a.execute("select name from herd.tables where name like 'm\\_p%' order by 1")]
        assert names == ["m_p2026_11", "m_p2026_12", "m_p2027_01", "m_p2027_02", "m_p2027_03"]
        a.execute("insert into m (device, at, k) values (1, '2027-01-01 00:00', 1), (2, '2026-12-31 23:59', 1)")
        assert _one(a, "select count(*) from m_p2027_01") == 1
        assert _one(a, "select herd.drop_old_time_partitions('m', '2027-01-01')") == 2
        assert _one(a, "select count(*) from m") == 1
        assert _one(a, "select herd.drop_old_time_partitions('m', '2027-01-31')") == 0
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="partitioned by time"):
            a.execute("select herd.drop_old_time_partitions('devices', '2027-01-31')")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="constants"):
            a.execute("select herd.create_time_partitions('m', '1 month', (select max(at) from m))")


def test_rights(m):
    m.a.run("drop role if exists reader", "create role reader login", "grant select on m to reader")
    with m.a.connect(user="reader") as reader:
        assert _one(reader, "select count(*) from m") == 900
        assert _one(reader, "select count(*) from m where device = 3") == 18
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("select count(*) from m_1 where device = 3")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("insert into m (device, at) values (1, '2026-11-30')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("create table m_9 partition of m default")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("alter table m detach partition m_1")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("select herd.drop_old_time_partitions('m', '2030-01-01')")
    m.a.run("alter table m enable row level security", "create policy own on m using (device < 10)")
    with m.a.connect(user="reader") as reader:
        assert _one(reader, "select count(*) from m") == 180
        assert _one(reader, "select count(*) from m where device = 13") == 0
    m.a.run("alter table m disable row level security", "revoke all on m from reader", "drop role reader")


REFUSED = [
    "select undistribute_table('m_1')",
    "create index concurrently on m (n)",
    "create index on only m (n)",
    "alter table only m add column z int",
    "create table m_9 partition of m default partition by range (at)",
    "create schema mine create table m_9 partition of public.m default",
    "select tableoid from m",
    "select tableoid::regclass from m order by 1",
    "alter table m attach partition kinds default",
    "select herd.cluster('m', 'm_k')",
]


def test_refused(m):
    with m.a.connect() as a:
        for sql in REFUSED:
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                a.execute(sql)
        assert _one(a, "select count(*) from m") == 900


def test_and_back(m):
    with m.a.connect() as a, m.b.connect() as b:
        a.execute("alter table m drop constraint m_device_fkey")
        a.execute("alter table m detach partition m_1")
        a.execute("select undistribute_table('m')")
        for c in (a, b):
            assert c.execute("select count(*), count(distinct id) from m").fetchone() == (900 - 372, 900 - 372)
        assert [row[0] for row in a.execute("select name from herd.tables where name like 'm%'")] == ["m_1"]
        a.execute("select undistribute_table('m_1')")
        a.execute("alter table m attach partition m_1 for values from ('2026-10-01') to ('2026-11-01')")
        assert _one(a, "insert into m (device, at, k) values (7, '2026-11-30', 1) returning n") == 1
        assert _one(a, "select count(*) from m") == 901
        assert _one(a, "select count(*) from pg_inherits where inhparent = 'm'::regclass") == 3
        for node in m.nodes[1:]:
            with node.server.connect() as direct:
                assert _one(direct, "select count(*) from pg_class where relname in ('m', 'm_0', 'm_1', 'm_0_0')") == 0
        a.execute("select create_distributed_table('m', 'device')")
        assert _one(b, "select count(*) from m") == 901
        assert a.execute("select object, problem from herd.verify").fetchall() == []


def test_a_table_that_refers_to_it(m):
    with m.a.connect() as a:
        a.execute("drop table if exists notes")
        a.execute("create table notes (device int, at timestamptz, id bigint, note text)")
        a.execute("select create_distributed_table('notes', 'device', colocate_with => 'm')")
        a.execute("alter table notes add foreign key (device, at, id) references m")
        a.execute("insert into notes select device, at, id, 'n' from m where device < 5")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            a.execute("insert into notes values (1, '2020-01-01', 1, 'none')")
        a.execute("create table m_3 partition of m for values from ('2027-01-01') to ('2027-02-01')")
        a.execute("with x as (insert into m (device, at, k) values (3, '2027-01-05', 1) returning device, at, id) select * from x")
        a.execute("insert into notes select device, at, id, 'n' from m where at > '2027-01-01' and device = 3")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            a.execute("delete from m where device = 3 and at > '2027-01-01'")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            a.execute("alter table m detach partition m_3")
        assert _one(a, "select count(*) from m where at > '2027-01-01'") == 1
        a.execute("drop table notes")
        a.execute("alter table m detach partition m_3")
        a.execute("drop table m_3")


def test_code_makes_them_as_a_client_does(m):
    """Not on home alone, where it would be a plain partition."""
    for code in ("'create table m_9 partition of m default'", "'cre' || 'ate table m_9 partition of ' || 'm default'"):
        with m.a.connect() as a, m.b.connect() as b:
            a.execute(f"do $$ begin execute {code}; end $$")
            a.execute("insert into m (device, at, k) values (13, '2031-05-05', 1)")
            assert _one(b, "select count(*) from m_9") == _one(b, "select count(*) from m where at > '2031-01-01'") == 1
            assert a.execute("select object, problem from herd.verify").fetchall() == []
            a.execute("drop table m_9")
            assert _one(b, "select count(*) from m") == 900


def test_a_node_joins(m):
    new = m.new_node()
    with m.a.connect() as a:
        a.execute(f"select citus_add_node('127.0.0.1', {new.port})")
        assert a.execute("select count(*) from m").fetchone() == (900,)
        a.execute("create table m_3 partition of m for values from ('2027-01-01') to ('2027-02-01')")
        with new.server.connect() as direct:
            parts = direct.execute("select inhrelid::regclass::text, relkind from pg_inherits join pg_class c on c.oid = inhrelid where inhparent = 'm'::regclass order by 1").fetchall()
        assert parts == [("m_0", "p"), ("m_1", "p"), ("m_2", "p"), ("m_3", "p")]
        assert a.execute("select object, problem from herd.verify").fetchall() == []
        a.execute("drop table m")
        with new.server.connect() as direct:
            assert _one(direct, "select count(*) from pg_class where relname in ('m', 'm_0', 'm_3')") == 0
