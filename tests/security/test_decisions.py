"""Nobody but a router decides about transactions over nodes, and nobody stops others from committing."""

import re
import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def accounts(place):
    """`accounts` (id, v = 100): a role that may write it, and keys of all nodes."""
    place.server.run(
        "create table accounts (id int primary key, v int)", "select create_distributed_table('accounts', 'id')",
        "insert into accounts select g, 100 from generate_series(1, 40) g", "grant select, insert, update on accounts to victim",
    )


def _commits_over_nodes(place) -> float:
    started = time.monotonic()
    with place.as_role("victim") as connection:
        connection.execute("set statement_timeout = '60s'")
        assert connection.execute("update accounts set v = v + 1").rowcount == 40
    return time.monotonic() - started


def _refused(connection, sql, *parameters, code="42501"):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(sql, parameters)
    assert caught.value.sqlstate == code, caught.value


def test_decisions_can_not_be_written(place, accounts):
    """A forged row, and a crash at the right moment, would commit one half of somebody's transaction."""
    for node in range(3):
        with place.on_node(node, "mallory") as mallory:
            herd = mallory.execute("select id from herd.herd").fetchone()[0]
            name = f"herd_{herd}_1_00000000deadbeef_1"
            _refused(mallory, "insert into herd.decision (gid) values (%s)", name + "_1000")
            _refused(mallory, "select herd.decide(%s::text, %s::bytea)", name, b"x" * 32)
            _refused(mallory, "select herd.decide(%s::text, null)", name)
            _refused(mallory, "select value from herd.seal")
            _refused(mallory, "select * from herd.decision")
    assert _commits_over_nodes(place) < 5


def test_names_of_partitions_are_the_routers(place, accounts):
    """Who could give a table other partitions would have its users write into them; who could take names, keep others from them."""
    with place.on_node(0, "mallory") as mallory:
        own, other = mallory.execute("select prefix, prefix || '_9x' from herd.relation where name = 'accounts'").fetchone()
        _refused(mallory, "select herd.follow_prefix(%s, %s, %s::bytea)", own, other, b"x" * 32)
        _refused(mallory, "select herd.follow_prefix(%s, %s, null)", own, other)
        _refused(mallory, "select herd.new_prefix('x', 'x')")
        _refused(mallory, "select nextval('herd.prefix_number')")
        _refused(mallory, "select * from herd.prefix")
    assert _commits_over_nodes(place) < 5


def test_a_decision_is_of_its_own_transaction(place, accounts):
    """Even who knows the seal can't write the row of another transaction: the name ends in the number of his own."""
    with place.on_node(0) as root:
        root.execute("begin")
        decide = (
            "select herd.decide('x', sha256(value || sha256(value || convert_to('decide x ' || pg_backend_pid(), 'UTF8'))))::text, "
            "pg_current_xact_id()::text from herd.seal"
        )
        decided, own = root.execute(decide).fetchone()
        assert decided == own
        assert root.execute("select gid from herd.decision where gid = 'x_' || %s", (own,)).fetchone()
        root.execute("rollback")


def test_the_gate_can_not_be_held(place, accounts):
    """Neither the table, nor any of the advisory locks there are: every one that is held while others commit is taken, too."""
    stop = threading.Event()

    def grab(node):
        with place.on_node(node, "mallory") as mallory:
            mallory.execute("set lock_timeout = '200ms'")
            while not stop.is_set():
                for high, low, kind in mallory.execute("select classid::bigint, objid::bigint, objsubid from pg_locks where locktype = 'advisory'").fetchall():
                    key = (high << 32) | low
                    call = f"pg_advisory_lock({key - (1 << 64) if key >= 1 << 63 else key})"
                    try:
                        mallory.execute("select " + (call if kind == 1 else f"pg_advisory_lock({high - (1 << 32) if high >= 1 << 31 else high}, {low - (1 << 32) if low >= 1 << 31 else low})"))
                    except psycopg.Error:
                        pass

    grabbing = [threading.Thread(target=grab, args=(node,)) for node in range(3)]
    for thread in grabbing:
        thread.start()
    try:
        with place.on_node(0, "mallory") as mallory:
            for table in ("gate", "decision", "epoch", "node", "relation", "seal"):
                for mode in ("ROW SHARE", "ROW EXCLUSIVE", "EXCLUSIVE"):
                    mallory.execute("begin")
                    _refused(mallory, f"lock table herd.{table} in {mode} mode")
                    mallory.execute("rollback")
        for _ in range(10):
            assert _commits_over_nodes(place) < 5
    finally:
        stop.set()
        for thread in grabbing:
            thread.join(60)
    with place.as_role("victim") as reader:
        reader.execute("set herd.snapshot = on")
        assert reader.execute("select count(*) from accounts").fetchone() == (40,)


def test_in_doubt_is_not_prolonged(place, accounts):
    """What stands prepared is finished although somebody holds the locks its name leads to."""
    with place.on_node(0, "mallory") as mallory:
        herd = mallory.execute("select id from herd.herd").fetchone()[0]
        xid = mallory.execute("select pg_current_xact_id()").fetchone()[0]
        gid = f"herd_{herd}_1_00000000deadbeef_9_{xid}"
        h = 0xCBF29CE484222325
        for byte in gid.encode():
            h = ((h ^ byte) * 0x100000001B3) % 2**64
        mallory.execute("select pg_advisory_lock(%s)", (h - 2**64 if h >= 2**63 else h,))
        with place.on_node(1) as other:
            other.execute("begin")
            other.execute("create table never_there (x int)")
            other.execute(f"prepare transaction '{gid}_2'")
        deadline = time.monotonic() + 90
        with place.on_node(1) as other:
            while other.execute("select count(*) from pg_prepared_xacts").fetchone() != (0,):
                assert time.monotonic() < deadline, "still in doubt"
                time.sleep(0.2)


def test_the_epoch_has_no_end(place):
    """DDL went on failing for ever once somebody had raised it to the last number there is."""
    for node in range(3):
        with place.on_node(node, "mallory") as mallory:
            _refused(mallory, "update herd.epoch set epoch = 1")
    with place.on_node(0) as owner:
        owner.execute("select herd.bump_epoch(9223372036854775807)")
        assert owner.execute("select epoch < 10000000 from herd.epoch").fetchone() == (True,)
    place.server.run("create table after_it (x int)", "drop table after_it")


_SHOWN = re.compile(r"\\x[0-9a-f]{64}|(?:\b\d{1,3} ){32}")


@pytest.mark.parametrize("gate_held", [False, True], ids=["commits", "the gate is held"])
def test_tokens_are_in_no_message(place, accounts, gate_held):
    """A client may have parameters told with errors, and plans printed: who read a token could hold up commits with it."""
    seen = []
    with place.as_role("victim") as connection, place.on_node(0) as root:
        connection.add_notice_handler(lambda n: seen.append(f"{n.message_primary} {n.message_detail} {n.context}"))
        for setting in ("log_parameter_max_length_on_error = -1", "debug_print_plan = on", "client_min_messages = log", "lock_timeout = '300ms'"):
            connection.execute(f"set {setting}")
        root.execute("begin")
        if gate_held:
            root.execute("lock table herd.gate in exclusive mode")
        try:
            connection.execute("update accounts set v = v")
        except psycopg.Error as error:
            assert gate_held, error
            seen.append(f"{error} {error.diag.message_detail} {error.diag.context}")
        root.execute("rollback")
        # A commit heeds no limits of its client's, and waits for 20 s.
        assert seen or not gate_held
    assert not [text for text in seen if _SHOWN.search(text)]


def test_a_token_is_of_its_own_connection(place):
    """Whoever reads one in a server's log can do nothing with it elsewhere."""
    with place.on_node(0) as root, place.on_node(0, "mallory") as mallory:
        sealed = "select '\\x' || encode(sha256(value || sha256(value || convert_to(%s || %s, 'UTF8'))), 'hex') from herd.seal"
        own, other = mallory.info.backend_pid, root.info.backend_pid
        for asked, call in [("decide x", "select herd.decide('x', %s)"), ("epoch", "select herd.raise_epoch(null, %s)")]:
            for with_whom, code in [("", "42501"), (f" {other}", "42501"), (f" {own}", None)]:
                (token,) = root.execute(sealed, (asked, with_whom)).fetchone()
                mallory.execute("begin")
                if code:
                    _refused(mallory, call, token)
                else:
                    mallory.execute(call, (token,))
                mallory.execute("rollback")


def test_nobody_holds_up_ddl(place):
    """The row that DDL of all waits for at its end can't be held by who has not come to his own end."""
    for node in range(3):
        with place.on_node(node, "mallory") as mallory:
            mallory.execute("begin")
            _refused(mallory, "select herd.bump_epoch()")
            mallory.execute("rollback")
            mallory.execute("begin")
            _refused(mallory, "select herd.raise_epoch(null, %s::bytea)", b"x" * 32)
            mallory.execute("rollback")
    place.server.run(
        "create schema slow authorization mallory",
        "create function slow.sleeps() returns trigger language plpgsql as $$ begin perform pg_sleep(10); return null; end $$",
        "create table slow.t (x int)", "alter table slow.t owner to mallory",
        "create constraint trigger sleeps after insert on slow.t deferrable initially deferred for each row execute function slow.sleeps()",
    )

    def commits_slowly():
        with place.as_role("mallory") as mallory:
            mallory.execute("begin")
            mallory.execute("create table slow.made (x int)")
            mallory.execute("insert into slow.t values (1)")
            mallory.execute("commit")

    slow = threading.Thread(target=commits_slowly)
    slow.start()
    try:
        time.sleep(1.5)
        started = time.monotonic()
        place.server.run("create table beside_it (x int)", "drop table beside_it")
        assert slow.is_alive() and time.monotonic() - started < 7
    finally:
        slow.join(60)
        place.server.run("drop schema slow cascade")


def test_a_deferred_trigger_holds_up_no_reader(place):
    """What a trigger does at the end of a transaction over several nodes is done before others wait for its decision."""
    place.server.run(
        "create schema slow authorization mallory", "create table slow.seen (k int)", "insert into slow.seen select generate_series(1, 30)",
        "select create_distributed_table('slow.seen', 'k')", "create table slow.t (k int, x int)", "select create_distributed_table('slow.t', 'k')",
        "create function slow.sleeps() returns trigger language plpgsql as $$ begin perform pg_sleep(10); return null; end $$",
        "create constraint trigger sleeps after insert on slow.t deferrable initially deferred for each row when (new.x = 1) execute function slow.sleeps()",
        "grant usage on schema slow to mallory", "grant all on slow.t, slow.seen to mallory",
    )
    with place.on_node(0, "mallory") as mallory:
        at_home = {k for (k,) in mallory.execute("select k from slow.seen").fetchall()}
    elsewhere = min(set(range(1, 31)) - at_home)

    def commits_slowly():
        with place.as_role("mallory") as mallory:
            mallory.execute("begin")
            mallory.execute(f"insert into slow.t select g, (g = {elsewhere})::int from generate_series(1, 40) g")
            mallory.execute("commit")

    slow = threading.Thread(target=commits_slowly)
    slow.start()
    try:
        time.sleep(1.5)
        with place.server.connect(autocommit=True) as reader:
            reader.execute("set herd.snapshot = on")
            for _ in range(3):
                started = time.monotonic()
                assert reader.execute("select count(*) from slow.seen").fetchone() == (30,)
                assert slow.is_alive() and time.monotonic() - started < 4
    finally:
        slow.join(120)
        assert place.server.connect(autocommit=True).execute("select count(*) from slow.t").fetchone() == (40,)
        place.server.run("drop schema slow cascade")
