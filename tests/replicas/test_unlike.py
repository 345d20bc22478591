"""Standbys that would answer otherwise than their primaries: they are left out, or not asked."""

import time

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]


def _set(server, value):
    server.run(f"alter system set default_text_search_config = 'pg_catalog.{value}'", "select pg_reload_conf()")


def test_settings_that_code_reads_without_a_word_of_them(replicas):
    replicas.a.run("drop table if exists u_texts", "create table u_texts (id int primary key, t text)", "insert into u_texts values (1, 'The cats are running')")
    replicas.wait_until_applied()
    try:
        with replicas.reader(max_staleness="1h") as reader:
            words = replicas.read_there(reader, "select to_tsvector(t)::text from u_texts")
            for server in (*replicas.nodes, *replicas.standbys):
                _set(server.server, "simple")
            for standby in replicas.standbys:
                _set(standby.server, "english")
            deadline = time.monotonic() + 90
            while replicas.states() != ["primary", "unlike"] * 2:
                assert time.monotonic() < deadline, replicas.states()
                time.sleep(0.1)
            time.sleep(1.5)
            assert replicas.states() == ["primary", "unlike"] * 2
            with replicas.a.connect() as plain:
                expected = plain.execute("select to_tsvector(t)::text from u_texts").fetchall()
            assert reader.execute("select to_tsvector(t)::text from u_texts").fetchall() == expected != words
    finally:
        for node in replicas.nodes:
            node.server.run("alter system reset default_text_search_config", "select pg_reload_conf()")
        for standby in replicas.standbys:
            standby.server.run("alter system reset default_text_search_config", "select pg_reload_conf()")
    replicas.wait_until_ready()


@pytest.mark.parametrize(
    ("made", "sql"),
    [
        ("create domain u_kind as int check (value > 0)", "select id::u_kind from u_plain"),
        ("create table u_typed (id int, k u_kind)", "select k from u_typed"),
        ("create foreign data wrapper u_wrapper; create server u_server foreign data wrapper u_wrapper; create foreign table u_foreign (id int, t text) server u_server", "select id from u_plain"),
    ],
    ids=["a cast to a domain", "a column of one", "a table that could have foreign children"],
)
def test_what_may_run_elsewhere_goes_to_the_primary(replicas, made, sql):
    with replicas.a.connect() as boss:
        boss.execute("create table if not exists u_plain (id int primary key, t text)")
        boss.execute("drop domain if exists u_kind cascade")
        if "u_kind as" not in made:
            boss.execute("create domain u_kind as int check (value > 0)")
        boss.execute(made)
    try:
        replicas.wait_until_applied()
        with replicas.reader(max_staleness="1h") as reader, replicas.a.connect() as other:
            before = replicas.reads(other)
            for _ in range(5):
                reader.execute(sql).fetchall()
            assert replicas.reads(other) == before
    finally:
        replicas.a.run("drop table if exists u_plain, u_typed", "drop domain if exists u_kind cascade", "drop foreign data wrapper if exists u_wrapper cascade")
