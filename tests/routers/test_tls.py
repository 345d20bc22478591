"""TLS from clients to the router and from the router to nodes, with certificates that are right and wrong."""

import os
import shutil
import time
from pathlib import Path

import psycopg
import pytest

from harness import binaries, router, unprivileged

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-tls")]


def _tls_postgres() -> Path | None:
    """A PostgreSQL built with TLS: Debian's, newest first. The embedded one has none."""
    for found in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (found / "initdb").exists():
            return found
    return None


@pytest.fixture(scope="module")
def files():
    if binaries.tool("openssl") is None:
        pytest.skip("openssl is not installed: TLS is not tested here")
    directory = unprivileged.new_directory("tls")
    yield router.certificates(directory)
    unprivileged.remove_directory(directory)


@pytest.fixture(scope="module")
def nodes(files):
    """Two servers that let nobody in without TLS."""
    found = _tls_postgres()
    if found is None:
        pytest.skip("no PostgreSQL with TLS (Debian's) is installed: TLS to nodes is not tested here")

    def configure(data: Path) -> None:
        for name in ("server.crt", "server.key"):
            shutil.copy(files[name], data / name)
            if (who := unprivileged.user()) is not None:
                os.chown(data / name, who.pw_uid, who.pw_gid)
        (data / "server.key").chmod(0o600)
        (data / "pg_hba.conf").write_text("hostssl all guarded 127.0.0.1/32 scram-sha-256\nhostssl all all 127.0.0.1/32 trust\n")

    made = []
    try:
        for n in (1, 2):
            made.append(router.node(f"tls{n}", {"ssl": "on"}, bin_directory=found, configure=configure))
            with _connect(made[-1].port, sslmode="require") as direct:
                direct.execute("create role guarded superuser login password 'right'")
        yield made
    finally:
        for server in made:
            server.stop()


@pytest.fixture(scope="module")
def tls_router(files, nodes):
    """Clients need not, nodes must use TLS, and be who their certificate says."""
    words = {"sslmode": "verify-full", "sslrootcert": str(files["authority.crt"])}
    home, other = (router.conninfo(n, **words) for n in nodes)
    more = f'[tls]\ncertificate = "{files["server.crt"]}"\nkey = "{files["server.key"]}"\n'
    made = router.Router(home, [other], more=more)
    yield made
    made.stop()


def _connect(port: int, **words: str) -> psycopg.Connection:
    text = " ".join(f"{k}={v}" for k, v in words.items())
    return psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres connect_timeout=10 {text}", autocommit=True)


def test_nodes_are_reached_by_tls(tls_router, nodes):
    with pytest.raises(psycopg.OperationalError):
        nodes[0].server.connect()
    with tls_router.server.connect() as connection:
        connection.execute("drop table if exists safe")
        connection.execute("create table safe (id int primary key, v text)")
        connection.execute("select create_distributed_table('safe', 'id')")
        connection.execute("insert into safe select g, repeat('x', 1000) from generate_series(1, 2000) g")
        assert connection.execute("select count(*), sum(length(v)) from safe").fetchone() == (2000, 2_000_000)
        assert len(connection.execute("select * from safe").fetchall()) == 2000
        assert connection.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone() == (True,)
    for node in nodes:
        with _connect(node.port, sslmode="require") as direct:
            sessions = direct.execute("select count(*), bool_and(ssl) from pg_stat_ssl s join pg_stat_activity a using (pid) where a.client_addr is not null")
            count, all_tls = sessions.fetchone()
            assert count > 1 and all_tls


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_a_client_by_tls(tls_router, files, mode):
    with _connect(tls_router.port, sslmode=mode, sslrootcert=str(files["authority.crt"])) as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("select 1").fetchone() == (1,)
        rows = connection.execute("select repeat('y', 100) from generate_series(1, 20000)").fetchall()
        assert len(rows) == 20000


def test_a_client_that_trusts_another_authority(tls_router, files):
    with pytest.raises(psycopg.OperationalError, match="certificate"):
        _connect(tls_router.port, sslmode="verify-full", sslrootcert=str(files["stranger.crt"]))


def test_a_cancel_request_of_a_client_by_tls(tls_router):
    with _connect(tls_router.port, sslmode="require") as connection:
        import threading

        timer = threading.Timer(0.5, connection.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select pg_sleep(20)")
        timer.join()
        assert connection.execute("select 2").fetchone() == (2,)


def test_tls_required(files, nodes):
    words = {"sslmode": "require"}
    home, other = (router.conninfo(n, **words) for n in nodes)
    more = f'[tls]\ncertificate = "{files["server.crt"]}"\nkey = "{files["server.key"]}"\nrequired = true\n'
    made = router.Router(home, [other], more=more)
    try:
        with pytest.raises(psycopg.OperationalError) as refused:
            _connect(made.port, sslmode="disable")
        assert "TLS" in str(refused.value) or "SSL" in str(refused.value)
        with _connect(made.port, sslmode="require") as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    finally:
        made.stop()


WRONG = {
    "authority": ({"sslmode": "verify-full", "sslrootcert": "stranger.crt"}, "(?i)certificate"),
    # The same server by a name that is not in its certificate.
    "name": ({"sslmode": "verify-full", "sslrootcert": "authority.crt", "host": "localhost"}, "(?i)certificate"),
    "file": ({"sslmode": "verify-full", "sslrootcert": "nosuch.crt"}, "nosuch.crt"),
    "no TLS": ({"sslmode": "disable"}, "no encryption"),
    "password": ({"sslmode": "require", "user": "guarded", "password": "wrong"}, "password authentication failed"),
    "no password": ({"sslmode": "require", "user": "guarded"}, "asks for a password"),
    "database": ({"sslmode": "require", "dbname": "nosuch"}, "does not exist"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_waiting_does_not_help(files, nodes, wrong):
    """The router says why and ends at once: it waits only for a server that is down or starting."""
    words, message = WRONG[wrong]
    words = dict(words)
    if "sslrootcert" in words:
        words["sslrootcert"] = str(files["server.crt"].parent / words["sslrootcert"])
    started = time.monotonic()
    with pytest.raises(RuntimeError, match=message):
        router.Router(router.conninfo(nodes[0], **words), [], attempts=1, start_seconds_max=30).stop()
    assert time.monotonic() - started < 20
