"""client_encoding goes with every statement as SET does it: code can't take another one, by which keys would be other bytes than nodes store."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT set_config('client_encoding', 'LATIN1', false)",
        "SELECT set_config('client_' || 'encoding', 'LATIN1', false)",
        "UPDATE pg_settings SET setting = 'LATIN1' WHERE name = 'client_encoding'",
        "DO $$ BEGIN SET client_encoding = 'latin1'; END $$",
        "SELECT latin()",
    ],
)
def test_another_encoding(db, sql, block):
    db.run("CREATE FUNCTION latin() RETURNS void LANGUAGE plpgsql AS $$ BEGIN SET client_encoding = 'latin1'; END $$")
    with db.herd.server.connect() as c:
        c.execute("SET search_path = code")
        c.execute("CREATE TABLE tk (k text PRIMARY KEY)")
        c.execute("SELECT create_distributed_table('tk', 'k')")
        if block:
            c.execute("BEGIN")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="client_encoding"):
            c.execute(sql)
    with db.herd.server.connect() as c:
        for i in range(8):
            c.execute(f"INSERT INTO code.tk VALUES ('é{i}')")
        assert sum(len(c.execute(f"SELECT k FROM code.tk WHERE k = 'é{i}'").fetchall()) for i in range(8)) == 8


def test_the_same_encoding_goes_on(db):
    db.run("SELECT set_config('client_encoding', 'UTF8', false)", "DO $$ BEGIN SET client_encoding = 'UTF8'; END $$")
    assert db.one("SHOW client_encoding") == "UTF8"
