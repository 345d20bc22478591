"""Startup: versions and their negotiation, TLS and GSS requests, parameters, what is refused and how."""

import struct

import pytest

from protocol import frames
from protocol.raw import Closed, Raw, transcript


def first_answers(server, data: bytes) -> list[tuple[str, bytes]]:
    """What the server says to a startup packet, until it is ready or closes."""
    got = []
    with Raw(server, start=False) as raw:
        raw.send(data)
        try:
            while not got or got[-1][0] != "Z":
                got.append(raw.read())
        except Closed:
            got.append(("closed", b""))
    return got


def codes(messages) -> list[str]:
    """Kinds of messages, and severity and SQLSTATE of errors."""
    found = []
    for kind, body in messages:
        fields = frames.error_fields(body) if kind == "E" else {}
        found.append(f"E {fields['V']} {fields['C']}" if fields else kind)
    return [kind for kind in found if kind not in ("S", "N")]


def test_protocol_3_0(oracle, herd):
    plain = first_answers(oracle, frames.startup())
    other = first_answers(herd, frames.startup())
    assert codes(other) == codes(plain) == ["R", "K", "Z"]
    assert dict(other)["R"] == struct.pack(">i", 0)
    assert len(dict(other)["K"]) == 8, "a 3.0 client knows only cancel keys of 4 bytes"


def test_protocol_3_2(herd):
    answers = first_answers(herd, frames.startup(frames.PROTOCOL_3_2))
    assert codes(answers) == ["R", "K", "Z"]
    assert 8 <= len(dict(answers)["K"]) <= 260


def test_parameters_are_reported_as_postgres_does(oracle, herd):
    with Raw(oracle) as plain, Raw(herd) as other:
        assert other.parameters == plain.parameters


@pytest.mark.parametrize("version", [3 << 16 | 3, 3 << 16 | 9999], ids=["3.3", "3.9999"])
def test_unknown_minor_version_is_negotiated(herd, version):
    answers = first_answers(herd, frames.startup(version))
    assert codes(answers) == ["v", "R", "K", "Z"]
    newest, options = struct.unpack(">ii", dict(answers)["v"][:8])
    assert newest in (2, frames.PROTOCOL_3_2) and options == 0


@pytest.mark.parametrize("version", [frames.PROTOCOL_3_0, frames.PROTOCOL_3_2], ids=["3.0", "3.2"])
def test_unknown_protocol_option_is_negotiated(plain, oracle, herd, version):
    data = frames.startup(version, **{"_pq_.nosuch": "1"})
    answers = first_answers(herd, data)
    assert codes(answers) == ["v", "R", "K", "Z"]
    assert dict(answers)["v"].endswith(struct.pack(">i", 1) + b"_pq_.nosuch\0")
    if plain.major >= 18:
        assert dict(answers)["v"] == dict(first_answers(oracle, data))["v"]


@pytest.mark.parametrize("version", [4 << 16, 77 << 16], ids=["4.0", "77.0"])
def test_unknown_major_version_is_refused(oracle, herd, version):
    data = frames.startup(version)
    assert codes(first_answers(herd, data)) == codes(first_answers(oracle, data)) == ["E FATAL 0A000", "closed"]


@pytest.mark.parametrize("requests", [[frames.SSL_REQUEST], [frames.GSSENC_REQUEST], [frames.SSL_REQUEST, frames.GSSENC_REQUEST]])
def test_encryption_is_declined_and_the_session_goes_on(herd, requests):
    with Raw(herd, start=False) as raw:
        for code in requests:
            raw.send(frames.int32(8) + frames.int32(code))
            assert raw.read_exactly(1) == b"N"
        raw.send(frames.startup())
        assert codes(raw.until_ready())[-1] == "Z"


@pytest.mark.parametrize(
    "parameters",
    [
        {"user": None}, {"user": "nosuch"}, {"database": "nosuch"}, {"TimeZone": "Nowhere/Nothing"}, {"nosuch_setting": "1"},
        {"client_encoding": "NOSUCH"}, {"options": "-c nosuch_setting=1"},
    ],
    ids=str,
)
def test_refused_startup_has_postgres_code(oracle, herd, parameters):
    data = frames.startup(**parameters)
    # PostgreSQL may say `AuthenticationOk` before it looks at the rest: only the end counts.
    assert codes(first_answers(herd, data))[-2:] == codes(first_answers(oracle, data))[-2:]


@pytest.mark.parametrize(
    "parameters, ask",
    [
        ({"application_name": "raw test"}, "show application_name"),
        ({"TimeZone": "Asia/Tokyo"}, "show timezone"),
        ({"datestyle": "German"}, "select date '2024-02-29'"),
        ({"options": "-c timezone=Asia/Kolkata -c extra_float_digits=0"}, "select current_setting('timezone'), 1.0::float8 / 3"),
        ({"options": "-c search_path=pg_catalog"}, "show search_path"),
        ({"database": None}, "select current_database()"),
        ({"my.setting": "value"}, "show my.setting"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_startup_parameters_take_effect(oracle, herd, parameters, ask):
    with Raw(oracle, **parameters) as plain, Raw(herd, **parameters) as other:
        assert other.transcript(frames.query(ask)) == plain.transcript(frames.query(ask))
        assert other.parameters == plain.parameters


def test_startup_parameters_take_effect_on_shards(tables, oracle, herd):
    ask = frames.query("select count(*), max('2024-01-01 00:00+00'::timestamptz::text) from proto")
    with Raw(oracle, TimeZone="Asia/Tokyo") as plain, Raw(herd, TimeZone="Asia/Tokyo") as other:
        assert other.transcript(ask) == plain.transcript(ask)


@pytest.mark.parametrize(
    "data",
    [b"\0\0\0\0", b"\0\0\0\3", b"\0\0\0\7abc", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"GET / HTTP/1.0\r\n\r\n", b"\0\0\xff\xff" + b"x" * 9],
    ids=repr,
)
def test_malformed_startup_ends_the_connection_only(herd, data):
    with Raw(herd, start=False) as raw:
        raw.send(data)
        raw.socket.shutdown(1)
        assert raw.is_closed()
    with Raw(herd) as next_one:
        assert "D" in [line[0] for line in next_one.transcript(frames.query("select 1"))]


def test_startup_without_terminator(oracle, herd):
    body = frames.int32(frames.PROTOCOL_3_0) + b"user\0postgres\0"
    data = frames.int32(len(body) + 4) + body
    assert codes(first_answers(herd, data)) == codes(first_answers(oracle, data))


def test_cancel_of_an_unknown_key_is_silent(herd):
    with Raw(herd, start=False) as raw:
        raw.send(frames.int32(16) + frames.int32(frames.CANCEL_REQUEST) + frames.int32(123456) + frames.int32(654321))
        assert raw.socket.recv(10) == b""


def test_terminate_closes(herd):
    with Raw(herd) as raw:
        raw.send(frames.terminate())
        assert raw.is_closed()


def test_first_transcript_is_stable(same):
    """The harness itself: a plain question is answered alike and in full."""
    got = same(frames.query("select 1 as one"))
    assert got == ["T one 23/4/-1/0", r"D b'\x00\x01\x00\x00\x00\x011'", "C SELECT 1", "Z I"]
    assert transcript([]) == []
