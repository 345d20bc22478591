"""Shards follow their parents whatever else is in the way: odd settings, locks, calls by hand of those whom it does not concern."""

import psycopg
import pytest

from .test_rights import _problems, _until

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]


@pytest.fixture
def tables(place):
    """`hers.odd` of mallory, and `his.own` of victim, which mallory may read."""
    place.server.run("create schema his authorization victim", "grant usage on schema his to public")
    for role, name in (("mallory", "hers.odd"), ("victim", "his.own")):
        with place.as_role(role) as owner:
            owner.execute(f"create table {name} (id int primary key, v int not null)")
        place.server.run(f"select create_distributed_table('{name}', 'id')")
    with place.as_role("victim") as victim:
        victim.execute("grant select on his.own to mallory")
    yield
    place.server.run("drop table hers.odd", "drop schema his cascade")


def _shards(connection, table):
    return [name for (name,) in connection.execute("select shard::text from herd.shard_tables where parent = %s::regclass order by 1", (table,))]


def _may_read(place):
    with place.as_role("mallory") as mallory:
        try:
            return mallory.execute("select count(*) from his.own where id = 3").fetchone() is not None
        except psycopg.errors.InsufficientPrivilege:
            return False


def test_odd_settings_of_one_table(place, tables):
    """A number that PostgreSQL stores as it was written."""
    with place.as_role("mallory") as mallory:
        mallory.execute("alter table hers.odd alter column v set (n_distinct = '0x1p4')")
        mallory.execute("alter table hers.odd alter column id set (n_distinct_inherited = -0.5, n_distinct = 7)")
    for node in range(3):
        with place.on_node(node) as root:
            for shard in _shards(root, "hers.odd"):
                options = root.execute("select attname, attoptions from pg_attribute where attrelid = %s::regclass and attoptions is not null order by 1", (shard,)).fetchall()
                assert options == [("id", ["n_distinct_inherited=-0.5", "n_distinct=7"]), ("v", ["n_distinct=0x1p4"])], shard


@pytest.mark.parametrize("what", ["odd settings", "a lock on a shard", "a row that is being changed"])
def test_a_revoke_is_followed_beside(place, tables, what):
    """Made past the router, like something of mallory's that can't be followed."""
    with place.on_node(1, "mallory", autocommit=False) as holder, place.on_node(1, "mallory") as mallory:
        shard = _shards(mallory, "hers.odd")[0]
        if what == "odd settings":
            mallory.execute("alter table only hers.odd alter column v set (n_distinct = '0x1p4')")
        else:
            holder.execute(f"lock table only {shard} in access exclusive mode" if what == "a lock on a shard" else f"grant select on {shard} to public")
        mallory.execute("alter table only hers.odd enable row level security")
        if what == "a lock on a shard":
            # For a moment: the parent follows home soon, which has none.
            assert (shard, "row-level security is not that of hers.odd") in [(name, problem) for _, name, problem in _problems(place)]
        with place.on_node(0, "victim") as victim:
            victim.execute("revoke select on his.own from mallory")
        _until(lambda: not _may_read(place) or "mallory may still read")
        holder.rollback()
    place.server.run("alter table hers.odd disable row level security")
    _until(lambda: _problems(place) == [] or _problems(place))


def test_what_was_not_mirrored_is_shown(place, tables):
    with place.on_node(1, "victim") as victim:
        shard = _shards(victim, "his.own")[0]
        victim.execute(f"alter table {shard} replica identity full")
        victim.execute(f"alter table {shard} alter column v set statistics 7")
    found = [problem for _, name, problem in _problems(place) if name == shard]
    assert found == ["replica identity is not that of his.own", "settings of columns are not those of his.own"]
    with place.on_node(1, "victim") as victim:
        victim.execute("select herd.mirror_partitions('his.own')")
    assert _problems(place) == []


@pytest.mark.parametrize("made", ["primary key as replica identity", "what differs"])
def test_who_does_not_own_a_table_locks_nothing_of_it(place, tables, made):
    """herd.mirror_partitions() may be called by anybody."""
    with place.as_role("victim") as victim:
        if made.startswith("primary"):
            victim.execute("alter table his.own replica identity using index own_pkey")
    with place.on_node(1, "victim") as victim:
        if made == "what differs":
            for shard in _shards(victim, "his.own"):
                victim.execute(f"alter table {shard} alter column v set statistics 7")
                victim.execute(f"alter table {shard} replica identity full")
        for caller in ("mallory", "victim"):
            with place.on_node(1, caller, autocommit=False) as connection:
                connection.execute("select herd.mirror_partitions('his.own')")
                held = victim.execute(
                    "select count(*) from pg_locks where pid = %s and relation in (select shard from herd.shard_tables where parent = 'his.own'::regclass) "
                    "and mode not in ('AccessShareLock', 'RowShareLock')", (connection.info.backend_pid,)).fetchone()[0]
                assert (held > 0) == (caller == "victim" and made == "what differs")
                connection.rollback()
