"""herd.restore_point(): servers that are restored to it, each from its own backup, are one herd, with all of each transaction or nothing."""

import json
import os
import random
import threading
import time

import psycopg
import pytest

from harness import router

from .servers import Archived, Restored

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("backup"), pytest.mark.timeout(600)]

_ACCOUNTS, _MONEY = 60, 1000


class Transfers(threading.Thread):
    """Money moves between accounts on whichever nodes, one transfer after another; who has been told COMMIT notes its number."""

    def __init__(self, number: int, server, stop: threading.Event):
        super().__init__(daemon=True)
        self.number, self.server, self.stop, self.random = number, server, stop, random.Random(number)
        self.begun, self.done = 0, 0
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            with self.server.connect(autocommit=False) as connection:
                while not self.stop.is_set():
                    self.begun += 1
                    source, sink = sorted(self.random.sample(range(_ACCOUNTS), 2))
                    for account, change in ((source, -7), (sink, 7)):
                        connection.execute("update account set balance = balance + %s where id = %s", (change, account))
                        connection.execute("insert into ledger values (%s, %s, %s, %s)", (account, self.number, self.begun, change))
                    connection.commit()
                    self.done = self.begun
        except BaseException as error:
            self.trouble = error


@pytest.fixture(scope="module")
def nodes():
    made = []
    try:
        for name in ("home", "second", "third"):
            made.append(Archived(f"backup-{name}"))
        yield made
    finally:
        for node in made:
            node.stop()


@pytest.fixture(scope="module")
def flag(tmp_path_factory):
    """Is there from when the second router has made the first point on its first node."""
    return tmp_path_factory.mktemp("point") / "flag"


@pytest.fixture(scope="module")
def routers(nodes, flag):
    made = []
    home, *others = map(router.conninfo, nodes)
    try:
        made.append(router.Router(home, others))
        os.environ["HERD_FAILPOINT"] = f"restore_point.sent:wait:{flag}"
        try:
            made.append(router.Router(home, others))
        finally:
            del os.environ["HERD_FAILPOINT"]
        made[0].server.run(
            "create table account (id int primary key, balance bigint not null)", "select create_distributed_table('account', 'id')",
            "create table ledger (id int, client int, number int, change int, primary key (id, client, number))", "select create_distributed_table('ledger', 'id')",
            "create table word (id int primary key, w text)", "select create_reference_table('word')", "insert into word values (1, 'before')",
            "create table plain (id serial primary key, t text)", "insert into plain (t) values ('before')",
            f"insert into account select g, {_MONEY} from generate_series(0, {_ACCOUNTS - 1}) g",
        )
        yield made
    finally:
        for one in made:
            one.stop()


def _go_on(flag, stop: threading.Event) -> None:
    """Others have their time between the points of two nodes."""
    while not flag.exists():
        if stop.wait(0.01):
            return
    time.sleep(0.4)
    flag.unlink()


def _on_one_node(nodes) -> set[tuple[int, int]]:
    """The transfers, by client and number, whose accounts are on one node."""
    both = "select client, number from ledger group by 1, 2 having count(*) = 2"
    found = set()
    for node in nodes:
        with node.server.connect() as direct:
            found.update(direct.execute(both).fetchall())
    return found


def test_restored_servers_are_one_herd(nodes, routers, flag):
    for node in nodes:
        node.base_backup()
    stop = threading.Event()
    clients = [Transfers(n, routers[n % 2].server, stop) for n in range(6)]
    for client in clients:
        client.start()
    with routers[1].server.connect() as boss:
        places = None
        try:
            time.sleep(1)
            # Others, too: in front of the one that counts, and behind it.
            with routers[0].server.connect() as other:
                other.execute("select herd.restore_point('first')")
            boss.execute("insert into word values (2, 'acknowledged')")
            before = [c.done for c in clients]
            threading.Thread(target=_go_on, args=(flag, stop), daemon=True).start()
            places = boss.execute("select herd.restore_point('it''s here')").fetchone()[0]
            after = [c.begun for c in clients]
            boss.execute("insert into word values (3, 'behind')")
            boss.execute("insert into plain (t) values ('behind')")
            deadline = time.monotonic() + 90
            while not all(c.done > n for c, n in zip(clients, after)) and time.monotonic() < deadline:
                time.sleep(0.05)
            boss.execute("select herd.restore_point('last')")
        finally:
            stop.set()
            for client in clients:
                client.join(90)
        assert [c.trouble for c in clients] == [None] * len(clients)
        assert all(c.done > n for c, n in zip(clients, after)), "transfers went on behind the point"
        places = json.loads(places)
        names = [r[0] for r in boss.execute("select name from herd.nodes order by id").fetchall()]
        assert sorted(places) == sorted(names)
        assert boss.execute("select places::text is not null from herd.restore_point order by asked_at").fetchall() == [(True,)] * 3
    for node, name in zip(nodes, names):
        node.wait_for_archive(places[name])
    restored = []
    again = None
    try:
        for node in nodes:
            restored.append(Restored(node, "it's here"))
        # What docs/backup.md says: home is told where its nodes are now, before any router is.
        with restored[0].server.connect() as direct:
            for name, server in zip(names, restored):
                direct.execute("update herd.node set host = %s, port = %s where name = %s", ("127.0.0.1", server.port, name))
        again = router.Router(router.conninfo(restored[0]), [])
        with again.server.connect() as boss:
            assert boss.execute("select array_agg(port order by id) from herd.nodes").fetchone()[0] == [s.port for s in restored]
            assert boss.execute("select count(*), sum(balance) from account").fetchone() == (_ACCOUNTS, _ACCOUNTS * _MONEY)
            # Each transfer has both of its rows, and each account is what its rows say.
            assert boss.execute("select count(*) from (select client, number from ledger group by 1, 2 having count(*) <> 2 or sum(change) <> 0) h").fetchone() == (0,)
            wrong = f"select count(*) from account a where balance <> {_MONEY} + coalesce((select sum(change) from ledger l where l.id = a.id), 0)"
            assert boss.execute(wrong).fetchone() == (0,)
            # All that was acknowledged before the call, nothing that began behind it. Of what ended meanwhile, each node says by itself which of
            # its own transactions are there; those over several nodes are one line with all else that their client did.
            alone = _on_one_node(nodes)
            for number, (first, last) in enumerate(zip(before, after)):
                found = {n for (n,) in boss.execute("select distinct number from ledger where client = %s", (number,))}
                newest = max(found, default=0)
                assert first <= newest <= last, (number, first, newest, last)
                missing = set(range(1, newest + 1)) - found
                assert all(n > first and (number, n) in alone for n in missing), (number, first, missing, last)
            assert boss.execute("select array_agg(w order by id) from word").fetchone() == (["before", "acknowledged"],)
            assert boss.execute("select array_agg(t) from plain").fetchone() == (["before"],)
            assert boss.execute("select count(*) from herd.transactions").fetchone() == (0,)
            # It is a herd: writes of all kinds, the schema.
            boss.execute("update account set balance = balance + 1")
            boss.execute("insert into word values (3, 'anew')")
            boss.execute("alter table account add column note text")
            boss.execute("create table anew (id int primary key)")
            boss.execute("select create_distributed_table('anew', 'id', colocate_with => 'none')")
            boss.execute("insert into anew select generate_series(1, 50)")
            assert boss.execute("select count(*) from anew").fetchone() == (50,)
        for server in restored:
            with server.server.connect() as direct:
                assert direct.execute("select count(*) from pg_prepared_xacts").fetchone() == (0,)
                assert direct.execute("select array_agg(w order by id) from word").fetchone() == (["before", "acknowledged", "anew"],)
        # The old herd has heard nothing of it.
        with routers[0].server.connect() as old:
            assert old.execute("select max(w) from word where id = 3").fetchone() == ("behind",)
            assert old.execute("select sum(balance) from account").fetchone() == (_ACCOUNTS * _MONEY,)
    finally:
        for thing in [again, *restored]:
            if thing is not None:
                thing.stop()


def test_a_point_waits_for_a_commit_over_several_nodes(nodes, routers):
    """A transaction that has its decider's gate is not cut: the point comes when it has ended."""
    with nodes[0].server.connect(autocommit=False) as writer, routers[0].server.connect() as boss:
        writer.execute("lock table herd.gate in row exclusive mode")
        boss.execute("set statement_timeout = '1s'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            boss.execute("select herd.restore_point('waits')")
        writer.rollback()
        # Nothing was made: the name is free.
        boss.execute("reset statement_timeout")
        assert boss.execute("select herd.restore_point('waits')").fetchone()[0].startswith("{")


def test_what_is_refused(nodes, routers):
    with routers[0].server.connect() as boss:
        for name in ("x" * 64, "", "two\nlines"):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                boss.execute("select herd.restore_point(%s)", (name,))
        assert boss.execute("select herd.restore_point(%s)", ("x" * 63,)).fetchone()[0].count("/") == 3
        with pytest.raises(psycopg.errors.DuplicateObject, match="already") as again:
            boss.execute("select herd.restore_point(%s)", ("x" * 63,))
        assert "another name" in again.value.diag.message_hint
        with pytest.raises(psycopg.errors.NullValueNotAllowed):
            boss.execute("select herd.restore_point(null)")
        boss.execute("begin")
        with pytest.raises(psycopg.errors.ActiveSqlTransaction):
            boss.execute("select herd.restore_point('in a block')")
        boss.execute("rollback")
        boss.execute("create role teller login")
        boss.execute("set role teller")
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
            boss.execute("select herd.restore_point('not mine')")
        assert "superuser" in refused.value.diag.message_hint
    with nodes[1].server.connect() as direct, pytest.raises(psycopg.errors.FeatureNotSupported, match="through a router"):
        direct.execute("select herd.restore_point('here')")


def test_nodes_that_keep_no_wal():
    home = router.node("minimal", {"wal_level": "minimal", "max_wal_senders": "0"})
    one = None
    try:
        one = router.Router(router.conninfo(home), [])
        with one.server.connect() as boss, pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match='node "home" .* wal_level is minimal') as refused:
            boss.execute("select herd.restore_point('never')")
        assert "wal_level = replica" in refused.value.diag.message_hint
    finally:
        for thing in (one, home):
            if thing:
                thing.stop()


def test_without_an_archive_it_says_so():
    home = router.node("unarchived")
    one = None
    try:
        one = router.Router(router.conninfo(home), [])
        with one.server.connect() as boss:
            said = []
            boss.add_notice_handler(lambda notice: said.append(notice.message_primary))
            assert boss.execute("select herd.restore_point('lone')").fetchone()[0].startswith('{"home": "0/')
            assert said == ['archive_mode is off on node "home"']
    finally:
        for thing in (one, home):
            if thing:
                thing.stop()
