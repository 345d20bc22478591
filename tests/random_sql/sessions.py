"""What a program does beside single statements: settings of the session, several statements in one string, cursors that
scroll or outlive their transaction, roles that see some rows only.

Each is a function of the Program that asks for it, and yields steps as its methods do.
"""

import re
from dataclasses import replace

from . import queries
from .expressions import Column, Context, Expressions, Relation
from .pair import READER
from .queries import Queries
from .schema import Table
from .step import Step, mark
from .values import ident

# What shows in answers, and what must not. Both sides are told the same.
SETTINGS = [
    "datestyle = 'ISO, DMY'", "datestyle = 'SQL, MDY'", "datestyle = 'German'", "datestyle = 'Postgres, DMY'", "timezone = 'Asia/Kathmandu'", "timezone = 'America/New_York'", "timezone = '-03:30'", "timezone = 'UTC'", "intervalstyle = 'iso_8601'",
    "intervalstyle = 'sql_standard'", "intervalstyle = 'postgres_verbose'", "extra_float_digits = 0", "extra_float_digits = -3", "bytea_output = 'escape'", "work_mem = '64kB'", "jit_above_cost = 0", "enable_partitionwise_join = on",
    "enable_partitionwise_aggregate = on", "enable_hashjoin = off", "enable_hashagg = off", "enable_sort = off", "enable_seqscan = off", "enable_mergejoin = off", "enable_nestloop = off", "enable_partition_pruning = off", "synchronous_commit = off",
    "plan_cache_mode = force_generic_plan", "plan_cache_mode = force_custom_plan", "constraint_exclusion = on", "from_collapse_limit = 1", "join_collapse_limit = 1", "array_nulls = off", "transform_null_equals = on", "quote_all_identifiers = on",
    "default_transaction_isolation = 'repeatable read'", "default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on", "cursor_tuple_fraction = 1", "geqo_threshold = 2", "debug_parallel_query = on", "parallel_setup_cost = 0",
    "enable_parallel_append = off", "check_function_bodies = off", "row_security = on", "idle_in_transaction_session_timeout = '1min'", "client_min_messages = 'error'", "enable_incremental_sort = off", "xmloption = 'document'", "application_name = '%r0 ''x'",
    "default_with.unknown = 'x'", "lc_messages = 'C'", "escape_string_warning = off", "standard_conforming_strings = on", "enable_distinct_reordering = off", "hash_mem_multiplier = 1", "enable_memoize = off", "search_path = random_sql, public, pg_catalog", "extra_float_digits = 3", "temp_buffers = 1024",
]
# Other names and other literals: for reads, since the schema would be another one.
MEANINGS = ["standard_conforming_strings = off", "search_path = pg_temp, random_sql", "search_path = public, random_sql", "search_path = pg_catalog, random_sql, pg_temp"]


def settings(program, session: int):
    for _ in range(program.rng.choice([1, 1, 2, 4])):
        yield Step(f"set {program.rng.choice(SETTINGS)}", session=session)


def changed_settings(program):
    """Settings for a while, for one transaction or until they are reset."""
    rng = program.rng
    if rng.random() < 0.4:
        yield Step("begin")
        yield Step(f"set local {rng.choice(SETTINGS)}")
        for _ in range(3):
            done = yield queries.step(program.schema, rng)
            if done.sqlstate:
                break
        yield Step(rng.choice(["commit", "rollback"]), writes=True)
        return 5
    name = rng.choice(SETTINGS + MEANINGS)
    yield Step(f"set {name}", session=1)
    for _ in range(4):
        yield replace(queries.step(program.schema, rng), session=1)
    yield Step("set search_path = random_sql, public" if name.startswith("search_path") else f"reset {name.split(' = ')[0]}", session=1)
    return 6


def several_in_one(program):
    """Several statements in one string: one transaction, if they do not say otherwise."""
    rng = program.rng
    steps = [program.writes.step() if rng.random() < 0.5 else queries.step(program.schema, rng, 1) for _ in range(rng.randrange(2, 5))]
    steps = [s for s in steps if s.data is None and not s.sql.startswith("truncate")]
    if len(steps) < 2:
        return 0
    texts, params, types = [], [], []
    for step in steps:
        moved = len(params)
        texts.append(re.sub("\x01(\\d+)\x02", lambda m, moved=moved: mark(int(m[1]) + moved), step.sql))
        params += step.params
        types += step.types
    if rng.random() < 0.15:
        texts.insert(rng.randrange(len(texts)), "select 1/0")
    if rng.random() < 0.3:
        texts = ["begin", *texts, rng.choice(["commit", "rollback"])]
    yield Step("; ".join(texts), params=tuple(params), types=tuple(types), any_of_equals=any(s.any_of_equals for s in steps), writes=True)
    # What failed in the middle may have left a transaction open.
    yield Step("rollback", writes=True)
    return len(texts)


def cursors(program):
    """Cursors that go back and forth, are positioned anywhere, and stay after COMMIT."""
    rng = program.rng
    context = Context(rng, program.schema)
    query = Queries(context, 1).statement()
    is_total = len(query.ordered_by) == len(query.columns) and not query.is_finished
    hold = rng.random() < 0.4
    yield Step("begin")
    declare = f"declare c2 {rng.choice(['', 'binary ']) if not context.any_of_equals else ''}{'scroll ' if is_total else ''}cursor {'with hold ' if hold else ''}for {query.sql}"
    done = yield Step(declare, params=tuple(context.params), types=tuple(context.types), any_of_equals=context.any_of_equals)
    if done.sqlstate:
        yield Step("rollback")
        return 2
    if hold and rng.random() < 0.7:
        yield Step("commit", writes=True)
    moves = ["fetch next", "fetch prior", "fetch first", "fetch last", "fetch absolute 2", "fetch relative -1", "fetch backward 2", "fetch forward 3", "move forward 2", "fetch absolute -1", "fetch backward all", "fetch all", "fetch 0", "move last"]
    for move in [rng.choice(moves) for _ in range(rng.randrange(2, 7))] if is_total else ["fetch all"]:
        done = yield Step(f"{move} from c2", mode=rng.choice(["simple", "extended"]), ordered_by=query.ordered_by if move.startswith("fetch forward") else (), any_of_equals=context.any_of_equals)
        if done.sqlstate:
            break
    if not done.sqlstate:
        yield Step(rng.choice(["close c2", "close all"]))
    yield Step(rng.choice(["commit", "rollback"]), writes=True)
    yield Step("close all", writes=True)
    return 8


def current_row(program):
    """A row changed where a cursor stands on it."""
    rng = program.rng
    table = rng.choice(program.schema.tables)
    others = [c for c in table.writable() if c is not table.columns[0] and c not in table.unique and not c.is_identity]
    if not table.unique or not others:
        return 0
    context = Context(rng, program.schema)
    made = context.constant(program.schema.row_value(table, others[0]), others[0].type)
    pin = f" where {table.columns[0].sql} = {context.constant(program.schema.key_text(table.columns[0], 0), table.columns[0].type)}" if rng.random() < 0.6 else ""
    yield Step("begin")
    # Of several rows of a key it is open which comes first.
    order = f" order by {', '.join(c.sql for c in table.unique)}"
    done = yield Step(f"declare c3 cursor for select * from {table.sql}{pin}{order} for update", params=tuple(context.params), types=tuple(context.types))
    if not done.sqlstate and pin:
        yield Step("fetch next from c3")
        yield Step(rng.choice([f"update {table.sql} set {others[0].sql} = {made} where current of c3", f"delete from {table.sql} where current of c3"]), params=tuple(context.params), types=tuple(context.types), writes=True)
    yield Step(rng.choice(["commit", "rollback"]), writes=True)
    return 5


def block(program):
    """A DO block of writes and reads, one of which may fail in a subtransaction."""
    rng = program.rng
    first, second = program.writes.step(), program.writes.step()
    texts = [replace(s, mode="simple").text().split(" returning ")[0] for s in (first, second) if s.data is None and not s.sql.startswith("with")]
    if not texts or any("$q" in t or "$b$" in t for t in texts):
        return 0
    inner = "; ".join(texts)
    body = rng.choice([f"begin {inner}; end", f"begin begin {inner}; exception when others then null; end; end", f"begin {inner}; if (select count(*) from generate_series(1, 3)) > 2 then null; end if; end"])
    yield Step(f"do $b$ {body} $b$", writes=True)
    return 1


def policies(program):
    """Rows a role may see and write, and what it may not at all."""
    rng = program.rng
    table = rng.choice(program.schema.tables)
    rights = rng.choice(["select", "select, insert", "select, insert, update, delete", "select, update, delete"])
    yield Step(f"grant {rights} on {table.sql} to {READER}", writes=True)
    if rng.random() < 0.7:
        context = Context(rng, program.schema)
        # Columns without an alias.
        condition = Expressions(context, [Relation("", [Column(c.sql, c.type) for c in table.columns])]).condition(1)
        if not context.params:
            command = rng.choice(["", "", " for select", " for update", " for delete"])
            check = f" with check ({condition})" if rng.random() < 0.3 and command in ("", " for update") else ""
            done = yield Step(f"create policy {ident(program._name('po'))} on {table.sql}{command} to {rng.choice([READER, 'public'])} using ({condition}){check}", writes=True)
            if not done.sqlstate:
                yield Step(f"alter table {table.sql} enable row level security", writes=True)
    how = rng.choice(["role", "role", "session authorization"])
    yield Step(f"set {how} {READER}", session=2)
    for _ in range(rng.randrange(2, 6)):
        yield replace(_about(program, table), session=2)
    yield Step(rng.choice([f"reset {how}", f"set {how} {'none' if how == 'role' else 'default'}"]), session=2)
    yield replace(queries.step(program.schema, rng, 1), session=2)
    return 8


def _about(program, table: Table) -> Step:
    rng = program.rng
    dice = rng.random()
    if dice < 0.4:
        return rng.choice([program.writes.insert, program.writes.update, program.writes.delete])(table)
    if dice < 0.6:
        context = Context(rng, program.schema)
        source, relation = Queries(context, 0).table_relation(table)
        where = Queries(context, 0).where([relation], Expressions(context, [relation]))
        return Step(f"select * from {source}{where}", mode=rng.choice(["simple", "extended", "prepared"]), params=tuple(context.params), types=tuple(context.types))
    return queries.step(program.schema, rng, 1)
