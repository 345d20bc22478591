"""What functions and triggers RAISE reaches the client, whichever nodes they ran on: as many notices as PostgreSQL gives, in any order."""

import psycopg
import pytest

pytestmark = pytest.mark.timeout(120)

_SETUP = (
    """create or replace function nt_say(i int) returns int language plpgsql stable as
       $$ begin raise notice 'say %', i using detail = 'more'; raise debug 'quiet %', i; return i; end $$""",
    """create or replace function nt_row() returns trigger language plpgsql as
       $$ begin raise notice '% %', tg_op, coalesce(new.k, old.k); return coalesce(new, old); end $$""",
    "drop table if exists nt, nt_ref",
    "create table nt (k int primary key, v int)",
    "create table nt_ref (k int primary key, v int)",
)
_DISTRIBUTE = ("select create_distributed_table('nt', 'k')", "select create_reference_table('nt_ref')")
_TRIGGERS = tuple(f"create trigger says before insert or update or delete on {t} for each row execute function nt_row()" for t in ("nt", "nt_ref"))


@pytest.fixture(scope="module")
def both(oracle, herd_many):
    herd = herd_many.server
    oracle.run(*_SETUP, *_TRIGGERS)
    herd.run(*_SETUP, *_DISTRIBUTE, *_TRIGGERS)
    yield oracle, herd
    for server in (oracle, herd):
        server.run("drop table nt, nt_ref", "drop function nt_say, nt_row")


@pytest.fixture
def told(both):
    """What each of the two says of a statement, on rows 1 to 20."""
    made = []
    for server in both:
        with server.connect() as boss:
            for table in ("nt", "nt_ref"):
                boss.execute(f"delete from {table}")
                boss.execute(f"insert into {table} select i, i from generate_series(1, 20) i")
        made.append(server.connect())

    def tell(run) -> list[list]:
        heard = []
        for conn in made:
            notices: list = []
            handler = lambda d: notices.append((d.severity, d.sqlstate, d.message_primary, d.message_detail))  # noqa: E731
            conn.add_notice_handler(handler)
            try:
                run(conn)
            finally:
                conn.remove_notice_handler(handler)
            heard.append(sorted(notices, key=str))
        return heard

    yield tell
    for conn in made:
        conn.close()


_STATEMENTS = {
    "select nt_say(k) from nt": 20,
    "select nt_say(k) from nt order by k": 20,
    "select count(*) from nt where nt_say(k) > 0": 20,
    "select sum(nt_say(k)) from nt group by v % 3": 20,
    "select v from nt where k = 3 and nt_say(k) = 3": 1,
    "update nt set v = 0": 20,
    "update nt set v = nt_say(k) where k < 9 returning k": 16,
    "delete from nt": 20,
    "insert into nt select k + 100, v from nt": 20,
    "insert into nt values (31, 1), (32, 2), (33, 3), (34, 4)": 4,
    "update nt_ref set v = 1": 20,
    "insert into nt_ref values (31, 1), (32, 2)": 2,
    "delete from nt_ref where k < 5 returning v": 4,
    "insert into nt_ref select k + 100, v from nt where k < 9": 8,
    "copy (select nt_say(k) from nt) to stdout": 20,
}


def _run(sql: str, prepare: bool = False):
    def run(conn: psycopg.Connection) -> None:
        if sql.startswith("copy"):
            with conn.cursor().copy(sql) as copy:
                list(copy)
        else:
            conn.execute(sql, prepare=prepare)

    return run


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("sql", _STATEMENTS)
def test_every_notice_arrives(told, sql, prepare):
    expected, heard = told(_run(sql, prepare))
    assert len(expected) == _STATEMENTS[sql] and heard == expected


def test_copy_in(told):
    def run(conn):
        with conn.cursor().copy("copy nt from stdin") as copy:
            for k in range(40, 60):
                copy.write_row((k, k))

    expected, heard = told(run)
    assert len(expected) == 20 and heard == expected


def test_in_blocks_and_before_errors(told):
    def run(conn):
        with pytest.raises(psycopg.errors.DivisionByZero), conn.transaction():
            conn.execute("select nt_say(k) from nt")
            conn.execute("update nt set v = 0")
            conn.execute("select 1 / v from nt")

    expected, heard = told(run)
    assert len(expected) == 40 and heard == expected


@pytest.mark.parametrize("level", ["warning", "notice", "error"])
def test_client_min_messages(told, level):
    def run(conn):
        conn.execute(f"set client_min_messages = {level}")
        conn.execute("select nt_say(k) from nt")
        conn.execute("update nt set v = 1")
        conn.execute("reset client_min_messages")

    expected, heard = told(run)
    assert len(expected) == (40 if level == "notice" else 0) and heard == expected


def test_many_notices_are_not_gathered_in_the_router(told):
    def run(conn):
        conn.execute("select count(*) from nt a, generate_series(1, 2000) i where nt_say(a.k + i * 0) > 0")

    expected, heard = told(run)
    assert len(expected) == 40000 and heard == expected
