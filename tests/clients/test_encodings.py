"""Clients that speak other character sets than UTF8: every character of each set, what is none, COPY, errors, and the setting itself, as a plain
PostgreSQL has them."""

import random
import subprocess

import psycopg
import pytest
from harness import binaries
from harness.herd import Herd
from harness.plain_postgres import PlainPostgres
from psycopg import pq

pytestmark = pytest.mark.timeout(300)

SINGLE = [
    *(f"LATIN{n}" for n in range(1, 11)), "ISO_8859_5", "ISO_8859_6", "ISO_8859_7", "ISO_8859_8", "KOI8R", "KOI8U", "WIN866", "WIN874",
    *(f"WIN125{n}" for n in range(9)),
]
SEVERAL = ["SJIS", "EUC_JP", "BIG5", "GBK", "UHC", "JOHAB", "EUC_CN", "EUC_KR"]


@pytest.fixture(scope="module")
def servers():
    made = []
    try:
        made.append(PlainPostgres("encodings"))
        made.append(Herd(nodes=2, shards=4))
        for one in made:
            one.server.run("create table chars (i int primary key, c text)")
        made[1].server.run("select create_distributed_table('chars', 'i')")
        for one in made:
            one.server.run("insert into chars select i, chr(i) from generate_series(1, 65535) i where i not between 55296 and 57343")
        yield made
    finally:
        for one in made:
            one.stop()


@pytest.fixture()
def both(servers):
    connections = [one.server.connect() for one in servers]
    yield connections
    for connection in connections:
        connection.close()


def said(connection: psycopg.Connection, sql: bytes, *values: bytes) -> object:
    """What libpq gets, bytes as they are."""
    result = connection.pgconn.exec_params(sql, list(values)) if values else connection.pgconn.exec_(sql)
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        return result.error_field(pq.DiagnosticField.SQLSTATE), result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
    names = [result.fname(c) for c in range(result.nfields)]
    return names, [[result.get_value(r, c) for c in range(result.nfields)] for r in range(result.ntuples)], result.command_status


def same(both, sql: bytes, *values: bytes) -> object:
    plain, herd = (said(connection, sql, *values) for connection in both)
    assert herd == plain, sql
    return plain


def characters(servers, encoding: str) -> tuple[dict[bytes, str], set[str]]:
    """Bytes with their characters, and all characters that become bytes."""
    rows = psycopg.connect(servers[1].node_servers[0].conninfo).execute("select way, bytes, means from herd.encoding(%s) where way is not null", (encoding,)).fetchall()
    meant = {bytes.fromhex(b): c for way, b, c in rows if way == "d"}
    return meant, {c for way, _, c in rows if way == "e"} or set(meant.values())


@pytest.mark.parametrize("encoding", SINGLE + SEVERAL)
def test_every_character_comes_and_goes_as_with_postgresql(servers, both, encoding):
    chance = random.Random(encoding)
    meant, known = characters(servers, encoding)
    assert len(meant) > (40 if encoding in SINGLE else 5000)
    same(both, f"set client_encoding = '{encoding}'".encode())
    # From the server: all of them, and of the others some, each of which is refused.
    same(both, f"select i, c from chars where i = any ('{{{','.join(str(ord(c)) for c in known)}}}') order by i".encode())
    unknown = [i for i in range(128, 65536) if chr(i) not in known and not 0xD800 <= i <= 0xDFFF]
    for i in chance.sample(unknown, 20):
        assert same(both, f"select c from chars where i = {i}".encode())[0] == b"22P05"
    # To it, in statements and in parameters.
    every = list(meant)
    text = b"".join(b for b in every if b != b"'")
    same(both, b"select convert_to('" + text + b"', 'UTF8')")
    same(both, b"select convert_to($1, 'UTF8'), length($1)", text)
    # What is none: a character cut short, and bytes at random.
    for _ in range(40):
        wrong = chance.choice(every)[:1] + bytes([chance.choice(range(32, 127)) if chance.random() < 0.3 else chance.randrange(128, 256)])
        if b"'" not in wrong and b"\\" not in wrong:
            same(both, b"select convert_to('a" + wrong + b"b', 'UTF8')")
            same(both, b"select convert_to($1, 'UTF8')", b"a" + wrong)


def test_the_setting_is_part_of_the_transaction(both):
    euro = "select chr(8364)".encode()
    for statement in (
        "set client_encoding = 'latin-1'", "show client_encoding", "select current_setting('client_encoding'), pg_client_encoding()", "begin", "set local client_encoding to 'WIN1252'",
        "select chr(8364)", "savepoint s", "set client_encoding = 'UTF8'", "select chr(8364)", "rollback to s", "select chr(8364)", "commit", "show client_encoding",
        "begin", "select chr(8364)", "select 1", "commit", "set names 'KOI8R'", "show client_encoding", "reset client_encoding", "show client_encoding",
        "set client_encoding = 'WIN1251'", "reset all", "show client_encoding", "set client_encoding = 'WIN1251'", "discard all", "show client_encoding", "set client_encoding = 'none such'",
        "set client_encoding = 'SQL_ASCII'", "select chr(8364)", "show client_encoding",
    ):
        same(both, statement.encode())
        plain, herd = (c.pgconn.parameter_status(b"client_encoding") for c in both)
        assert herd == plain, statement
    same(both, b"set client_encoding = 'LATIN1'")
    assert same(both, euro)[0] == b"22P05"
    assert same(both, b"select 'a'") [1] == [[b"a"]]


def test_what_a_row_returns_decides_over_its_transaction(both):
    for connection in both:
        connection.execute("set client_encoding = 'LATIN1'")
    for statement in (
        b"begin", b"insert into chars values (-1, chr(8364)) returning c", b"select 1", b"rollback", b"select count(*) from chars where i = -1",
        b"begin", b"insert into chars values (-1, 'a') returning c", b"commit", b"delete from chars where i < 0 returning i, c",
        b"insert into chars values (-2, 'x'); select c from chars where i = 8364; insert into chars values (-3, 'y')", b"select count(*) from chars where i < 0",
    ):
        same(both, statement)


def test_a_statement_whose_rows_cant_be_told_has_done_nothing(both):
    for connection in both:
        connection.execute("set client_encoding = 'LATIN1'")
        connection.execute("create or replace function writes(n int) returns text language sql as $$ insert into chars values (n, 'w') returning chr(8364) $$")
    for statement in (
        b"insert into chars values (-20, 'x') returning chr(8364)",
        b"with w as (insert into chars values (-23, 'x') returning i) select chr(8364), i from w", b"update chars set c = 'changed' where i = 65 returning chr(8364)",
        b"prepare p as insert into chars values (-24, 'x') returning chr(8364)", b"execute p", b"delete from chars where i = 66 returning chr(8364)",
    ):
        same(both, statement)
    for connection in both:
        assert connection.pgconn.exec_params(b"insert into chars values ($1, 'y') returning chr(8364)", [b"-25"]).error_field(pq.DiagnosticField.SQLSTATE) == b"22P05"
    assert same(both, b"select count(*) filter (where i < 0), string_agg(c, '' order by i) filter (where i in (65, 66)) from chars")[1] == [[b"0", b"AB"]]


def test_errors_behind_rows_that_cant_be_told(both):
    for connection in both:
        connection.execute("set client_encoding = 'LATIN1'")
    for statement in (
        b"select chr(8364), 1 / (2 - g) from generate_series(1, 3) g", b"select 1",
        b"begin", b"savepoint s", b"select case when i = 5000 then chr(8364) else repeat('x', 1000) end from chars where i between 1000 and 9000 order by i", b"rollback to s", b"select 1", b"commit",
        b"begin", b"declare c cursor for select chr(8364)", b"fetch c", b"rollback", b"select chr(233); select chr(8364); select 1",
    ):
        same(both, statement)


def test_what_a_program_catches_is_not_told_twice(both):
    for connection in both:
        connection.execute("set client_encoding = 'LATIN1'")
        connection.pgconn.send_query(b"select chr(195) || chr(169); do $$ begin begin insert into chars values (65, 'twice'); exception when unique_violation then null; end; perform chr(233); end $$; select chr(233)")
    told = []
    for connection in both:
        told.append([])
        while result := connection.pgconn.get_result():
            told[-1].append((result.status, result.get_value(0, 0) if result.ntuples else None))
    assert told[1] == told[0]
    assert told[0][0][1] == b"\xc3\xa9"


def test_nodes_do_not_say_what_the_client_speaks(both):
    herd = both[1]
    herd.execute("set client_encoding = 'LATIN1'")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        herd.execute("do $$ begin set client_encoding = 'WIN1252'; end $$")
    assert herd.pgconn.parameter_status(b"client_encoding") == b"LATIN1"
    assert herd.execute("select 'é'").fetchone() == ("é",)


def test_many_parameters(both):
    values = [b"\xc3\xa9"] + [b"1"] * 32767
    told = []
    for connection in both:
        connection.execute("set client_encoding = 'LATIN1'")
        result = connection.pgconn.exec_params(b"select convert_to($1, 'UTF8'), $32768", values, param_types=[25] * len(values))
        told.append((result.get_value(0, 0), result.get_value(0, 1)))
    assert told[1] == told[0] == (b"\\xc383c2a9", b"1")


def test_a_copy_has_nothing_of_one_that_failed(both):
    for connection in both:
        connection.execute("set client_encoding = 'SJIS'")
        for wrong in (b"-30\tx\x81", b"-30\tx\n\\.\x81", b"nothing\n-31\tx\x81"):
            with pytest.raises(psycopg.Error), connection.cursor().copy("copy chars from stdin") as copy:
                copy.write(wrong)
                if wrong.endswith(b"x\x81") and not wrong.startswith(b"nothing"):
                    raise psycopg.Error("given up")
            with connection.cursor().copy("copy chars (c, i) from stdin") as copy:
                copy.write(b"ABC\t-32\n")
            assert connection.execute("delete from chars where i < 0 returning i, c").fetchall() == [(-32, "ABC")]


def test_encodings_by_many_names(servers):
    """Each spelling is the same table."""
    with servers[1].server.connect() as connection:
        for n in range(300):
            connection.execute(f"set client_encoding = 'uhc{'-' * (n % 7)}{' ' * (n // 7)}'")
            assert connection.execute("show client_encoding").fetchone() == ("UHC",)


def test_names_notices_and_errors(both):
    for connection in both:
        connection.execute("set client_encoding = 'LATIN1'")
    same(both, 'create temp table "größe" ("höhe" int)'.encode("latin1"))
    same(both, 'select * from "größe"'.encode("latin1"))
    same(both, 'select * from "fehlt_ä"'.encode("latin1"))
    same(both, "select 1 as \"ü\", 'ß'::int".encode("latin1"))
    same(both, "do $$ begin raise exception 'so nicht: %', 'ö'; end $$".encode("latin1"))
    # PostgreSQL says 22P05 in its place; here it is read without what can't be told.
    raised = "do $$ begin raise exception 'so nicht: %, %', 'ö', chr(8364); end $$".encode("latin1")
    assert said(both[1], raised) == (b"P0001", "so nicht: ö, ?".encode("latin1"))
    same(both, "prepare \"vorwärts\" as select 'é'::text || $1".encode("latin1"))
    same(both, "execute \"vorwärts\" ('è')".encode("latin1"))


def test_copy_says_what_was_wrong(both):
    """Also where more data has come since."""
    for connection in both:
        connection.execute("set client_encoding = 'SJIS'")
        with pytest.raises(psycopg.errors.CharacterNotInRepertoire, match='encoding "SJIS": 0xff'), connection.cursor().copy("copy chars from stdin") as copy:
            copy.write(b"-40\ta\xffb\n")
            copy.write(b"-41\tb\n")


def test_values_in_binary(both):
    came = []
    for connection in both:
        connection.execute("set client_encoding = 'LATIN1'")
        rows = connection.execute("select i, c, i * 1.5, 'é'::varchar, null::text, convert_to(c, 'UTF8') from chars where i in (233, 255, 200) order by i", binary=True).fetchall()
        with connection.transaction():
            connection.execute("declare b binary cursor for select c, i::int8 * 1234567890123 from chars where i between 128 and 255 order by i")
            result = connection.pgconn.exec_(b"fetch all b")
            came.append((rows, [[result.get_value(r, c) for c in range(2)] for r in range(result.ntuples)], result.fformat(0)))
    assert came[1] == came[0]
    assert len(came[0][1]) == 128 and came[0][2] == 1


@pytest.mark.parametrize("encoding", ["LATIN1", "SJIS", "EUC_JP"])
def test_copy(servers, both, encoding):
    _, known = characters(servers, encoding)
    lines = "".join(f"{-10 - n}\ta{c}b\\t{c}\n" for n, c in enumerate(sorted(known)) if c not in "\\")
    python = {"LATIN1": "latin1", "SJIS": "cp932", "EUC_JP": "euc_jp"}[encoding]
    data = lines.encode(python, "ignore")
    came = []
    for connection in both:
        connection.execute(f"set client_encoding = '{encoding}'")
        with connection.cursor().copy("copy chars from stdin") as copy:
            # Characters are cut.
            for at in range(0, len(data), 1001):
                copy.write(data[at : at + 1001])
        with connection.cursor().copy("copy (select * from chars where i < 0 order by i) to stdout") as copy:
            out = b"".join(bytes(piece) for piece in copy)
        with connection.cursor().copy("copy (select * from chars where i < 0 order by i) to stdout (format csv, encoding 'UTF8')") as copy:
            utf8 = b"".join(bytes(piece) for piece in copy)
        with connection.cursor().copy("copy chars from stdin (encoding 'UTF8')") as copy:
            copy.write("-5\tñ\n".encode())
        own = connection.execute("select convert_to(c, 'UTF8') from chars where i = -5").fetchone()
        refused = None
        try:
            with connection.cursor().copy("copy chars from stdin") as copy:
                copy.write(b"-6\ta\n-7\t\xff")
        except psycopg.Error as error:
            refused = error.sqlstate
        connection.execute("delete from chars where i < 0")
        came.append((out, utf8, own, refused))
    assert came[1] == came[0]
    assert came[0][0].count(b"\n") > 90
    # In LATIN1 every byte is a character.
    assert came[0][3] == (None if encoding == "LATIN1" else "22021")


def test_clients_that_ask_at_the_start(servers):
    shown = []
    for one in servers:
        environment = {"PGCLIENTENCODING": "WIN1252", "PATH": "/usr/bin:/bin"}
        command = [binaries.postgres_bin() / "psql", "-XAtq", "-h", "127.0.0.1", "-p", str(one.server.port), "-U", "postgres", "-d", "postgres", "-c", "show client_encoding", "-c", "select chr(8364)"]
        shown.append(subprocess.run(command, env=environment, capture_output=True).stdout)
        for wrong in ("nothing", "utf16"):
            with pytest.raises(psycopg.OperationalError, match="invalid value for parameter \"client_encoding\""):
                psycopg.connect(one.server.conninfo + f" client_encoding={wrong}")
    assert shown == [b"WIN1252\n\x80\n"] * 2


def test_what_is_not_supported_says_so(servers):
    with servers[1].server.connect() as connection:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="GB18030"):
            connection.execute("set client_encoding = 'GB18030'")
        connection.execute("set client_encoding = 'LATIN1'")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="binary format"):
            connection.execute("select array[c] from chars where i = %s", (233,), binary=True)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="binary format"):
            connection.execute("select %b::text", ("é",))
        # What would be another client encoding on a node alone.
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="client_encoding"):
            connection.execute("select set_config('client_encoding', 'UTF8', false)")
        assert connection.execute("select %b::int8", (2**40 + 233,)).fetchone() == (2**40 + 233,)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="binary format"), connection.cursor().copy("copy chars to stdout (format binary)") as copy:
            copy.read()
        with connection.transaction():
            connection.execute("declare b binary cursor for select array[c] from chars where i = 233")
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="binary format"), connection.transaction():
                connection.execute("fetch b")
