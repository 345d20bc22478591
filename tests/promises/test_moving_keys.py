"""UPDATE that changes a row's key: on a herd it moves the row to another node, and the answer is plain PostgreSQL's."""

import threading

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(300)]

_TABLE = """
create table moving (id int primary key, name varchar(5), amount numeric(8,2) default 1.5, twice numeric generated always as (amount * 2) stored,
 note text, tags text[])
"""
# Each on a fresh table of 20 rows; compared: rows of RETURNING, the count, the error, and the table afterwards.
_STATEMENTS = [
    "update moving set id = 100 where id = 3",
    "update moving set id = id + 100",
    "update moving set id = id + 100 returning id, name, twice",
    "update moving m set id = m.id + 100, name = 'x' || m.id, amount = 7.777 where m.id < 5 returning m.*",
    "update moving set id = 100, amount = 2 where id = 7 returning *",
    "update moving set id = -id, note = null, tags = tags || 'new' where id % 2 = 0",
    "update moving set id = 4 where id = 3",
    "update moving set id = null where id = 3",
    "update moving set id = 'x' where id = 3",
    "update moving set id = 200, name = 'too long for it' where id = 3",
    "update moving set id = '300' where id = 3",
    "update moving set id = 400, amount = '1.239' where id = 3",
    "update moving set id = 100 where id = 999",
    "update moving set id = 1/0 where id = 3",
    "update moving set id = (select max(x) + 500 from generate_series(1, 5) x) where id = 3",
    "update moving set id = v.new from (values (3, 1003), (5, 1005), (99, 1)) as v (old, new) where moving.id = v.old",
    "update moving set nothing = 1, id = 5 where id = 3",
    "update moving set id = id",
    "update moving set id = id + 1000 where name = 'n3' or id in (4, 5, 6)",
    "with v as (select 9 as old) update moving set id = 900 from v where id = v.old",
]


@pytest.fixture
def both(herd, oracle):
    found = []
    for server in (herd, oracle):
        with server.connect() as connection:
            connection.execute("drop table if exists moving")
            connection.execute(_TABLE)
            if server is herd:
                connection.execute("select create_distributed_table('moving', 'id')")
            connection.execute("insert into moving (id, name, amount, note, tags) select g, 'n' || g, g, 'note ' || g, array['a', 'b' || g] from generate_series(1, 20) g")
        found.append(server)
    return found


def _answer(connection, sql: str, values=None):
    try:
        cursor = connection.execute(sql, values)
        return sorted(cursor.fetchall(), key=str) if cursor.description else [], cursor.rowcount, None
    except psycopg.Error as error:
        return [], -1, error.sqlstate


def _table(server):
    with server.connect() as connection:
        return connection.execute("select * from moving order by id").fetchall()


@pytest.mark.parametrize("sql", _STATEMENTS)
@pytest.mark.parametrize("prepared", [False, True], ids=["simple", "extended"])
def test_as_plain_postgresql(both, sql, prepared):
    got = []
    for server in both:
        with server.connect(prepare_threshold=0 if prepared else None) as connection:
            cursor = psycopg.ClientCursor(connection) if not prepared else connection
            got.append((_answer(cursor if prepared else connection, sql), _table(server)))
    assert got[0] == got[1]


def test_with_parameters(both):
    for format in (False, True):
        answers = []
        for server in both:
            with server.connect(prepare_threshold=0) as connection:
                cursor = connection.cursor(binary=format)
                cursor.execute("update moving set id = %s, amount = %s where id = %s returning id, amount, twice, tags", (500 + format, 3, 3 + format))
                answers.append((cursor.fetchall(), _table(server)))
        assert answers[0] == answers[1] and len(answers[0][0]) == 1


def test_in_a_transaction_that_rolls_back(both):
    herd = both[0]
    before = _table(herd)
    with herd.connect(autocommit=False) as connection:
        connection.execute("savepoint a")
        connection.execute("update moving set id = id + 100")
        assert connection.execute("select min(id), count(*) from moving").fetchone() == (101, 20)
        connection.execute("rollback to a")
        assert connection.execute("select min(id), count(*) from moving").fetchone() == (1, 20)
        connection.execute("update moving set id = 100 where id = 1")
        connection.rollback()
    assert _table(herd) == before


def test_what_is_refused(herd):
    """Triggers, foreign keys and policies would see a DELETE and an INSERT: 0A000, and nothing changes."""
    herd.run(
        "drop table if exists moving_child, moving_parent", "create table moving_parent (id int primary key, v int)",
        "select create_distributed_table('moving_parent', 'id')",
        "create table moving_child (id int primary key references moving_parent on delete cascade)",
        "select create_distributed_table('moving_child', 'id', colocate_with => 'moving_parent')",
        "insert into moving_parent select g, g from generate_series(1, 9) g", "insert into moving_child select generate_series(1, 9)",
    )
    with herd.connect() as connection:
        for sql in ("update moving_parent set id = 100 where id = 1", "update moving_parent set id = default where id = 1"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(sql)
        assert connection.execute("select count(*), max(id) from moving_child").fetchone() == (9, 9)
        # The child itself may move, to where there is a parent and no other child.
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("update moving_child set (id) = (select 5) where id = 1")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.execute("update moving_child set id = 100 where id = 1")
        connection.execute("insert into moving_parent values (100, 1)")
        assert connection.execute("update moving_child set id = 100 where id = 1").rowcount == 1


def test_what_is_too_long_is_an_error_between_shards(herd, oracle):
    """INSERT … SELECT over other keys casts nothing away."""
    for server in (herd, oracle):
        server.run("drop table if exists moving_to, moving_from", "create table moving_to (id int primary key, s varchar(3), b bit(3))", "create table moving_from (id int primary key, s text, b bit varying)")
    herd.run("select create_distributed_table('moving_to', 'id')", "select create_distributed_table('moving_from', 'id')")
    for server in (herd, oracle):
        server.run("insert into moving_from values (1, 'abcdef', '101'), (2, 'abc', '1010'), (3, 'x', '111')")
        with server.connect() as connection:
            for condition in ("id = 1", "id = 2", "id = 3"):
                answer = _answer(connection, f"insert into moving_to select id + 7, s, b from moving_from where {condition} on conflict do nothing")
                expected = {"id = 1": "22001", "id = 2": "22026", "id = 3": None}[condition]
                assert answer[2] == expected, (server.name, condition, answer)
            assert connection.execute("select * from moving_to").fetchall() == [(10, "x", "111")]


@pytest.mark.parametrize("waits", [
    "update moving set note = 'seen' where name = 'n5'", "update moving set note = 'seen'", "delete from moving where name = 'n5'",
    "select amount from moving where name = 'n5' for update", "update moving set note = 'seen' where id = 5",
])
@pytest.mark.parametrize("other", ["update moving set id = 1005 where id = 5", "update moving set id = id + 1000"])
def test_who_waits_for_a_row_that_moves_does_not_pass_over_it(both, waits, other):
    """PostgreSQL without partitions finds the row where it is now; with them it says 40001. Nobody may count without it."""
    said = {}
    for server in both:
        with server.connect() as moves, server.connect() as waiting:
            moves.execute("begin")
            moves.execute(other)
            got = []
            thread = threading.Thread(target=lambda: got.append(_answer(waiting, waits)))
            thread.start()
            thread.join(0.7)
            assert thread.is_alive()
            with server.connect() as reader:
                assert reader.execute("select count(*) from moving").fetchone() == (20,)
            moves.execute("commit")
            thread.join(60)
            said[server.name] = got + _table(server)
    assert said[both[0].name] == said[both[1].name]
