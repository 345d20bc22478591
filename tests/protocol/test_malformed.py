"""Malformed frames after login: PostgreSQL's own error or end of the connection, and everybody else goes on."""

import random

import pytest

from protocol import frames
from protocol.frames import bind, int16, int32, message, parse, query, sync, text
from protocol.raw import Raw

# The server ends the connection.
FATAL = {
    "length 0": b"Q" + int32(0),
    "length 3": b"Q" + int32(3),
    "negative length": b"Q" + int32(-1),
    "length 2 GiB": b"Q" + int32(0x7FFFFFFF) + b"x",
    "huge length of a small message": b"S" + int32(0x0FFFFFFF) + b"x",
    "unknown type": message("z", b"abc"),
    "type 0": b"\0" + int32(4),
}
# The server answers with an error, and the session goes on after Sync.
ERROR = {
    "Query without terminator": message("Q", b"select 1"),
    "Query with bytes after it": message("Q", b"select 1\0extra"),
    "Query empty body": message("Q"),
    "Query in invalid UTF-8": query(b"select '\xff\xfe'"),
    "Parse without terminator": message("P", b"name") + sync(),
    "Parse that counts more types": message("P", text("") + text("select 1") + int16(3) + int32(23)) + sync(),
    "Parse with bytes after it": message("P", text("") + text("select 1") + int16(0) + b"extra") + sync(),
    "Parse with a type that is none": parse("select $1", types=(4000000,)) + sync(),
    "Bind with too few values": parse("select $1::int, $2::int") + bind("1") + sync(),
    "Bind with too many values": parse("select $1::int") + bind("1", "2") + sync(),
    "Bind with too many formats": parse("select $1::int, $2::int, $3::int") + bind("1", "2", "3", formats=(0, 1)) + sync(),
    "Bind with a format that is none": parse("select $1::int") + bind("1", formats=(7,)) + sync(),
    "Bind with too many result formats": parse("select 1") + bind(results=(0, 0, 0)) + sync(),
    "Bind truncated": parse("select $1::int") + message("B", text("") + text("") + int16(0) + int16(1) + int32(100) + b"12") + sync(),
    "Bind with a negative size": parse("select $1::int") + message("B", text("") + text("") + int16(0) + int16(1) + int32(-2)) + sync(),
    "Bind with bytes after it": parse("select 1") + message("B", text("") + text("") + int16(0) * 3 + b"extra") + sync(),
    "Bind of a bad text value": parse("select $1::int") + bind("abc") + sync(),
    "Bind of a bad binary value": parse("select $1::int") + bind(b"\0\0", formats=(1,)) + sync(),
    "Bind of a bad binary key": parse("select v from proto where id = $1") + bind(b"\0\0\0", formats=(1,)) + sync(),
    "Bind of invalid UTF-8": parse("select $1::text") + bind(b"\xff") + sync(),
    "Describe of an unknown kind": message("D", b"X" + text("")) + sync(),
    "Describe of an empty body": message("D") + sync(),
    "Close of an unknown kind": message("C", b"X" + text("")) + sync(),
    "Execute of an empty body": message("E") + sync(),
    "Sync with a body": message("S", b"extra"),
}


@pytest.mark.parametrize("data", FATAL.values(), ids=FATAL.keys())
def test_the_connection_ends_with_a_protocol_violation(tables, oracle, herd, data):
    with Raw(oracle) as plain, Raw(herd) as other:
        # PostgreSQL only logs some of these; an error before the end is as good.
        for got in (plain.transcript(data), other.transcript(data)):
            assert got[-1] == "closed"
            assert all(line.startswith("E FATAL 08P01") for line in got[:-1])
    with Raw(herd) as next_one:
        assert next_one.transcript(query("select 1"))[-1] == "Z I"


@pytest.mark.parametrize("data", ERROR.values(), ids=ERROR.keys())
def test_an_error_and_the_session_goes_on(tables, oracle, herd, data):
    with Raw(oracle) as plain, Raw(herd) as other:
        expected, got = plain.transcript(data), other.transcript(data)
        assert [_code(line) for line in got] == [_code(line) for line in expected]
        assert any(line.startswith("E ERROR") for line in expected)
        for raw in (plain, other):
            assert raw.transcript(query("select 1"))[-2:] == ["C SELECT 1", "Z I"]


def _code(line: str) -> str:
    """An error's severity and SQLSTATE; any other line as it is."""
    return " ".join(line.split()[:3]) if line.startswith("E ") else line


def test_a_frame_cut_off_by_the_end(tables, herd):
    with Raw(herd) as raw:
        raw.send(b"Q" + int32(100) + b"select")
        raw.socket.shutdown(1)
        assert raw.is_closed()
    with Raw(herd) as next_one:
        assert next_one.transcript(query("select 1"))[-1] == "Z I"


def test_a_frame_that_comes_byte_by_byte(tables, herd):
    with Raw(herd) as raw:
        for byte in frames.extended("select v from proto where id = $1", "7") + sync():
            raw.send(bytes([byte]))
        assert raw.transcript(b"")[-2:] == ["C SELECT 1", "Z I"]


def test_a_transaction_left_by_a_malformed_frame_is_rolled_back(empty_write_table, herd):
    with Raw(herd) as raw:
        raw.transcript(query("begin"))
        raw.transcript(query("insert into proto_write values (1, 1), (2, 2), (3, 3)"))
        raw.transcript(b"Q" + int32(0))
    with Raw(herd) as next_one:
        count = next_one.transcript(query("select count(*) from proto_write"))
        assert r"\x010" in count[1]


def test_random_garbage_never_stops_the_server(tables, herd):
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    for _ in range(60):
        with Raw(herd) as raw:
            raw.socket.settimeout(0.05)
            kinds = chance.choice(["QPBDECSHdcfF", "\0zXpR"])
            for _ in range(chance.randrange(1, 6)):
                body = chance.randbytes(chance.randrange(40))
                length = chance.choice([len(body) + 4, len(body) + 4, chance.randrange(-5, 60)])
                try:
                    raw.send(chance.choice(kinds).encode() + int32(length) + body)
                except (BrokenPipeError, ConnectionResetError):
                    break
    with Raw(herd) as next_one:
        assert next_one.transcript(query("select count(*) from proto"))[-1] == "Z I", f"seed {seed}"
