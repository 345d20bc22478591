"""psql: its backslash commands ask the catalogs, \\copy and \\watch drive the protocol in their own ways."""

import subprocess

import pytest


@pytest.fixture
def psql(herd, postgres_bin):
    def call(script: str, *arguments: str, expect: int = 0) -> str:
        command = [postgres_bin / "psql", "-X", "-v", "ON_ERROR_STOP=1", *arguments, herd.url]
        done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    return call


def test_describe_shows_one_table(psql, table):
    table("psql_shown", rows=5)
    listed = psql("\\dt\n")
    assert listed.count("psql_shown") == 1
    assert "psql_shown" in psql("\\d\n")
    described = psql("\\d psql_shown\n")
    assert "integer" in described and '"psql_shown_pkey" PRIMARY KEY, btree (id)' in described
    assert "psql_shown" in psql("\\d+ psql_shown\n")


@pytest.mark.parametrize(
    "command", ["\\l", "\\dn", "\\du", "\\df", "\\di", "\\dv", "\\dT", "\\dx", "\\db", "\\ds", "\\dp", "\\sf pg_catalog.lower(text)", "\\conninfo", "\\encoding"]
)
def test_backslash_commands(psql, table, command):
    table("psql_shown")
    assert "ERROR" not in psql(command + "\n")


def test_list_of_databases(psql):
    assert "postgres" in psql("\\l\n")


def test_copy_from_and_to_files(psql, table, tmp_path):
    table("psql_copied")
    rows = tmp_path / "rows.csv"
    rows.write_text("".join(f"{i},{i % 10},text {i}\n" for i in range(1000)))
    out = tmp_path / "out.csv"
    said = psql(f"\\copy psql_copied from '{rows}' csv\n\\copy (select * from psql_copied order by id) to '{out}' csv\n")
    assert said.count("COPY 1000") == 2
    assert out.read_text() == rows.read_text()


def test_copy_from_stdin_in_a_script(psql, table):
    table("psql_copied")
    assert "COPY 2" in psql("copy psql_copied from stdin;\n1\t1\tone\n2\t2\ttwo\n\\.\n")
    assert psql("select t from psql_copied where id = 2;\n", "-At").strip() == "two"


def test_watch(psql, table):
    table("psql_watched", rows=3)
    assert psql("select count(*) from psql_watched \\watch i=0.1 c=3\n", "-At").count("3\n") >= 3


def test_variables_gdesc_gexec_gset_bind(psql, table):
    table("psql_vars", rows=5)
    assert "integer" in psql("select id, t from psql_vars where id = 1 \\gdesc\n")
    assert psql("select id from psql_vars where id = 3 \\gset\n\\echo :id\n").strip() == "3"
    assert "t4" in psql("select format('select t from psql_vars where id = %s', 4) \\gexec\n")
    assert "t5" in psql("select t from psql_vars where id = $1 \\bind 5 \\g\n")


def test_fetch_count_uses_a_cursor(psql, table):
    table("psql_fetched", rows=100)
    got = psql("\\set FETCH_COUNT 7\nselect id from psql_fetched order by id;\n", "-At")
    assert got.split() == [str(i) for i in range(1, 101)]


def test_single_transaction_file(psql, table, tmp_path):
    table("psql_file")
    script = tmp_path / "script.sql"
    script.write_text("insert into psql_file values (1, 1, 'a');\ninsert into psql_file values (2, 1, 'b');\nselect 1/0;\n")
    psql("", "-1", "-f", str(script), expect=3)
    assert psql("select count(*) from psql_file;\n", "-At").strip() == "0"


def test_error_shows_the_position(psql):
    said = psql("select nosuch from pg_class;\n", expect=3)
    assert "LINE 1: select nosuch from pg_class;" in said and "       ^" in said
