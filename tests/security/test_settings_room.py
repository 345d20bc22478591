"""Settings take a router's memory: a session has a limit, and what is beyond it goes with its connection."""

import psycopg
import pytest

_LARGE = 100_000_000


@pytest.mark.parametrize("block", [False, True])
def test_large_values(herd, block):
    with herd.connect(autocommit=True) as connection:
        if block:
            connection.execute("begin")
        with pytest.raises(psycopg.errors.OutOfMemory) as e:
            connection.execute(f"select length(set_config('sr.large', repeat('x', {_LARGE}), false))").fetchall()
        assert "limit" in e.value.diag.message_detail
        connection.execute("rollback")
        assert connection.execute("select coalesce(length(current_setting('sr.large', true)), 0)").fetchone() == (0,)
        assert connection.execute("select count(*) from pg_class where false").fetchone() == (0,)


def test_many_of_one_transaction(herd):
    with herd.connect(autocommit=True) as connection:
        connection.execute("begin")
        with pytest.raises(psycopg.errors.OutOfMemory):
            for _ in range(10):
                connection.execute("set local sr.kept = '" + "x" * 1_000_000 + "'")
        connection.execute("rollback")
        # Half of it is no harm.
        for n in range(3):
            connection.execute(f"set sr.kept = '{n}" + "x" * 1_000_000 + "'")
        assert connection.execute("select length(current_setting('sr.kept'))").fetchone() == (1_000_001,)


def test_large_ones_of_code(herd):
    herd.run("create or replace function sr_sets() returns int language plpgsql as $$ begin perform set_config('sr.code', repeat('x', 50000000), false); return 1; end $$")
    with herd.connect(autocommit=True) as connection:
        with pytest.raises(psycopg.errors.OutOfMemory):
            connection.execute("select sr_sets()").fetchall()
        assert connection.execute("select 1").fetchone() == (1,)
    herd.run("drop function sr_sets()")


@pytest.mark.parametrize("whose", ["role sr_large", "database postgres"])
def test_large_ones_of_roles_and_databases(herd, whose):
    """What logins begin with each session has, and each connection: a login with too much of it fails, and says who can mend it."""
    herd.run("create role sr_large login")
    with herd.connect(autocommit=True) as boss:
        try:
            boss.execute(f"alter {whose} set sr.large = '{'x' * 300_000}'")
            for _ in range(3):
                with pytest.raises(psycopg.OperationalError, match="ALTER ROLE .* RESET ALL"):
                    herd.connect(user="sr_large").close()
        finally:
            boss.execute(f"alter {whose} reset all")
        boss.execute(f"alter {whose} set sr.large = '{'x' * 100_000}'")
        with herd.connect(user="sr_large", autocommit=True) as later:
            assert later.execute("select length(current_setting('sr.large'))").fetchone() == (100_000,)
        boss.execute(f"alter {whose} reset all")
    herd.run("drop role sr_large")


def _resident(pid: int) -> int:
    """MiB."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) // 1024


@pytest.mark.parametrize("said", ["set transaction read write"])
def test_comments_are_not_kept(herd_many, said):
    """A transaction keeps how it runs for nodes that join later, not all that was said beside."""
    large = "x" * 1_000_000
    pid = herd_many.process_id(herd_many.port)
    with herd_many.server.connect() as connection:
        connection.execute(f"begin /* {large} */")
        connection.execute(f"{said} /* {large} */")
        before = _resident(pid)
        for _ in range(25):
            connection.execute(f"{said} /* {large} */")
        assert _resident(pid) - before < 20
        connection.execute("rollback")
