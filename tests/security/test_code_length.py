"""What others' DDL and statements take does not go by the length of the code that one role keeps."""

import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-costs"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def made():
    nodes = [router.node(f"length{n}") for n in (1, 2)]
    home, other = map(router.conninfo, nodes)
    one = router.Router(home, [other], more="threads = 1\n")
    one.nodes = nodes
    try:
        one.server.run(
            "create role alice login", "create schema alices authorization alice",
            "create role bob login", "create schema bobs authorization bob",
            "create table shared (id int primary key)", "select create_distributed_table('shared', 'id')",
        )  # fmt: skip
        with one.server.connect(user="bob") as bob:
            bob.execute(
                "create function bobs.sett(text) returns text language plpgsql as $$ begin return set_config('bobs.name', $1, false); end $$"
            )
            bob.execute("create function bobs.any(text, text) returns text language plpgsql as $$ begin return set_config($1, $2, false); end $$")
            bob.execute("create table bobs.rows (id int primary key, who text)")
        one.server.run("select create_distributed_table('bobs.rows', 'id')")
        with one.server.connect(user="bob") as bob:
            bob.execute("create view bobs.mine as select id from bobs.rows where who = current_setting('bobs.tenant', true)")
            bob.execute("insert into bobs.rows select g, g % 2 from generate_series(1, 20) g")
        yield one
    finally:
        for each in (one, *nodes):
            each.stop()


def _least(work, tries: int = 5) -> float:
    times = []
    for _ in range(tries):
        before = time.monotonic()
        work()
        times.append(time.monotonic() - before)
    return min(times)


def _ddl(bob) -> None:
    bob.execute("create table bobs.t (id int)")
    bob.execute("drop table bobs.t")


def _words(length: int, start: int = 0) -> str:
    return " ".join(f"w{n}" for n in range(start, start + length // 8))[:length]


_KEPT = {
    "long bodies": [("sql", f"select 1 -- {_words(10_000_000)}")] * 3,
    "many bodies": [("sql", f"select 1 -- {_words(200_000, 1_000_000 + n * 30_000)}") for n in range(60)],
    "long texts": [("plpgsql", f"begin return length('{_words(8_000_000)}'); end")] * 2,
}


@pytest.mark.parametrize("kept", _KEPT)
def test_ddl_of_others_goes_by_their_own_code(made, kept):
    with made.server.connect(user="bob") as bob, made.server.connect(user="alice") as alice:
        _ddl(bob)
        without = _least(lambda: _ddl(bob))
        alice.execute("begin")
        for n, (language, body) in enumerate(_KEPT[kept]):
            alice.execute(f"create function alices.f{n}() returns int language {language} as $f$ {body}\n $f$".replace("$f$", "$body$"))
        alice.execute("commit")
        try:
            _ddl(bob)
            beside = _least(lambda: _ddl(bob))
        finally:
            alice.execute(f"drop routine {', '.join(f'alices.f{n}' for n in range(len(_KEPT[kept])))}")
    assert beside < 4 * without + 0.5, f"{without:.2f} s without, {beside:.2f} s beside it"


def test_code_that_is_too_long_may_do_anything(made):
    """It is not read, so it is refused as what puts statements together."""
    with made.server.connect(user="alice") as alice:
        alice.execute(f"create function alices.long() returns int language sql as $$ select 1 /* {'x' * 300_000} */ $$")
        alice.execute(f"create function alices.short() returns int language sql as $$ select 1 /* {'x' * 200_000} */ $$")
        try:
            assert alice.execute("select alices.short()").fetchone() == (1,)
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                alice.execute("select alices.long()")
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                alice.execute("do $$ begin perform alices.long(); end $$")
            alice.execute("create table alices.t (id int)")
            # Of a trigger nobody knows what it would write.
            alice.execute(
                f"create function alices.note() returns trigger language plpgsql as $$ begin /* {'x' * 300_000} */ insert into shared values (1); return new; end $$"
            )
            alice.execute("create trigger t before insert on alices.t for each row execute function alices.note()")
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                alice.execute("insert into alices.t values (1)")
        finally:
            alice.execute("drop table if exists alices.t; drop function if exists alices.note; drop function alices.long, alices.short")
        # A superuser's is read.
        made.server.run(f"create function public.long() returns int language sql as $$ select 1 /* {'x' * 300_000} */ $$")
        assert alice.execute("select public.long()").fetchone() == (1,)
        made.server.run("drop function public.long")


def test_statements_of_others_go_by_their_own_settings(made):
    names = " ".join(f"current_setting(''q.v{n}'')" for n in range(9_000))
    with made.server.connect(user="bob") as bob, made.server.connect(user="alice") as alice:
        def calls() -> None:
            for _ in range(5):
                assert bob.execute("select bobs.sett('x')").fetchone() == ("x",)

        calls()
        without = _least(calls)
        alice.execute("begin")
        for n in range(10):
            alice.execute(f"create function alices.n{n}() returns int language sql as 'select 1 -- {names.replace('q.v', f'q.v{n}')}\n'")
        alice.execute("commit")
        try:
            beside = _least(calls)
            # Known by what bob's own code reads, on all nodes.
            bob.execute("select bobs.any('bobs.tenant', '1')")
            assert bob.execute("select count(*) from bobs.mine").fetchone() == (10,)
            assert bob.execute("select current_setting('bobs.tenant'), count(*) from bobs.rows where who = current_setting('bobs.tenant')").fetchone() == ("1", 10)
            bob.execute("select bobs.any('bobs.tenant', '3')")
            assert bob.execute("select count(*) from bobs.mine").fetchone() == (0,)
        finally:
            alice.execute(f"drop routine {', '.join(f'alices.n{n}' for n in range(10))}")
    assert beside < 3 * without + 0.1, f"{without:.3f} s without, {beside:.3f} s beside it"
