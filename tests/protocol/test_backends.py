"""Backends are the router's sessions: pg_backend_pid(), pg_stat_activity, pg_terminate_backend, pg_cancel_backend."""

import struct
import time

import pytest

from protocol import frames
from protocol.frames import extended, query, sync
from protocol.raw import Raw


def pid_of(raw: Raw) -> int:
    return struct.unpack(">i", raw.key[:4])[0]


def rows(raw: Raw, data: bytes) -> list[str]:
    raw.send(data)
    return [body[6:].decode() for kind, body in raw.until_ready() if kind == "D"]


def test_the_pid_is_the_one_the_client_was_given(herd):
    with Raw(herd) as raw:
        assert rows(raw, query("select pg_backend_pid()")) == [str(pid_of(raw))]
        assert rows(raw, extended("select pg_backend_pid()") + sync()) == [str(pid_of(raw))]
        assert rows(raw, query("select pid from pg_stat_activity where pid = pg_backend_pid()")) == [str(pid_of(raw))]
        assert rows(raw, query("select count(*) from pg_locks where pid = pg_backend_pid() and granted and virtualxid is not null")) == ["1"]


SAME = {
    "name and type": extended("select pg_backend_pid() > 0 as x, pg_typeof(pg_backend_pid())") + sync(),
    "own row": query("select usename, datname, application_name, state, backend_type, query from pg_stat_activity where pid = pg_backend_pid()"),
    "alias": query("select a.usename from pg_catalog.pg_stat_activity as a join pg_roles r on r.oid = a.usesysid where a.pid = pg_backend_pid()"),
    "columns": extended("select * from pg_stat_activity where false") + sync(),
    "nobody's pid": query("select pg_terminate_backend(2147483647), pg_cancel_backend(2147483646)"),
    "NULL": query("select pg_terminate_backend(null)"),
    "none": query("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'nobody at all'"),
}


@pytest.mark.parametrize("name", SAME, ids=lambda n: n)
def test_as_on_postgresql(same, name):
    same(SAME[name])


@pytest.mark.parametrize("sql", ["select pg_terminate_backend(pg_backend_pid())", "select pg_cancel_backend(pg_backend_pid())"])
def test_self(oracle, herd, sql):
    with Raw(oracle) as plain, Raw(herd) as other:
        errors = [[s for s in raw.transcript(query(sql)) if s[0] in "EZc"] for raw in (plain, other)]
        assert errors[1] == errors[0]


STATES = {
    "idle": query("select 1"),
    "in a transaction": query("begin") + query("select count(*) from proto"),
    "failed": query("begin") + query("select 1/0"),
    "pinned": query("create temporary table t_backends (a int)"),
    "listening": query("listen c"),
}


@pytest.mark.parametrize("state", STATES, ids=lambda n: n)
@pytest.mark.parametrize("by", ["pid", "parameter", "view"])
def test_terminate_ends_the_session(tables, herd, state, by):
    with Raw(herd, application_name="victim") as victim, Raw(herd) as killer:
        victim.transcript(STATES[state], STATES[state].count(b"Q\0\0"))
        pid = pid_of(victim)
        call = {
            "pid": query(f"select pg_terminate_backend({pid})"),
            "parameter": extended("select pg_terminate_backend($1)", str(pid)) + sync(),
            "view": query(f"select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'victim' and pid = {pid}"),
        }[by]
        assert rows(killer, call) == ["t"]
        kind, body = victim.read()
        assert (kind, frames.error_fields(body)["C"], frames.error_fields(body)["V"]) == ("E", "57P01", "FATAL")
        assert victim.is_closed()
        assert rows(killer, query(f"select count(*) from pg_stat_activity where pid = {pid}")) == ["0"]


@pytest.mark.parametrize("sql", ["select pg_sleep(30)", "select count(pg_sleep(1)) from proto"])
@pytest.mark.parametrize("function", ["pg_terminate_backend", "pg_cancel_backend"])
def test_what_runs_is_stopped(tables, herd, sql, function):
    with Raw(herd) as victim, Raw(herd) as killer:
        victim.send(query(sql))
        time.sleep(0.5)
        began = time.monotonic()
        assert rows(killer, query(f"select {function}({pid_of(victim)})")) == ["t"]
        code = "57P01" if "terminate" in function else "57014"
        said = victim.until("E")
        assert frames.error_fields(said[-1][1])["C"] == code
        assert time.monotonic() - began < 15
        if function == "pg_cancel_backend":
            victim.until_ready()
            assert rows(victim, query("select 7")) == ["7"]


def test_rights_are_postgresqls(oracle, herd):
    for server in (oracle, herd):
        server.run("drop role if exists bk_one, bk_two, bk_signal", "create role bk_one login", "create role bk_two login",
                   "create role bk_signal login in role pg_signal_backend")

    def said(server, killer: str, victim: str, function: str) -> list[str]:
        with Raw(server, user=victim) as one, Raw(server, user=killer) as two:
            # PostgreSQL describes the rows before it finds that there are none.
            return [s for s in two.transcript(query(f"select {function}({pid_of(one)})")) if s[0] != "T"]

    for killer, victim in (("bk_one", "bk_two"), ("bk_one", "postgres"), ("bk_signal", "bk_one"), ("bk_signal", "postgres"), ("bk_one", "bk_one")):
        for function in ("pg_terminate_backend", "pg_cancel_backend"):
            assert said(herd, killer, victim, function) == said(oracle, killer, victim, function), (killer, victim, function)
