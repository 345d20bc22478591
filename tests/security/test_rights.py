"""What shards grant follows from their parents, and parents follow home, whoever changed what."""

import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]

# Routers look every 2 s, and make nodes follow home when it has said the same twice.
_SECONDS_MAX = 60


def _until(done):
    deadline = time.monotonic() + _SECONDS_MAX
    while True:
        last = done()
        if last is True:
            return
        assert time.monotonic() < deadline, last
        time.sleep(0.3)


def _problems(place) -> list:
    with place.server.connect() as root:
        return root.execute("select node, object, problem from herd.verify order by 1, 2, 3").fetchall()


@pytest.fixture
def table(place):
    """`mine` of `mallory` with 40 rows, which `victim` may read, for one test."""
    place.server.run("drop table if exists hers.mine", "grant usage on schema hers to victim")
    with place.as_role("mallory") as mallory:
        mallory.execute("create table hers.mine (id int primary key, v int)")
        mallory.execute("insert into hers.mine select g, g from generate_series(1, 40) g")
        mallory.execute("grant select on hers.mine to victim")
    place.server.run("select create_distributed_table('hers.mine', 'id')")
    yield "hers.mine"
    place.server.run("drop table if exists hers.mine")


def _readable(place, role="victim") -> int:
    """Of how many keys the row can be read, each on its shard."""
    count = 0
    with place.as_role(role) as connection:
        for key in range(1, 41):
            try:
                count += len(connection.execute(f"select v from hers.mine where id = {key}").fetchall())
            except psycopg.errors.InsufficientPrivilege:
                pass
    return count


def test_nothing_is_wrong_to_begin_with(place, table):
    assert _readable(place) == 40
    _until(lambda: _problems(place) == [] or _problems(place))


def test_revoke_past_the_router(place, table):
    """In code, whose text tells or hides the name, it is a client's; on home itself it reaches home alone, and the others follow."""
    with place.as_role("mallory") as mallory:
        for code in ("revoke select on hers.mine from victim;", "execute format('revoke select on %s from victim', lower('HERS.MINE'));"):
            mallory.execute(f"do $$ begin {code} end $$")
            assert _readable(place) == 0 and _problems(place) == []
            mallory.execute("grant select on hers.mine to victim")
            assert _readable(place) == 40
    with place.on_node(0, "mallory") as mallory:
        mallory.execute("revoke select on hers.mine from victim")
    _until(lambda: _readable(place) == 0 or _readable(place))
    _until(lambda: _problems(place) == [] or _problems(place))


def test_a_grant_on_a_shard_does_not_last(place, table):
    """An owner of a parent is one of its shards, and may grant on them past the router."""
    with place.on_node(1, "mallory") as mallory:
        shard = mallory.execute("select shard::text from herd.shard_tables where parent = 'hers.mine'::regclass limit 1").fetchone()[0]
        mallory.execute(f"grant insert on {shard} to public")
        assert any("privileges" in problem for _, problem, _ in mallory.execute("select * from herd.verify()").fetchall())
        _until(lambda: mallory.execute("select count(*) from herd.verify() where problem <> ''").fetchone() == (0,) or "not yet")


def test_forced_row_security(place, table):
    """With FORCE the owner is under the policies, too; no shard shows him what the table does not."""
    with place.as_role("mallory") as mallory:
        mallory.execute("create policy low on hers.mine using (id <= 5)")
        mallory.execute("alter table hers.mine enable row level security")
        assert mallory.execute("select count(*) from hers.mine").fetchone() == (40,)
        mallory.execute("alter table hers.mine force row level security")
        assert mallory.execute("select count(*) from hers.mine").fetchone() == (5,)
    assert _readable(place, "mallory") == 5
    for node in range(3):
        with place.on_node(node, "mallory") as mallory:
            for (shard,) in mallory.execute("select shard::text from herd.shard_tables where parent = 'hers.mine'::regclass").fetchall():
                assert mallory.execute(f"select count(*) from {shard}").fetchone() == (0,)
    _until(lambda: _problems(place) == [] or _problems(place))


def test_a_former_owner_keeps_nothing(place):
    """Nor may he occupy names among the shards, and he can be dropped."""
    place.server.run("create role leaver login", "create schema leaving authorization leaver")
    with place.as_role("leaver") as leaver:
        leaver.execute("create table leaving.t (id int primary key, v int)")
    place.server.run("select create_distributed_table('leaving.t', 'id')")
    with place.as_role("leaver") as leaver:
        leaver.execute("create index on leaving.t (v)")
    place.server.run("alter table leaving.t owner to victim")
    may = "select bool_or(has_schema_privilege('leaver', 'herd_shards', 'create'))"
    for node in range(3):
        with place.on_node(node) as root:
            _until(lambda: root.execute(may).fetchone() == (False,) or "may still create")
    with place.on_node(1, "leaver") as leaver, pytest.raises(psycopg.errors.InsufficientPrivilege):
        leaver.execute("create table herd_shards.occupied (x int)")
    place.server.run("drop table leaving.t", "drop schema leaving", "drop role leaver")


def test_user_of_the_search_path(place):
    """ "$user" is who the session was made to be."""
    place.server.run(
        "create schema mallory authorization mallory", "create table mallory.whose (x int)", "insert into mallory.whose values (1)",
        "create schema victim authorization victim", "create table victim.whose (x int)", "insert into victim.whose values (2)",
        "select create_reference_table('mallory.whose')", "select create_reference_table('victim.whose')",
    )
    try:
        with place.server.connect() as root:
            for role, seen in (("mallory", 1), ("victim", 2)):
                root.execute(f"set session authorization {role}")
                assert root.execute("select current_user::text").fetchone() == (role,)
            root.execute("reset session authorization")
            place.server.run("grant select on mallory.whose to mallory", "grant select on victim.whose to victim")
            for role, seen in (("mallory", 1), ("victim", 2)):
                root.execute(f"set session authorization {role}")
                assert root.execute("select x from whose").fetchone() == (seen,)
    finally:
        place.server.run("drop schema mallory cascade", "drop schema victim cascade")


def test_usage_of_a_schema(place, oracle):
    """PostgreSQL asks for it where a table is named; that a node is told the name of a partition changes nothing."""
    oracle.run("drop role if exists mallory", "create role mallory login")
    made = [
        "create schema closed",
        "create table closed.t (id int primary key, v int)",
        "create table closed.other (id int primary key, v int)",
        "grant select, insert, update, delete on closed.t, closed.other to mallory",
    ]
    oracle.run(*made)
    place.server.run(*made, "select create_distributed_table('closed.t', 'id')", "select create_distributed_table('closed.other', 'id')")
    statements = [
        "insert into closed.t values (7, 1)",
        "insert into closed.t values (1, 1), (2, 2), (3, 3), (4, 4)",
        "select v from closed.t where id = 7",
        "select count(*) from closed.t",
        "select t.v from closed.t join closed.other o using (id) where t.id = 7",
        "update closed.t set v = v + 1 where id = 7",
        "update closed.t set v = v + 1",
        "delete from closed.t where id = 7",
        "copy closed.t to stdout",
    ]

    def said(server):
        said = []
        for user, prepare in (("mallory", False), ("mallory", True), ("postgres", False), ("postgres", True)):
            with server.connect(user=user) as mallory:
                mallory.prepare_threshold = 0 if prepare else None
                if user != "mallory":
                    # What a superuser has asked counts for nobody else.
                    mallory.execute(statements[2].replace("7", "8"), prepare=prepare)
                    mallory.execute("set role mallory")
                for sql in statements:
                    try:
                        if sql.startswith("copy"):
                            with mallory.cursor().copy(sql) as copy:
                                said.append(sorted(bytes(row) for row in copy))
                            continue
                        cursor = mallory.execute(sql, prepare=prepare)
                        said.append(cursor.fetchall() if cursor.description else cursor.statusmessage)
                    except psycopg.Error as e:
                        said.append(e.diag.sqlstate)
        return said

    try:
        for change in (None, "grant usage on schema closed to mallory", "revoke usage on schema closed from mallory", "grant usage on schema closed to public"):
            if change:
                oracle.run(change)
                place.server.run(change)
            assert said(place.server) == said(oracle), change
    finally:
        oracle.run("drop schema closed cascade", "drop role mallory")
        place.server.run("drop schema closed cascade")


def test_usage_taken_past_the_routers(place):
    """It counts within a second or two for statements by key, too, whose plans are kept and whose names are qualified."""
    place.server.run(
        "create schema closed",
        "create table closed.t (id int primary key, v int)",
        "grant usage on schema closed to mallory",
        "grant select, insert, update on closed.t to mallory",
        "select create_distributed_table('closed.t', 'id')",
        "insert into closed.t select g, g from generate_series(1, 20) g",
    )
    statements = ("select v from closed.t where id = %s", "update closed.t set v = v + 1 where id = %s")
    try:
        with place.as_role("mallory") as mallory:
            for sql in statements:
                for prepare in (False, True):
                    mallory.execute(sql, (7,), prepare=prepare)
            for number in range(3):
                with place.on_node(number) as node:
                    node.execute("revoke usage on schema closed from mallory")
            time.sleep(2)

            def refused() -> bool:
                try:
                    mallory.execute(statements[0], (9,))
                except psycopg.errors.InsufficientPrivilege:
                    return True
                return False

            _until(refused)
            for sql in statements:
                for prepare in (False, True):
                    for key in (7, 8):
                        with pytest.raises(psycopg.errors.InsufficientPrivilege):
                            mallory.execute(sql, (key,), prepare=prepare)
    finally:
        place.server.run("drop schema closed cascade")


def test_who_changes_keys_needs_update_first(place, table):
    """Rows that move are deleted and inserted with the client's rights: that neither replaces UPDATE nor is blamed on it."""
    place.server.run(f"grant insert, delete on {table} to victim")
    with place.as_role("victim") as victim, pytest.raises(psycopg.errors.InsufficientPrivilege):
        victim.execute(f"update {table} set id = id + 100")
    place.server.run(f"revoke insert, delete on {table} from victim", f"grant update on {table} to victim")
    with place.as_role("victim") as victim, pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
        victim.execute(f"update {table} set id = id + 100")
    assert refused.value.diag.message_hint == "GRANT INSERT, DELETE ON mine to who changes keys."
    place.server.run(f"grant insert, delete on {table} to victim")
    with place.as_role("victim") as victim:
        assert victim.execute(f"update {table} set id = id + 100").statusmessage == "UPDATE 40"


def test_who_granted_takes_it_back(place):
    """A table that becomes distributed, and local again, is the same table to who may do what with it."""
    roles = "hands_a", "hands_b", "hands_c"
    place.server.run(*(f"drop role if exists {r}" for r in roles), *(f"create role {r} login" for r in roles))
    place.server.run("grant usage on schema hers to hands_a, hands_b, hands_c")
    try:
        with place.as_role("mallory", autocommit=True) as mallory:
            mallory.execute("create table hers.handed (id int primary key, v int)")
            mallory.execute("insert into hers.handed select g, g from generate_series(1, 40) g")
            mallory.execute("grant select on hers.handed to hands_a with grant option")
        with place.as_role("hands_a", autocommit=True) as a:
            a.execute("grant select on hers.handed to hands_b with grant option")
        with place.as_role("hands_b", autocommit=True) as b:
            b.execute("grant select (id) on hers.handed to hands_c")
        acl = "select a.grantor::regrole::text, a.grantee::regrole::text, a.is_grantable from pg_class c, aclexplode(c.relacl) a where c.oid = 'hers.handed'::regclass and a.grantor <> c.relowner"
        for change in ("select create_distributed_table('hers.handed', 'id')", "select undistribute_table('hers.handed')", "select create_distributed_table('hers.handed', 'id')"):
            place.server.run(change)
            for number in range(3) if "create" in change else (0,):
                with place.on_node(number) as node:
                    assert node.execute(acl).fetchall() == [("hands_a", "hands_b", True)], (change, number)
        with place.as_role("hands_c", autocommit=True) as c:
            assert c.execute("select count(id) from hers.handed").fetchone() == (40,)
        with place.as_role("hands_b", autocommit=True) as b:
            b.execute("revoke select (id) on hers.handed from hands_c")
        with place.as_role("hands_a", autocommit=True) as a:
            a.execute("revoke select on hers.handed from hands_b cascade")
        for role in ("hands_b", "hands_c"):
            with place.as_role(role, autocommit=True) as other, pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute("select count(id) from hers.handed")
        with place.as_role("hands_a", autocommit=True) as a:
            assert a.execute("select count(*) from hers.handed").fetchone() == (40,)
    finally:
        place.server.run("drop table if exists hers.handed")
        place.server.run("revoke all on schema hers from hands_a, hands_b, hands_c", *(f"drop role {r}" for r in roles))
