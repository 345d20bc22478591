"""A router whose role is no superuser, as on managed servers: it owns the database and may make roles. docs/security.md."""

import os
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def managed():
    """Two servers and a router as `keeper`; clients prove their passwords to it."""
    things = []
    try:
        for n in (1, 2):
            node = router.node(f"managed{n}")
            things.append(node)
            with node.server.connect() as root:
                for sql in (
                    "create role keeper login createrole password 'k'", "alter database postgres owner to keeper", "grant pg_monitor to keeper",
                    # What managed servers may refuse; without, auth = "trust" is what is left.
                    "grant select on pg_authid to keeper",
                ):
                    root.execute(sql)
        home, other = (router.conninfo(n, user="keeper", password="k") for n in things[:2])
        things.append(router.Router(home, [other], more='auth = "scram"\n'))
        with _as(things[-1], "keeper", "k") as keeper:
            keeper.execute("create role app login password 'p'")
            keeper.execute("grant app to keeper")
            keeper.execute("create schema apps authorization app")
        yield things[-1], things[:2], (home, other)
    finally:
        for thing in reversed(things):
            thing.stop()


def _as(to, user, password):
    return psycopg.connect(f"{to.server.conninfo} user={user}", password=password, autocommit=True)


def test_what_works(managed):
    through, nodes, _ = managed
    with pytest.raises(psycopg.OperationalError):
        _as(through, "app", "wrong")
    with _as(through, "app", "p") as app:
        app.execute("create table apps.x (id int primary key, v int check (v > 0))")
        app.execute("insert into apps.x select g, g from generate_series(1, 40) g")
    with _as(through, "keeper", "k") as keeper:
        keeper.execute("select create_distributed_table('apps.x', 'id')")
        keeper.execute("create table public.few (id int primary key)")
        keeper.execute("select create_reference_table('public.few')")
        keeper.execute("insert into public.few values (1)")
    with _as(through, "app", "p") as app:
        assert app.execute("update apps.x set v = v + 1").rowcount == 40
        app.execute("create index x_v on apps.x (v)")
        app.execute("alter table apps.x add column w int default 7")
        assert app.execute("select count(*), sum(v), sum(w) from apps.x").fetchone() == (40, 860, 280)
        assert app.execute("select v from apps.x where id = 7").fetchone() == (8,)
        app.execute("select herd.cluster('apps.x', 'x_v')")
        app.execute("set herd.snapshot = on")
        assert app.execute("select sum(v) from apps.x").fetchone() == (860,)
    with _as(through, "keeper", "k") as keeper:
        assert keeper.execute("select node, object, problem from herd.verify").fetchall() == []
        keeper.execute("select undistribute_table('apps.x')")
    with _as(through, "app", "p") as app:
        assert app.execute("select count(*), sum(v) from apps.x").fetchone() == (40, 860)


def test_recovery(managed):
    """Another role's transaction, whose router died between its decision and its end."""
    through, nodes, (home, other) = managed
    with _as(through, "app", "p") as app:
        app.execute("create table apps.y (id int primary key, v int)")
        app.execute("insert into apps.y select g, 0 from generate_series(1, 40) g")
    with _as(through, "keeper", "k") as keeper:
        keeper.execute("select create_distributed_table('apps.y', 'id')")
    os.environ["HERD_FAILPOINT"] = "two_phase.decided:abort"
    try:
        dying = router.Router(home, [other], more='auth = "scram"\n')
    finally:
        del os.environ["HERD_FAILPOINT"]
    try:
        with pytest.raises(psycopg.OperationalError), _as(dying, "app", "p") as app:
            app.execute("update apps.y set v = 1")
        deadline = time.monotonic() + 90
        while True:
            left = 0
            for node in nodes:
                with node.server.connect() as root:
                    left += root.execute("select count(*) from pg_prepared_xacts").fetchone()[0]
            if not left:
                break
            assert time.monotonic() < deadline, "still in doubt"
            time.sleep(0.3)
    finally:
        dying.stop()
    with _as(through, "app", "p") as app:
        assert app.execute("select sum(v) from apps.y").fetchone() == (40,)
