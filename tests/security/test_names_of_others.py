"""What a role makes in a schema of its own is not taken for what others' statements and code name."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

# As `mallory`, who may create things in `hers` and nowhere else. The tables are local.
_READS = "select exists (select from hers.lo)"
_HARMFUL = (
    "create table hers.lo (a int)",
    f"create function hers.eq(box, box) returns bool language sql as '{_READS}'",
    "create operator hers.= (leftarg = box, rightarg = box, function = hers.eq)",
    f"create function hers.ge(box, box) returns bool language sql as '{_READS}'",
    "create operator hers.>= (leftarg = box, rightarg = box, function = hers.ge)",
    *(f"create function hers.{f}(box) returns int language sql as 'select count(*)::int from hers.lo'" for f in ("abs", "length", "now")),
    "create domain hers.text as int check (hers.abs(box '(1,1,2,2)') < value)",
    "create aggregate hers.upper(int) (sfunc = int4pl, stype = int)",
    "create aggregate hers.count(text) (sfunc = textcat, stype = text)",
)
_HARMLESS = (
    "create function hers.eq(box, box) returns bool language sql immutable as 'select true'",
    "create operator hers.= (leftarg = box, rightarg = box, function = hers.eq)",
    "create operator hers.+ (leftarg = box, rightarg = box, function = hers.eq)",
)
_UPPER = """create function hers.upper(text) returns text language plpgsql as
    'begin return (select a::text from hers.lo limit 1); end'"""


@pytest.fixture
def victim(place):
    """Owns `acc` (distributed), `ref` (a reference table) and `at` (colocated with `acc`)."""
    place.server.run(
        "create schema his authorization victim",
        "create table his.acc (id int primary key, v text)",
        "create table his.at (id int primary key, v text)",
        "create table his.ref (id int primary key, v text)",
        "select create_distributed_table('his.acc', 'id')",
        "select create_distributed_table('his.at', 'id', colocate_with => 'his.acc')",
        "select create_reference_table('his.ref')",
        *(f"alter table his.{t} owner to victim" for t in ("acc", "at", "ref")),
        "insert into his.acc select i, 'v' || i from generate_series(1, 20) i",
        "insert into his.at select i, 'v' || i from generate_series(1, 20) i",
        "insert into his.ref values (1, 'r')",
    )
    with place.as_role("victim") as victim:
        victim.execute("set search_path = his, public")
        yield victim
    place.server.run("drop schema his cascade", "drop schema hers cascade", "create schema hers authorization mallory")


def _as_mallory(place, *statements) -> None:
    with place.as_role("mallory") as mallory:
        for sql in statements:
            mallory.execute(sql)


_SERVED = {
    "select v from acc where id = 1": [("v1",)],
    "select v from acc where abs(id) = 1": [("v1",)],
    "select count(*) from acc where length(v) >= 2 and id between 1 and 9": [(9,)],
    "select count(*) from acc join at using (id)": [(20,)],
    "select count(*) from acc a join at b on a.id = b.id where upper(a.v) = 'V1'": [(1,)],
    "select count(*) from acc where id in (select id from at)": [(20,)],
    "select v::text from acc where id in (1, 2) order by 1": [("v1",), ("v2",)],
    "select upper(max(v)) from acc": [("V9",)],
    "update acc set v = 'w' || abs(-id) where id = 2 returning v": [("w2",)],
    "delete from acc where id = 3 returning id": [(3,)],
    "insert into acc values (3, abs(-3)::text) on conflict (id) do update set v = upper(excluded.v) where acc.id = 3 returning v": [("3",)],
    "update ref set v = 'y' where id = 1 returning v": [("y",)],
    "update ref set v = abs(-5)::text where length(v) = 1 returning v": [("5",)],
}


@pytest.mark.parametrize("made", [_HARMFUL, _HARMLESS], ids=["harmful", "harmless"])
def test_statements(place, victim, made):
    _as_mallory(place, *made)
    for sql, rows in _SERVED.items():
        assert victim.execute(sql).fetchall() == rows, sql


def test_bodies(place, victim):
    victim.execute("create function his.upped() returns trigger language plpgsql as 'begin new.v := upper(new.v); return new; end'")
    victim.execute("create trigger upped before insert on acc for each row execute function his.upped()")
    _as_mallory(place, "create table hers.lo (a int)", _UPPER)
    victim.execute("alter table acc add column more int")
    assert victim.execute("insert into acc values (100, 'x') returning v").fetchall() == [("X",)]
    # Nor may others' code keep her from making what is hers.
    _as_mallory(place, f"create function hers.upper(int) returns bool language sql as '{_READS}'")


def test_who_puts_them_on_his_path_means_them(place, victim):
    """Through the schema's name or the path they are what PostgreSQL would run: on home, with the caller's rights, or not at all."""
    place.server.run("grant usage on schema hers to victim")
    _as_mallory(place, *_HARMFUL[:3], _HARMFUL[5])
    for sql in (
        "select count(*) from acc where box(point(1, 1)) operator(hers.=) box(point(2, 2))",
        "select count(*) from acc where hers.abs(box(point(id, 1))) = 1",
    ):
        with pytest.raises((psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege)):
            victim.execute(sql)
    victim.execute("set search_path = his, hers, public")
    with pytest.raises((psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege)):
        victim.execute("select count(*) from acc where abs(box(point(id, 1))) = 1")
