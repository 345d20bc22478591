"""What a node can't give its connection of a session's settings is an error before anything is done there: the statement has not happened."""

import threading

import psycopg
import pytest

pytestmark = pytest.mark.real_herd
KEYS = range(1, 61)


@pytest.fixture(scope="module")
def refuses(herd, herd_many):
    """Home has a text search configuration that the other node lacks; and a role that its member loses."""
    home = herd_many.node_servers[0]
    home.run("create text search configuration public.sr_home (copy = simple)")
    herd.run(
        "create table sr_spread (id int primary key, v int)", "select create_distributed_table('sr_spread', 'id')",
        "create table sr_many (v int)", "select create_distributed_table('sr_many', 'v')",
        "create role sr_group", "create role sr_alice login", "grant all on sr_spread, sr_many to sr_alice, sr_group",
    )
    yield herd
    herd.run("drop table sr_spread, sr_many", "drop role sr_alice, sr_group")
    home.run("drop text search configuration public.sr_home")


@pytest.fixture(autouse=True)
def empty(refuses):
    refuses.run("truncate sr_spread, sr_many")


def _insert(connection, key, **how) -> str:
    try:
        connection.execute("insert into sr_spread values (%s, %s)", (key, key), **how)
    except psycopg.Error as error:
        return error.sqlstate
    return "done"


def _there(herd) -> set:
    with herd.connect() as connection:
        return {row[0] for row in connection.execute("select id from sr_spread").fetchall()}


@pytest.mark.parametrize("how", [{}, {"prepare": True}])
def test_nothing_is_done_under_other_settings(refuses, how):
    with refuses.connect() as connection:
        connection.execute("set default_text_search_config = 'public.sr_home'")
        said = {key: _insert(connection, key, **how) for key in KEYS}
    done = {key for key, answer in said.items() if answer == "done"}
    assert set(said.values()) == {"done", "22023"}
    assert _there(refuses) == done
    with refuses.connect() as connection:
        connection.execute("set default_text_search_config = 'public.sr_home'")
        for statement in ("insert into sr_many select g from generate_series(1, 50) g", "update sr_spread set v = 0", "delete from sr_spread"):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                connection.execute(statement)
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            with connection.cursor().copy("copy sr_many from stdin") as copy:
                copy.write("".join(f"{n}\n" for n in range(50)))
    with refuses.connect() as connection:
        assert connection.execute("select count(*) from sr_many").fetchone() == (0,)
        assert connection.execute("select count(*), count(*) filter (where v = id) from sr_spread").fetchone() == (len(done), len(done))


def test_many_at_once(refuses):
    """They travel together."""
    said, failed = {}, []

    def runs(n):
        try:
            with refuses.connect() as connection:
                connection.execute("set default_text_search_config = 'public.sr_home'")
                for key in range(1000 * n, 1000 * n + 60):
                    said[key] = _insert(connection, key, prepare=True)
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=runs, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join(120) for t in threads]
    assert failed == [] and set(said.values()) == {"done", "22023"}
    assert _there(refuses) == {key for key, answer in said.items() if answer == "done"}


def test_who_lost_his_role_does_nothing_as_himself(refuses):
    refuses.run("grant sr_group to sr_alice")
    with refuses.connect(user="sr_alice") as member, refuses.connect(user="sr_alice") as himself:
        member.execute("set role sr_group")
        assert {_insert(member, key) for key in range(1, 10)} == {"done"}
        for key in range(10, 20):
            assert _insert(himself, key) == "done"
        refuses.run("revoke sr_group from sr_alice")
        # Connections that were his as himself.
        said = {key: _insert(member, key) for key in range(20, 40)}
    done = {key for key, answer in said.items() if answer == "done"}
    assert _there(refuses) == set(range(1, 20)) | done
    assert set(said.values()) <= {"done", "42501"}
