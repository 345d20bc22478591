"""herd.toml as the real binary reads it: what it warns of and goes on, and what it will not start with."""

import signal
import socket
import subprocess
import time
import urllib.request

import psycopg
import pytest

from harness import binaries, ports, router, unprivileged

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("commands-config"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def home():
    made = router.node("config")
    yield made
    made.stop()


@pytest.fixture
def folder():
    made = unprivileged.new_directory("config")
    yield made
    unprivileged.remove_directory(made)


class Started:
    """`herd router --config`, with a file of this text and mode; ended by SIGTERM if it has not ended by itself."""

    def __init__(self, folder, text: str, mode: int = 0o600):
        self.file, self.said = folder / "herd.toml", folder / "said"
        self.file.write_text(text)
        self.file.chmod(mode)
        with open(self.said, "wb") as said:
            self.process = subprocess.Popen([binaries.herd(), "router", "--config", self.file], stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)

    def until(self, ready) -> str:
        """What it has said when it is ready."""
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.said.read_text()
            if ready():
                return self.said.read_text()
            time.sleep(0.05)
        raise AssertionError(f"it does not answer:\n{self.said.read_text()}")

    def refusal(self) -> str:
        """What it says as it ends."""
        assert self.process.wait(60) == 1, self.said.read_text()
        return self.said.read_text()


def _answers(port: int, host: str = "127.0.0.1"):
    def ready() -> bool:
        try:
            with psycopg.connect(f"host={host} port={port} user=postgres dbname=postgres connect_timeout=5 sslmode=disable") as connection:
                return connection.execute("select 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    return ready


@pytest.fixture
def text(home):
    """A file's text and its port."""
    port = ports.free_row(1)

    def make(listen: str = "127.0.0.1", more: str = "", **words: str) -> str:
        return f'listen = ["{listen}:{port}"]\nhome = "{router.conninfo(home, **words)}"\n{more}'

    make.port = port
    return make


_OTHERS_MAY_READ = "holds a password and others than its owner may read it (mode {:04o}): chmod 600 {}"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_password_that_others_may_read_is_warned_of(text, folder, mode):
    with Started(folder, text(password="hidden-word"), mode) as started:
        said = started.until(_answers(text.port))
        assert _OTHERS_MAY_READ.format(mode, started.file) in said and " WARN " in said
        # It is not told to whoever reads the log.
        assert "hidden-word" not in said


@pytest.mark.parametrize("mode, words", [(0o600, {"password": "hidden-word"}), (0o400, {"password": "hidden-word"}), (0o644, {})])
def test_nobody_is_warned_without_need(text, folder, mode, words):
    with Started(folder, text(**words), mode) as started:
        assert "may read it" not in started.until(_answers(text.port))


def test_a_nodes_password_counts(text, folder, home):
    with Started(folder, text(more=f'nodes = ["{router.conninfo(home, port="1", password="hidden-word")}"]\n'), 0o644) as started:
        deadline = time.monotonic() + 60
        while "may read it" not in started.said.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert _OTHERS_MAY_READ.format(0o644, started.file) in started.said.read_text()


_EVERYWHERE = "0.0.0.0"


@pytest.mark.parametrize("more", ["", 'auth = "trust"\n', "trust_anyone = false\n", "metrics_anyone = true\n"])
def test_trust_that_others_reach_is_refused(text, folder, more):
    with Started(folder, text(listen=_EVERYWHERE, more=more)) as started:
        said = started.refusal()
    assert 'is "trust", and 0.0.0.0:' in said and "trust_anyone = true" in said, said
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", text.port)) != 0


@pytest.mark.parametrize("listen, more", [(_EVERYWHERE, "trust_anyone = true\n"), ("127.0.0.1", "")])
def test_it_starts_where_that_is_asked_for_or_nobody_reaches_it(text, folder, listen, more):
    with Started(folder, text(listen=listen, more=more)) as started:
        assert "can be reached" not in started.until(_answers(text.port))


def test_it_starts_where_everybody_is_asked_who_he_is(text, folder):
    def refuses() -> bool:
        try:
            psycopg.connect(f"host=127.0.0.1 port={text.port} user=postgres dbname=postgres sslmode=disable password=wrong").close()
        except psycopg.OperationalError as error:
            return "password authentication failed" in str(error)
        raise AssertionError("anybody is let in")

    with Started(folder, text(listen=_EVERYWHERE, more='auth = "scram"\n')) as started:
        started.until(refuses)


def test_a_metrics_page_that_others_reach_is_refused(text, folder):
    metrics = ports.free_row(1)
    with Started(folder, text(more=f'metrics = "0.0.0.0:{metrics}"\ntrust_anyone = true\n')) as started:
        said = started.refusal()
    assert f"is 0.0.0.0:{metrics}, which can be reached from other machines" in said and "metrics_anyone = true" in said, said


@pytest.mark.parametrize("address, more", [("0.0.0.0", "metrics_anyone = true\n"), ("127.0.0.1", "")])
def test_a_metrics_page_as_asked_for(text, folder, address, more):
    metrics = ports.free_row(1)
    with Started(folder, text(more=f'metrics = "{address}:{metrics}"\n{more}')) as started:
        started.until(_answers(text.port))
        page = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=5).read().decode()
        assert "herd_client_connections_total" in page


@pytest.mark.parametrize("more, said", [("trust_everyone = true\n", "trust_everyone"), ('auth = "none"\n', "none"), ("shards = 0\n", "shards")])
def test_a_mistake_in_the_file_is_named(text, folder, more, said):
    with Started(folder, text(more=more)) as started:
        told = started.refusal()
    assert told.startswith("herd: ") and said in told and "herd.toml" in told, told
