"""A router meets servers that know its role by another password, or by none: they get along, or it says what to do and where."""

from pathlib import Path

import psycopg
import pytest

from harness import ports, router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-scram")]

_AUTH = 'auth = "scram"\n'


def _asking(name: str, password: str):
    """A server that asks for passwords, with a salt of its own."""
    server = router.node(name)
    with server.server.connect() as boss:
        boss.execute(f"alter role postgres password '{password}'")
        Path(server.data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        boss.execute("select pg_reload_conf()")
    return server


@pytest.fixture
def kept():
    things: list = []
    yield lambda thing: things.append(thing) or thing
    for thing in reversed(things):
        thing.stop()


def _connect(server, user: str, password: str) -> psycopg.Connection:
    return psycopg.connect(f"{server.conninfo} user={user}", password=password, autocommit=True)


def test_superusers_of_different_verifiers_are_brought_together(kept):
    home, other, third = (kept(_asking(f"meet{n}", password)) for n, password in enumerate(("one", "two", "one")))
    herd = kept(router.Router(router.conninfo(home, password="one"), [router.conninfo(other, password="two")], more=_AUTH))
    with _connect(herd.server, "postgres", "one") as boss:
        assert isinstance(boss.execute(f"select citus_add_node('127.0.0.1', {third.port})").fetchone()[0], int)
        boss.execute("create table t (id int primary key, v int)")
        boss.execute("select create_distributed_table('t', 'id')")
        boss.execute("insert into t select g, g from generate_series(1, 60) g")
        assert boss.execute("select count(*), sum(v) from t").fetchone() == (60, 1830)
    for server in (other, third):
        with _connect(server.server, "postgres", "one") as direct:
            assert 0 < direct.execute("select count(*) from t").fetchone()[0] < 60


def test_what_cannot_be_brought_together_is_named(kept):
    home, other = kept(_asking("meet1", "one")), kept(_asking("meet2", "two"))
    with pytest.raises(RuntimeError) as failed:
        kept(router.Router(router.conninfo(home, password="one"), [router.conninfo(other, password="wrong")], more=_AUTH, attempts=1))
    assert f"node 127.0.0.1:{other.port}: " in str(failed.value) and "rolpassword" in str(failed.value)
    assert "herd: home: " not in str(failed.value)

    herd = kept(router.Router(router.conninfo(home, password="one"), [], more=_AUTH))
    with _connect(herd.server, "postgres", "one") as boss:
        with pytest.raises(psycopg.Error) as refused:
            boss.execute(f"select citus_add_node('127.0.0.1', {other.port})")
    assert str(other.port) in refused.value.diag.message_primary
    assert f"127.0.0.1:{other.port}" in refused.value.diag.message_hint and "rolpassword" in refused.value.diag.message_hint


def test_a_role_of_different_verifiers_is_told_where(kept):
    servers = [kept(_asking(f"meet{n}", "one")) for n in (1, 2)]
    for server in servers:
        with _connect(server.server, "postgres", "one") as boss:
            boss.execute("create role ann login password 'her own'")
    home, other = (router.conninfo(s, password="one") for s in servers)
    herd = kept(router.Router(home, [other], more=_AUTH))
    with _connect(herd.server, "postgres", "one") as boss:
        boss.execute("create table t (id int primary key, v int)")
        boss.execute("select create_distributed_table('t', 'id')")
        boss.execute("grant select on t to ann")
    with _connect(herd.server, "ann", "her own") as ann:
        with pytest.raises(psycopg.Error) as refused:
            ann.execute("select count(*) from t")
    assert refused.value.sqlstate == "28P01"
    assert f"127.0.0.1:{servers[1].port}" in refused.value.diag.message_hint and '"ann"' in refused.value.diag.message_hint
    with _connect(servers[0].server, "postgres", "one") as boss:
        (verifier,) = boss.execute("select rolpassword from pg_authid where rolname = 'ann'").fetchone()
    with _connect(servers[1].server, "postgres", "one") as boss:
        boss.execute(f"alter role ann password '{verifier}'")
    with _connect(herd.server, "ann", "her own") as ann:
        assert ann.execute("select count(*) from t").fetchone() == (0,)


def test_a_node_that_is_away_is_named(kept):
    home, away = kept(router.node("meet1")), ports.free_row(1)
    with pytest.raises(RuntimeError) as failed:
        kept(router.Router(router.conninfo(home), [f"host=127.0.0.1 port={away} dbname=postgres user=postgres"], attempts=1))
    assert f"node 127.0.0.1:{away}: could not connect" in str(failed.value) and "home: " not in str(failed.value)


def _has_seal(server) -> bool:
    with psycopg.connect(f"{server.server.conninfo} user=postgres", password="one", autocommit=True) as direct:
        if direct.execute("select to_regclass('herd.seal')").fetchone() == (None,):
            return False
        return direct.execute("select count(*) from herd.seal").fetchone() != (0,)


def _ask_by(server, method: str) -> None:
    Path(server.data / "pg_hba.conf").write_text(f"host all all 127.0.0.1/32 {method}\n")
    with psycopg.connect(f"{server.server.conninfo} user=postgres", password="one", autocommit=True) as boss:
        boss.execute("select pg_reload_conf()")


def test_who_does_not_prove_himself_is_told_nothing(kept):
    """Home asks by SCRAM. What becomes a node must, too, or the operator says in so many words that it need not."""
    home, stranger, old = (kept(_asking(f"meet{n}", "one")) for n in (1, 2, 3))
    _ask_by(stranger, "trust")
    _ask_by(old, "md5")
    with psycopg.connect(f"{old.server.conninfo} user=postgres", password="one", autocommit=True) as boss:
        boss.execute("set password_encryption = md5")
        boss.execute("alter role postgres password 'one'")

    with pytest.raises(RuntimeError, match="without proving who it is"):
        kept(router.Router(router.conninfo(home, password="one"), [router.conninfo(stranger)], more=_AUTH, attempts=1))
    herd = kept(router.Router(router.conninfo(home, password="one"), [], more=_AUTH))
    with _connect(herd.server, "postgres", "one") as boss:
        for server, says in ((stranger, "without proving who it is"), (old, "by md5, which require_auth does not allow")):
            with pytest.raises(psycopg.Error, match=says) as refused:
                boss.execute(f"select citus_add_node('127.0.0.1', {server.port})")
            assert refused.value.sqlstate == "28000" and "require_auth" in refused.value.diag.message_hint
            assert not _has_seal(server)
    herd.stop()

    allowed = router.conninfo(home, password="one", require_auth="scram-sha-256,md5,none")
    herd = kept(router.Router(allowed, [], more=_AUTH))
    with _connect(herd.server, "postgres", "one") as boss:
        for server in (stranger, old):
            boss.execute(f"select citus_add_node('127.0.0.1', {server.port})")
            assert _has_seal(server)


def test_a_server_of_another_herd_is_not_told_the_seal(kept):
    servers = [kept(_asking(f"meet{n}", "one")) for n in (1, 2, 3)]
    one, two, shared = (router.conninfo(s, password="one") for s in servers)
    kept(router.Router(one, [shared], more=_AUTH))
    other = kept(router.Router(two, [], more=_AUTH))
    with _connect(other.server, "postgres", "one") as boss:
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="belongs to another herd"):
            boss.execute(f"select citus_add_node('127.0.0.1', {servers[2].port})")
    with _connect(servers[1].server, "postgres", "one") as boss:
        seal = boss.execute("select encode(value, 'hex') from herd.seal").fetchone()[0]
    logged = "".join(p.read_text(errors="replace") for p in servers[2].data.parent.rglob("*log*") if p.is_file())
    assert "belongs to another herd" in logged and seal not in logged
