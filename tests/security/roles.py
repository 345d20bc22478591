"""Who one is, what one may and what one sees is as on plain PostgreSQL, whatever becomes of the roles.

Random sequences of logins, changes of roles, passwords, memberships and grants, SET ROLE, SET SESSION AUTHORIZATION and
statements of five roles and an administrator, on a herd of two nodes with a small pool, by two routers in turn, and on plain
PostgreSQL. After each step both must agree: the SQLSTATE, the rows, who the session says it is. Blocks of sequences begin with
the same roles; a difference is told with the fewest steps of its block that still show it.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

from harness.plain_postgres import PlainPostgres
from promises import program
from promises.cluster import Cluster

NAMES = ["r1", "r2", "r3", "r4", "r5", "r6", "r7"]
_BOSS, _BLOCK, _SLOTS = "boss", 40, 4
# 8 shards over 2 nodes: keys of both.
_KEYS = range(1, 13)
_EXPLAIN = "explain (costs off) "
_TABLES = ["roles_d", "roles_rls", "roles_ref", "roles_local", "roles_s.d"]
_SETUP = [
    "create schema roles_s",
    "create table roles_d (id int primary key, v int, owner text)", "create table roles_rls (id int primary key, v int, owner text)",
    "create table roles_ref (id int primary key, v int, owner text)", "create table roles_local (id int primary key, v int, owner text)",
    "create table roles_s.d (id int primary key, v int, owner text)",
    # Who may not use roles_s finds this one behind it.
    "create table d (id int primary key, v int, owner text)",
]
_DISTRIBUTE = [
    "select create_distributed_table('roles_d', 'id')", "select create_distributed_table('roles_rls', 'id')",
    "select create_distributed_table('roles_s.d', 'id')", "select create_distributed_table('d', 'id')", "select create_reference_table('roles_ref')",
]
_FILL = [f"insert into {t} select g, g, 'r' || (1 + g % 7) from generate_series(1, 12) g" for t in _TABLES] + [
    "insert into d select g, -g, 'public' from generate_series(1, 12) g", "grant select, insert, update on d to public",
    "alter table roles_rls enable row level security",
    "create policy own on roles_rls using (owner = current_user)", "create policy seen on roles_rls for select using (v % 2 = 0 or owner = session_user)",
]
# A parameter that was once set is '' and not NULL behind a pooler (docs/security.md).
_WHO = (
    "select session_user, current_user, current_setting('role'), current_setting('is_superuser'), current_setting('work_mem'), current_setting('search_path'),"
    " nullif(current_setting('my.own', true), ''), current_setting('timezone'), (select case when rolsuper then 'on' else 'off' end from pg_roles where rolname = current_user)"
)
# What somebody gave by a right of the whole table's that he has lost since: PostgreSQL's REVOKE reaches single columns only as their grantor, and
# DROP OWNED leaves them. Once he owns the table it is as the owner's.
_OTHERS_GRANTS = (
    "select distinct a.attrelid::regclass::text, g.grantor::regrole::text from pg_attribute a, aclexplode(a.attacl) g"
    f" where a.attrelid in ({', '.join(f'{t!r}::regclass' for t in _TABLES)}) and g.grantor <> 'postgres'::regrole"
)


class Known(Exception):
    """A difference that is known: the sides are no longer alike, and begin anew."""


class Side:
    """One server to ask: plain PostgreSQL, or the herd by one of its routers."""

    def __init__(self, ports: list[int]):
        self.ports, self.slots, self.said = ports, {}, ""

    def login(self, slot: int, user: str, password: str, way: int) -> tuple:
        self.close(slot)
        port = self.ports[way % len(self.ports)]
        try:
            connection = psycopg.connect(
                f"host=127.0.0.1 port={port} user={user} dbname=postgres sslmode=disable connect_timeout=20", password=password, autocommit=True
            )
        except psycopg.OperationalError as error:
            # A hint of the herd's own is no difference.
            return ("refused", str(error).split("FATAL:")[-1].split("\nHINT:")[0].strip())
        connection.execute("set statement_timeout = '60s'")
        self.slots[slot] = connection
        return ("in",)

    def run(self, slot: int, sql: str, prepare: bool) -> tuple | None:
        connection = self.slots.get(slot)
        if connection is None:
            return None
        try:
            cursor = connection.execute(sql, prepare=prepare)
            if sql.startswith(_EXPLAIN):
                # A herd shows plans of its own; who may see one is what both agree on.
                return ("ok", "explained")
            rows = sorted(cursor.fetchall(), key=repr) if cursor.description else cursor.rowcount
            return ("ok", rows)
        except psycopg.Error as error:
            self.said = str(error)
            if connection.closed:
                self.slots.pop(slot)
                return ("closed", error.sqlstate)
            return ("error", error.sqlstate, str(error).split("\n")[0] if error.sqlstate in (None, "XX000", "0A000") else "")

    def close(self, slot: int) -> None:
        connection = self.slots.pop(slot, None)
        if connection is not None:
            connection.close()

    def status(self, slot: int) -> int | None:
        connection = self.slots.get(slot)
        return None if connection is None else int(connection.info.transaction_status)


class World:
    """Both sides, with the same tables and roles."""

    def __init__(self, cluster: Cluster):
        self.plain, self.beside = PlainPostgres("roles"), ThreadPoolExecutor(1)
        with self.plain.server.connect() as boss:
            for sql in [*_SETUP, *_FILL, f"alter role postgres password '{_BOSS}'"]:
                boss.execute(sql)
            Path(self.plain.data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")
            boss.execute("select pg_reload_conf()")
        setup = cluster.router("setup").start()
        setup.server.run(*_SETUP, *_DISTRIBUTE, *_FILL, f"alter role postgres password '{_BOSS}'")
        config = 'auth = "scram"\n[pool]\nsize = 2\nwait_timeout_ms = 60000\n'
        self.routers = [cluster.router(f"roles{i}", config).start(wait=False) for i in (1, 2)]
        for made in self.routers:
            self._wait_for(made.port)
        self.herd, self.pg = Side([r.port for r in self.routers]), Side([self.plain.port])
        self.passwords = {"postgres": _BOSS}
        self.counts = {"steps": 0, "logins": 0, "refused": {}, "errors": 0, "denied": 0, "explained": 0, "explain_denied": 0, "known": 0}

    def stop(self) -> None:
        self.beside.shutdown()
        for side in (self.herd, self.pg):
            for slot in list(side.slots):
                side.close(slot)
        self.plain.stop()

    def both(self, ask) -> tuple:
        """What both sides say, asked at the same time."""
        ours = self.beside.submit(ask, self.herd)
        theirs = ask(self.pg)
        return ours.result(), theirs

    def reset(self) -> None:
        for side in (self.herd, self.pg):
            for slot in range(_SLOTS + 1):
                side.close(slot)
            said = side.login(0, "postgres", _BOSS, 0)
            assert said == ("in",), said
            there = [name for (name,) in side.slots[0].execute(f"select rolname from pg_roles where rolname in ({', '.join(map(repr, NAMES))})")]
            # In one transaction: the herd loads its catalog once.
            owners = [f"alter table {table} owner to postgres" for table in _TABLES]
            side.slots[0].execute("; ".join(["alter role all in database postgres reset all", *owners]))
            for table, grantor in side.slots[0].execute(_OTHERS_GRANTS).fetchall():
                side.slots[0].execute(f"alter table {table} owner to {grantor}; alter table {table} owner to postgres")
            gone = [f"drop owned by {name}" for name in there] + [f"drop role {', '.join(there)}"] * bool(there)
            self._at_last(side, "; ".join([
                *gone,
                *(f"create role {name} login password '{name}'" for name in NAMES[:5]), f"grant select on {', '.join(_TABLES)} to r1, r2",
                *(f"delete from {table} where id > 12" for table in _TABLES), "grant usage on schema roles_s to r1, r2, r3",
            ]))  # fmt: skip

    @staticmethod
    def _wait_for(port: int) -> None:
        """Until a router lets somebody in."""
        deadline = time.monotonic() + 90
        while True:
            try:
                return psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=disable connect_timeout=20", password=_BOSS).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "a router does not start"
                time.sleep(0.1)

    @staticmethod
    def _at_last(side, sql: str) -> None:
        """Routers follow what rights changed at the same moment: PostgreSQL lets one of two such changes fail, as a whole."""
        for tried in range(5):
            try:
                return side.slots[0].execute(sql)
            except psycopg.errors.InternalError_ as error:
                if "tuple concurrently updated" not in str(error) or tried == 4:
                    raise
                time.sleep(0.3)

    def step(self, step: tuple) -> str | None:
        """What differs after it, if anything."""
        self.counts["steps"] += 1
        kind, slot, *rest = step
        if kind == "login":
            self.counts["logins"] += 1
            ours, theirs = self.both(lambda side: side.login(slot, *rest))
        elif kind == "end":
            self.herd.close(slot)
            self.pg.close(slot)
            return None
        else:
            sql, prepare = rest
            ours = self.herd.run(slot, sql, prepare)
            if ours and ours[0] == "error" and ours[1] == "0A000":
                self.counts["refused"][ours[2][:60]] = self.counts["refused"].get(ours[2][:60], 0) + 1
                if self.pg.status(slot) == 2:
                    self.pg.run(slot, "select 1/0", False)
                return None
            theirs = self.pg.run(slot, sql, prepare)
            self.counts["errors"] += bool(ours and ours[0] == "error")
            denied = bool(ours and ours[:2] == ("error", "42501"))
            self.counts["denied"] += denied
            self.counts["explained"] += ours == ("ok", "explained")
            self.counts["explain_denied"] += denied and sql.startswith(_EXPLAIN)
        if ours != theirs:
            self.is_shut_out(slot, ours)
            return f"{step}: the herd says {ours}, PostgreSQL {theirs} (their last errors: {self.herd.said!r}, {self.pg.said!r})"
        if self.herd.status(slot) != self.pg.status(slot):
            return f"{step}: transaction status {self.herd.status(slot)}, PostgreSQL {self.pg.status(slot)}"
        return self.who(step, slot)

    def is_shut_out(self, slot: int, ours: tuple | None) -> None:
        """Who could not log in now gets no new connections to nodes (docs/security.md): an error, never another's answer."""
        if not ours or ours[0] != "error" or ours[1] not in ("28000", "53300"):
            return
        pid = self.pg.slots[slot].info.backend_pid
        shut = "select 1 from pg_stat_activity a join pg_roles r on r.oid = a.usesysid where a.pid = %s and (not r.rolcanlogin or r.rolconnlimit >= 0 and not r.rolsuper)"
        with self.plain.server.connect(password=_BOSS) as boss:
            if boss.execute(shut, [pid]).fetchone() is not None:
                self.counts["known"] += 1
                raise Known

    def who(self, step: tuple, slot: int) -> str | None:
        if self.herd.status(slot) not in (0, 2):
            return None
        ours, theirs = self.both(lambda side: side.run(slot, _WHO, False))
        if ours and theirs and ours[0] == theirs[0] == "ok":
            (*_, super_now), super_then = theirs[1][0], ours[1][0][3]
            if super_then == super_now:
                # PostgreSQL goes on saying what was so when the session became who it is; here that may be a connection made since.
                theirs = ("ok", [(*theirs[1][0][:3], super_now, *theirs[1][0][4:])])
            (_, user, role, *_), (_, user_there, role_there, *_) = ours[1][0], theirs[1][0]
            if role == user == user_there and role_there != "none":
                # The same role: PostgreSQL goes on telling the name by which it was set, a herd the one it has now (docs/security.md).
                theirs = ("ok", [(*theirs[1][0][:2], role, *theirs[1][0][3:])])
        if ours != theirs:
            self.is_shut_out(slot, ours)
        return None if ours == theirs else f"after {step}: {_WHO}: the herd says {ours}, PostgreSQL {theirs}"


def sequence(rng: random.Random) -> list[tuple]:
    """Logins, then steps; sessions end with it. One session at a time has a transaction."""
    steps: list[tuple] = [("login", 0, "postgres", _BOSS, rng.randrange(2))]
    logged_in = [0]
    for _ in range(rng.randrange(1, 3)):
        steps.append(_login(rng, slot := rng.randrange(1, _SLOTS + 1)))
        logged_in.append(slot)
    busy, left = None, rng.randrange(6, 16)
    while left > 0 or busy is not None:
        left -= 1
        slot = busy if busy is not None else rng.choice([*logged_in, rng.choice(logged_in)])
        if busy is not None and (left < 0 or rng.random() < 0.25):
            steps.append(("sql", slot, rng.choice(["commit", "rollback", "rollback"]), False))
            busy = None
            continue
        kind = rng.random()
        if busy is None and kind < 0.08:
            steps.append(("sql", slot, "begin", False))
            busy = slot
        elif busy is None and kind < 0.2:
            steps.append(_login(rng, slot := rng.randrange(1, _SLOTS + 1)))
            logged_in.append(slot)
        elif busy is None and kind < 0.42:
            change = rng.choice(_CHANGES)(rng)
            if change.startswith("drop role"):
                # What becomes of the sessions of one who is gone is a matter of its own.
                steps += [("end", s) for s in range(1, _SLOTS + 1)]
                logged_in = [0]
                slot = 0
            steps.append(("sql", 0 if rng.random() < 0.8 else slot, change, False))
        elif kind < 0.62:
            steps.append(("sql", slot, _who_to_be(rng, busy is not None), False))
        else:
            steps.append(("sql", slot, _statement(rng), rng.random() < 0.4))
    return steps + [("end", s) for s in range(0, _SLOTS + 1)]


def _login(rng, slot: int) -> tuple:
    name = rng.choice(NAMES)
    # Passwords are the names roles were made with, or a new one.
    return ("login", slot, name, rng.choice([name, name, name, f"new {name}", rng.choice(NAMES)]), rng.randrange(2))


def _setting(rng) -> str:
    return rng.choice(["search_path = roles_s, public", "work_mem = 6789", "my.own = 7", f"role = {rng.choice(NAMES)}", "timezone = 'Asia/Tokyo'"])


_CHANGES = [
    lambda r: f"create role {r.choice(NAMES)} {r.choice(['login', 'login', 'nologin', 'login superuser', 'login noinherit', 'login createrole'])} "
    + (f"password '{r.choice(NAMES)}'"),
    lambda r: f"alter role {r.choice(NAMES)} {r.choice(['nologin', 'login', 'superuser', 'nosuperuser', 'noinherit', 'inherit', 'createrole', 'bypassrls', 'nobypassrls', 'connection limit 0', 'connection limit -1'])}",
    lambda r: f"alter role {(n := r.choice(NAMES))} password '{r.choice([n, 'new ' + n, r.choice(NAMES)])}'",
    lambda r: f"alter role {r.choice(NAMES)} password null",
    lambda r: f"alter role {r.choice(NAMES)} valid until '{r.choice(['2001-01-01', 'infinity'])}'",
    lambda r: f"alter role {r.choice(NAMES)} rename to {r.choice(NAMES)}",
    lambda r: f"alter role {r.choice(NAMES)} rename to {r.choice(NAMES)}",
    lambda r: f"alter role {r.choice(NAMES)} set {_setting(r)}",
    lambda r: f"alter role {r.choice(NAMES)} set {_setting(r)}",
    lambda r: f"alter role {r.choice(NAMES)} reset {r.choice(['all', 'all', 'role', 'work_mem', 'search_path', 'my.own'])}",
    lambda r: f"alter role {r.choice([*NAMES, 'all'])} in database postgres {r.choice(['set work_mem = 3456', 'set my.own = 8', 'reset all'])}",
    lambda r: f"reassign owned by {r.choice(NAMES)} to postgres",
    lambda r: f"drop role {r.choice(NAMES)}",
    lambda r: f"grant {r.choice(NAMES)} to {r.choice(NAMES)}{r.choice(['', '', ' with admin option', ' with inherit false', ' with set false'])}",
    lambda r: f"grant {r.choice(NAMES)} to {r.choice(NAMES)}",
    lambda r: f"revoke {r.choice(NAMES)} from {r.choice(NAMES)}",
    lambda r: f"grant {r.choice(['select', 'all', 'insert, select', 'update, select', 'delete, select'])} on {r.choice(_TABLES)} to {r.choice([*NAMES, 'public'])}",
    lambda r: f"grant select, update on {r.choice(_TABLES)} to {r.choice(NAMES)} with grant option",
    lambda r: f"grant {r.choice(['select', 'update'])} ({r.choice(['id', 'v', 'id, v'])}) on {r.choice(_TABLES)} to {r.choice(NAMES)}",
    lambda r: f"revoke {r.choice(['select', 'all', 'update'])} on {r.choice(_TABLES)} from {r.choice([*NAMES, 'public'])}{r.choice(['', ' cascade'])}",
    lambda r: f"revoke select (id) on {r.choice(_TABLES)} from {r.choice(NAMES)}",
    lambda r: f"grant usage on schema roles_s to {r.choice(NAMES)}",
    lambda r: f"revoke usage on schema roles_s from {r.choice(NAMES)}",
    lambda r: f"grant create on schema roles_s to {r.choice(NAMES)}",
    lambda r: f"alter default privileges for role {r.choice(NAMES)} in schema roles_s grant select on tables to {r.choice(NAMES)}",
    lambda r: f"create table if not exists roles_s.own{r.randrange(2)} (id int)",
    lambda r: f"alter table {r.choice(_TABLES)} owner to {r.choice([*NAMES, 'postgres', 'postgres'])}",
]


def _who_to_be(rng, in_transaction: bool) -> str:
    name = rng.choice(NAMES)
    some = [f"set role {name}", f"set role {name}", "set role none", "reset role", f"set session authorization {name}", "reset session authorization",
            "set session authorization default", "reset all", "discard all", f"select set_config('role', '{name}', false)",
            rng.choice(["set work_mem = 2345", "reset work_mem", "set search_path = roles_s", "reset search_path", "set my.own = 1", "reset my.own", "set timezone to default"])]
    if in_transaction:
        some += [f"set local role {name}", f"set local role {name}", f"set local session authorization {name}", "savepoint a", "rollback to a", "release a"] * 2
    return rng.choice(some)


def _statement(rng) -> str:
    table, key = rng.choice(_TABLES), rng.choice(_KEYS)
    sql = rng.choice([
        f"select id, v, owner from {table} where id = {key}", f"select * from {table}", f"select id from {table}", f"select count(*), sum(v) from {table}",
        f"select current_user, session_user from {table} where id = {key}", f"select current_user, session_user, count(*) from {table} group by 1, 2",
        f"update {table} set v = v where id = {key}", f"update {table} set v = v", f"update {table} set owner = owner where v = {key} returning id",
        f"insert into {table} values ({key + 100}, 1, current_user) on conflict do nothing", f"insert into {table} values ({key + 200}, 2, 'r1'), ({key + 201}, 2, 'r2') on conflict do nothing",
        f"delete from {table} where id = {key + 100}", f"delete from {table} where id > 100", f"select * from {table} where owner = current_user",
        f"select has_table_privilege('{table}', 'select'), has_table_privilege(current_user, '{table}', 'update')", f"select id from {table} where id = {key} for update",
        f"select d.id from roles_d d join {table} t on t.id = d.id where d.id = {key}", "select * from d", f"select id, v, owner from d where id = {key}", f"update d set v = v where id = {key} or id = 3", "show work_mem", "select current_setting('search_path')",
        f"select pg_has_role('{rng.choice(NAMES)}', 'member')", "select rolname, rolsuper, rolcanlogin, rolinherit from pg_roles where rolname ~ '^r[1-7]$'",
    ])
    # SHOW can't be explained.
    return f"{_EXPLAIN}{sql}" if rng.random() < 0.12 and not sql.startswith("show ") else sql


def replay(world: World, block: list[tuple]) -> str | None:
    world.reset()
    try:
        for step in block:
            if (difference := world.step(step)) is not None:
                return difference
    except Known:
        pass
    return None


def shrink(world: World, block: list[tuple], seconds_max: float = 120) -> list[tuple]:
    """The fewest steps found that still differ."""
    deadline, size = time.monotonic() + seconds_max, max(1, len(block) // 2)
    while size and time.monotonic() < deadline:
        at = 0
        while at < len(block) and time.monotonic() < deadline:
            fewer = block[:at] + block[at + size:]
            if fewer and replay(world, fewer) is not None:
                block = fewer
            else:
                at += size
        size //= 2
    return block


def run(seed: int, sequences: int = 200, seconds: float = 0.0, cluster: Cluster | None = None) -> dict:
    """So many sequences, or as many as can be done in `seconds`; what was done. The first difference ends it."""
    own = cluster is None
    cluster = cluster or Cluster(nodes=2)
    world = None
    try:
        world = World(cluster)
        rng, started, done, block = random.Random(seed), time.monotonic(), 0, []
        while (time.monotonic() - started < seconds) if seconds else (done < sequences):
            if done % _BLOCK == 0:
                world.reset()
                block = []
            done += 1
            for step in sequence(rng):
                block.append(step)
                try:
                    difference = world.step(step)
                except Known:
                    world.reset()
                    block = []
                    break
                if difference is None:
                    continue
                least = shrink(world, block)
                told = "\n".join(f"    {step!r}," for step in least)
                raise AssertionError(f"sequence {done}: {difference}\nthe least that differs:\n{told}\n{replay(world, least)}")
        return {"sequences": done, **world.counts}
    finally:
        if world:
            world.stop()
        if own:
            cluster.stop()


if __name__ == "__main__":
    program.main("roles", run, program.arguments(__doc__, sequences=10_000, seconds=0.0))
