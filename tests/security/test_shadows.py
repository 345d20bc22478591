"""What the router asks on a client's connection means what it means in PostgreSQL, whatever the client put in front of it."""

import psycopg
import pytest

from harness import ports

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@pytest.fixture
def shadowed(place):
    """`mallory`, for whom = of names is an operator of her own: herd is hers, and postgres and victim are her, too."""
    with place.as_role("mallory") as mallory:
        mallory.execute(
            """create function hers.same(name, name) returns boolean language sql immutable as $$ select case
               when pg_catalog.texteq($2::pg_catalog.text, 'herd') then pg_catalog.texteq($1::pg_catalog.text, 'hers')
               when pg_catalog.texteq($2::pg_catalog.text, 'postgres') or pg_catalog.texteq($2::pg_catalog.text, 'victim')
               then pg_catalog.texteq($1::pg_catalog.text, 'mallory') else pg_catalog.nameeq($1, $2) end $$"""
        )
        mallory.execute("create operator hers.= (leftarg = name, rightarg = name, function = hers.same)")
        mallory.execute("set search_path = hers, pg_catalog, public")
        assert mallory.execute("select 'mallory'::name = 'postgres'::name").fetchone() == (True,)
        yield mallory
    place.server.run("drop function hers.same cascade")


def test_the_catalog_is_not_hers(place, shadowed):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        shadowed.execute("select citus_add_node('127.0.0.1', %s)" % ports.free_row(1))


@pytest.mark.parametrize("whose", ["postgres", "victim"])
@pytest.mark.parametrize("function", ["pg_catalog.pg_cancel_backend", "pg_catalog.pg_terminate_backend"])
def test_sessions_of_others(place, shadowed, whose, function):
    with place.as_role(whose) as other:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            shadowed.execute(f"select {function}({other.info.backend_pid})")
        assert other.execute("select 1").fetchone() == (1,)
