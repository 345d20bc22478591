"""`herd.isolate_tenant` reads shards: what the owner of a table, or of one that is colocated with it, has written does not run as the superuser who calls it."""

import contextlib

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@pytest.mark.parametrize("of", ["hers.kept", "public.bosses"])
def test_index_expressions(place, of):
    place.server.run(
        "create table public.bosses (id int primary key)", "select create_distributed_table('public.bosses', 'id')",
        "insert into public.bosses select generate_series(1, 100)",
    )
    try:
        with place.as_role("mallory", autocommit=True) as one:
            one.execute("create table hers.kept (id int primary key)")
            one.execute(
                "create function hers.looks() returns int language plpgsql volatile as $$ begin "
                "if current_setting('is_superuser') = 'on' then raise exception 'it runs as %', current_user; end if; return 1; end $$"
            )
            one.execute("create function hers.fixed(int) returns int language plpgsql immutable as $$ begin perform hers.looks(); return $1; end $$")
        place.server.run("select create_distributed_table('hers.kept', 'id')")
        with place.as_role("mallory", autocommit=True) as one:
            one.execute("insert into hers.kept select generate_series(1, 100)")
            one.execute("create index on hers.kept ((hers.fixed(1) + id))")
        with place.server.connect() as boss:
            said = ""
            try:
                boss.execute(f"select herd.isolate_tenant('{of}', '5')")
            except psycopg.Error as error:
                said = str(error)
            assert "it runs as postgres" not in said
    finally:
        with contextlib.suppress(psycopg.Error):
            place.server.run("drop table if exists hers.kept, public.bosses", "drop function if exists hers.fixed(int), hers.looks()")
