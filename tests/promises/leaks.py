"""Promise 8: whatever one session does to a connection, the next session sees none of it.

The router has a pool of one connection to each node, so that B gets exactly what A has left. A runs a random sequence of
statements that dirty a session, ends it in a random way, and B's view of a session is compared with what it was on a
fresh router.
"""

import random
import time

import psycopg

from harness.server import cut

from . import program
from .cluster import Cluster

# Its plan is kept for all values, which a node's connection is told by a setting.
_RANGE = "select sum(v) from leak where id between %s and %s"
# Every statement may fail: what a failed one leaves behind counts too. {n} is a number of this sequence's own.
_DIRTY = [
    _RANGE, _RANGE, "set work_mem = '{n}kB'", "set local work_mem = '{n}kB'", "set search_path = leak_schema", "set timezone = 'Asia/Tokyo'",
    "set datestyle = 'German'", "set application_name = 'leak{n}'", "set leak.custom = 'secret{n}'", "set local leak.custom = 'secret{n}'",
    "reset work_mem", "reset all", "set role leak_role", "set local role leak_role", "set session authorization leak_role", "reset role",
    "set default_transaction_read_only = on", "set default_transaction_isolation = 'serializable'",
    "set session characteristics as transaction isolation level repeatable read", "set statement_timeout = '{n}s'",
    "set lock_timeout = '{n}s'", "set enable_seqscan = off", "set standard_conforming_strings = off", "set extra_float_digits = 0",
    "select set_config('leak.custom', 'config{n}', false)", "select set_config('work_mem', '{n}kB', true)",
    "select set_config('leak.' || 'custom', 'computed{n}', false)", "select leak_hidden_set('hidden{n}')", "select leak_hidden_role()",
    "select leak_hidden_set('hidden{n}') from leak where id = {k}",
    "do $$ begin perform set_config('leak.custom', 'do{n}', false); end $$", "do $$ begin set work_mem = '{n}kB'; end $$",
    "do $$ begin create temp table leak_temp_do (x int); end $$", "call leak_procedure('called{n}')",
    "create temp table leak_temp (x int)", "create temp table leak_temp2 as select 1 as x", "create temp view leak_view as select 1 as x",
    "create temp sequence leak_seq", "create temp table leak_drop (x int) on commit drop", "select 1 as x into temp leak_into",
    "insert into leak_temp values ({n})", "drop table leak_temp", "discard temp",
    "select pg_advisory_lock({k})", "select pg_advisory_lock_shared({k})", "select pg_try_advisory_lock({k}, 7)",
    "select pg_advisory_xact_lock({k})", "select pg_advisory_unlock({k})", "select pg_advisory_unlock_all()", "select leak_hidden_lock({k})",
    "listen leak_channel", "listen \"leak {n}\"", "unlisten *", "unlisten leak_channel", "notify leak_channel, 'x{n}'",
    "declare leak_cursor cursor with hold for select generate_series(1, 100)", "declare leak_cursor cursor for select 1",
    "declare leak_cursor cursor for select id from leak order by id", "fetch 2 from leak_cursor", "close leak_cursor", "close all",
    "prepare leak_statement as select {n}", "prepare leak_where (int) as select v from leak where id = $1",
    "execute leak_statement", "execute leak_where ({k})", "deallocate leak_statement", "deallocate all",
    "begin", "begin isolation level serializable", "begin read only", "start transaction isolation level repeatable read", "commit",
    "rollback", "commit and chain", "rollback and chain", "savepoint leak_point", "rollback to leak_point", "release leak_point", "abort",
    "set transaction isolation level serializable", "set transaction read only", "set constraints all deferred",
    "select v from leak where id = {k}", "select count(*) from leak", "update leak set v = v where id = {k}", "select 1/0", "selekt",
    "update leak set v = v", "select nextval('leak_sequence')", "select setseed(0.5)", "select lo_create(0)", "lock table leak",
    "select v from leak where id = {k} for update", "select pg_sleep(0.01)", "explain select * from leak", "show work_mem",
    "discard all", "discard plans", "discard sequences", "load 'auto_explain'", "set auto_explain.log_min_duration = 0",
    "set client_min_messages = error", "set bytea_output = 'escape'", "set intervalstyle = 'iso_8601'",
    "set herd.two_phase = off", "set citus.shard_count = 3", "begin; set work_mem = '{n}kB'; select 1/0", "begin; set leak.custom = 'x{n}'; rollback",
    "set work_mem = '{n}kB'; set leak.custom = 'batch{n}'", "set local timezone = 'Asia/Tokyo'; select 1/0",
]
_SEE = """
select string_agg(name || '=' || setting, E'\\n' order by name) from pg_settings
 where name not in ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable') and name !~ '^(auto_explain|leak|plpgsql)';
select current_user, session_user, current_schema, current_setting('leak.custom', true) is null or current_setting('leak.custom', true) = '';
select current_setting('transaction_isolation'), current_setting('transaction_read_only');
select count(*) from pg_class where relpersistence = 't' and pg_table_is_visible(oid);
select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid();
select count(*) from pg_listening_channels();
select count(*) from pg_cursors where name !~ '^<';
show herd.two_phase; show citus.shard_count
"""
# On a node that is not home: what a statement with a key finds there.
_SEE_THERE = """
select string_agg(s.name || '=' || s.setting, E'\\n' order by s.name), current_user, count(*) from leak, pg_settings s
 where id = {there} and s.name not in ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable', 'port', 'data_directory',
 'config_file', 'hba_file', 'ident_file', 'external_pid_file') and s.name !~ '^(auto_explain|leak|plpgsql)';
select current_setting('leak.custom', true) is null or current_setting('leak.custom', true) = '' from leak where id = {there};
select count(*) from leak, pg_locks where id = {there} and locktype = 'advisory' and pid = pg_backend_pid();
select count(*) from leak, pg_listening_channels() where id = {there}
"""
_SETUP = [
    "create role leaker login superuser", "create schema leak_schema", "create role leak_role", "grant all on schema public, leak_schema to leak_role",
    "create table leak (id int primary key, v int)", "select create_distributed_table('leak', 'id')",
    "insert into leak select g, g from generate_series(1, 40) g", "grant all on leak to leak_role", "create sequence leak_sequence",
    "create function leak_hidden_set(v text) returns text language plpgsql as $$ begin return set_config('leak.custom', v, false); end $$",
    "create function leak_hidden_role() returns void language plpgsql as $$ begin perform set_config('role', 'leak_role', false); end $$",
    "create function leak_hidden_lock(k int) returns void language plpgsql as $$ begin perform pg_advisory_lock(k); end $$",
    "create procedure leak_procedure(v text) language plpgsql as $$ begin perform set_config('leak.custom', v, false); commit; end $$",
]


class Subject:
    """A router with a pool of one."""

    def __init__(self, cluster: Cluster):
        # A change of the schema needs a second connection for a moment, and the router's own user shares its pool.
        cluster.router("setup").start().server.run(*_SETUP)
        self.router = cluster.router("leaks", "[pool]\nsize = 1\nwait_timeout_ms = 5000\n").start()
        self.router.server.user = "leaker"
        self.there = cluster.keys_by_node("leak")[1][0]
        self.fresh = self.see()

    def see(self) -> list:
        with self.router.server.connect(application_name="leak test") as connection:
            seen = []
            for sql in (_SEE + ";" + _SEE_THERE.format(there=self.there)).split(";"):
                try:
                    seen.append((sql.strip(), connection.execute(sql).fetchall()))
                except psycopg.Error as error:
                    seen.append((sql.strip(), f"{error.sqlstate} {error}"))
            return seen

    def difference(self) -> str | None:
        for (sql, before), (_, after) in zip(self.fresh, self.see()):
            if before != after:
                return f"{sql}: {_short(before, after)}"
        return None


def _short(before, after) -> str:
    if isinstance(before, list) and isinstance(after, list) and before and after:
        lost, found = set(str(before[0][0]).split("\n")), set(str(after[0][0]).split("\n"))
        return f"{sorted(lost - found)} became {sorted(found - lost)}; {before[0][1:]} and {after[0][1:]}"
    return f"{before} became {after}"


def dirty(rng: random.Random, subject: Subject, number: int) -> list[str]:
    """A random sequence, run. What was run is returned."""
    said = []
    connection = subject.router.server.connect(
        application_name="dirty", prepare_threshold=rng.choice([None, 0]),
        **({"options": "-c search_path=leak_schema"} if rng.random() < 0.1 else {}),
    )
    try:
        for _ in range(rng.randrange(1, 9)):
            sql = rng.choice(_DIRTY).format(n=rng.randrange(100, 900), k=rng.randrange(1, 41))
            said.append(sql)
            try:
                if rng.random() < 0.08:
                    # Cancelled in the middle, or just after.
                    connection.pgconn.send_query(sql.encode())
                    connection.cancel_safe(timeout=5) if rng.random() < 0.5 else None
                    if rng.random() < 0.5:
                        said.append("(left while it ran)")
                        break
                    while connection.pgconn.get_result():
                        pass
                else:
                    connection.execute(sql, (3, 12) if sql == _RANGE else None, prepare=sql == _RANGE or None)
            except psycopg.Error:
                pass
            if connection.closed:
                break
        if rng.random() < 0.3:
            said.append("(socket closed without Terminate)")
            connection.fileno() and cut(connection)
    finally:
        connection.close()
    return said


def run(seed: int, sequences: int = 1000, seconds: float = 0.0, cluster: Cluster | None = None) -> dict:
    """So many sequences, or as many as can be done in `seconds`."""
    own = cluster is None
    cluster = cluster or Cluster(nodes=2)
    try:
        subject = Subject(cluster)
        rng = random.Random(seed)
        started = time.monotonic()
        done = 0
        while (time.monotonic() - started < seconds) if seconds else (done < sequences):
            done += 1
            said = dirty(rng, subject, done)
            leak = subject.difference()
            assert leak is None, f"sequence {done} leaks: {leak}\nafter: {said}\n{subject.router.tail(600)}"
        return {"sequences": done, "leaks": 0}
    finally:
        if own:
            cluster.stop()


if __name__ == "__main__":
    program.main("leaks", run, program.arguments(__doc__, sequences=10_000, seconds=0.0))
