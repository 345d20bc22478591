"""What is damaged on a node, behind the routers' back, is put right where there is one right answer, and told where there is not."""

import threading
import time

import psycopg
import pytest

from .test_interrupted import waiting  # noqa: F401
from .test_move import _partition
from .test_split import _is_right
from .writers import ROWS, Writer

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]


def _repair(elastic, call: str = "", through=None) -> list:
    """Each finding: node, object, problem, whether it was mended, and how."""
    with (through or elastic.b).connect() as connection:
        return connection.execute(f"select * from herd.repair({call})").fetchall()


def _is_clean(elastic, call: str = "") -> None:
    assert _repair(elastic, call) == []
    with elastic.a.connect() as connection:
        assert connection.execute("select object, problem from herd.verify").fetchall() == []


@pytest.fixture
def lands(elastic):
    """A shard DEFAULT on node 3, which takes there what nodes 1 and 2 should have; a table that refers to another one."""
    elastic.without_tables()
    elastic.a.run(
        "drop table if exists r_said",
        "create table r_order (gone int, land text, id int, note text, twice int generated always as (id * 2) stored, doc jsonb, raw bytea, at timestamptz, tags text[], primary key (land, id))",
        "alter table r_order drop column gone",
        "select create_distributed_table('r_order', 'land', 'list', 'none', bounds => array['in (''de'', ''at'')', 'in (''fr'', null)', 'default'])",
        "create table r_item (land text, id int, n int, primary key (land, id, n))", "select create_distributed_table('r_item', 'land', 'list', 'r_order')",
        "insert into r_order (land, id, note) select l, g, l || g from unnest(array['de', 'at', 'fr', 'it']) l, generate_series(1, 20) g", "insert into r_item select land, id, 1 from r_order",
        "alter table r_item add foreign key (land, id) references r_order on delete cascade",
        "create or replace function r_says() returns trigger language plpgsql as $$ begin raise exception 'a trigger fires for a row that only goes where it belongs'; end $$",
    )
    assert elastic.shards("r_order") == {0: 1, 1: 2, 2: 3}
    yield
    elastic.a.run("drop table if exists r_item, r_order", "drop function if exists r_says() cascade")


_ODD = """insert into r_order (land, id, note, doc, raw, at, tags) select l, 100 + g, 'it''s \\' || g, jsonb_build_object('g', g), '\\x00ff', '2026-07-01 10:00:00.123456+02', array['a,b', null, '"']
            from unnest(array['de', 'fr']) l, generate_series(1, 700) g"""


def test_rows_of_another_shard_go_there(elastic, lands):
    elastic.on_node(3, "set timezone = 'UTC'")
    elastic.on_node(3, _ODD)
    elastic.on_node(3, "insert into r_item select land, id, 7 from r_order where id > 100")
    # One that is there already, and says something else.
    elastic.on_node(3, "insert into r_order (land, id, note) values ('de', 1, 'another')")
    elastic.a.run(*(f"create trigger r_says before insert or delete on {t} for each row execute function r_says()" for t in ("r_order", "r_item")))
    with elastic.a.connect() as connection:
        assert connection.execute("select 1 from r_order where land = 'de' and id = 101").fetchone() is None, "it is not where it is looked for"
        shown = _repair(elastic, "'r_order', dry_run => true")
        assert len(shown) == 4 and not any(mended for *_, mended, _ in shown)
        found = _repair(elastic, "'r_item'")
        part = _partition(elastic, "r_order", 2)
        assert sorted((node, problem.split(" of ")[0], mended) for node, _, problem, mended, _ in found) == [("node3", "1 row", False)] + [("node3", "700 rows", True)] * 4, found
        left = next(f for f in found if not f[3])
        assert left[1] == part and "Decide" in left[4] and '"home"' in left[4]
        # Once more: nothing is left but that.
        assert _repair(elastic) == [left]
        assert connection.execute("select count(*), count(distinct (doc, raw, at, tags)) from r_order where land in ('de', 'fr') and id > 100").fetchone() == (1400, 700)
        assert connection.execute("select note, doc, raw, at = '2026-07-01 08:00:00.123456Z', tags, twice from r_order where land = 'fr' and id = 101").fetchone() == ("it's \\1", {"g": 1}, b"\0\xff", True, ["a,b", None, '"'], 202)
        assert connection.execute("select count(*) from r_item where n = 7 and land in ('de', 'fr')").fetchone() == (1400,)
        assert connection.execute("select note from r_order where land = 'de' and id = 1").fetchone() == ("de1",)
        assert elastic.on_node(3, f"select land, id, note from {part} where land <> 'it'") == [("de", 1, "another")]
        # As it is said.
        connection.execute("drop trigger r_says on r_order; drop trigger r_says on r_item")
        elastic.on_node(3, f"delete from {part} where land = 'de'")
    _is_clean(elastic, "'r_order'")


def test_what_would_lose_its_row_is_not_touched(elastic, lands):
    """A row that goes, and one that refers to it and stays: nothing is done."""
    elastic.on_node(3, "insert into r_order (land, id, note) values ('de', 500, 'x')")
    elastic.on_node(3, "insert into r_item values ('de', 500, 1)")
    elastic.a.run("insert into r_order (land, id) values ('de', 500)", "insert into r_item values ('de', 500, 1)")
    elastic.on_node(1, "delete from r_order where id = 500")
    elastic.on_node(1, "set session_replication_role = replica; insert into r_item values ('de', 500, 1)")
    found = _repair(elastic, "'r_order'")
    assert [(mended, "would refer to rows that are no longer there" in action) for *_, mended, action in found] == [(False, True)], found
    assert elastic.on_node(3, "select count(*) from r_order join r_item using (land, id) where id = 500") == [(1,)]


def test_rows_whose_hash_is_another_ones(elastic):
    elastic.a.run(
        "drop table if exists r_hash", "create table r_hash (id int primary key, v int)", "select create_distributed_table('r_hash', 'id', colocate_with => 'none')",
        "insert into r_hash select g, g from generate_series(1, 300) g",
    )
    elastic.a.run("select herd.split_shard('r_hash', 1)")
    node, part = elastic.shards("r_hash")[0], _partition(elastic, "r_hash", 0)
    # As a restore that does not look: the bound is taken for checked.
    bound = elastic.on_node(node, "select pg_get_expr(relpartbound, oid), pg_get_partition_constraintdef(oid) from pg_class where oid = %s::regclass", (part,))[0]
    elastic.on_node(node, f"alter table r_hash detach partition {part}")
    elastic.on_node(node, f"insert into {part} select g, g from generate_series(1001, 1100) g")
    elastic.on_node(node, f"alter table {part} add constraint fake check ({bound[1]}) not valid")
    elastic.on_node(node, "update pg_constraint set convalidated = true where conname = 'fake'")
    elastic.on_node(node, f"alter table r_hash attach partition {part} {bound[0]}; alter table {part} drop constraint fake")
    with elastic.a.connect() as connection:
        missed = [id for id in range(1001, 1101) if connection.execute("select 1 from r_hash where id = %s", (id,)).fetchone() is None]
        assert missed
        found = _repair(elastic, "'r_hash'")
        assert all(mended for *_, mended, _ in found) and sum(int(problem.split()[0]) for _, _, problem, _, _ in found) == len(missed)
        assert [id for id in range(1001, 1101) if connection.execute("select v from r_hash where id = %s", (id,)).fetchone() != (id,)] == []
        assert connection.execute("select count(*), count(distinct id) from r_hash").fetchone() == (400, 400)
        # A shard that is gone, or twice there, is somebody's to decide.
        elastic.on_node(node, f"alter table r_hash detach partition {part}")
        found = _repair(elastic, "'r_hash'")
        assert [(f[0], f[1], f[3]) for f in found if f[1] == part] and "ATTACH" in found[0][4]
        elastic.on_node(node, f"alter table r_hash attach partition {part} {bound[0]}")
        other = node % 3 + 1
        elastic.on_node(other, f"create table {part} partition of r_hash {bound[0]}")
        found = _repair(elastic)
        assert [(f[0], f[3]) for f in found if f[1] == part] == [("home" if other == 1 else f"node{other}", False)], found
        elastic.on_node(other, f"drop table {part}")
        _is_right(elastic, "r_hash")
    _is_clean(elastic, "'r_hash'")
    elastic.a.run("drop table r_hash")


def test_tables_that_are_partitioned_by_time(elastic):
    elastic.without_tables()
    elastic.a.run(
        "create table r_at (id int, at date, v int, primary key (id, at)) partition by range (at)",
        *(f"create table r_at_{month} partition of r_at for values from ('2026-0{month}-01') to ('2026-0{month + 1}-01')" for month in (1, 2)),
        "select create_distributed_table('r_at', 'id', 'range', 'none', bounds => array['from (1) to (50)', 'from (50) to (100)', 'default'])",
        "insert into r_at select g, date '2026-01-01' + g % 55, g from generate_series(1, 200) g",
    )
    _is_clean(elastic)
    elastic.on_node(elastic.shards("r_at_1")[2], "insert into r_at values (7, '2026-01-30', 7), (57, '2026-02-20', 7)")
    found = _repair(elastic, "'r_at'")
    assert [(f[1], f[3]) for f in found] == [(_partition(elastic, "r_at_1", 2), True), (_partition(elastic, "r_at_2", 2), True)], found
    with elastic.a.connect() as connection:
        assert connection.execute("select at::text from r_at where id in (7, 57) and v = 7 and at in ('2026-01-30', '2026-02-20') order by 1").fetchall() == [("2026-01-30",), ("2026-02-20",)]
        connection.execute("drop table r_at")


def test_copies_of_reference_tables(elastic):
    elastic.a.run(
        "drop table if exists r_uses, r_kind", "create table r_kind (id int primary key, \"Name\" text, twice int generated always as (id * 2) stored)", "select create_reference_table('r_kind')",
        "insert into r_kind select g, 'k' || g from generate_series(1, 50) g",
        "create table r_uses (id int primary key, kind int references r_kind on delete cascade)", "select create_distributed_table('r_uses', 'id', colocate_with => 'none')",
        "insert into r_uses select g, g % 50 + 1 from generate_series(1, 200) g",
    )
    rows = "select * from r_kind order by id"
    right = elastic.on_node(1, rows)
    for node, called in ((1, "home"), (2, "node2"), (3, "node3")):
        elastic.on_node(node, "set session_replication_role = replica; delete from r_kind where id = 3; update r_kind set \"Name\" = 'wrong' where id = 4; insert into r_kind (id) values (99)")
        assert elastic.on_node(node, rows) != right
        assert [(f[0], f[1], f[3]) for f in _repair(elastic, "'r_kind', dry_run => true")] == [(called, "public.r_kind", False)]
        assert [(f[0], f[1], f[3]) for f in _repair(elastic)] == [(called, "public.r_kind", True)]
        assert [elastic.on_node(n, rows) for n in (1, 2, 3)] == [right] * 3
        assert sum(elastic.on_node(n, "select count(*) from r_uses")[0][0] for n in (1, 2, 3)) == 200, "what refers to rows stays"
        _is_clean(elastic)
    # What a row refers to does not go.
    elastic.on_node(2, "insert into r_kind (id) values (77)")
    elastic.on_node(2, "update r_uses set kind = 77 where id = (select min(id) from r_uses)")
    found = _repair(elastic, "'r_kind'")
    assert [f[3] for f in found] == [False] and "refer" in found[0][4], found
    elastic.on_node(2, "update r_uses set kind = 7 where kind = 77")
    # Each node has something else.
    elastic.on_node(3, "delete from r_uses where kind = 5; delete from r_kind where id = 5")
    found = _repair(elastic, "'r_kind'")
    assert [(f[0], f[3]) for f in found] == [("home", False), ("node2", False), ("node3", False)] and all("trust_node" in f[4] for f in found)
    assert [(f[0], f[3]) for f in _repair(elastic, "'r_kind', trust_node => 'home'")] == [("node2", True), ("node3", True)]
    assert [elastic.on_node(n, rows) for n in (1, 2, 3)] == [right] * 3
    _is_clean(elastic)
    elastic.a.run("drop table r_uses, r_kind")


def test_sequences_that_are_behind(elastic):
    elastic.a.run(
        "drop table if exists r_counts", "create table r_counts (id int generated by default as identity primary key, n bigserial, v int)", "select create_distributed_table('r_counts', 'id', colocate_with => 'none')",
        "insert into r_counts (v) select g from generate_series(1, 50) g",
    )
    node, part = elastic.shards("r_counts")[2], _partition(elastic, "r_counts", 2)
    elastic.on_node(node, f"do $$ begin for i in 5000 .. 5100 loop begin insert into {part} values (i, i + 70000, 1); exception when check_violation then end; end loop; end $$")
    most = elastic.on_node(node, f"select max(id), max(n) from {part}")[0]
    found = _repair(elastic, "'r_counts'")
    assert [(f[0], f[3]) for f in found] == [("home", True)] * 2 and {f[1] for f in found} == {"public.r_counts_id_seq", "public.r_counts_n_seq"}, found
    with elastic.a.connect() as connection:
        id, n = connection.execute("insert into r_counts (v) values (7) returning id, n").fetchone()
        assert (id > most[0], n > most[1]) == (True, True) or id > 50, "values that were taken ahead may come before"
    for _ in range(3):
        elastic.b.run("insert into r_counts (v) values (8)")
    _is_clean(elastic, "'r_counts'")
    elastic.a.run("drop table r_counts")


_TAG = "0123456789abcdef"


def test_what_jobs_have_left(elastic, waiting):  # noqa: F811
    elastic.on_node(2, f"create table herd_shards.herd_moving_{_TAG}_0 (id int) partition by hash (id); create table herd_shards.herd_moving_{_TAG}_0_a partition of herd_shards.herd_moving_{_TAG}_0 for values with (modulus 1, remainder 0)")
    elastic.on_node(2, f"create publication herd_move_{_TAG}")
    elastic.on_node(3, f"select pg_create_logical_replication_slot('herd_move_{_TAG}', 'pgoutput')")
    elastic.on_node(3, "create table herd_shards.r_somebodys (id int)")
    shown = _repair(elastic, "dry_run => true")
    assert len([f for f in shown if _TAG in f[1]]) >= 3 and not any(f[3] for f in shown)
    found = _repair(elastic)
    mended = sorted((f[0], f[1]) for f in found if f[3])
    assert mended == [("node2", f"herd_move_{_TAG}"), ("node2", f"herd_shards.herd_moving_{_TAG}_0"), ("node3", f"herd_move_{_TAG}")], found
    # A table of somebody's, and what a job needs that runs, stay.
    assert [f for f in found if f[1] == "herd_shards.r_somebodys" and not f[3]], found
    assert waiting() is None
    elastic.on_node(3, "drop table herd_shards.r_somebodys")
    elastic.is_tidy()
    _is_clean(elastic)


def test_beside_writers(elastic):
    elastic.a.run(
        "drop table if exists m_load", "create table m_load (id int primary key, v int not null, note text)",
        "select create_distributed_table('m_load', 'id', 'range', 'none', bounds => array['from (1) to (2000)', 'from (2000) to (3000)', 'default'])",
        f"insert into m_load select g, 10, 'row ' || g from generate_series(1, {ROWS}) g",
    )
    assert elastic.shards("m_load")[2] == 3
    with elastic.a.connect() as connection:
        connection.execute("delete from m_load where id between 1 and 2900 and id % 10 = 0")
    elastic.on_node(3, "insert into m_load select g, 10, 'row ' || g from generate_series(10, 2900, 10) g")
    stop = threading.Event()
    writers = [_Sums(n, (elastic.a, elastic.b)[n % 2], stop) for n in range(6)]
    for writer in writers:
        writer.start()
    try:
        time.sleep(0.5)
        found = _repair(elastic, "'m_load'")
        time.sleep(0.5)
    finally:
        stop.set()
        for writer in writers:
            writer.join(60)
    assert [w.error for w in writers if w.error] == []
    assert [f[3] for f in found] == [True, True], found
    with elastic.b.connect() as connection:
        assert connection.execute("select count(*), count(distinct id), sum(v) from m_load").fetchone() == (ROWS, ROWS, ROWS * 10 + sum(w.added for w in writers))
        assert [id for id in range(10, 2901, 10) if connection.execute("select 1 from m_load where id = %s", (id,)).fetchone() is None] == []
    # Who waited for all of it on a slow machine.
    assert max(w.stall for w in writers) < 15
    _is_clean(elastic, "'m_load'")
    elastic.a.run("drop table m_load")


class _Sums(Writer):
    """Changes what it finds by key; a row that is in the wrong shard is not found."""

    def one(self, connection):
        self.added += connection.execute("update m_load set v = v + 1 where id = %s", (self.random.randrange(1, ROWS + 1),)).rowcount


def test_who_is_no_superuser_is_told_what_he_needs(elastic, lands):
    """Rows go to their shards without triggers, which PostgreSQL lets superusers do, and whom they let."""
    elastic.a.run("drop role if exists r_member", "create role r_member login", "grant postgres to r_member")
    elastic.on_node(3, "insert into r_order (land, id) values ('de', 900)")
    with elastic.a.connect(user="r_member") as connection:
        found = connection.execute("select * from herd.repair('r_order')").fetchall()
        assert [f[3] for f in found] == [False] and "session_replication_role" in found[0][4], found
        for node in (1, 2, 3):
            elastic.on_node(node, "grant set on parameter session_replication_role to r_member")
        assert [f[3] for f in connection.execute("select * from herd.repair('r_order')").fetchall()] == [True]
        for node in (1, 2, 3):
            elastic.on_node(node, "revoke set on parameter session_replication_role from r_member")
    with elastic.a.connect() as connection:
        assert connection.execute("select 1 from r_order where land = 'de' and id = 900").fetchone() == (1,)
        # What an owner who is no superuser has written would run as who reads the rows.
        connection.execute("alter table r_order add check (id > 0)")
        for table in ("r_order", "r_item"):
            connection.execute(f"alter table {table} owner to r_member")
        found = connection.execute("select * from herd.repair('r_order')").fetchall()
        assert [f[3] for f in found] == [False] and "are not read" in found[0][4], found
        for table in ("r_order", "r_item"):
            connection.execute(f"alter table {table} owner to postgres")
        connection.execute("drop role r_member")


def test_rights_follow_at_once(elastic, lands):
    part = _partition(elastic, "r_order", 1)
    elastic.on_node(2, f"grant select on {part} to pg_monitor")
    # The routers may have been faster.
    assert all(mended for *_, mended, _ in _repair(elastic, "'r_order'"))
    _is_clean(elastic)
    # Of roles nothing is changed.
    elastic.a.run("drop role if exists r_role", "create role r_role")
    elastic.on_node(3, "alter role r_role createdb")
    assert [(f[0], f[1], f[3]) for f in _repair(elastic)] == [("node3", "attributes of role r_role", False)]
    elastic.a.run("drop role r_role")
    assert elastic.on_node(2, "select has_table_privilege('pg_monitor', %s, 'select')", (part,)) == [(False,)]


def test_who_may_and_what_is_refused(elastic):
    elastic.a.run("drop table if exists r_here, r_mine", "drop role if exists r_nobody", "create role r_nobody", "create table r_here (id int)", "create table r_mine (id int primary key)", "select create_distributed_table('r_mine', 'id', colocate_with => 'none')")
    with elastic.a.connect() as connection:
        for call, sqlstate in {"'r_here'": "42809", "'r_nosuch'": "42P01", "'r_mine', trust_node => 'nosuch'": "42704", "'r_mine', dry_run => 'perhaps'": "22023", "'r_mine', what => 1": "42883"}.items():
            with pytest.raises(psycopg.Error) as failed:
                connection.execute(f"select * from herd.repair({call})")
            assert failed.value.sqlstate == sqlstate, (call, failed.value)
        with pytest.raises(psycopg.errors.ActiveSqlTransaction), connection.transaction():
            connection.execute("select herd.repair()")
        connection.execute("set role r_nobody")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select herd.repair('r_mine')")
        connection.execute("reset role")
        assert connection.execute("select * from herd.repair('r_mine')").fetchall() == []
        with elastic.a.connect(prepare_threshold=0) as prepared:
            assert prepared.execute("select * from herd.repair(%s, dry_run => true)", ("r_mine",), binary=True).fetchall() == []
        connection.execute("drop table r_here, r_mine")
        connection.execute("drop role r_nobody")


def _past(elastic, node: int, *statements: str) -> None:
    """Written to a node with nothing looking at it."""
    elastic.on_node(node, "; ".join(("set session_replication_role = replica", *statements)))


def test_what_is_between_two_moments_is_not_told(elastic):
    """Shards that move, are split and merged, and a reference table that is written, are right at any moment; so are two who look."""
    elastic.without_tables()
    for name in ("r_goes", "r_along"):
        elastic.a.run(
            f"create table {name} (id int primary key, v int)", f"select create_distributed_table('{name}', 'id', colocate_with => '{'none' if name == 'r_goes' else 'r_goes'}')",
            f"insert into {name} select g, g from generate_series(1, 500) g",
        )
    elastic.a.run("create table r_all (id int primary key, v int)", "select create_reference_table('r_all')", "insert into r_all select g, g from generate_series(1, 3000) g")
    stop, errors, done = threading.Event(), [], []

    def until_stopped(connection_of, one):
        with connection_of.connect() as connection:
            turn = 0
            while not stop.is_set() and not errors:
                try:
                    done.append(one(connection, turn))
                except psycopg.Error as error:
                    errors.append(error)
                turn += 1

    def moves(connection, turn):
        match turn % 3:
            case 0:
                elastic.moves("r_goes", 0)
            case 1:
                connection.execute("select herd.merge_shards('r_goes', 1, 4)")
            case 2:
                connection.execute("select herd.split_shard('r_goes', 1)")
        return ("moved", turn)

    def looks(call):
        return lambda connection, turn: ("found", connection.execute(f"select * from herd.repair({call})").fetchall())

    def writes(connection, turn):
        connection.execute("update r_all set v = v + 1 where id = %s", (turn % 100 + 1,))
        return ("written", turn)

    threads = [threading.Thread(target=until_stopped, args=of) for of in (
        (elastic.a, moves), (elastic.a, writes), (elastic.b, looks("dry_run => true")), (elastic.b, looks("'r_along'")), (elastic.a, looks("'r_all', dry_run => true")))]
    for thread in threads:
        thread.start()
    begun = time.monotonic()

    def enough() -> bool:
        kinds = [kind for kind, _ in done]
        return kinds.count("moved") > 2 and kinds.count("found") > 5 and kinds.count("written") > 10

    # On a slow machine until each has been done some times.
    while not errors and time.monotonic() < begun + (20 if enough() else 140):
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join(120)
    assert errors == [] and not any(thread.is_alive() for thread in threads)
    kinds = [kind for kind, _ in done]
    assert kinds.count("moved") > 2 and kinds.count("found") > 5 and kinds.count("written") > 10, kinds
    assert [found for kind, found in done if kind == "found" and found] == []
    with elastic.a.connect() as connection:
        connection.execute("drop table r_goes, r_along, r_all")


def test_what_a_running_job_has_made_is_its_own(elastic, waiting):  # noqa: F811
    assert any(elastic.on_node(n, "select 1 from pg_class where relname like 'herd_moving%'") for n in (1, 2, 3))
    assert _repair(elastic, "dry_run => true") == []
    assert waiting() is None
    elastic.is_tidy()


def test_one_lost_row_is_not_made_up_for_by_another(elastic):
    """As many rows refer to none afterwards as before, but others."""
    elastic.a.run(
        "drop table if exists r_lives, r_land", "create table r_land (code text primary key)", "select create_reference_table('r_land')", "insert into r_land values ('at'), ('de'), ('fr')",
        "create table r_lives (id int primary key, code text references r_land)", "select create_distributed_table('r_lives', 'id', colocate_with => 'none')",
        "insert into r_lives select g, 'at' from generate_series(1, 300) g",
    )
    _past(elastic, 2, "delete from r_land where code = 'at'", "insert into r_land values ('xx')", "update r_lives set code = 'xx' where id in (select id from r_lives order by id limit 20)")
    found = _repair(elastic, "'r_land'")
    assert [(mended, '20 rows on node "node2" would refer' in action) for *_, mended, action in found] == [(False, True)], found
    assert elastic.on_node(2, "select code from r_land order by 1") == [("de",), ("fr",), ("xx",)]
    # As it is said: those that refer are put right.
    _past(elastic, 2, "update r_lives set code = 'at' where code = 'xx'")
    assert [f[3] for f in _repair(elastic, "'r_land'")] == [True]
    _is_clean(elastic, "'r_land'")
    elastic.a.run("drop table r_lives, r_land")


def test_code_that_always_fires_is_not_run(elastic, lands):
    """Triggers that session_replication_role does not keep from firing would run as who repairs."""
    elastic.a.run(
        "drop table if exists r_kind", "drop role if exists r_owner", "create role r_owner", "create table r_kind (id int primary key, v text)", "select create_reference_table('r_kind')", "insert into r_kind values (1, 'one')",
        "create or replace function r_fires() returns trigger language plpgsql as $$ begin raise exception 'code of an owner runs as %', current_user; end $$",
        *(f"create trigger r_fires before insert or delete on {t} for each row execute function r_fires()" for t in ("r_order", "r_kind")),
        "alter table r_item owner to r_owner", "alter table r_kind owner to r_owner",
    )
    # r_order has a generated column, whose expression is an owner's code: it is a superuser's.
    _past(elastic, 3, "insert into r_order (land, id) values ('de', 800)", "insert into r_kind values (2, 'two')", "insert into r_item values ('de', 800, 1)")
    for how in ("always", "replica"):
        elastic.a.run(*(f"alter table {t} enable {how} trigger r_fires" for t in ("r_order", "r_kind")))
        for call in ("'r_order', dry_run => true", "'r_item'"):
            found = _repair(elastic, call)
            assert len(found) == 2 and not any(f[3] for f in found) and all("ALTER TABLE public.r_order ENABLE TRIGGER r_fires" in f[4] for f in found), found
        for call in ("'r_kind', dry_run => true", "'r_kind'"):
            found = _repair(elastic, call)
            assert [(f[0], f[3]) for f in found] == [("node3", False)] and "ALTER TABLE public.r_kind ENABLE TRIGGER r_fires" in found[0][4], found
    # On a shard alone.
    elastic.a.run("alter table r_order enable trigger r_fires", "alter table r_kind disable trigger r_fires")
    part = _partition(elastic, "r_order", 0)
    elastic.on_node(1, f"alter table {part} enable always trigger r_fires")
    found = _repair(elastic, "'r_order'")
    assert not any(f[3] for f in found) and any(f"ALTER TABLE {part} ENABLE TRIGGER r_fires" in f[4] for f in found), found
    elastic.on_node(1, f"alter table {part} enable trigger r_fires")
    # A column that home does not know would get its default, which is code, too.
    elastic.on_node(3, "alter table r_kind add column more text default current_user")
    found = _repair(elastic, "'r_kind'")
    assert [f[3] for f in found] == [False] * 2 and 'column "more"' in found[0][2] and "other columns" in found[1][4], found
    elastic.on_node(3, "alter table r_kind drop column more")
    assert sorted(f[3] for f in _repair(elastic, "'r_order'")) == [True, True]
    assert [f[3] for f in _repair(elastic, "'r_kind'")] == [True]
    for table in ("r_order", "r_kind"):
        _is_clean(elastic, f"'{table}'")
    elastic.a.run("drop table r_kind", "alter table r_item owner to postgres", "drop function r_fires() cascade", "drop role r_owner")


def test_whatever_the_clients_settings_are(elastic):
    """Bounds and values are told and read under the same ones on all nodes."""
    elastic.without_tables()
    elastic.a.run(
        "create table r_day (at date, id int, took interval, part float8, tags text[], zone timestamptz, primary key (at, id))",
        "select create_distributed_table('r_day', 'at', 'range', 'none', bounds => array['from (''2026-01-01'') to (''2026-05-03'')', 'from (''2026-05-03'') to (''2026-12-01'')', 'default'])",
        "create table r_part (part float8, id int, primary key (part, id))",
        "select create_distributed_table('r_part', 'part', 'range', 'none', bounds => array['from (0) to (0.30000000000000004)', 'from (0.30000000000000004) to (1)', 'default'])",
        "create table r_day_kind (id int primary key, took interval, part float8, tags text[])", "select create_reference_table('r_day_kind')",
        "insert into r_day_kind values (1, '-1 day 2 hours', 0.30000000000000004, array[null, 'NULL'])",
    )
    _past(elastic, 3, "insert into r_day select date '2026-05-03' + g, g, '-1 day 2 hours', 0.1::float8 + 0.2::float8, array[null, 'NULL'], timestamptz '2026-05-03 01:02:03.456+02' from generate_series(0, 60) g",
          "insert into r_part values (0.30000000000000004, 1), (0.5, 2)", "delete from r_day_kind")
    settings = "set datestyle = 'SQL, DMY'; set timezone = 'Asia/Kolkata'; set intervalstyle = 'sql_standard'; set extra_float_digits = -3; set array_nulls = off; set bytea_output = 'escape'; set standard_conforming_strings = off"
    with elastic.b.connect() as connection:
        for setting in settings.split("; "):
            connection.execute(setting)
        for dry in ("true", "false"):
            mended = dry == "false"
            found = connection.execute(f"select * from herd.repair('r_day', dry_run => {dry})").fetchall()
            assert [(f[2].split(" of ")[0], f[3]) for f in found] == [("61 rows", mended)], found
            found = connection.execute(f"select * from herd.repair('r_part', dry_run => {dry})").fetchall()
            assert [(f[2].split(" of ")[0], f[3]) for f in found] == [("2 rows", mended)], found
        assert [f[3] for f in connection.execute("select * from herd.repair('r_day_kind')").fetchall()] == [True]
    for table in ("r_day", "r_part", "r_day_kind"):
        _is_clean(elastic, f"'{table}'")
    with elastic.a.connect() as connection:
        what = "took = '-1 day 2 hours' and part = 0.30000000000000004 and tags[1] is null and tags[2] = 'NULL'"
        assert connection.execute(f"select count(*), count(distinct at) from r_day where {what} and zone = '2026-05-03 01:02:03.456+02' and at = date '2026-05-03' + id").fetchone() == (61, 61)
        assert [row for id in range(61) for row in connection.execute("select 1 from r_day where at = date '2026-05-03' + %s", (id,)).fetchall()] == [(1,)] * 61
        assert connection.execute("select id from r_part where part = 0.30000000000000004").fetchall() == [(1,)]
        assert elastic.on_node(3, f"select id from r_day_kind where {what}") == [(1,)]
        connection.execute("drop table r_day, r_part, r_day_kind")


def _most_bytes(elastic) -> int:
    with open(f"/proc/{elastic.routers[1].process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024


def test_large_rows_go_one_by_one(elastic, lands):
    with elastic.b.connect() as connection:
        connection.execute("select count(*) from r_order")
    before = _most_bytes(elastic)
    _past(elastic, 3, "insert into r_order (land, id, note) select l, 1000 + g, repeat('x', 3000000) from unnest(array['de', 'fr']) l, generate_series(1, 60) g")
    found = _repair(elastic, "'r_order'")
    assert sorted((f[2].split(" of ")[0], f[3]) for f in found) == [("60 rows", True)] * 2, found
    assert _most_bytes(elastic) - before < 150_000_000, "a page of rows is bounded by its bytes"
    _is_clean(elastic, "'r_order'")
    with elastic.a.connect() as connection:
        assert connection.execute("select count(*), min(length(note)) from r_order where id > 1000").fetchone() == (120, 3_000_000)


def test_sequences_that_are_left(elastic):
    elastic.a.run(
        "drop table if exists r_mark, r_again, r_small", "drop sequence if exists r_round", "create table r_mark (id serial primary key, v int)", "select create_distributed_table('r_mark', 'id', colocate_with => 'none')",
        "insert into r_mark (v) select g from generate_series(1, 10) g", "insert into r_mark values (2147483647, 0)",
        "create sequence r_round maxvalue 50 cycle", "create table r_again (id int primary key, n int default nextval('r_round'))", "select create_distributed_table('r_again', 'id', colocate_with => 'none')",
        "insert into r_again (id) select g from generate_series(1, 60) g",
    )
    with elastic.a.connect() as connection:
        assert _repair(elastic, "'r_again'") == [], "what begins anew is behind by nature"
        for call in ("'r_mark', dry_run => true", "'r_mark'"):
            found = _repair(elastic, call)
            assert [(f[1], f[3]) for f in found] == [("public.r_mark_id_seq", False)] and "its end is 2147483647" in found[0][4], found
        assert connection.execute("insert into r_mark (v) select g from generate_series(1, 300) g").rowcount == 300
        # What is said works.
        call = found[0][4].split(" or ")[-1].split(", and little")[0]
        connection.execute("update r_mark set v = 1 where id = 2147483647")
        connection.execute(call.replace("2147483647", "5000"))
        connection.execute("delete from r_mark where id = 2147483647")
        connection.execute("insert into r_mark (id, v) values (6000, 1)")
        assert [f[3] for f in _repair(elastic, "'r_mark'")] == [True]
        _is_clean(elastic, "'r_mark'")
        # Behind its end there are no values to meet, and before it may be.
        connection.execute("alter sequence r_mark_id_seq maxvalue 9000")
        connection.execute("insert into r_mark values (9500, 1)")
        found = _repair(elastic, "'r_mark'")
        assert [f[3] for f in found] == [False] and "ALTER SEQUENCE public.r_mark_id_seq AS bigint NO MAXVALUE" in found[0][4], found
        connection.execute("alter sequence public.r_mark_id_seq as bigint no maxvalue")
        assert [f[3] for f in _repair(elastic, "'r_mark'")] == [True]
        connection.execute("drop table r_mark, r_again")
        connection.execute("drop sequence r_round")


def test_rows_of_many_columns(elastic):
    columns = ", ".join(f"c{i} text default 'v''{i}'" for i in range(140))
    elastic.a.run(
        "drop table if exists r_wide, r_wide_kind", f"create table r_wide (land text, id int, {columns}, primary key (land, id))",
        "select create_distributed_table('r_wide', 'land', 'list', 'none', bounds => array['in (''de'')', 'in (''fr'')', 'default'])",
        f"create table r_wide_kind (id int primary key, {columns})", "select create_reference_table('r_wide_kind')", "insert into r_wide_kind values (1), (2)",
    )
    node = elastic.shards("r_wide")[2]
    _past(elastic, node, "insert into r_wide (land, id, c7) select l, g, nullif(g, 1)::text from unnest(array['de', 'fr']) l, generate_series(1, 5) g", "update r_wide_kind set c139 = '\\' where id = 2")
    assert [f[3] for f in _repair(elastic, "'r_wide'")] == [True, True]
    assert [f[3] for f in _repair(elastic, "'r_wide_kind'")] == [True]
    for table in ("r_wide", "r_wide_kind"):
        _is_clean(elastic, f"'{table}'")
    with elastic.a.connect() as connection:
        assert connection.execute("select c7, c139 from r_wide where land = 'de' and id in (1, 2) order by id").fetchall() == [(None, "v'139"), ("2", "v'139")]
        connection.execute("drop table r_wide, r_wide_kind")


def test_what_can_only_be_told_of_rows(elastic):
    elastic.without_tables()
    elastic.a.run(
        "create table r_at (id int, at date, v int, primary key (id, at)) partition by range (at)",
        *(f"create table r_at_{month} partition of r_at for values from ('2026-0{month}-01') to ('2026-0{month + 1}-01')" for month in (1, 2)),
        "select create_distributed_table('r_at', 'id', 'range', 'none', bounds => array['from (1) to (50)', 'from (50) to (100)', 'default'])",
        "create table r_late (land text, id int, unique (land, id) deferrable)", "select create_distributed_table('r_late', 'land', 'list', 'none', bounds => array['in (''de'')', 'in (''fr'')', 'default'])",
    )
    # Of another month: into the shard past its bounds, as a restore that does not look.
    for shard in (0, 2):
        node, part = elastic.shards("r_at_1")[shard], _partition(elastic, "r_at_1", shard)
        bound = elastic.on_node(node, "select pg_get_expr(relpartbound, oid), pg_get_partition_constraintdef(oid) from pg_class where oid = %s::regclass", (part,))[0]
        elastic.on_node(node, f"alter table r_at_1 detach partition {part}")
        elastic.on_node(node, f"insert into {part} values ({7 if shard == 0 else 700}, '2026-02-10', 1)")
        elastic.on_node(node, f"alter table {part} add constraint fake check ({bound[1]}) not valid")
        elastic.on_node(node, "update pg_constraint set convalidated = true where conname = 'fake'")
        elastic.on_node(node, f"alter table r_at_1 attach partition {part} {bound[0]}; alter table {part} drop constraint fake")
        found = _repair(elastic, "'r_at'")
        assert [(f[1], f[3]) for f in found] == [(part, False)] and "of another partition by time" in found[0][2] and "INSERT them through a router" in found[0][4], found
        elastic.on_node(node, f"delete from {part}")
    _is_clean(elastic, "'r_at'")
    node = elastic.shards("r_late")[2]
    _past(elastic, node, "insert into r_late values ('de', 1)")
    found = _repair(elastic, "'r_late'")
    assert [f[3] for f in found] == [False] and "DEFERRABLE" in found[0][4], found
    with elastic.a.connect() as connection:
        connection.execute("alter table r_late drop constraint r_late_land_id_key")
        connection.execute("alter table r_late add unique (land, id)")
        assert [f[3] for f in _repair(elastic, "'r_late'")] == [True]
        connection.execute("drop table r_at, r_late")
