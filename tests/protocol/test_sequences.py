"""currval and lastval are a session's own, wherever its statements ran: compared with one server."""

import threading

import psycopg
import pytest

_MAKE = (
    "drop table if exists seq_local, seq_spread, seq_key, seq_reference, seq_source, seq_triggered cascade",
    "drop sequence if exists seq_one, seq_two, seq_three, seq_now",
    "drop role if exists seq_nobody",
    "create role seq_nobody",
    "create sequence seq_one",
    "create table seq_local (id serial, a int)",
    "create table seq_spread (id bigserial, a int)",
    "create table seq_key (id bigserial primary key, a int)",
    "create table seq_reference (id serial primary key, a int)",
    "create table seq_source (k int primary key)",
    "insert into seq_source select g from generate_series(1, 30) g",
    "create table seq_triggered (id int, a int)",
    "create sequence seq_two",
    "create or replace function seq_take() returns bigint language sql as $$ select nextval('seq_one') $$",
    "create or replace function seq_tell() returns bigint language sql as $$ select currval('seq_one') $$",
    "create or replace function seq_fill() returns trigger language plpgsql as "
    "$$ begin new.id := nextval('seq_one'); return new; end $$",
    "create trigger fill before insert on seq_triggered for each row execute function seq_fill()",
)
_SPREAD = (
    "select create_distributed_table('seq_spread', 'a')",
    "select create_distributed_table('seq_key', 'id')",
    "select create_reference_table('seq_reference')",
    "select create_reference_table('seq_source')",
)
_ALL = "select currval('seq_one')", "select currval('seq_spread_id_seq')", "select lastval()"

# Rows whose values are taken where they are read, not where they are written.
_CATCH = "a insert into seq_spread select nextval('seq_one'), k from seq_source"
_TELL = "a select currval('seq_one')", "a select lastval()"

# Each a story of two sessions, a and b.
_STORIES = {
    "local": ["a insert into seq_local (a) values (1)", "a select currval('seq_local_id_seq')", "a select lastval()",
              "b select currval('seq_local_id_seq')", "b select lastval()",
              "b insert into seq_local (a) values (2)", "b select lastval()", "a select lastval()"],
    "named": ["a select nextval('seq_one')", "b select nextval('seq_one')", "a select currval('seq_one')",
              "b select currval('seq_one')", "a select lastval()"],
    "function": ["a select seq_take()", "b select seq_tell()", "a select seq_tell()", "a select currval('seq_one')",
                 "b select currval('seq_one')", "a select lastval()"],
    "trigger": ["a insert into seq_triggered (a) values (1)", "a select currval('seq_one')", "b select lastval()"],
    "do": ["a do $$ begin perform nextval('seq_one'); end $$", "a select currval('seq_one')", "b select lastval()"],
    "several rows": ["a insert into seq_spread (a) values (1), (2), (3)", "a select currval('seq_spread_id_seq')",
                     "a select lastval()", "b select lastval()"],
    "insert select": ["a insert into seq_spread (a) select g from generate_series(1, 30) g",
                      "a select currval('seq_spread_id_seq'), lastval()", "b select lastval()",
                      "a select currval(pg_get_serial_sequence('seq_spread', 'id'))",
                      "a insert into seq_local (a) values (lastval())", "a select a from seq_local order by id desc limit 1",
                      "a insert into seq_local (a) values (currval('seq_spread_id_seq')) returning a", "a select currval('seq_spread_id_seq'), lastval()"],
    "key": ["a insert into seq_key (a) values (1)", "a select currval('seq_key_id_seq')", "a select lastval()",
            "a select a from seq_key where id = currval('seq_key_id_seq')"],
    "reference": ["a insert into seq_reference (a) values (1)", "a select currval('seq_reference_id_seq')",
                  "a select lastval()", "b select lastval()"],
    "block": ["a begin", "a insert into seq_local (a) values (1)", "a insert into seq_spread (a) values (2), (3)",
              "a select currval('seq_local_id_seq'), currval('seq_spread_id_seq'), lastval()", "a commit",
              "a select lastval()", "b select lastval()"],
    "rolled back": ["a begin", "a select nextval('seq_one')", "a rollback", "a select currval('seq_one')"],
    "discarded": ["a select nextval('seq_one')", "a discard sequences", "a select currval('seq_one')", "a select lastval()",
                  "a select nextval('seq_one')", "a select currval('seq_one')"],
    "discarded all": ["a select seq_take()", "a discard all", "a select currval('seq_one')"],
    "discarded rows": ["a insert into seq_spread (a) select g from generate_series(1, 9) g", "a discard sequences",
                       "a select lastval()"],
    "set": ["a select setval('seq_one', 50)", "a select currval('seq_one')", "a select lastval()", "b select currval('seq_one')"],
    "caught": ["a insert into seq_spread values (nextval('seq_one'), 1)", _CATCH, *_TELL, "b select currval('seq_one')",
               "b select lastval()", "b insert into seq_spread values (nextval('seq_one'), 2)", "b select lastval()", *_TELL],
    "caught first": [_CATCH, *_TELL, "b select lastval()"],
    "caught in a block": ["a select nextval('seq_one')", "a begin", _CATCH, *_TELL, "a select nextval('seq_one')", *_TELL,
                          "a commit", *_TELL],
    "caught and rolled back": ["a select nextval('seq_one')", "a begin", "a savepoint p", _CATCH, "a rollback to p", *_TELL,
                               "a rollback", *_TELL],
    "caught and discarded": [_CATCH, "a discard sequences", *_TELL],
    "caught, then taken": [_CATCH, "a select nextval('seq_one')", *_TELL, "a select setval('seq_one', 500)",
                           "a select currval('seq_one')"],
    "set, then caught": ["a select setval('seq_one', 500)", "a select currval('seq_one')", _CATCH, *_TELL],
    "two caught": ["a insert into seq_spread select nextval('seq_one'), nextval('public.seq_two'::regclass) from seq_source",
                   *_TELL, "a select currval('seq_two')"],
    "caught beside a default": ["a insert into seq_spread (a) select nextval('seq_one') from seq_source", *_TELL,
                                "a select currval('seq_spread_id_seq')"],
    "caught returning": [_CATCH + " returning 1", *_TELL],
    "nothing caught": ["a select nextval('seq_one')", _CATCH + " where k < 0", *_TELL],
    "nothing taken": ["a insert into seq_local (a) values (1)", "a insert into seq_spread (a) select k from seq_source",
                      "a insert into seq_local (a) values (3)", "a select lastval()"],
    "caught in batches": ["a set herd.bulk_load = on", "a select nextval('seq_one')", _CATCH, *_TELL],
    "asked of a key": ["a insert into seq_spread select nextval('seq_one'), k from seq_source",
                       "a select a from seq_spread where id = currval('seq_one')",
                       "a select count(*) from seq_spread where a < lastval()",
                       "a update seq_spread set id = lastval() + 1 where a = currval('seq_one')",
                       "a update seq_key set a = currval('public.seq_one'::regclass) where id = 1",
                       "a insert into seq_reference (a) values (currval('seq_one'))",
                       "a select a from seq_reference", "a update seq_reference set a = currval('seq_reference_id_seq') where a = 30",
                       "a delete from seq_spread where id = currval('seq_one')", "a select lastval()"],
    "asked by a source": ["a select nextval('seq_two')", "a insert into seq_spread select currval('seq_two'), k from seq_source",
                          "a insert into seq_spread select nextval('seq_one'), currval('seq_two') from seq_source",
                          "a select id, a, count(*) from seq_spread group by 1, 2 order by 1, 2", *_TELL,
                          "a select currval('seq_two')"],
    "asked in a block": ["a begin", "a insert into seq_key (a) values (7)", "a savepoint p",
                         "a select a from seq_key where id = currval('seq_key_id_seq')",
                         "a update seq_key set a = 8 where id = lastval()", "a rollback to p",
                         "a select a from seq_key where id = lastval()", "a rollback",
                         "a select a from seq_key where id = currval('seq_key_id_seq')"],
    "behind changes": [step for change in (
        "create table seq_made (id serial, a int)", "alter table seq_made add b int", "create index on seq_made (a)",
        "alter table seq_made alter b type bigint using 1", "alter table seq_made alter b set default nextval('seq_one')",
        "vacuum seq_made", "analyze seq_made", "truncate seq_made restart identity", "alter sequence seq_one restart",
        "create view seq_view as select 1 as a", "drop view seq_view", "grant select on seq_made to public",
        "do $$ begin end $$", "drop table seq_made", "alter sequence seq_one rename to seq_now",
        "alter sequence seq_now rename to seq_one")
        for step in ("a select nextval('seq_one')", "a " + change, "b " + _TELL[1][2:], *_TELL)],
    "caught, then changes": [_CATCH, "a create table seq_made (id serial, a int)", *_TELL, "a alter table seq_made alter a set default 1", *_TELL,
                             "a alter sequence seq_one rename to seq_now", "a create sequence seq_one", *_TELL, "a select currval('seq_now')",
                             "b alter sequence seq_one rename to seq_three", "b alter sequence seq_now rename to seq_one", *_TELL,
                             "a drop table seq_made", *_TELL, "a drop sequence seq_three", *_TELL],
    "caught without rights": [_CATCH, "a set role seq_nobody", *_TELL, "a reset role", *_TELL],
    "in a block of changes": ["a select nextval('seq_one')", "a begin", "a create table seq_made (a int)", *_TELL, "a select nextval('seq_one')", "a commit",
                              *_TELL, "a begin", "a drop table seq_made", "a rollback", *_TELL, "a drop table seq_made", "b select nextval('seq_one')", *_TELL],
    "asked in vain": ["a insert into seq_key (a) values (1)", "b select a from seq_key where id = currval('seq_key_id_seq')",
                      "b select a from seq_key where id = lastval()"],
    "pinned and caught": ["a create temporary table seq_temp (id serial, a int)", "a select nextval('seq_one')", _CATCH, *_TELL],
    "pinned": ["a create temporary table seq_temp (id serial, a int)", "a insert into seq_temp (a) values (1)",
               "a select lastval()", "a insert into seq_local (a) values (1)", "a select lastval()", "a discard sequences",
               "a select lastval()"],
}


@pytest.fixture
def made(oracle, herd):
    oracle.run(*_MAKE)
    herd.run(*_MAKE, *_SPREAD)


def _answer(connection, sql, **how):
    try:
        cursor = connection.execute(sql, **how)
        return cursor.fetchall() if cursor.description else cursor.statusmessage
    except psycopg.Error as e:
        return e.sqlstate


def _told(server, story, **how):
    with server.connect() as a, server.connect() as b:
        return [(line, _answer({"a": a, "b": b}[line[0]], line[2:], **how)) for line in story]


# What nobody can know is not known: one server tells it.
_LOST = {
    "hidden": ["a select nextval('seq_one')", "a insert into seq_spread select seq_take(), k from seq_source", *_TELL],
    "set inside": ["a select nextval('seq_one')", "a insert into seq_spread select setval('seq_one', 70), k from seq_source", *_TELL],
    "named by a row": ["a select nextval('seq_one')",
                       "a insert into seq_spread select nextval(n::regclass), k from seq_source, (values ('seq_one')) x (n)", *_TELL],
    "nothing taken": ["a insert into seq_local (a) values (1)", "a insert into seq_spread (a) select k from seq_source",
                      "a insert into seq_local (a) select 1 where false", "a select lastval()"],
}


@pytest.mark.parametrize("name", _LOST)
def test_values_nobody_saw_are_not_known(made, oracle, herd, name):
    told, true = _told(herd, _LOST[name]), _told(oracle, _LOST[name])
    assert all(t == o or t[1] == "55000" for t, o in zip(told, true)), (told, true)
    assert told[-1][1] == "55000"


@pytest.mark.parametrize("name", _STORIES)
def test_values_are_the_sessions_own(made, oracle, herd, name):
    assert _told(herd, _STORIES[name]) == _told(oracle, _STORIES[name])


@pytest.mark.parametrize("name", [name for name in _STORIES if name.startswith(("asked", "caught"))])
def test_values_of_prepared_statements(made, oracle, herd, name):
    assert _told(herd, _STORIES[name], prepare=True) == _told(oracle, _STORIES[name], prepare=True)


def test_a_refused_insert_has_taken_values(made, herd):
    """How many rows were read before the first was refused is the herd's own affair: the newest value is what it says."""
    with herd.connect() as connection:
        connection.execute("select nextval('seq_one')")
        assert _answer(connection, "insert into seq_key select 1, nextval('seq_one') from seq_source") == "23505"
        newest = connection.execute("select last_value from seq_one").fetchall()
        assert newest > [(1,)]
        assert _answer(connection, "select currval('seq_one')") == _answer(connection, "select lastval()") == newest


@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_the_column_keeps_its_name(made, oracle, herd, protocol):
    for server in (oracle, herd):
        with server.connect() as connection:
            connection.execute("insert into seq_spread (a) select g from generate_series(1, 5) g")
            cursor = connection.execute("select currval('seq_spread_id_seq'), lastval()", prepare=protocol == "extended")
            assert [c.name for c in cursor.description] == ["currval", "lastval"]
            assert cursor.fetchall() == [(5, 5)]


def test_more_sessions_than_connections(made, herd):
    """A value is the session's own, or not known: never another's."""
    wrong, known = [], []

    def work(n):
        table = ("seq_local", "seq_key", "seq_spread")[n % 3]
        with herd.connect() as connection:
            for i in range(20):
                rows = "(%s)" if n % 2 else f"(%s), ({n})"
                took = connection.execute(f"insert into {table} (a) values {rows} returning id", (i,)).fetchall()[-1][0]
                for ask in (f"select currval('{table}_id_seq')", "select lastval()"):
                    answer = _answer(connection, ask)
                    if answer == [(took,)]:
                        known.append(n)
                    elif answer != "55000":
                        wrong.append((ask, took, answer))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert known


def test_shared_rows_tell_their_values(made, herd):
    """Rows of many clients travel together: each session knows what its own took."""
    wrong = []

    def work(n):
        with herd.connect() as connection:
            for i in range(40):
                connection.execute("insert into seq_key (a) values (%s)", (n * 1000 + i,))
                answer = _answer(connection, "select currval('seq_key_id_seq')")
                if answer == "55000":
                    continue
                row = connection.execute("select a from seq_key where id = %s", answer[0]).fetchall()
                if row != [(n * 1000 + i,)]:
                    wrong.append((answer, row, n, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
