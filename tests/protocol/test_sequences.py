"""currval and lastval are a session's own, wherever its statements ran: compared with one server."""

import threading

import psycopg
import pytest

_MAKE = (
    "drop table if exists seq_local, seq_spread, seq_key, seq_reference, seq_triggered cascade",
    "drop sequence if exists seq_one",
    "create sequence seq_one",
    "create table seq_local (id serial, a int)",
    "create table seq_spread (id bigserial, a int)",
    "create table seq_key (id bigserial primary key, a int)",
    "create table seq_reference (id serial primary key, a int)",
    "create table seq_triggered (id int, a int)",
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
)
_ALL = "select currval('seq_one')", "select currval('seq_spread_id_seq')", "select lastval()"

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
    "pinned": ["a create temporary table seq_temp (id serial, a int)", "a insert into seq_temp (a) values (1)",
               "a select lastval()", "a insert into seq_local (a) values (1)", "a select lastval()", "a discard sequences",
               "a select lastval()"],
}


@pytest.fixture
def made(oracle, herd):
    oracle.run(*_MAKE)
    herd.run(*_MAKE, *_SPREAD)


def _answer(connection, sql):
    try:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else cursor.statusmessage
    except psycopg.Error as e:
        return e.sqlstate


def _told(server, story):
    with server.connect() as a, server.connect() as b:
        return [(line, _answer({"a": a, "b": b}[line[0]], line[2:])) for line in story]


@pytest.mark.parametrize("name", _STORIES)
def test_values_are_the_sessions_own(made, oracle, herd, name, request):
    if name == "key":
        request.applymarker(pytest.mark.xfail(reason="a key compared with currval() is refused since currval runs on home alone"))
    assert _told(herd, _STORIES[name]) == _told(oracle, _STORIES[name])


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
