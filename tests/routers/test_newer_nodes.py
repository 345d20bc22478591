"""Nodes of an older PostgreSQL are replaced by newer ones, one after another, while clients read and write: what docs/upgrading.md says, in its order."""

import threading
import time
from pathlib import Path

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-newer"), pytest.mark.timeout(600)]

ROWS = 600
LOGICAL = {"wal_level": "logical"}


def _older() -> Path:
    found = [p for p in sorted(Path("/usr/lib/postgresql").glob("*/bin")) if (p / "initdb").exists() and int(p.parent.name) < 18]
    if not found:
        pytest.skip("no PostgreSQL older than 18 (Debian's) is installed")
    return found[0]


def test_a_node_is_replaced_by_a_newer_one():
    made, older = [], _older()
    try:
        home, old = (made.append(router.node(name, LOGICAL, bin_directory=older)) or made[-1] for name in ("older-home", "older"))
        made.append(new := router.node("newer", LOGICAL))
        if new.major == home.major:
            pytest.skip("the tests' own PostgreSQL is not a newer one")
        made.append(one := router.Router(router.conninfo(home), [router.conninfo(old)]))
        one.server.run(
            "create table u_rows (id int primary key, v int not null, note text default 'n')", "select create_distributed_table('u_rows', 'id')", "create index on u_rows (v)",
            f"insert into u_rows select g, 0 from generate_series(1, {ROWS}) g",
            "create table u_tree (k int, id int, parent int, primary key (k, id), foreign key (k, parent) references u_tree)", "select create_distributed_table('u_tree', 'k', colocate_with => 'none')",
        )
        stop, failed, written = threading.Event(), [], [0]

        def writes():
            try:
                with one.server.connect() as connection:
                    while not stop.is_set():
                        assert connection.execute("update u_rows set v = v + 1 where id = %s", (written[0] % ROWS + 1,)).rowcount == 1
                        written[0] += 1
                        assert connection.execute("select count(*) from u_rows").fetchone() == (ROWS,)
            except Exception as error:  # noqa: BLE001
                failed.append(error)

        writer = threading.Thread(target=writes)
        writer.start()
        try:
            with one.server.connect() as boss:
                # It goes by the foreign key what may be moved before PostgreSQL 18, and it is said before anything is done.
                with pytest.raises(psycopg.errors.FeatureNotSupported, match='table "u_tree".*PostgreSQL 18 on both nodes') as refused:
                    boss.execute("select herd.split_shard('u_tree', 0)")
                assert "Drop the foreign key" in refused.value.diag.message_hint
                boss.execute("drop table u_tree")
                said = []
                boss.add_notice_handler(lambda n: said.append((n.severity, n.message_primary)))
                boss.execute(f"select citus_add_node('127.0.0.1', {new.port})")
                assert any(severity == "WARNING" and f"{new.major}" in message for severity, message in said), said
                name = dict(boss.execute("select port, name from herd.nodes").fetchall())
                with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="still has"):
                    boss.execute(f"select citus_remove_node('127.0.0.1', {old.port})")
                assert boss.execute(f"select herd.drain_node('{name[old.port]}')").fetchone()[0] > 0
                boss.execute(f"select citus_remove_node('127.0.0.1', {old.port})")
                boss.execute("select herd.rebalance()")
                # Home's shards can go, and home can't.
                boss.execute(f"select herd.drain_node('{name[home.port]}')")
                assert boss.execute("select distinct node from herd.shards").fetchall() == [(name[new.port],)]
                with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is home"):
                    boss.execute(f"select citus_remove_node('127.0.0.1', {home.port})")
                boss.execute("select herd.rebalance()")
                boss.execute("alter table u_rows add column last int default 7")
                # From the newer one back to home, which is older.
                assert boss.execute("select count(distinct node) from herd.shards").fetchone() == (2,)
        finally:
            stop.set()
            writer.join(90)
        assert failed == [] and written[0] > 5, (failed, written)
        with one.server.connect() as boss:
            assert boss.execute("select count(*), sum(v), sum(last), count(note) from u_rows").fetchone() == (ROWS, written[0], 7 * ROWS, ROWS)
            assert boss.execute("select object, problem from herd.verify").fetchall() == []
        # An owner may maintain what is his on both, though before PostgreSQL 17 that is no privilege: no rights differ, and none are taken to make them alike.
        one.server.run("create role u_owner", "alter table u_rows owner to u_owner", "grant select on u_rows to public")
        time.sleep(3)
        with one.server.connect() as boss:
            deadline = time.monotonic() + 30
            while boss.execute("select object, problem from herd.verify").fetchall() and time.monotonic() < deadline:
                time.sleep(0.2)
            assert boss.execute("select object, problem from herd.verify").fetchall() == []
        with new.server.connect() as direct:
            assert direct.execute("select has_table_privilege('u_owner', 'u_rows', 'MAINTAIN'), bool_and(has_table_privilege('u_owner', shard, 'MAINTAIN')) from herd.shard_tables").fetchone() == (True, True)
        with old.server.connect() as direct:
            assert direct.execute("select to_regclass('u_rows'), to_regnamespace('herd')").fetchone() == (None, None)
    finally:
        for server in reversed(made):
            server.stop()
