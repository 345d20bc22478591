"""Cursors over several nodes as PostgreSQL has them: every direction, WITH HOLD, BINARY, parameters, savepoints, row limits, by both protocols."""

import itertools

import psycopg
import pytest

COUNT = 200


@pytest.fixture(scope="module")
def filled(herd, oracle):
    for server in (herd, oracle):
        server.run("drop table if exists ct, cu, cr", "create table ct (k int primary key, v int, t text)", "create table cu (k int primary key, w int)", "create table cr (k int primary key, r text)",
                   "create type mood as enum ('sad', 'glad')")
        if server is herd:
            server.run("select create_distributed_table('ct', 'k')", "select create_distributed_table('cu', 'k')", "select create_reference_table('cr')")
        server.run(f"insert into ct select g, (g * 37) % 11, repeat('t', g % 40) from generate_series(1, {COUNT}) g", f"insert into cu select g, g % 17 from generate_series(1, {COUNT}) g", "insert into cr select g, 'r' || g from generate_series(0, 20) g")
    yield
    for server in (herd, oracle):
        server.run("drop table ct, cu, cr", "drop type mood")


QUERIES = {
    "merge": "select k, v, t from ct order by v desc, k",
    "merge by text": "select t, k from ct order by t collate \"C\", k",
    "slice": "select k from ct order by k limit 60 offset 7",
    "pass on": "select k, v from ct where k = any ('{3}') or k = 11 and v > 100",
    "aggregate": "select count(*), sum(v) from ct",
    "groups": "select v, count(*) from ct group by v order by v",
    "finish": "select a.k, b.w from ct a join cu b on b.k = a.v where a.k < 70 order by a.k",
    "reference": "select ct.k, r from ct join cr on cr.k = ct.v order by ct.k",
    "one node": "select k, v from ct where k = 42",
    "nothing": "select k from ct where k < 0 order by k",
    "no columns": "select from ct where k < 4",
    "arrays": "select array[k, null], 'sad'::mood as m, row(k, v)::text from ct order by k",
}
MOVES = ["fetch next from c", "fetch 3 from c", "fetch prior from c", "fetch first from c", "fetch last from c", "fetch absolute 10 from c", "fetch absolute -3 from c", "fetch relative 4 from c", "fetch relative -2 from c",
         "fetch 0 from c", "move 2 in c", "move backward 3 in c", "fetch backward 4 from c", "fetch backward all from c", "move forward all in c", "fetch forward 5 from c", "move absolute 0 in c", "fetch all from c", "move backward all in c",
         "fetch relative 0 from c", "fetch forward -2 from c", "move absolute 20 in c", "move 0 in c", "fetch absolute 0 from c", "fetch 130 from c", "fetch backward 70 from c"]


def _says(connection, sql, binary=None):
    try:
        done = connection.execute(sql) if binary is None else connection.execute(sql, (), binary=binary)
    except psycopg.Error as e:
        return e.sqlstate, e.diag.message_primary, e.diag.message_hint
    rows = None
    if done.description is not None:
        result = done.pgresult
        rows = [[result.get_value(r, c) for c in range(result.nfields)] for r in range(result.ntuples)]
    names = [(c.name, result.fformat(i)) for i, c in enumerate(done.description)] if rows is not None else None
    return done.statusmessage, names, rows


def _both(herd, oracle, statements, **options):
    said = []
    for server in (herd, oracle):
        with server.connect(prepare_threshold=None, **options) as connection:
            said.append([(sql, _says(connection, sql, binary)) for sql, binary in statements])
    for ours, theirs in zip(*said, strict=True):
        assert ours == theirs
    return said[0]


def _order(seed, many=40):
    """Moves in an order of their own."""
    return [MOVES[(seed * 7 + i * (seed % 5 * 2 + 3) + i * i) % len(MOVES)] for i in range(many)]


@pytest.mark.parametrize("binary", [None, False, True], ids=["simple", "text", "binary"])
@pytest.mark.parametrize("hold", ["", "with hold "])
@pytest.mark.parametrize("how", ["scroll ", "binary scroll "])
@pytest.mark.parametrize("query", QUERIES)
def test_every_direction(filled, herd, oracle, query, how, hold, binary):
    for seed in range(3):
        statements = ["begin", f"declare c {how}cursor {hold}for {QUERIES[query]}", *_order(seed)[:15], *(["commit"] if hold else []), *_order(seed)[15:], "close c", "commit"]
        _both(herd, oracle, [(sql, binary if sql.startswith(("fetch", "move")) else None) for sql in statements])


@pytest.mark.parametrize("query", ["merge", "slice", "groups", "finish", "nothing"])
@pytest.mark.parametrize("hold", ["", "with hold "])
def test_no_scroll_goes_forward_only(filled, herd, oracle, query, hold):
    for back in ("fetch prior from c", "fetch absolute 1 from c", "fetch backward all from c", "fetch 0 from c", "move backward all in c", "fetch last from c", "fetch relative -1 from c"):
        statements = ["begin", f"declare c no scroll cursor {hold}for {QUERIES[query]}", "fetch 2 from c", "move 1 in c", "fetch absolute 5 from c", *(["commit"] if hold else []), "fetch relative 2 from c", back, "rollback", "close all"]
        _both(herd, oracle, [(sql, None) for sql in statements])


@pytest.mark.parametrize("query", ["merge", "slice", "groups", "reference"])
def test_what_postgresql_sorts_goes_back_without_being_told(filled, herd, oracle, query):
    _both(herd, oracle, [(sql, None) for sql in ["begin", "set local enable_indexscan = off", "set local enable_bitmapscan = off", "set local enable_nestloop = off", "set local enable_mergejoin = off", f"declare c cursor for {QUERIES[query]}", *_order(1), "commit"]])


def test_formats_may_change(filled, herd, oracle):
    """What was read ahead for one FETCH is given to another in its own format."""
    for query in ("merge", "arrays", "slice"):
        statements = [("begin", None), (f"declare c no scroll cursor for {QUERIES[query]}", None)]
        statements += [(f"fetch {n} from c", binary) for n, binary in zip((1, 2, 3, 1, 60, 1, 5), itertools.cycle((None, True, False, True)))]
        _both(herd, oracle, [*statements, ("commit", None)])


def test_they_see_what_was_there_when_they_were_declared(filled, herd, oracle):
    for hold, query in itertools.product(("", "with hold "), ("merge", "slice", "groups", "finish")):
        statements = ["begin", f"declare c scroll cursor {hold}for {QUERIES[query]}", "fetch 3 from c", "insert into ct values (1000, 0, 'new')", "update ct set v = 12 where k < 100", "delete from cu", "fetch 3 from c", "fetch last from c", "fetch all from c",
                      "fetch backward 100 from c", "rollback", "fetch 1 from c"]
        _both(herd, oracle, [(sql, None) for sql in statements])


def test_held_ones_are_as_they_were(filled, herd, oracle):
    """Of a transaction that writes on several nodes; and without one."""
    for query in QUERIES:
        for head in ([], ["begin", "update ct set v = v where k between 10 and 40"]):
            tail = ["commit"] if head else []
            statements = [*head, f"declare c no scroll cursor with hold for {QUERIES[query]}", *(["fetch 1 from c"] if head else []), *tail, "delete from ct where k = 150", "begin", "savepoint s", "fetch 2 from c", "rollback to s", "fetch 2 from c", "rollback", "fetch 500 from c",
                          "fetch 1 from c", "close c", "fetch 1 from c", "insert into ct values (150, (150 * 37) % 11, repeat('t', 30))"]
            _both(herd, oracle, [(sql, None) for sql in statements])


def test_a_held_one_goes_with_its_transaction_or_session(filled, herd, oracle):
    for end in ("rollback", "select 1/0", "savepoint x"):
        statements = ["begin", "savepoint s", "declare c cursor with hold for select k from ct order by k", "fetch 1 from c", end, "rollback to s" if end == "savepoint x" else "commit", "fetch 1 from c", "commit", "fetch 1 from c"]
        _both(herd, oracle, [(sql, None) for sql in statements])
    _both(herd, oracle, [(sql, None) for sql in ["declare c cursor with hold for select k from ct order by k", "discard all", "fetch 1 from c", "declare c cursor with hold for select k from ct order by k", "close all", "fetch 1 from c"]])


def test_savepoints(filled, herd, oracle):
    """One declared behind a savepoint goes with it; how far one has come does not go back."""
    declare = "cursor for select k from ct order by k"
    statements = ["begin", f"declare a {declare}", "savepoint s", f"declare b {declare}", "fetch 2 from a", "fetch 1 from b", "rollback to s", "fetch 2 from a", "savepoint t", "fetch 1 from b", "rollback to s", f"declare b {declare}", "release s", "savepoint u", "rollback to u",
                  "fetch 1 from b", f"declare b {declare}", "rollback to u", "fetch 3 from b", "close b", f"declare b {declare}", "fetch 1 from b", "commit", "fetch 1 from a"]
    _both(herd, oracle, [(sql, None) for sql in statements])


def test_errors(filled, herd, oracle):
    """What goes wrong with a row goes wrong when it is fetched, and ends the cursor."""
    statements = ["begin", "declare c cursor for select k, 10 / (k - 150) from ct order by k desc", "savepoint s", "fetch 400 from c", "rollback to s", "fetch 1 from c", "rollback"]
    _both(herd, oracle, [(sql, None) for sql in statements])
    for declare in ("declare c scroll cursor for select k from ct for update", "declare c cursor with hold for select k from ct for update", "declare c insensitive cursor for select k from ct for update", "declare c scroll no scroll cursor for select k from ct order by k",
                    "declare c cursor for select k from ct order by nobody", "declare c cursor for select k from ct order by k"):
        _both(herd, oracle, [("begin", None), (declare, None), ("rollback", None), (declare, None)])
    _both(herd, oracle, [("begin", None), ("declare c cursor with hold for select k, 10 / (k - 150) from ct", None), ("commit", None), ("fetch 1 from c", None)])


def test_parameters(filled, herd, oracle):
    said = []
    for server in (herd, oracle):
        with server.connect(prepare_threshold=None, cursor_factory=psycopg.Cursor) as connection:
            for hold, how in itertools.product(("", " with hold"), ("scroll", "binary no scroll")):
                connection.execute("begin")
                result = connection.pgconn.exec_params(f"declare c {how} cursor{hold} for select k, v, $2::text from ct where k > $1 order by v, k limit $3".encode(), [b"20", b"x", b"50"], param_types=[23, 25, 20])
                assert result.status == 1, result.error_message
                said.append((server is herd, _says(connection, "fetch 5 from c")))
                connection.execute("commit")
                said.append((server is herd, _says(connection, "fetch 50 from c")))
                _says(connection, "close c")
    half = len(said) // 2
    assert [s for _, s in said[:half]] == [s for _, s in said[half:]]


def test_nothing_is_read_before_it_is_asked_for(filled, herd):
    """Rows that fail are far behind those that are fetched; and what is declared and not read costs no row."""
    with herd.connect(prepare_threshold=None) as connection:
        connection.execute("begin")
        connection.execute("declare c cursor for select k, 1 / (k - k) from ct")
        connection.execute("declare d cursor for select g.g from ct, generate_series(1, 10000000) g(g)")
        assert len(connection.execute("fetch 10 from d").fetchall()) == 10
        connection.execute("close d")
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("fetch 1 from c")
        connection.execute("rollback")


def test_rows_are_locked_when_they_are_fetched(filled, herd):
    with herd.connect(prepare_threshold=None) as one, herd.connect(prepare_threshold=None) as other:
        one.execute("begin")
        one.execute("declare c cursor for select k from ct for update")
        other.execute("set statement_timeout = '30s'")
        assert len(other.execute("select k from ct for update nowait").fetchall()) == COUNT
        (first,) = one.execute("fetch 1 from c").fetchone()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute(f"select k from ct where k = {first} for update nowait")
        one.execute("commit")


def test_none_are_left_on_nodes(filled, herd):
    """Closed ones, portals that are done with, and those of transactions that are over."""
    with herd.connect(prepare_threshold=None) as connection:
        connection.execute("begin")
        for i in range(5):
            connection.execute(f"declare c{i} cursor for select k from ct order by k")
            connection.execute(f"fetch 1 from c{i}")
        connection.execute("close c1")
        connection.execute("close all")
        assert connection.execute("select count(*) from pg_catalog.pg_cursors where name like 'herd%'").fetchone() == (0,)
        connection.execute("commit")


def test_pg_cursors(filled, herd, oracle):
    shown = "select name, statement, is_holdable, is_binary, is_scrollable, now() - creation_time < '1 hour' as recent from pg_cursors order by 1"
    statements = ["begin", "declare a scroll cursor for select k from ct order by k", "declare b binary no scroll cursor with hold for select k from ct order by k", shown, "commit", shown, "close b", shown]
    _both(herd, oracle, [(sql, None) for sql in statements])


@pytest.mark.parametrize("server_of", ["herd", "oracle"])
@pytest.mark.parametrize("hold", [False, True])
def test_psycopg_named_cursors(filled, herd, oracle, server_of, hold):
    """As Django's iterator() and SQLAlchemy's stream_results use them."""
    server = {"herd": herd, "oracle": oracle}[server_of]
    with server.connect() as connection:
        with connection.transaction() if not hold else connection.cursor():
            with connection.cursor("named", withhold=hold, scrollable=False) as cursor:
                cursor.itersize = 17
                cursor.execute("select k, t from ct where k > %s order by k", (9,))
                assert [k for k, _ in cursor] == list(range(10, COUNT + 1))
            with connection.cursor("binary", withhold=hold, binary=True) as cursor:
                cursor.execute("select k, v from ct order by k")
                assert cursor.fetchmany(3) == [(1, 37 % 11), (2, 74 % 11), (3, 111 % 11)]
