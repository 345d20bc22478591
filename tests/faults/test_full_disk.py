"""A node whose disk is full: the client gets PostgreSQL's 53100, the session goes on, nothing acknowledged is lost."""

import os
import shutil
import subprocess

import psycopg
import pytest

from harness import router, unprivileged

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("full-disk")]

_SIZE = "40m"


@pytest.fixture(scope="module")
def small_disk():
    """A file system of a few megabytes that belongs to the servers' user."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root: a full disk is not tested here")
    directory = unprivileged.new_directory("disk")
    who = unprivileged.user()
    options = f"size={_SIZE},mode=0700,uid={who.pw_uid},gid={who.pw_gid}"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], capture_output=True, text=True)
    if done.returncode != 0:
        unprivileged.remove_directory(directory)
        pytest.skip(f"a small file system can't be mounted here: {done.stderr.strip()}")
    yield directory
    subprocess.run(["umount", "-l", directory], check=False)
    unprivileged.remove_directory(directory)


@pytest.fixture(scope="module")
def herd_with_a_small_disk(small_disk):
    """The second node's tables are on the small disk, by a tablespace."""
    made = []
    try:
        made += [router.node(f"disk{n}") for n in (1, 2)]
        made[1].server.run(f"create tablespace small location '{small_disk}'", "alter system set default_tablespace = 'small'", "select pg_reload_conf()")
        (small_disk / "ballast").write_bytes(bytes(4_000_000))
        home, other = (router.conninfo(n) for n in made)
        made.append(router.Router(home, [other]))
        yield made[2], made[:2]
    finally:
        for each in reversed(made):
            each.stop()


def _keys(server) -> list[int]:
    with server.connect() as connection:
        return [row[0] for row in connection.execute("select id from full_disk order by id").fetchall()]


def test_disk_full(herd_with_a_small_disk, small_disk):
    front, nodes = herd_with_a_small_disk
    # Random text that TOAST can't make smaller.
    big = "(select string_agg(md5(random()::text || %s), '') from generate_series(1, 20000))"
    with front.server.connect() as connection:
        connection.execute("create table full_disk (id int primary key, v text)")
        connection.execute("alter table full_disk alter column v set storage external")
        connection.execute("select create_distributed_table('full_disk', 'id')")
        connection.execute("insert into full_disk select g, 'small' from generate_series(1, 40) g")
        here, full = (_keys(n.server) for n in nodes)
        assert here and full
        connection.execute("set timezone = 'Asia/Tokyo'")
        acknowledged, refused = [], []
        for n in range(200):
            key = 1000 + n
            try:
                connection.execute(f"insert into full_disk values ({key}, {big})".replace("%s", f"'{key}'"))
                acknowledged.append(key)
            except psycopg.Error as error:
                refused.append((error.sqlstate, str(error)))
                if len(refused) > 3:
                    break
        assert refused and {state for state, _ in refused} == {"53100"}, refused[:3]
        assert "herd_shards" not in refused[0][1]
        # The session goes on: with its settings, with the other node's keys, with reads of both.
        assert connection.execute("show timezone").fetchone() == ("Asia/Tokyo",)
        connection.execute("update full_disk set v = 'other' where id = %s", (here[0],))
        assert connection.execute("select count(*) from full_disk").fetchone() == (40 + len(acknowledged),)
        # Over both nodes: all or nothing.
        rows = ", ".join(f"({key}, {big})" for key in range(5000, 5020)).replace("%s", "'x'")
        with pytest.raises(psycopg.errors.DiskFull):
            connection.execute(f"insert into full_disk values {rows}")
        with pytest.raises(psycopg.errors.DiskFull), connection.transaction():
            connection.execute("update full_disk set v = 'half' where id = %s", (here[1],))
            connection.execute(f"update full_disk set v = {big} where id = any (%s)".replace("%s", "'x'", 1), (full,))
        assert connection.execute("select v from full_disk where id = %s", (here[1],)).fetchone() == ("small",)
        with pytest.raises(psycopg.errors.DiskFull), connection.cursor().copy("copy full_disk from stdin") as copy:
            for key in range(20000, 20400):
                copy.write_row((key, os.urandom(100_000).hex()))
        found = [row[0] for row in connection.execute("select id from full_disk").fetchall()]
        assert sorted(found) == sorted([*range(1, 41), *acknowledged])
        # Room again: all goes on.
        (small_disk / "ballast").unlink()
        connection.execute("delete from full_disk where id >= 1000")
        connection.execute("vacuum full_disk")
        connection.execute("insert into full_disk select g, 'again' from generate_series(1000, 1100) g")
        assert connection.execute("select count(*) from full_disk").fetchone() == (141,)
    for node in nodes:
        with node.server.connect() as direct:
            assert direct.execute("select count(*) from pg_prepared_xacts").fetchone() == (0,)
