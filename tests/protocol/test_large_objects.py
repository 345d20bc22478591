"""Function call messages, by which libpq and JDBC use large objects: the same answers as PostgreSQL gives, frame by frame."""

import shutil
import subprocess

import pytest

from .frames import int16, int32, message, query
from .raw import Raw

pytestmark = pytest.mark.timeout(120)

_CREATE, _OPEN, _WRITE, _SEEK, _READ, _UNLINK = 957, 952, 955, 956, 954, 964


def _call(function: int, *arguments: bytes) -> bytes:
    values = b"".join(int32(len(a)) + a for a in arguments)
    return message("F", int32(function) + int16(1) + int16(1) + int16(len(arguments)) + values + int16(1))


@pytest.fixture(scope="module")
def both(oracle, herd_many):
    for server in (oracle, herd_many.server):
        server.run("drop table if exists lo_beside", "create table lo_beside (k int primary key)", "select lo_unlink(oid) from pg_largeobject_metadata")
    herd_many.server.run("select create_distributed_table('lo_beside', 'k')")
    yield oracle, herd_many.server
    for server in (oracle, herd_many.server):
        server.run("drop table lo_beside", "select lo_unlink(oid) from pg_largeobject_metadata")


def _answered(raw: Raw, data: bytes) -> list:
    raw.send(data)
    said = []
    for kind, body in raw.until_ready():
        if kind == "E":
            fields = dict((chr(f[0]), f[1:].decode()) for f in body.rstrip(b"\0").split(b"\0") if f)
            said.append((kind, fields["C"], fields["M"]))
        elif kind in "VCZ":
            said.append((kind, body))
    return said


def test_all_functions_of_large_objects_are_called(both):
    """With too few arguments, so that each says so by itself."""
    with both[0].connect() as one:
        functions = one.execute(
            "select oid, pronargs from pg_proc where oid < 16384 and (proname ~ '^lo_' or proname in ('loread', 'lowrite')) and proname not in ('lo_import', 'lo_export') order by 1"
        ).fetchall()
    assert len(functions) >= 17
    with Raw(both[0]) as plain, Raw(both[1]) as herd:
        for function, arguments in functions:
            call = _call(function, *[b"\0\0\0\0"] * (arguments + 1))
            wanted = _answered(plain, call)
            assert wanted[0][1] == "08P01", (function, wanted)
            assert _answered(herd, call) == wanted, function


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_large_object_in_a_transaction_with_rows_of_all_nodes(both, end):
    said = []
    for server in both:
        with Raw(server) as raw:
            answers = [_answered(raw, query("truncate lo_beside")), _answered(raw, query("begin"))]
            (kind, body), *_ = _answered(raw, _call(_CREATE, int32(0x60000)))
            assert kind == "V"
            oid = body[4:]
            answers.append(_answered(raw, _call(_OPEN, oid, int32(0x60000))))
            descriptor = answers[-1][0][1][4:]
            answers.append(_answered(raw, _call(_WRITE, descriptor, b"some bytes")))
            answers.append(_answered(raw, query("insert into lo_beside select generate_series(1, 20)")))
            answers.append(_answered(raw, _call(_SEEK, descriptor, int32(5), int32(0))))
            answers.append(_answered(raw, _call(_READ, descriptor, int32(100))))
            assert answers[-1][0] == ("V", int32(5) + b"bytes")
            answers.append(_answered(raw, query(end)))
            # Without a transaction the descriptor is gone.
            answers.append(_answered(raw, _call(_READ, descriptor, int32(100))))
            answers.append(_answered(raw, query("select count(*) from lo_beside")))
            answers.append([k if k == "E" else (k, v) for k, *v in _answered(raw, _call(_UNLINK, oid))])
            said.append(answers)
    assert said[0] == said[1]


def test_a_failed_transaction_takes_none(both):
    said = []
    for server in both:
        with Raw(server) as raw:
            raw.send(query("begin; select 1 / 0"))
            list(raw.until_ready())
            said.append([_answered(raw, _call(_CREATE, int32(0x60000))), _answered(raw, query("rollback"))])
    assert said[0] == said[1]
    assert said[0][0][0][1] == "25P02"


def test_other_functions_are_refused(both):
    with Raw(both[1]) as raw:
        # pg_backend_pid
        assert _answered(raw, _call(2026))[0][:2] == ("E", "0A000")
        assert _answered(raw, message("F", b"\0"))[0][0] == "E"
        assert _answered(raw, query("select 1"))[-1] == ("Z", b"I")


@pytest.mark.skipif(not shutil.which("psql"), reason="no psql")
def test_psql_imports_and_exports(both, tmp_path):
    data = bytes(range(256)) * 5000
    (tmp_path / "in").write_bytes(data)
    for number, server in enumerate(both):
        command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", server.host, "-p", str(server.port), "-U", "postgres", "postgres"]
        script = f"\\lo_import '{tmp_path}/in'\n\\lo_export :LASTOID '{tmp_path}/out{number}'\n\\lo_unlink :LASTOID\n"
        done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / f"out{number}").read_bytes() == data
