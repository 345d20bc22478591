"""What could come out differently on each copy of a reference table is computed once, or refused: after each statement all
copies are compared. Each node has an order of its own, a clock of its own, and reads 'now' where text says so by itself."""

import psycopg
import pytest

from harness.other_order import in_other_order

pytestmark = pytest.mark.real_herd

_MAKE = (
    "create table m (id int primary key, v int default 7, ts timestamptz, d date, t text, u text default md5(random()::text), tt timestamptz[], tr tstzrange)",
    "select create_reference_table('m')",
    "insert into m (id, v, t, u) select g, g, 'now', 'u' from generate_series(1, 9) g",
)
# 'today' and its like are one day on all nodes: what is written is compared as 'now' alone.
STATEMENTS = [
    "update m set t = (select json_arrayagg(id) from m)::text",
    "update m set t = (select json_objectagg(id: v) from m)::text",
    "update m set t = (select json_array(select id from m))::text",
    "insert into m (id, t) select 20, json_arrayagg(id)::text from m",
    "update m set ts = 'now' where id = 5",
    "update m set d = 'today', ts = 'today' where id = 5",
    "update m set ts = t::timestamptz where id = 5",
    "update m set ts = cast(t as timestamp) where t = 'now'",
    "update m set ts = timestamptz(t)",
    "update m set ts = concat('n', 'ow')::timestamptz where id = 6",
    "update m set ts = (array['n' || 'ow']::timestamptz[])[1]",
    "update m set tt = array[t, t]::timestamptz[], tr = ('[' || t || ',)')::tstzrange",
    "update m set tt = '{now}', tr = '[now,)' where id = 3",
    "update m set t = (t::time)::text where id = 5",
    "update m set v = extract(microseconds from t::timestamptz) where id = 5",
    "update m set v = extract(microseconds from timestamptz 'now') where id = 5",
    "update m set t = ('now'::text::timestamptz)::text",
    "update m set t = (row(t)::pg_temp.none).x::text",
    "update m set ts = (json_populate_record(m, json_build_object('ts', t))).ts",
    "update m set ts = q.x from json_to_record('{\"x\": \"now\"}') as q(x timestamptz) where id = 3",
    "update m set ts = json_value(to_json(t), '$' returning timestamptz)",
    "update m set ts = q.x from json_table(jsonb '\"now\"', '$' columns (x timestamptz path '$')) q",
    "update m set ts = q.x from xmltable('/r' passing xml '<r>now</r>' columns x timestamptz path '.') q",
    "update m set u = random()::text",
    "update m set u = default, v = 1 where id > 4",
    "update m set u = gen_random_uuid()::text where random() < 0.5",
    "update m set ts = clock_timestamp() returning id",
    "merge into m using (values (5, 'now')) s(i, x) on m.id = s.i when matched then update set ts = s.x::timestamptz",
    "merge into m using (values (5), (30)) s(i) on m.id = s.i when matched then update set ts = m.t::timestamptz when not matched then insert (id) values (s.i)",
    "insert into m (id, ts) values (5, null) on conflict (id) do update set ts = m.t::timestamptz",
    "insert into m (id) values (5), (31) on conflict (id) do update set u = excluded.u",
    "insert into m (id, ts) values (32, 'now'), (33, 'now'::varchar::timestamptz)",
    "insert into m (id, ts) select 34, t::timestamptz from m where id = 5",
    "insert into m (id, ts) select 35, t::timestamptz from m where id = 5 on conflict do nothing",
    "insert into m (id, u, ts) select id + 100, 'x', 'now' from d where id < 20",
    "insert into m (id) select id + 200 from d where id < 20",
    "delete from m where random() < 0.5 and id > 5",
    "delete from m where t::timestamptz > clock_timestamp() - interval '1 ms' * id",
]
DDL = [
    "alter table m add column ts2 timestamptz default ('n' || 'ow')::timestamptz",
    "alter table m alter column ts set default 'now'; insert into m (id, u) values (40, 'u')",
    "alter table m alter column t type timestamptz using t::timestamptz",
    "alter table m add column ts3 timestamptz default 'now'",
    "alter table m alter column ts set default ('n' || 'ow')::timestamptz; insert into m (id, u) values (40, 'u'), (41, 'u'); update m set ts = default",
]
PARAMETERS = [
    ("update m set ts = %s where id = %s", ("now", 5)),
    ("update m set ts = %s::timestamptz where id = 5", ("now",)),
    ("update m set ts = (%s::text)::timestamptz where id = 5", ("now",)),
    ("update m set tt = %s", ("{now,today}",)),
    ("update m set tr = %s", ("[now,)",)),
    ("update m set t = date_trunc('second', %s::timestamptz)::text || %s", ("2024-01-01", "now")),
    ("update m set v = extract(microseconds from %s::timestamptz)", ("now",)),
    ("insert into m (id, ts, u) values (%s, %s, 'u')", (60, "now")),
    ("insert into m (id, ts, u) values (%s, %s, 'u'), (62, '2024-01-01', 'u') returning ts", (61, "now")),
    ("insert into m (id, ts, u) select %s, %s::timestamptz, 'u'", (63, "now")),
    ("insert into m values (5, 5, %s) on conflict (id) do update set ts = excluded.ts", ("now",)),
    ("insert into m values (64, 5, %s) on conflict do nothing", ("now",)),
    ("delete from m where ts < %s", ("now",)),
]
# What is as it stands goes to all nodes at once, and is no error where it can't be computed once.
PLAIN = [
    ("insert into p (t, ts) values ('now', '2024-02-02')", None),
    ("insert into p (t, ts) values ('today', '2024-01-01')", None),
    ("update p set t = 'I know it now' where t = 'not now at all, or so'", None),
    ("update p set t = %s where ts > %s", ("right now", "2020-01-01")),
    ("insert into p (t, ts) values (%s, %s)", ("now", "2024-01-01 10:00")),
    ("update p set ts = ts::date, t = ts::text where ts + interval '1 day' > ts::timestamp", None),
    ("update p set t = 'now' where ts > timestamptz '2020-01-01'", None),
]


@pytest.fixture
def made(db):
    db.run(*_MAKE)
    # Another order on one node.
    db.run("delete from m where id < 4")
    in_other_order(db.herd.node_servers[1], "code.m")
    db.run("insert into m (id, v, t, u) select g, g, 'now', 'u' from generate_series(10, 12) g")
    return db


def _done_or_refused(db, text, parameters=None):
    """True if it is done; whatever it is, copies are the same."""
    done = True
    for statement in text.split("; "):
        try:
            db.connection.execute(statement, parameters)
        except psycopg.Error as e:
            done = False
            assert e.sqlstate in ("0A000", "3F000", "42704"), (statement, e)
    db.same_copies("m")
    return done


def _filled_anew(db):
    db.run("delete from m", "insert into m (id, v, t, u) select g, g, 'now', 'u' from generate_series(4, 12) g")


def test_is_computed_once(made):
    for text in STATEMENTS:
        done = _done_or_refused(made, text)
        assert done or "pg_temp" in text or "xml" in text, text
        _filled_anew(made)


@pytest.mark.parametrize("text", DDL)
def test_ddl_does_not_make_copies_differ(made, text):
    _done_or_refused(made, text)


def test_a_parameter_is_read_once(made):
    for text, parameters in PARAMETERS:
        assert _done_or_refused(made, text, parameters), text
        _filled_anew(made)


def test_a_prepared_text_is_read_once(made):
    made.run("prepare once(int, text) as update m set ts = $2::timestamptz where id = $1", "execute once(5, 'now')")
    made.same_copies("m")


def test_what_is_no_moment_goes_to_all(db):
    """The table has no key and a trigger: nothing of it can be computed once."""
    db.run(
        "create table p (t text, ts timestamptz)",
        "create function touched() returns trigger language plpgsql as 'begin return new; end'",
        "create trigger touched before insert or update on p for each row execute function touched()",
        "insert into p values ('not now at all, or so', '2024-01-01')",
        "select create_reference_table('p')",
    )
    for text, parameters in PLAIN:
        db.connection.execute(text, parameters)
        db.same_copies("p")


def test_without_a_key_copies_find_rows_by_what_they_were(db):
    db.run("create table p (t text, ts timestamptz)", "select create_reference_table('p')", "insert into p values ('now'), ('now'), ('today')")
    db.run("update p set ts = t::timestamptz")
    db.same_copies("p")
    db.run("update p set ts = 'now'")
    db.same_copies("p")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="as a parameter"):
        db.connection.execute("update p set ts = %s", ("now",))
    db.same_copies("p")


def _copy(db, sql, data):
    with db.connection.cursor() as cursor, cursor.copy(sql) as copy:
        copy.write(data)
    return db.same_copies("m")


def test_copy_computes_defaults_once(made):
    made.run("alter table m alter column ts set default clock_timestamp(), alter column d set default now(), alter column t set default null")
    rows = _copy(made, "copy m (id) from stdin", "".join(f"{i}\n" for i in range(100, 200)))
    new = [row for row in rows if row[0] >= 100]
    assert len(new) == 100 and len({row[5] for row in new}) == 100
    assert len({row[2] for row in new}) > 1 and {row[4] for row in new} == {None}
    _copy(made, "copy m (id, v) from stdin csv header", "id,v\n300,1\n301,2\n")


def test_copy_that_could_differ_is_refused(made):
    def refused(sql, data):
        with pytest.raises(psycopg.errors.FeatureNotSupported) as e:
            _copy(made, sql, data)
        assert e.value.diag.message_hint, e.value
        made.same_copies("m")

    refused("copy m (id, ts, u) from stdin", "140\tnow\tu\n141\t2024-01-01\tu\n")
    refused("copy m (id, ts, u) from stdin csv", '140,"today 12:00",u\n')
    refused("copy m (id, tt, u) from stdin", "140\t{now}\tu\n")
    refused("copy m (id, ts, u) from stdin (default '\\D')", "143\t2024-01-01\t\\D\n")
    refused("copy m (id, ts, u) from stdin where random() < 0.5", "".join(f"{i}\t2024-01-01\tu\n" for i in range(200, 230)))
    refused("copy m (id, ts, u) from stdin where ts < clock_timestamp()", "143\t2024-01-01\tu\n")
    refused("copy m (id, t, u) from stdin where t::timestamptz < '2030-01-01'", "143\tnow\tu\n")
    _copy(made, "copy m (id, ts, t, u) from stdin where id > 150", "140\t2024-01-01\tnow\tu\n151\t2030-01-01\ttoday\tI know it now\n")
    _copy(made, "copy m (id, v, t) from stdin (default '\\D') where v < 8", "150\t\\D\tu\n152\t1\tu\n")


def test_a_default_that_rows_in_conflict_are_set_to(db):
    db.run(
        "create sequence defaulted", "create table cr (k char(6) primary key, n numeric, a bigint default nextval('defaulted'))", "select create_reference_table('cr')",
        "insert into cr (k, a) values ('a', 100), ('b', 200)",
        "insert into cr (k, a) values ('a', 5) on conflict (k) do update set n = 7, a = default",
        "insert into cr values ('b', 1, 6), ('c', 2, 7) on conflict (k) do update set (n, a) = (excluded.n, default)",
    )
    assert [tuple(row) for row in db.rows("select trim(k), n, a from cr order by k")] == [("a", 7, 1), ("b", 1, 2), ("c", 2, 7)]
    db.same_copies("cr")
