"""COPY data that PostgreSQL refuses is refused in its words; binary data may leave out serial columns."""

import struct

import psycopg
import pytest

_TABLE = (
    "drop table if exists copy_data",
    "create table copy_data (id int primary key, v text, extra serial)",
)
# name → (options, data)
REFUSED = {
    "a literal carriage return": ("", "1\ta\rb\n2\tc\n"),
    "a literal newline": ("", "1\ta\r\n2\tc\n"),
    "an unquoted carriage return": ("(format csv)", "1,a\rb\n2,c\n"),
    "an unquoted newline": ("(format csv)", "1,a\r\n2,c\n"),
    "an open quote": ("(format csv)", '1,"a\n2,c\n'),
    "too few columns": ("", "1\n"),
    "too many columns": ("", "1\ta\tb\n"),
    "a bad number": ("", "x\ta\n"),
    "a binary signature": ("(format binary)", "not at all"),
}
# A line of `\.` ends the data of servers before 18, and is a value for later ones.
MARKER = "1,a\n\\.\n2,b\n"


@pytest.fixture(scope="module")
def tables(oracle, herd):
    oracle.run(*_TABLE)
    herd.run(*_TABLE, "select create_distributed_table('copy_data', 'id')")
    yield
    for server in (oracle, herd):
        server.run("drop table copy_data")


@pytest.fixture
def empty(tables, oracle, herd):
    for server in (oracle, herd):
        server.run("delete from copy_data", "alter sequence copy_data_extra_seq restart")


def _copied(server, statement: str, data: bytes) -> tuple:
    """What a COPY comes to: its error's fields, or the rows."""
    with server.connect() as connection:
        try:
            with connection.cursor().copy(statement) as copy:
                copy.write(data)
        except psycopg.Error as error:
            diag = error.diag
            return diag.sqlstate, diag.message_primary, diag.message_hint
        return tuple(connection.execute("select id, v from copy_data order by id").fetchall())


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_postgresql_does(empty, oracle, herd, name):
    options, data = REFUSED[name]
    statement = f"copy copy_data (id, v) from stdin {options}"
    expected = _copied(oracle, statement, data.encode())
    assert isinstance(expected[0], str), expected
    assert _copied(herd, statement, data.encode()) == expected


@pytest.mark.parametrize("data", [MARKER, MARKER.replace("\n", "\r\n")], ids=["newline", "both"])
def test_a_marker_in_csv_means_what_the_servers_version_says(empty, oracle, herd, data):
    statement = "copy copy_data (id, v) from stdin (format csv)"
    assert _copied(herd, statement, data.encode()) == _copied(oracle, statement, data.encode())


def test_an_encoding_that_cannot_be_cut_by_bytes(empty, herd):
    state, message, hint = _copied(herd, "copy copy_data (id, v) from stdin (encoding 'SJIS')", b"1\ta\n")
    assert (state, hint) == ("0A000", "Convert the data to UTF8 and set client_encoding accordingly.")
    assert "SJIS" in message
    assert _copied(herd, "copy copy_data (id, v) from stdin (encoding 'UTF8')", "1\tä\n".encode()) == ((1, "ä"),)


def test_binary_without_values_for_a_serial_column(empty, herd):
    def field(value: bytes) -> bytes:
        return struct.pack(">i", len(value)) + value

    rows = b"".join(struct.pack(">h", 2) + field(struct.pack(">i", i)) + field(b"v%d" % i) for i in range(1, 301))
    data = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0) + rows + struct.pack(">h", -1)
    copied = _copied(herd, "copy copy_data (id, v) from stdin (format binary)", data)
    assert copied == tuple((i, f"v{i}") for i in range(1, 301))
    with herd.connect() as connection:
        found = connection.execute("select count(distinct extra), min(extra), max(extra) from copy_data").fetchone()
        assert found == (300, 1, 300)


@pytest.mark.parametrize("kind", ["smallserial", "bigserial", "int generated always as identity"])
def test_binary_with_a_key_from_a_sequence(herd, kind):
    """The key is not in the data: rows are placed by what their sequence gives."""
    herd.run("drop table if exists copy_key", f"create table copy_key (id {kind} primary key, v int)")
    herd.run("select create_distributed_table('copy_key', 'id')")
    with herd.connect() as connection:
        with connection.cursor().copy("copy copy_key (v) from stdin (format binary)") as copy:
            copy.set_types(["int4"])
            for i in range(1, 101):
                copy.write_row((i,))
        assert connection.execute("select count(*), count(distinct id) from copy_key where id between 1 and 100").fetchone() == (100, 100)
        for i in (1, 50, 100):
            assert connection.execute("select count(*) from copy_key where id = %s", (i,)).fetchone() == (1,)
    herd.run("drop table copy_key")
