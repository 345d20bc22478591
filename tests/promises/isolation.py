"""Specs of two and three sessions: the same steps, in the same order, on plain PostgreSQL and on the herd.

A step that does not answer within a moment is waiting, which is part of the answer; it is collected after the step that
lets it go. Keys `here` and `there` lie on different nodes of the herd: what PostgreSQL promises within a node must hold
for what one transaction does on both, or be named here as a difference.
"""

import threading
import time
from dataclasses import dataclass

import psycopg

_WAITS_S = 0.4


@dataclass
class Spec:
    """`steps`: "session: sql". `differs`: why the herd may answer otherwise."""

    name: str
    steps: list[str]
    differs: str = ""


RC, RR, SER = "begin", "begin isolation level repeatable read", "begin isolation level serializable"

SPECS = [
    Spec("dirty write", ["a: " + RC, "b: " + RC, "a: update iso set v = 11 where id = {here}", "b: update iso set v = 12 where id = {here}", "a: commit", "b: commit", "c: select v from iso where id = {here}"]),
    Spec("dirty write aborted", ["a: " + RC, "a: update iso set v = 11", "b: select sum(v) from iso", "a: rollback", "b: select sum(v) from iso"]),
    Spec("read committed sees commits", ["a: " + RC, "a: select v from iso where id = {here}", "b: update iso set v = 5 where id = {here}", "a: select v from iso where id = {here}", "a: commit"]),
    Spec("repeatable read does not", ["a: " + RR, "a: select v from iso where id = {here}", "b: update iso set v = 5 where id = {here}", "a: select v from iso where id = {here}", "a: commit", "a: select v from iso where id = {here}"]),
    Spec("repeatable read over nodes, both read first", ["a: " + RR, "a: select sum(v) from iso", "b: update iso set v = v + 5", "a: select sum(v) from iso", "a: commit", "a: select sum(v) from iso"]),
    Spec("lost update is refused", ["a: " + RR, "b: " + RR, "a: select v from iso where id = {here}", "b: select v from iso where id = {here}", "a: update iso set v = v + 1 where id = {here}", "b: update iso set v = v + 1 where id = {here}", "a: commit", "b: commit", "c: select v from iso where id = {here}"]),
    Spec("lost update over nodes is refused", ["a: " + RR, "b: " + RR, "a: select sum(v) from iso", "b: select sum(v) from iso", "a: update iso set v = v + 1 where id in ({here}, {there})", "b: update iso set v = v + 1 where id in ({there}, {here})", "a: commit", "b: commit", "c: select sum(v) from iso"]),
    Spec("write skew, serializable, one node", ["a: " + SER, "b: " + SER, "a: select sum(v) from iso where id = {here}", "b: select sum(v) from iso where id = {here}", "a: insert into iso_log values ({here}, 1)", "b: select count(*) from iso_log where id = {here}", "a: select count(*) from iso_log where id = {here}", "b: insert into iso_log values ({here}, 2)", "a: commit", "b: commit"]),
    Spec("write skew, serializable, by keys on two nodes", ["a: " + SER, "b: " + SER, "a: select v from iso where id = {there}", "b: select v from iso where id = {here}", "a: update iso set v = 0 where id = {here}", "b: update iso set v = 0 where id = {there}", "a: commit", "b: commit"], differs="SERIALIZABLE holds within a node, not across nodes"),
    Spec("lock waits for commit", ["a: " + RC, "a: select v from iso where id = {there} for update", "b: update iso set v = 9 where id = {there}", "a: update iso set v = 8 where id = {there}", "a: commit", "b: select v from iso where id = {there}"]),
    Spec("nowait", ["a: " + RC, "a: select v from iso where id in ({here}, {there}) order by id for update", "b: select v from iso where id = {there} for update nowait", "b: select v from iso where id = {here} for update skip locked", "a: rollback"]),
    Spec("share locks", ["a: " + RC, "b: " + RC, "a: select v from iso where id = {here} for share", "b: select v from iso where id = {here} for share", "b: commit", "c: update iso set v = 3 where id = {here}", "a: commit", "c: select v from iso where id = {here}"]),
    Spec("savepoints over nodes", ["a: " + RC, "a: update iso set v = 1 where id = {here}", "a: savepoint s", "a: update iso set v = 1 where id = {there}", "a: rollback to s", "b: update iso set v = 2 where id = {there}", "a: commit", "b: select v from iso where id in ({here}, {there}) order by id"]),
    Spec("an error and a savepoint", ["a: " + RC, "a: update iso set v = 1 where id = {here}", "a: savepoint s", "a: insert into iso values ({there}, 1)", "a: select 1", "a: rollback to s", "a: update iso set v = 4 where id = {there}", "a: commit", "b: select v from iso where id in ({here}, {there}) order by id"]),
    Spec("nested savepoints", ["a: " + RC, "a: savepoint s", "a: update iso set v = 1 where id = {here}", "a: savepoint s", "a: update iso set v = 2 where id = {there}", "a: release s", "a: rollback to s", "a: select sum(v) from iso", "a: release s", "a: release s", "a: rollback"]),
    Spec("a failed transaction", ["a: " + RC, "a: update iso set v = 1 where id = {here}", "a: select 1/0 from iso where id = {there}", "a: update iso set v = 2", "a: commit", "b: select v from iso where id = {here}"]),
    Spec("read only", ["a: begin read only", "a: select count(*) from iso", "a: update iso set v = 1 where id = {there}", "a: rollback", "b: begin", "b: set transaction read only", "b: update iso set v = 1 where id = {here}", "b: rollback"]),
    Spec("set transaction comes too late", ["a: begin", "a: select count(*) from iso", "a: set transaction isolation level serializable", "a: rollback"]),
    Spec("and chain", ["a: " + RR, "a: update iso set v = 6 where id = {here}", "a: commit and chain", "a: show transaction_isolation", "a: select v from iso where id = {here}", "b: update iso set v = 7 where id = {here}", "a: select v from iso where id = {here}", "a: rollback"]),
    Spec("unique key race", ["a: " + RC, "b: " + RC, "a: insert into iso values (1000, 1)", "b: insert into iso values (1000, 2)", "a: commit", "b: rollback", "c: select v from iso where id = 1000"]),
    Spec("unique key race, first rolls back", ["a: " + RC, "b: " + RC, "a: insert into iso values (1001, 1)", "b: insert into iso values (1001, 2) on conflict do nothing", "a: rollback", "b: commit", "c: select v from iso where id = 1001"]),
    Spec("delete and update", ["a: " + RC, "a: delete from iso where id = {there}", "b: update iso set v = 5 where id = {there}", "a: commit", "b: select count(*) from iso where id = {there}"]),
    Spec("delete and update, repeatable read", ["a: " + RC, "b: " + RR, "b: select count(*) from iso", "a: delete from iso where id = {there}", "b: update iso set v = 5 where id = {there}", "a: commit", "b: rollback"]),
    Spec("predicate changes while waiting", ["a: " + RC, "a: update iso set v = 50 where id = {here}", "b: update iso set v = v + 1 where v < 20 and id in ({here}, {there})", "a: commit", "b: select v from iso where id in ({here}, {there}) order by id"]),
    Spec("table lock", ["a: " + RC, "a: lock table iso in share mode", "b: select count(*) from iso", "b: update iso set v = 1 where id = {there}", "a: commit", "b: select v from iso where id = {there}"]),
    Spec("ddl waits for readers", ["a: " + RC, "a: select count(*) from iso", "b: alter table iso add column w int", "a: commit", "b: select count(w) from iso"]),
    Spec("ddl waits for who read by key", ["a: " + RC, "a: select v from iso where id = {here}", "b: alter table iso add column w int", "a: select v from iso where id = {there}", "a: commit", "b: select count(w) from iso"]),
    Spec("ddl waits for who read by key and wrote elsewhere", ["a: " + RC, "a: select v from iso where id = {here}", "a: insert into iso_log values ({there}, 1)", "b: truncate iso", "a: select v from iso where id = {there}", "a: commit", "b: select count(*) from iso"]),
    Spec("ddl waits for no failed reader", ["a: " + RC, "a: select v from iso where id = {here}", "a: select v / (v - v) from iso where id = {there}", "b: truncate iso", "a: rollback", "b: select count(*) from iso"]),
    Spec("ddl of who has read waits for nobody", ["a: " + RC, "a: select v from iso where id = {here}", "a: alter table iso add column w int default 3", "a: select w from iso where id = {here}", "a: commit", "b: select w from iso where id = {there}"]),
    Spec("a table lock waits for who read by key", ["a: " + RC, "b: " + RC, "a: select v from iso where id = {here}", "b: lock table iso", "a: select v from iso where id = {there}", "a: commit", "b: commit"]),
    Spec("a table lock that does not wait for who read", ["a: " + RC, "b: " + RC, "a: select v from iso where id = {here}", "b: lock table iso in access exclusive mode nowait", "a: commit", "b: rollback"]),
    Spec("a table lock beside who read by key", ["a: " + RC, "b: " + RC, "a: select v from iso where id = {here}", "b: lock table iso in exclusive mode", "a: select v from iso where id = {there}", "b: commit", "a: commit"]),
    Spec("set transaction behind a read by key", ["a: begin", "a: select v from iso where id = {here}", "a: set transaction isolation level serializable", "a: rollback"]),
    Spec("read only behind a read by key", ["a: begin", "a: select v from iso where id = {here}", "a: set transaction read only", "a: update iso set v = 3 where id = {here}", "a: rollback"]),
    Spec("own rows behind a read by key", ["a: " + RC, "a: select v from iso where id = {here}", "a: update iso set v = 6 where id = {here}", "a: select v from iso where id = {here}", "a: select sum(v) from iso", "b: select v from iso where id = {here}", "a: rollback", "a: select v from iso where id = {here}"]),
    Spec("a savepoint around a read that fails", ["a: " + RC, "a: savepoint s", "a: select v / (v - v) from iso where id = {there}", "a: select v from iso where id = {there}", "a: rollback to s", "a: select v from iso where id = {there}", "a: commit"]),
    Spec("ddl rolled back", ["a: " + RC, "a: alter table iso add column w int default 3", "a: select sum(w) > 0 from iso", "a: rollback", "b: select w from iso"]),
    Spec("truncate rolled back", ["a: " + RC, "a: truncate iso", "a: select count(*) from iso", "a: rollback", "b: select count(*) from iso"]),
    Spec("deferred unique", ["a: " + RC, "a: update iso set v = v + 1", "b: select count(*) from iso where v = 1", "a: commit", "b: select count(*) from iso where v = 1"]),
    Spec("three in a row", ["a: " + RC, "b: " + RC, "c: " + RC, "a: update iso set v = 1 where id = {here}", "b: update iso set v = v + 10 where id = {here}", "c: update iso set v = v + 100 where id = {here}", "a: commit", "b: commit", "c: commit", "a: select v from iso where id = {here}"], differs="who of two that wait for one row comes first is not promised"),
    Spec("advisory locks", ["a: " + RC, "a: select pg_advisory_xact_lock(77)", "b: select pg_try_advisory_xact_lock(77)", "a: commit", "b: select pg_try_advisory_xact_lock(77)"]),
    Spec("advisory locks of a session", ["a: select pg_advisory_lock(78)", "b: select pg_try_advisory_lock(78)", "a: select pg_advisory_unlock(78)", "b: select pg_try_advisory_lock(78)", "b: select pg_advisory_unlock(78)"]),
    Spec("cursor and update", ["a: " + RC, "a: declare k cursor for select id, v from iso order by id", "a: fetch 2 from k", "b: update iso set v = 999", "a: fetch 2 from k", "a: commit"]),
    Spec("deadlock", ["a: set deadlock_timeout = '10s'", "a: " + RC, "b: " + RC, "a: update iso set v = 1 where id = {here}", "b: update iso set v = 2 where id = {there}", "a: update iso set v = 3 where id = {there}", "b: update iso set v = 4 where id = {here}", "b: rollback", "a: commit", "c: select v from iso where id in ({here}, {there}) order by id"]),
]


class _Session:
    def __init__(self, server):
        self.connection = server.connect(prepare_threshold=None)
        self.thread: threading.Thread | None = None
        self.answer = None

    def run(self, sql: str) -> None:
        def work():
            try:
                cursor = self.connection.execute(sql)
                rows = cursor.fetchall() if cursor.description else []
                self.answer = (rows, cursor.statusmessage)
            except psycopg.Error as error:
                self.answer = error.sqlstate

        self.answer = None
        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def wait(self, seconds: float) -> bool:
        if self.thread is None:
            return False
        self.thread.join(seconds)
        if self.thread.is_alive():
            return False
        self.thread = None
        return True


def play(server, spec: Spec, here: int, there: int, patience: float = 1.0) -> list:
    """What each step answered, and which ones waited. `patience`: how much longer than usual a step is watched before it is taken for one that waits."""
    told, waiting = [], []
    sessions: dict[str, _Session] = {}
    try:
        for step in spec.steps:
            name, sql = step.split(": ", 1)
            session = sessions.setdefault(name, _Session(server))
            if name in waiting:
                # It has to answer before it can do more.
                session.wait(60)
                waiting.remove(name)
                told.append((name, "then", session.answer))
            session.run(sql.format(here=here, there=there))
            if session.wait(_WAITS_S * patience):
                told.append((name, sql, session.answer))
            else:
                told.append((name, sql, "waits"))
                waiting.append(name)
            # Who was let go by this step.
            time.sleep(0.05 if waiting else 0)
            for other in list(waiting):
                if sessions[other].wait(0.6 * patience if other != name else 0):
                    waiting.remove(other)
                    told.append((other, "then", sessions[other].answer))
        for name in waiting:
            sessions[name].wait(60)
            told.append((name, "then", sessions[name].answer))
        return told
    finally:
        for session in sessions.values():
            session.connection.close()
