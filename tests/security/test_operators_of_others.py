"""Whoever may make operators and functions in a schema of another's search path runs as that other what the other asks for, as in PostgreSQL;
never what routers make of it."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(240)]

_TYPES = ("int2", "int4", "int8", "numeric", "float8", "text", "varchar", "name", "oid", "bool", "date", "timestamptz", "int4[]", "text[]")
_NUMBERS = ("int2", "int4", "int8", "numeric", "float8")
_COMPARED = ("=", "<>", "<", ">", "<=", ">=")
_BINARY = ("+", "-", "*", "/", "%", "||", "~~")
_AGGREGATES = ("sum", "count", "avg", "min", "max", "bool_and", "every")
_FUNCTIONS = ("unnest", "nextval", "coalesce_all", "now", "row_number", "int8", "numeric", "concat", "lower", "length")


def _traps(schema: str):
    """Operators and functions of all kinds that PostgreSQL takes before its own where types are just theirs, or where their schema is before pg_catalog."""
    pairs = {(a, a) for a in _TYPES} | {(a, b) for a in _NUMBERS for b in _NUMBERS} | {("varchar", "text"), ("text", "varchar")}
    n = 0
    for left, right in sorted(pairs):
        for operator in _COMPARED + _BINARY:
            n += 1
            gives = "bool" if operator in _COMPARED + ("~~",) else left
            yield (f"create function {schema}.o{n}({left}, {right}) returns {gives} language plpgsql as "
                   f"$$ begin raise exception using message = 'trapped by {operator} of {left} and {right}'; end $$")
            yield f"create operator {schema}.{operator} (function = {schema}.o{n}, leftarg = {left}, rightarg = {right})"
    for of in _TYPES:
        yield f"create function {schema}.state(state {of}, value {of}) returns {of} language plpgsql as $$ begin raise exception using message = 'trapped by an aggregate of {of}'; end $$"
        for aggregate in _AGGREGATES:
            yield f"create aggregate {schema}.{aggregate}({of}) (sfunc = {schema}.state, stype = {of})"
        for function in _FUNCTIONS:
            yield f"create function {schema}.{function}({of}) returns {of} language plpgsql as $$ begin raise exception using message = 'trapped by {function} of {of}'; end $$"


_OWN = [
    "create table {s}.pay (id int primary key, v int, n numeric, f float8, big int8, small int2, name varchar(20), word text, at timestamptz default pg_catalog.now(), tags int[])",
    "create table {s}.other (key int8 primary key, pay int, name varchar(20), n numeric default 1 operator(pg_catalog.+) 1)",
    "create table {s}.same (id int primary key, v int)",
    "create table {s}.ref (id serial primary key, v int, at timestamptz default now())",
    "create table {s}.by_default (id serial primary key, name varchar(20), v int8 default length(lower('A') || 'b') + 1)",
    "select create_distributed_table('{s}.pay', 'id')",
    "select create_distributed_table('{s}.other', 'key', colocate_with => 'none')",
    "select create_distributed_table('{s}.same', 'id', colocate_with => '{s}.pay')",
    "select create_distributed_table('{s}.by_default', 'id', colocate_with => 'none')",
    "select create_reference_table('{s}.ref')",
    "insert into {s}.pay select i, i, i, i, i, i % 5, 'n' || i % 7, 'w' || i % 3, now(), array[i, i % 4] from generate_series(1, 40) i",
    "insert into {s}.other select i, i % 40, 'n' || i % 7, i from generate_series(1, 60) i",
    "insert into {s}.same select i, i from generate_series(1, 40) i",
    "create view {s}.some as select id, v, name, tags || 1 as more, n + 1 as n from {s}.pay where tags && '{{1, 2}}' or name = 'n1' or name in (select name from {s}.ref where v > 1)",
    "create view {s}.totals as select name, count(*) as rows, sum(v) as v, avg(n) as n, max(word || name) as word from {s}.pay group by name having count(*) > 1",
]

# All they name is PostgreSQL's own by its schema.
_STATEMENTS = [
    "select pg_catalog.avg(v), pg_catalog.avg(n), pg_catalog.avg(f), pg_catalog.avg(big), pg_catalog.avg(small) from {s}.pay",
    "select name, pg_catalog.avg(v), pg_catalog.count(*), pg_catalog.sum(n), pg_catalog.sum(f), pg_catalog.min(word), pg_catalog.max(name) from {s}.pay group by name",
    "select pg_catalog.count(*), pg_catalog.sum(v), pg_catalog.min(v), pg_catalog.max(big) from {s}.pay",
    "select pg_catalog.bool_and(v operator(pg_catalog.>) 0), pg_catalog.every(true), pg_catalog.count(distinct id) from {s}.pay",
    "select name, pg_catalog.avg(distinct id) filter (where v operator(pg_catalog.>) 2) from {s}.pay group by 1 having pg_catalog.avg(v) operator(pg_catalog.>) 1::numeric order by 2 limit 3",
    "select id from {s}.pay order by id limit 3 offset 2",
    "select id from {s}.pay order by n desc, word limit (select 3) offset (select 2)",
    "select name, pg_catalog.count(*) from {s}.pay group by name order by name limit 2 offset 1",
    "select distinct name, word from {s}.pay order by 1, 2 limit 4",
    "select distinct on (name) name, id from {s}.pay order by name, id",
    "select pg_catalog.count(*) from {s}.pay where id operator(pg_catalog.=) any (array[{list}])",
    "select pg_catalog.count(*) from {s}.pay p join {s}.other o on p.v operator(pg_catalog.=) o.pay",
    "select pg_catalog.count(*) from {s}.pay p join {s}.same s on p.id operator(pg_catalog.=) s.id where p.id operator(pg_catalog.=) 7",
    "select p.id, o.key from {s}.pay p left join {s}.other o on o.key operator(pg_catalog.=) p.id and o.key operator(pg_catalog.=) 7 where p.v operator(pg_catalog.=) 7",
    "select pg_catalog.count(*) from {s}.other o join {s}.pay p on p.id operator(pg_catalog.=) o.pay where o.pay operator(pg_catalog.=) 7",
    "select id, (select pg_catalog.sum(o.n) from {s}.other o where o.pay operator(pg_catalog.=) p.v) from {s}.pay p",
    "select id, pg_catalog.rank() over (partition by name order by v) from {s}.pay",
    "select name, pg_catalog.array_agg(v order by v), pg_catalog.string_agg(word, ',') from {s}.pay group by name",
    "select name from {s}.pay union select name from {s}.other order by 1",
    "select name from {s}.pay except all select name from {s}.other",
    "with x as (select name, pg_catalog.avg(v) as a from {s}.pay group by name) select pg_catalog.max(a) from x",
    "with x as (update {s}.pay set v = 3 where name operator(pg_catalog.=) 'n3'::varchar::text returning id, v) select pg_catalog.avg(v) from x",
    "with x as (delete from {s}.same returning *) insert into {s}.same select * from x",
    "insert into {s}.same select pg_catalog.int4pl(pg_catalog.max(id), 100), pg_catalog.max(id) from {s}.same",
    "insert into {s}.other (key, pay) select pg_catalog.int8(pg_catalog.int4pl(id, 1000)), v from {s}.pay",
    "insert into {s}.ref (v) select v from {s}.pay",
    "insert into {s}.ref (v) values (1), (2)",
    "insert into {s}.by_default (name) values ('a'), ('b'), ('c')",
    "insert into {s}.by_default (name) select name from {s}.pay",
    "insert into {s}.pay (id) values (101), (102), (103)",
    "insert into {s}.pay (id, v) values (101, 1), (102, 2) on conflict (id) do update set v = excluded.v",
    "update {s}.pay p set v = o.pay from {s}.other o where o.pay operator(pg_catalog.=) p.id",
    "update {s}.pay set id = pg_catalog.int4pl(id, 500) where id operator(pg_catalog.=) 9",
    "update {s}.pay set v = 1 where v operator(pg_catalog.>) (select pg_catalog.avg(v) from {s}.pay)",
    "update {s}.ref set at = pg_catalog.now()",
    "delete from {s}.other where pay operator(pg_catalog.=) any (select v from {s}.pay)",
    "merge into {s}.pay p using (select pay, key from {s}.other where key operator(pg_catalog.<) 30) o on p.id operator(pg_catalog.=) o.pay when matched then update set v = o.key",
    "merge into {s}.same t using (select id, v from {s}.pay) o on t.id operator(pg_catalog.=) o.id when matched then update set v = o.v when not matched then insert values (o.id, o.v)",
    "set herd.upsert = on; insert into {s}.by_default (id, name) values (1, 'x'), (1, 'y'), (2, 'z'); set herd.upsert = off",
    "select pg_catalog.count(*), pg_catalog.max(v) from {s}.some",
    "select p.key, s.more from {s}.some s join {s}.other p on p.key operator(pg_catalog.=) s.id",
    "select * from {s}.totals order by name limit 2",
    "select pg_catalog.sum(t.rows) from {s}.totals t join {s}.other o on o.name::text operator(pg_catalog.=) t.name::text",
    "select o.key, (select pg_catalog.max(s.n) from {s}.some s where s.v operator(pg_catalog.=) o.pay) from {s}.other o",
    "explain (analyze, costs off) select name, pg_catalog.avg(v) from {s}.pay group by name",
    "create temp table made as select name, pg_catalog.avg(v) as a from {s}.pay group by name",
]


@pytest.fixture
def trapped(place, request):
    """A superuser with tables of his own, by a path of which another has filled a schema with traps on every node."""
    path, schema, tables = request.param
    with place.server.connect() as boss:
        for sql in ("create role trapper login", "create schema bosses", "create schema shared", "grant usage, create on schema public, shared to trapper"):
            boss.execute(sql)
        for sql in _OWN:
            boss.execute(sql.format(s=tables))
        with place.as_role("trapper") as trapper:
            trapper.execute(f"create function {schema}.known(bool, date) returns bool language sql immutable as 'select true'")
            trapper.execute(f"create operator {schema}.= (function = {schema}.known, leftarg = bool, rightarg = date)")
        for number in range(3):
            with place.on_node(number, "trapper") as node:
                node.execute("; ".join(_traps(schema)))
        boss.execute(f"set search_path = {path}")
        try:
            yield boss, tables
        finally:
            for number in range(3):
                with place.on_node(number) as node:
                    node.execute("drop owned by trapper cascade")
            boss.execute("set search_path = pg_catalog, pg_temp")
            boss.execute("drop schema bosses, shared cascade")
            boss.execute("drop role trapper")


_PLACES = {
    "default": ('"$user", public', "public", "bosses"),
    "in front": ("shared, pg_catalog, bosses", "shared", "bosses"),
}


@pytest.mark.parametrize("trapped", list(_PLACES.values()), ids=list(_PLACES), indirect=True)
def test_routers_name_their_own(trapped):
    boss, schema = trapped
    long_list = ", ".join(str(i) for i in range(1, 700))
    faults, refused = [], []

    def runs(sql, *parameters, **how):
        text = sql.replace("{s}", schema).replace("{list}", long_list)
        try:
            with boss.transaction(force_rollback=True):
                for part in text.split("; "):
                    cursor = boss.execute(part, *parameters, **how)
                    if cursor.description:
                        cursor.fetchall()
        except psycopg.errors.FeatureNotSupported as e:
            refused.append(f"{sql}: {e}")
        except psycopg.Error as e:
            faults.append(f"{sql}: {str(e).splitlines()[0]}")

    for sql in _STATEMENTS:
        runs(sql)
    runs("select id from {s}.pay order by id limit %s offset %s", (3, 1), prepare=True)
    runs("select name, pg_catalog.avg(v) from {s}.pay group by 1 order by 2 limit %s offset %s", (3, 1), prepare=True)
    runs("select pg_catalog.count(*) from {s}.pay where id operator(pg_catalog.=) any (%s)", (list(range(900)),), prepare=True)
    runs("insert into {s}.by_default (name) values (%s), (%s)", ("a", "b"), prepare=True)
    assert not faults, "\n".join(faults)
    assert len(refused) < 5, "\n".join(refused)


@pytest.mark.parametrize("trapped", [_PLACES["default"]], ids=["default"], indirect=True)
def test_the_traps_are_traps(trapped):
    """What a statement itself looks up is found in the other's schema, as on one server."""
    boss, schema = trapped
    for sql in (f"select id from {schema}.pay where n = 5", f"select name = 'x'::varchar from {schema}.pay where id = 1", "select count(1::int2)"):
        with pytest.raises(psycopg.errors.RaiseException, match="trapped by"):
            boss.execute(sql)


@pytest.mark.parametrize("trapped", [_PLACES["default"]], ids=["default"], indirect=True)
def test_a_views_hidden_comparison(trapped):
    """`CASE … WHEN`, NULLIF and USING don't show by which `=` a view compares: taken apart, it would be by another's."""
    boss, schema = trapped
    boss.execute("set search_path = pg_catalog")
    boss.execute(f"create view {schema}.hidden as select name, count(case n when 5 then 'five' end) as fives from {schema}.pay group by name")
    asked = f"select pg_catalog.sum(fives) from {schema}.hidden"
    assert boss.execute(asked).fetchone() == (1,)
    boss.execute('set search_path = "$user", public')
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="operator = of its own"):
        boss.execute(asked)
