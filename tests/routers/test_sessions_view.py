"""herd.sessions: what it shows of whom, and to whom."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]

SQL = "select pid, user, application_name, client_address, state, in_transaction, pinned_by, nodes, statement, since, router, database from herd.sessions"


@pytest.fixture(scope="module")
def people(pair):
    pair.a.run(
        "create role snoop login", "create role watcher login", "grant pg_read_all_stats to watcher",
        "create table seen (id int primary key, v int)", "select create_distributed_table('seen', 'id')",
        "insert into seen select g, 0 from generate_series(1, 100) g",
    )
    yield pair
    pair.a.run("drop table seen", "drop role snoop", "drop role watcher")


def _as(pair, user: str, **more) -> psycopg.Connection:
    return psycopg.connect(pair.a.conninfo.replace("user=postgres", f"user={user}"), autocommit=True, **more)


def _all(connection, name: str) -> list[tuple]:
    columns = SQL.split("select ")[1].split(" from")[0].split(", ")
    rows = connection.execute(SQL.replace("user,", '"user",') + " where application_name = %s", (name,)).fetchall()
    return [dict(zip(columns, row)) for row in rows]


def test_states_and_pins(people):
    with _as(people, "postgres", application_name="seen one") as one, people.a.connect() as other:
        (row,) = _all(other, "seen one")
        assert (row["user"], row["database"], row["state"], row["in_transaction"], row["pinned_by"], row["nodes"]) == ("postgres", "postgres", "idle", False, [], [])
        assert row["client_address"].startswith("127.0.0.1:") and row["router"] == f"127.0.0.1:{people.a.port}"
        assert abs(row["since"].timestamp() - time.time()) < 60
        assert row["pid"] == one.info.backend_pid
        one.execute("begin")
        one.execute("update seen set v = 1 where id < 50")
        (row,) = _all(other, "seen one")
        assert (row["state"], row["in_transaction"], sorted(row["nodes"])) == ("idle in transaction", True, [1, 2])
        assert row["statement"] == "update seen set v = 1 where id < 50"
        with pytest.raises(psycopg.Error):
            one.execute("select 1/0")
        assert _all(other, "seen one")[0]["state"] == "idle in transaction (aborted)"
        one.execute("rollback")
        sleeper = threading.Thread(target=lambda: pytest.raises(psycopg.errors.QueryCanceled, one.execute, "select pg_sleep(60)"), daemon=True)
        sleeper.start()
        deadline = time.monotonic() + 30
        while (row := _all(other, "seen one")[0])["state"] != "active":
            assert time.monotonic() < deadline, row
            time.sleep(0.05)
        assert (row["state"], row["statement"]) == ("active", "select pg_sleep(60)")
        one.cancel()
        sleeper.join()
        one.execute("create temporary table t (id int)")
        one.execute("listen something")
        one.execute("select pg_advisory_lock(4711)")
        assert _all(other, "seen one")[0]["pinned_by"] == ["temporary tables", "LISTEN", "advisory locks"]
        one.execute("set application_name = 'seen two'")
        assert _all(other, "seen one") == [] and len(_all(other, "seen two")) == 1
    deadline = time.monotonic() + 60
    with people.a.connect() as other:
        while _all(other, "seen two"):
            assert time.monotonic() < deadline


def test_who_sees_what(people):
    with _as(people, "postgres", application_name="hidden") as one, _as(people, "snoop", application_name="snoop") as snoop:
        one.execute("select 'the secret of one'")
        snoop.execute("select 'its own'")
        (row,) = _all(snoop, "hidden")
        assert row["statement"] == "<insufficient privilege>"
        assert all(row[c] is None for c in ("client_address", "state", "since", "pinned_by", "nodes", "in_transaction"))
        assert _all(snoop, "snoop")[0]["statement"].startswith("select pid")
        # Nor by looking at the statement that shows it.
        texts = snoop.execute("select query from pg_stat_activity, (select count(*) from herd.sessions) s where query like %s", ("%the secret of%",)).fetchall()
        assert all("the secret of one" not in t for (t,) in texts), texts
        with _as(people, "watcher") as watcher:
            assert _all(watcher, "hidden")[0]["statement"] == "select 'the secret of one'"
        with people.a.connect() as root:
            assert _all(root, "hidden")[0]["statement"] == "select 'the secret of one'"
            root.execute("set role snoop")
            assert _all(root, "hidden")[0]["statement"] == "<insufficient privilege>"
