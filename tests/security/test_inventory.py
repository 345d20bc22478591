"""What stands in schema herd, on home and on every other node, read from the catalogs: nothing there can be misused.

A function that is made tomorrow is judged like those of today: the lists here say what is meant for everybody, and all
else must be nobody's.
"""

import re

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

# Run as the herd's owner for any role, and check what they are asked for.
DEFINERS = {"raise_epoch", "decide", "forget_dropped", "follow_rename", "follow_prefix", "met_since", "mirror_partitions"}
# Run with their caller's rights, so they give nobody anything.
INVOKERS = {
    "knows_maintain", "rights", "rights_of_shards", "verify", "run", "run_as", "run_as_owner", "run_on", "create_as_owner", "create_partition", "make_view", "lock_views", "drop_views", "name_of", "strip", "note_made", "made", "hold_schema", "still_table", "let_own", "lock_tables", "lock_catalog", "cluster_partition",
    "refuse_admin_call", "cluster", "create_time_partitions", "drop_old_time_partitions", "move_shard", "split_shard", "merge_shards", "isolate_tenant", "drain_node", "rebalance", "rebalance_plan", "wait_job", "restore_point", "add_column_copy", "create_distributed_table", "create_reference_table", "undistribute_table", "drop_column_copy", "code_in", "names_rows", "code_read", "behind_locks", "definitions", "settings", "replaced", "distributed", "materialized", "read_whole", "grant_as", "table_size", "table_of_shard", "repair",
}
READABLE = {
    "herd", "epoch", "column_copy", "decisions", "transactions", "locks", "sessions", "node", "colocation", "shard", "relation", "nodes", "tables",
    "shards", "progress", "column_copies", "column_stores", "replicas", "verify", "shard_tables", "table_sizes", "stat_tables",
}

_FUNCTIONS = """
select p.proname, p.prosecdef, p.proconfig, r.rolname, r.rolsuper,
       exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0) as public
  from pg_proc p join pg_roles r on r.oid = p.proowner where p.pronamespace = 'herd'::regnamespace
"""
_RELATIONS = """
select c.relname, c.relkind, array(select a.privilege_type from aclexplode(c.relacl) a where a.grantee <> c.relowner order by 1), r.rolsuper
  from pg_class c join pg_roles r on r.oid = c.relowner where c.relnamespace = 'herd'::regnamespace and c.relkind not in ('i', 'c')
"""


@pytest.fixture(params=[0, 1, 2], ids=["home", "node 2", "node 3"])
def node(place, request):
    with place.on_node(request.param) as connection:
        yield connection


def test_functions(node):
    found = node.execute(_FUNCTIONS).fetchall()
    assert {row[0] for row in found} >= {"bump_epoch", "raise_epoch", "decide"}
    for name, definer, config, owner, is_super, public in found:
        # Temporary objects come last: where pg_temp is not named it is searched first.
        assert "search_path=pg_catalog, pg_temp" in (config or []), f"{name}: {config}"
        assert is_super, f"{name} belongs to {owner}"
        assert public == (name in DEFINERS | INVOKERS), f"{name}: EXECUTE for PUBLIC"
        if public:
            assert definer == (name in DEFINERS), f"{name}: SECURITY DEFINER is {definer}"


def test_relations(node):
    for name, kind, privileges, owned_by_superuser in node.execute(_RELATIONS).fetchall():
        assert owned_by_superuser, name
        # Who may write a table, or lock it in any mode that keeps others from writing, may stop the herd.
        assert privileges == (["SELECT"] if name in READABLE else []), f"{name} ({kind}): {privileges}"


def test_schemas(node):
    # Who owns distributed tables may make their indexes there; the herd's maintenance takes it back afterwards.
    node.execute("select * from herd.settle()").fetchall()
    rows = node.execute(
        "select n.nspname, array(select concat_ws(' ', a.privilege_type, nullif(a.grantee, 0)::regrole) from aclexplode(n.nspacl) a where a.grantee <> n.nspowner "
        "and not (n.nspname = 'herd_shards' and a.grantee in (select c.relowner from herd.shard_tables s join pg_class c on c.oid = s.parent))), r.rolsuper "
        "from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname in ('herd', 'herd_shards') order by 1"
    ).fetchall()
    assert rows == [("herd", ["USAGE"], True), ("herd_shards", ["USAGE"], True)]


def test_no_operators_types_or_triggers_of_others(node):
    """Nothing in the herd's schema but what was looked at above."""
    count = "select count(*) from {} where {} = 'herd'::regnamespace"
    assert node.execute(count.format("pg_operator", "oprnamespace")).fetchone() == (0,)
    assert node.execute(count.format("pg_opclass", "opcnamespace")).fetchone() == (0,)
    sql = "select count(*) from pg_trigger t join pg_class c on c.oid = t.tgrelid where c.relnamespace = 'herd'::regnamespace and not tgisinternal and tgname not in ('kinds_changed', 'raise_kinds', 'shards_inserted', 'shards_updated', 'shards_deleted', 'shards_truncated')"
    assert node.execute(sql).fetchone() == (0,)


_BODIES = """
select p.proname, l.lanname, coalesce(p.prosrc, ''), coalesce(pg_get_function_sqlbody(p.oid), '') from pg_proc p join pg_language l on l.oid = p.prolang
 where p.pronamespace = 'herd'::regnamespace
"""
# A relation that is named, without its schema if it has none; not EXTRACT(… FROM …) and the like, nor IS DISTINCT FROM.
_RELATION = re.compile(r"(?<!DISTINCT )\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(?:ONLY\s+|STRICT\s+)?(?:([a-z_]\w*)\s*\.\s*)?([a-z_]\w*)(?!\w)(?!\s*[.(])")
_TYPE = re.compile(r"::\s*(?:([a-z_]\w*)\s*\.\s*)?([a-z_]\w*)")
_WITH = re.compile(r"\b([a-z_]\w*)\s*(?:\([\w, ]*\)\s*)?AS\s+(?:MATERIALIZED\s+|NOT MATERIALIZED\s+)?\(")
_DECLARED = re.compile(r"^\s*([a-z_]\w*)\s+(?!:=)[\w.]+(?:\[\])?(?:\s*:=|\s*;|\s+DEFAULT)", re.M)


def _unqualified(body: str, relations: set, types: set):
    """What a body names without a schema, and pg_catalog does not have: somebody's own of that name in pg_temp would be found."""
    body = re.sub(r"--.*", "", body)
    body = re.sub(r"'(?:[^']|'')*'", "''", body)
    own = set(_WITH.findall(body)) | set(_DECLARED.findall(body))
    yield from (f"relation {name}" for schema, name in _RELATION.findall(body) if not schema and name not in relations | own)
    yield from (f"type {name}" for schema, name in _TYPE.findall(body) if not schema and name not in types)


def test_the_rule_for_bodies_finds_faults():
    """It has something to find, and takes nothing else for it."""
    known = {"pg_class"}, {"text", "int4"}
    assert list(_unqualified("SELECT 1 FROM pg_class c JOIN herd.node n ON true JOIN herd.rights(1) ON true", *known)) == []
    assert list(_unqualified("WITH x AS (SELECT 1) SELECT a::text FROM x WHERE a IS DISTINCT FROM b -- FROM y", *known)) == []
    assert list(_unqualified("DECLARE\n  v text;\nBEGIN SELECT n INTO v FROM node; INSERT INTO relation VALUES (''); RETURN v::mine; END", *known)) == ["relation node", "relation relation", "type mine"]


def test_bodies_name_what_is_not_the_systems_own_with_its_schema(node):
    """pg_temp is behind pg_catalog in their path, and only for relations and types: those that pg_catalog has not got are qualified."""
    relations = {name for name, in node.execute("select relname from pg_class where relnamespace = 'pg_catalog'::regnamespace")}
    types = {name for name, in node.execute("select typname from pg_type where typnamespace = 'pg_catalog'::regnamespace")}
    # Words of the grammar's own.
    types |= {"bigint", "int", "integer", "boolean", "smallint"}
    # A trigger's transition tables come before all relations of their name.
    relations |= {name for name, in node.execute("select unnest(array[tgoldtable, tgnewtable]) from pg_trigger t join pg_class c on c.oid = t.tgrelid where c.relnamespace = 'herd'::regnamespace")}
    bodies = node.execute(_BODIES).fetchall()
    read = [name for name, _, body, atomic in bodies if body or atomic]
    assert len(read) > 20, read
    faults = [f"{name}: {fault}" for name, _, body, _ in bodies for fault in _unqualified(body, relations, types)]
    assert not faults, faults
