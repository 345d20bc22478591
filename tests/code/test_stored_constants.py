"""Constants beside `current_setting` in stored expressions: whatever their type and bytes, the catalog is loaded, and the settings that are
named are known."""

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

_ASKS = "current_setting('app.x', true) IS NOT NULL AND current_user = 'app'"

_MADE = {
    "policy": [f"CREATE POLICY p ON l USING ({_ASKS})"],
    "check": [f"ALTER TABLE l ADD CHECK ({_ASKS} OR id > 0)"],
    "default": [f"ALTER TABLE l ADD c bool DEFAULT ({_ASKS})"],
    "rule": [f"CREATE RULE ru AS ON UPDATE TO l WHERE {_ASKS} DO INSTEAD NOTHING"],
    "body": [f"CREATE FUNCTION asks() RETURNS bool LANGUAGE sql BEGIN ATOMIC SELECT {_ASKS}; END"],
    "distributed": [f"CREATE POLICY p ON d USING ({_ASKS})"],
    "bytes": ["CREATE VIEW v AS SELECT current_setting('app.é', true), 'Zoë'::name AS b, '\\x00ff'::bytea AS c, ''::name AS d, 'a.b'::\"char\" AS e, 'x'::varchar AS f"],
    "long": [f"ALTER TABLE l ADD CHECK (current_setting('app.x', true) <> '{'a.' + 'y' * 5000}')"],
}


@pytest.mark.parametrize("made", _MADE)
def test_the_catalog_is_loaded(db, made):
    db.run(*_MADE[made])
    with db.herd.server.connect() as another:
        another.execute("CREATE TABLE code.fresh (a int)")
        assert another.execute("SELECT count(*) FROM code.d").fetchone()


def test_settings_are_known(db):
    def asked(expression):
        with db.herd.node_servers[0].connect() as home:
            home.execute("CREATE SCHEMA consts")
            home.execute(f"CREATE VIEW consts.v AS SELECT {expression} AS c")
            try:
                sql = "SELECT herd.code_in(ev_action::text) FROM pg_rewrite WHERE ev_class = 'consts.v'::regclass"
                return home.execute(sql).fetchone()[0]
            finally:
                home.execute("DROP SCHEMA consts CASCADE")

    assert "current_setting('app.x')" in asked(_ASKS)
    assert "current_setting('app.named')" in asked("current_setting('app.named'::name::text), current_user = 'app.other'")
    assert "current_setting('app.other')" in asked("current_setting('app.named'::name::text), current_user = 'app.other'")
    assert "current_setting" not in asked("current_setting('work_mem')").replace("pg_catalog.current_setting()", "")
    assert "app.x" not in asked("'app.x'::text, current_user = 'app'")
