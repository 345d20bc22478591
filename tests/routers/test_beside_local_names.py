"""What only home has (local tables, other schemas of the path) changes nothing of what a statement makes, drops and locks on the other nodes."""

import contextlib

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@contextlib.contextmanager
def _schemas(herd, *names):
    """A connection that looks in these schemas, first to last, which are there for the test alone."""
    with herd.connect() as c:
        for name in names:
            c.execute(f"drop schema if exists {name} cascade")
            c.execute(f"create schema {name}")
        c.execute(f"set search_path = {', '.join(names)}")
        yield c
        for name in names:
            c.execute(f"drop schema if exists {name} cascade")


def _on_nodes(herd_many, sql):
    """What each node answers by itself, home first."""
    rows = []
    for node in herd_many.node_servers:
        with node.connect() as direct:
            rows.append(direct.execute(sql).fetchall())
    return rows


def _distributed(c, schema):
    c.execute(f"create table {schema}.t (id int primary key, age int)")
    c.execute(f"select create_distributed_table('{schema}.t', 'id')")
    c.execute(f"insert into {schema}.t select g, g from generate_series(1, 100) g")


def test_a_table_of_a_later_schema_is_not_in_the_way(herd):
    with _schemas(herd, "made_first", "made_later") as c:
        _distributed(c, "made_later")
        c.execute("create table made_later.r (id int)")
        c.execute("create table made_later.m (id int)")
        c.execute("create table if not exists r as select * from t")
        assert c.execute("select count(*) from made_first.r").fetchone() == (100,)
        c.execute("create materialized view if not exists m as select * from t")
        assert c.execute("select count(*) from made_first.m").fetchone() == (100,)
        # What is there in the schema itself is.
        c.execute("create table if not exists r as select * from t where id < 10")
        c.execute("create materialized view if not exists m as select * from t where id < 10")
        assert c.execute("select (select count(*) from made_first.r), (select count(*) from made_first.m)").fetchone() == (100, 100)
        # Whatever it is.
        c.execute("create type made_first.composed as (a int)")
        c.execute("create table if not exists composed as select * from t")
        assert c.execute("select count(*) from made_later.r").fetchone() == (0,)


def test_a_temporary_table_is_not_filled_in_its_place(herd):
    with _schemas(herd, "made_beside") as c:
        _distributed(c, "made_beside")
        c.execute("create temp table r (id int, age int)")
        c.execute("create table r as select * from t")
        assert c.execute("select (select count(*) from made_beside.r), (select count(*) from r)").fetchone() == (100, 0)
        c.execute("create temp table if not exists r as select * from t")
        assert c.execute("select count(*) from r").fetchone() == (0,)
        c.execute("create temp table m (id int)")
        c.execute("create materialized view m as select * from t")
        assert c.execute("select count(*) from made_beside.m").fetchone() == (100,)


def test_a_view_of_a_later_schema_is_not_replaced(herd, herd_many):
    with _schemas(herd, "viewed_first", "viewed_later") as c:
        _distributed(c, "viewed_later")
        c.execute("create view viewed_later.v as select id from t")
        c.execute("create table viewed_first.own (id int)")
        c.execute("create or replace view v as select * from own")
        is_there = "select to_regclass('viewed_later.v') is not null"
        assert _on_nodes(herd_many, is_there) == [[(True,)], [(True,)]]
        assert c.execute("select count(*) from viewed_later.v").fetchone() == (100,)
        assert c.execute("select count(*) from v").fetchone() == (0,)


def test_a_column_that_is_there_stays_as_it_is(herd, herd_many):
    with _schemas(herd, "added") as c:
        _distributed(c, "added")
        c.execute("alter table t add column ts timestamptz")
        c.execute("alter table t add column if not exists ts timestamptz default now()")
        c.execute("alter table t add column if not exists age int default random() unique")
        defaults = "select count(*) from pg_attrdef d join pg_class c on c.oid = adrelid where relnamespace = 'added'::regnamespace"
        assert _on_nodes(herd_many, defaults) == [[(0,)], [(0,)]]
        c.execute("create table numbered (id int primary key)")
        c.execute("select create_distributed_table('numbered', 'id')")
        for _ in range(2):
            c.execute("alter table numbered add column if not exists n bigserial")
            c.execute("insert into numbered select coalesce(max(id), 0) + 1 from numbered")
        assert c.execute("select count(distinct n) from numbered").fetchone() == (2,)
        with c.transaction():
            c.execute("alter table numbered add column other timestamptz")
            c.execute("alter table numbered add column if not exists other timestamptz default now()")
        assert _on_nodes(herd_many, defaults) == [[(1,)], [(1,)]]
        # Otherwise it is added.
        c.execute("alter table numbered add column if not exists at timestamptz default now()")
        c.execute("insert into numbered (id) values (7)")
        assert c.execute("select count(*) from numbered where at is null").fetchone() == (0,)


def test_a_column_that_is_dropped_first_is_added(herd, herd_many):
    """PostgreSQL drops before it adds: what each node would make another value of is refused, as without IF NOT EXISTS."""
    with _schemas(herd, "dropped_first") as c:
        _distributed(c, "dropped_first")
        c.execute("create table copied (id int primary key, c int)")
        c.execute("select create_reference_table('copied')")
        c.execute("insert into copied select g, g from generate_series(1, 5) g")
        for sql in ("alter table copied drop column c, add column if not exists c uuid default gen_random_uuid()",
                    "alter table copied drop column c, add column if not exists c serial"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                c.execute(sql)
        rows = _on_nodes(herd_many, "select * from dropped_first.copied order by id")
        assert rows[0] == rows[1] == [(n, n) for n in range(1, 6)]
        c.execute("alter table copied drop column c, add column if not exists c int default 7")
        rows = _on_nodes(herd_many, "select id, c from dropped_first.copied order by id")
        assert rows[0] == rows[1] == [(n, 7) for n in range(1, 6)]


def test_constraints_have_home_s_names_everywhere(herd, herd_many):
    with _schemas(herd, "constrained") as c:
        _distributed(c, "constrained")
        c.execute("create table countries (code int primary key)")
        c.execute("select create_reference_table('countries')")
        c.execute(
            "create table old (age int constraint t_age_check check (age > 0) constraint t_age_fkey references old (n), n int constraint t_id_age_key unique, "
            "constraint t_age_check1 check (age > 1), constraint t_new_check check (n > 0))"
        )
        c.execute("alter table t add check (age >= 0), add check (age >= -1)")
        c.execute("alter table t add unique (id, age)")
        c.execute("alter table t add foreign key (age) references countries not valid")
        c.execute("alter table t add column new int check (new > 0)")
        names = "select contype, conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'constrained.t'::regclass and conparentid = 0 order by 1, 2"
        home, other = _on_nodes(herd_many, names)
        assert home == other
        assert {"t_age_check2", "t_age_check3", "t_id_age_key1", "t_new_check1"} < {name for _, name, _ in home}
        c.execute("alter table t drop constraint t_age_check2, drop constraint t_age_check3, drop constraint t_id_age_key1")
        home, other = _on_nodes(herd_many, names)
        assert home == other
        # Of a table's own partitions, too.
        c.execute("create table dated (id int, at date) partition by range (at)")
        c.execute("create table dated_a partition of dated for values from ('2020-01-01') to ('2021-01-01')")
        c.execute("select create_distributed_table('dated', 'id')")
        c.execute("create table older (a int constraint dated_a_id_at_key unique, b int constraint dated_id_at_key unique)")
        c.execute("alter table dated add unique (id, at)")
        for table in ["dated", "dated_a"]:
            home, other = _on_nodes(herd_many, f"select conname from pg_constraint where conrelid = 'constrained.{table}'::regclass and contype = 'u'")
            assert home == other == [(f"{table}_id_at_key1",)]
        # And of a reference table.
        c.execute("create table others (code int constraint countries_code_check check (code > 0))")
        c.execute("alter table countries add check (code >= 0), add check (code >= -1)")
        home, other = _on_nodes(herd_many, names.replace("constrained.t'", "constrained.countries'"))
        assert home == other


def test_an_index_whose_name_is_taken_on_home_is_made_nowhere(herd, herd_many):
    with _schemas(herd, "indexed") as c:
        _distributed(c, "indexed")
        c.execute("create table i (id int)")
        notices = []
        c.add_notice_handler(lambda n: notices.append(n.message_primary))
        c.execute("create index if not exists i on t (age)")
        c.execute("create unique index if not exists i on t (id)")
        assert notices == ['relation "i" already exists, skipping'] * 2
        with pytest.raises(psycopg.errors.DuplicateTable):
            c.execute("create index i on t (age)")
        with pytest.raises(psycopg.errors.DuplicateTable):
            c.execute("create index concurrently i on t (age)")
        c.execute("create index concurrently if not exists i on t (age)")
        indexes = "select count(*) from pg_index where indrelid = 'indexed.t'::regclass"
        assert _on_nodes(herd_many, indexes) == [[(1,)], [(1,)]]


def test_a_sequence_whose_name_is_taken_on_home_is_made_nowhere(herd, herd_many):
    with _schemas(herd, "numbered_first", "numbered_later") as c:
        c.execute("create table numbered_first.s (id int)")
        c.execute("create table numbered_later.q (id int)")
        c.execute("create sequence if not exists s")
        for _ in range(2):
            c.execute("create sequence if not exists q")
        is_there = "select to_regclass('numbered_first.s') is not null, to_regclass('numbered_first.q') is not null"
        assert _on_nodes(herd_many, is_there) == [[(True, True)], [(False, True)]]


def test_lock_table_of_a_view_locks_what_it_reads_everywhere(herd, herd_many):
    with _schemas(herd, "locked_view") as c:
        _distributed(c, "locked_view")
        c.execute("create view v as select * from t")
        c.execute("create view over as select * from v")
        c.execute("create table own (id int)")
        c.execute("create view mixed as select t.id from t join own using (id)")
        c.execute("create view mine as select * from own")
        held = "select mode from pg_locks where relation = 'locked_view.t'::regclass"
        for view, mode in [("v", "SHARE"), ("over", "ACCESS EXCLUSIVE")]:
            with c.transaction():
                c.execute(f"lock table {view} in {mode} mode")
                name = mode.title().replace(" ", "") + "Lock"
                assert _on_nodes(herd_many, held) == [[(name,)], [(name,)]]
        with c.transaction():
            c.execute("lock table mine")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match='LOCK TABLE of view "mixed"'), c.transaction():
            c.execute("lock table mixed")
        c.execute("create temp view passing as select * from t")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match='LOCK TABLE of view "passing"'), c.transaction():
            c.execute("lock table t, passing")


def test_views_made_with_their_schema_are_wherever_their_tables_are(herd, herd_many):
    with _schemas(herd, "element_of") as c:
        _distributed(c, "element_of")
        c.execute("drop schema if exists elements cascade")
        c.execute(
            "create schema elements create view v as select * from element_of.t create table own (id int) create view mine as select * from own "
            "create index on own (id) create view mixed as select count(*) from element_of.t join own using (id) "
            "grant usage on schema elements to public grant select on v to public grant select on own, mine to public"
        )
        is_there = "select to_regclass('elements.v') is not null, to_regclass('elements.mine') is not null"
        assert _on_nodes(herd_many, is_there) == [[(True, True)], [(True, False)]]
        granted = "select nspacl is not null, relacl is not null from pg_class c join pg_namespace n on n.oid = relnamespace where c.oid = 'elements.v'::regclass"
        assert _on_nodes(herd_many, granted) == [[(True, True)]] * 2
        assert c.execute("select count(*) from elements.v").fetchone() == (100,)
        assert c.execute("select * from elements.mixed").fetchone() == (0,)
        c.execute("comment on view elements.v is 'there'")
        c.execute("drop schema elements cascade")
        # A table of the schema's own is not one of that name elsewhere.
        c.execute("create schema elements create table t (id int) create view v as select * from t")
        assert c.execute("select count(*) from elements.v").fetchone() == (0,)
        c.execute("drop schema elements cascade")
        # Beside a reference table it is home's own, as it would be alone.
        c.execute("create table codes (code int)")
        c.execute("select create_reference_table('codes')")
        c.execute("create schema elements create table own (id int) create view v as with o as (select * from own) select code from element_of.codes, o")
        assert c.execute("select pg_get_viewdef('elements.v'::regclass) ~ 'read_whole'").fetchone() == (False,)
        assert _on_nodes(herd_many, "select to_regclass('elements.v') is not null") == [[(True,)], [(False,)]]
        c.execute("drop schema elements cascade")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match='reads view "v"'):
            c.execute("create schema elements create view v as select * from element_of.t create view w as select * from v")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="GRANT in CREATE SCHEMA"):
            c.execute("create schema elements create table own (id int) grant select on own, element_of.t to public")
        assert _on_nodes(herd_many, "select to_regnamespace('elements') is null") == [[(True,)]] * 2


def test_a_temporary_view_is_dropped_in_front_of_the_others(herd, herd_many):
    with _schemas(herd, "dropped_view") as c:
        _distributed(c, "dropped_view")
        c.execute("create view v as select * from t")
        c.execute("create view w as select * from t")
        c.execute("create temp view v as select 1 as one")
        c.execute("drop view v, w")
        is_there = "select to_regclass('dropped_view.v') is not null, to_regclass('dropped_view.w') is not null"
        assert _on_nodes(herd_many, is_there) == [[(True, False)], [(True, False)]]
        assert c.execute("select count(*) from v").fetchone() == (100,)


def test_a_local_table_of_a_type_s_name_is_no_type(herd, herd_many):
    with _schemas(herd, "typed") as c:
        _distributed(c, "typed")
        c.execute("create table path (id int)")
        c.execute("create function length_of(p path) returns int language sql as 'select 1'")
        c.execute("create domain way as path")
        c.execute("create view v as select id, '((0,0),(1,1))'::path as p from t")
        c.execute("create function row_of(p typed.path) returns int language sql as 'select 1'")
        is_there = "select to_regproc('typed.length_of') is not null, to_regtype('typed.way') is not null, to_regclass('typed.v') is not null, to_regproc('typed.row_of') is not null"
        assert _on_nodes(herd_many, is_there) == [[(True,) * 4], [(True, True, True, False)]]
        c.execute("create function column_of(p path.id%type) returns int language sql as 'select 1'")
        assert _on_nodes(herd_many, "select to_regproc('typed.column_of') is not null") == [[(True,)], [(False,)]]
        # A path may have other types in front.
        c.execute("set search_path = typed, pg_catalog")
        c.execute("create function hidden(p path) returns int language sql as 'select 1'")
        assert _on_nodes(herd_many, "select to_regproc('typed.hidden') is not null") == [[(True,)], [(False,)]]


def test_dropping_a_local_table_takes_defaults_by_its_numbers_everywhere(herd, herd_many):
    with _schemas(herd, "cascaded") as c:
        defaults = "select count(*) from pg_attrdef where adrelid = 'cascaded.d'::regclass"
        for drop in ["drop table l cascade", "alter table l drop column id cascade", "drop table if exists nothing, l cascade"]:
            c.execute("create table l (id serial, other int)")
            c.execute("create table d (id int, n int default nextval('l_id_seq'))")
            c.execute("select create_distributed_table('d', 'id')")
            c.execute("insert into d select g from generate_series(1, 10) g")
            with pytest.raises(psycopg.errors.DependentObjectsStillExist):
                c.execute(drop.replace(" cascade", ""))
            c.execute(drop)
            assert _on_nodes(herd_many, defaults) == [[(0,)], [(0,)]], drop
            c.execute("insert into d (id) select g from generate_series(11, 30) g")
            assert c.execute("select count(n), count(*) from d").fetchone() == (10, 30)
            c.execute("drop table d")
            c.execute("drop table if exists l")
