"""Owners of tables against stores, which read them with rights of their own: names change their meaning while a copy is made; files are closed to others."""

import subprocess
import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(400)]

# Who waits for what, and who makes a slot: everybody may read that.
_WAITS = """
select s.slot_name::text, l.transactionid::text from pg_locks l join pg_replication_slots s on s.active_pid = l.pid
where not l.granted and l.locktype = 'transactionid'
"""


def _as_owner(columns):
    return psycopg.connect(columns.server.conninfo.replace("user=postgres", "user=c_owner"), autocommit=True)


@pytest.fixture
def hers(columns):
    columns.server.run("drop schema if exists c_hers cascade", "drop role if exists c_owner", "create role c_owner login", "create schema c_hers authorization c_owner")
    with _as_owner(columns) as owner:
        owner.execute("create table c_hers.t (id int primary key, v int)")
        columns.server.run("select create_distributed_table('c_hers.t', 'id')")
        owner.execute("insert into c_hers.t select g, g from generate_series(1, 100) g")
        owner.execute("create table c_hers.waited (x int)")
    columns.add("c_hers.t")
    return columns


def test_a_name_that_becomes_a_view_runs_nothing_as_the_store(hers):
    ran = hers.herd.root / "ran"
    with _as_owner(hers) as owner:
        owner.execute(f"""
            create function c_hers.evil(i int) returns int language plpgsql as $f$
            begin
                if session_user <> 'c_owner' then execute $q$copy (select session_user) to program 'cat > {ran}; chmod a+r {ran}'$q$; end if;
                return i;
            end $f$""")
        swap = _as_owner(hers)
        in_the_way = [_held(hers)]
        # The copy is made anew, and its slots wait for what is in the way.
        owner.execute("alter table c_hers.t alter column v set not null")
        # The copy's own slot is the one whose snapshot it is. It waits twice; who comes in behind that is no longer waited for.
        phase, met, deadline = 0, None, time.monotonic() + 120
        while time.monotonic() < deadline and not (phase == 2 and _reads(owner)):
            for slot, transaction in owner.execute(_WAITS).fetchall():
                if transaction == met:
                    continue
                met = transaction
                phase += slot.count("_") >= 3
                if phase == 2:
                    _exchange(swap)
                else:
                    in_the_way.append(_held(hers))
                in_the_way.pop(0).close()
            time.sleep(0.01)
        assert phase == 2
        swap.execute("commit")
        swap.close()
        for left in in_the_way:
            left.close()
        time.sleep(2)
        assert not ran.exists(), ran.read_text()
        # What is called so now is no table, and the table under its other name is answered as it is.
        owner.execute("set herd.columns = off")
        assert owner.execute("select count(*), sum(v) from c_hers.t_old").fetchone() == (100, 5050)
        owner.execute("set herd.columns = on")
        assert owner.execute("select count(*), sum(v) from c_hers.t_old").fetchone() == (100, 5050)


def _reads(owner) -> bool:
    """The store waits for the table, or has read it: its slot is there, and waits for no transaction."""
    time.sleep(0.3)
    return owner.execute(_WAITS).fetchall() == []


def _held(columns):
    """A transaction of the owner's, in the way of every slot until it is closed."""
    connection = _as_owner(columns)
    connection.execute("begin")
    connection.execute("insert into c_hers.waited values (1)")
    return connection


def _exchange(connection) -> None:
    def statements():
        connection.execute("begin")
        connection.execute("alter table c_hers.t rename to t_old")
        connection.execute("create view c_hers.t as select c_hers.evil(1) as id, 1 as v")

    running = threading.Thread(target=statements)
    running.start()
    running.join(60)


def test_nobody_else_of_the_machine_reads_a_stores_files(columns):
    directory = columns.herd.dir
    for number in (1, 2):
        assert (directory / f"column{number}").stat().st_mode & 0o777 == 0o700
    files = [path for number in (1, 2) for path in (directory / f"column{number}").rglob("*") if path.is_file()]
    files += list(directory.glob("column*.toml"))
    assert len(files) >= 4
    assert [str(path) for path in files if path.stat().st_mode & 0o077] == []
    read = subprocess.run(["su", "-s", "/bin/sh", "nobody", "-c", f"cat {directory}/column1/column.duckdb"], capture_output=True)
    assert read.returncode != 0
