"""A server that joins is held against home: what can't be is refused with all reasons, what there is less of is told."""

import psycopg
import pytest

from harness import router, unprivileged

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-fitness"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def home():
    server = router.node("fitness-home", {"wal_level": "logical"})
    yield server
    server.stop()


@pytest.fixture(scope="module")
def herd(home):
    one = router.Router(router.conninfo(home), [])
    yield one
    one.stop()


@pytest.fixture
def server():
    """Makes servers that are stopped in the end."""
    made = []

    def make(settings):
        made.append(router.node("fitness-other", {"wal_level": "logical"} | settings))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def _add(boss, port: int) -> list[tuple[str, str, str]]:
    """What the client is told besides, as severity, message and hint."""
    said = []
    handler = lambda n: said.append((n.severity, n.message_primary.replace(str(port), "PORT"), n.message_hint))
    boss.add_notice_handler(handler)
    boss.execute(f"select citus_add_node('127.0.0.1', {port})")
    boss.remove_notice_handler(handler)
    return said


def test_a_server_without_prepared_transactions_is_refused(herd, server):
    other = server({"max_prepared_transactions": "0"})
    with herd.server.connect() as boss:
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as refused:
            boss.execute(f"select citus_add_node('127.0.0.1', {other.port})")
        assert refused.value.diag.message_primary == f"server 127.0.0.1:{other.port} cannot be a node: max_prepared_transactions is 0, on home 100"
        assert refused.value.diag.message_hint == "ALTER SYSTEM SET max_prepared_transactions = 100 on it, and restart it."
        assert boss.execute("select count(*) from herd.nodes").fetchone() == (1,)
    with other.server.connect() as direct:
        assert direct.execute("select to_regnamespace('herd')").fetchone() == (None,)


def test_a_router_does_not_register_it_either(home, server):
    other = server({"max_prepared_transactions": "0"})
    with pytest.raises(RuntimeError, match="max_prepared_transactions is 0, on home 100"):
        router.Router(router.conninfo(home), [router.conninfo(other)], attempts=1).stop()


def test_what_it_has_less_of_is_told(herd, server):
    other = server({"max_prepared_transactions": "10", "max_connections": "50", "wal_level": "replica"})
    with herd.server.connect() as boss:
        said = _add(boss, other.port)
        boss.execute(f"select citus_remove_node('127.0.0.1', {other.port})")
    assert [(severity, message) for severity, message, _ in said] == [
        ("WARNING", "node 127.0.0.1:PORT: max_connections is 50, on home 200"),
        ("WARNING", "node 127.0.0.1:PORT: max_prepared_transactions is 10, on home 100"),
        ("WARNING", "node 127.0.0.1:PORT: wal_level is replica, on home logical"),
    ]
    assert "ALTER SYSTEM SET max_connections = 200 on it" in said[0][2]
    assert "Shards can be moved to it, not away from it" in said[2][2]


def test_a_server_like_home_joins_in_silence_until_there_are_shards(herd, server):
    first, second = server({}), server({"default_transaction_isolation": "serializable", "datestyle": "German", "bytea_output": "escape"})
    with herd.server.connect() as boss:
        assert _add(boss, first.port) == []
        # What a session may set is home's on all connections: it need not be alike.
        boss.execute("create table here (id int primary key)")
        boss.execute("select create_distributed_table('here', 'id')")
        try:
            assert [(severity, hint) for severity, _, hint in _add(boss, second.port)] == [
                ("NOTICE", "SELECT herd.rebalance() moves shards to it, reads and writes going on.")
            ]
            # What it names works, and so does what is said when the node shall go again.
            assert boss.execute("select herd.rebalance()").fetchone()[0] > 0
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="still has") as refused:
                boss.execute(f"select citus_remove_node('127.0.0.1', {second.port})")
            hint = refused.value.diag.message_hint
            assert hint.startswith("SELECT herd.drain_node('node")
            assert boss.execute(hint[: hint.index(")") + 1]).fetchone()[0] > 0
        finally:
            boss.execute("drop table here")
        for one in (first, second):
            boss.execute(f"select citus_remove_node('127.0.0.1', {one.port})")


def test_an_extension_that_is_not_installed_is_named(home, herd, server):
    if home.major < 18:
        pytest.skip("extensions are in one place for all servers of a version")
    folder = unprivileged.new_directory("extensions")
    try:
        (folder / "extension").mkdir()
        (folder / "extension" / "lone.control").write_text("default_version = '1.7'\n")
        (folder / "extension" / "lone--1.7.sql").write_text("create function lone() returns int language sql as 'select 1';\n")
        with home.server.connect() as direct:
            direct.execute(f"alter system set extension_control_path = '$system:{folder}'")
            direct.execute("select pg_reload_conf()")
        with home.server.connect() as direct, herd.server.connect() as boss:
            direct.execute("create extension lone")
            other = server({})
            try:
                said = 'server 127.0.0.1:PORT cannot be a node: extension "lone" is not available, home has version 1.7'
                with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as refused:
                    boss.execute(f"select citus_add_node('127.0.0.1', {other.port})")
                assert refused.value.diag.message_primary == said.replace("PORT", str(other.port))
                assert refused.value.diag.message_hint.startswith('Install the package that has "lone"')
            finally:
                direct.execute("drop extension lone")
    finally:
        unprivileged.remove_directory(folder)
