"""What text functions make of a value must not hang on the node it lies on: a server of another locale or encoding does not become a node."""

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-locales"), pytest.mark.timeout(400)]

_OTHERS = {
    "locale": (["-E", "UTF8", "--locale=C"], {}, "locale is C"),
    "encoding": (["-E", "SQL_ASCII", "--locale=C"], {}, "encoding is SQL_ASCII"),
    "text search": (None, {"default_text_search_config": "pg_catalog.german"}, "setting default_text_search_config is pg_catalog.german"),
}


@pytest.fixture(scope="module")
def home():
    server = router.node("locales-home")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def herd(home):
    one = router.Router(router.conninfo(home), [])
    yield one
    one.stop()


@pytest.mark.parametrize("what", _OTHERS)
def test_a_server_unlike_home_is_refused(herd, what):
    locale, settings, said = _OTHERS[what]
    other = router.node("locales-other", settings, locale=locale)
    try:
        with herd.server.connect() as boss:
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=said) as refused:
                boss.execute(f"select citus_add_node('127.0.0.1', {other.port})")
            assert "initdb" in refused.value.diag.message_hint
            assert boss.execute("select count(*) from herd.nodes").fetchone() == (1,)
        # It has got nothing of the herd.
        with other.server.connect() as direct:
            assert direct.execute("select to_regnamespace('herd')").fetchone() == (None,)
    finally:
        other.stop()


def test_a_server_of_the_configuration_is_refused(home):
    other = router.node("locales-named", locale=["-E", "UTF8", "--locale=C"])
    try:
        with pytest.raises(RuntimeError, match="reads text in another way than home"):
            router.Router(router.conninfo(home), [router.conninfo(other)], attempts=1).stop()
    finally:
        other.stop()


def test_a_server_like_home_joins(herd):
    other = router.node("locales-same")
    try:
        with herd.server.connect() as boss:
            boss.execute(f"select citus_add_node('127.0.0.1', {other.port})")
            assert boss.execute("select count(*) from herd.nodes").fetchone() == (2,)
    finally:
        other.stop()
