"""Memberships come to a new node with their options: a member has no more of a role there than on home."""

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]

_OPTIONS = """
select admin_option, inherit_option, set_option from pg_auth_members
 where roleid = 'dave'::regrole and member = 'bob'::regrole
"""


def test_options_of_memberships(pair):
    with pair.a.connect() as a:
        if int(a.execute("show server_version_num").fetchone()[0]) < 160000:
            pytest.skip("memberships have no options before PostgreSQL 16")
    pair.a.run("create role dave login", "create role bob login", "grant dave to bob with inherit false, set false")
    new = pair.new_node()
    with pair.a.connect() as a:
        node = a.execute(f"select citus_add_node('127.0.0.1', {new.port})").fetchone()[0]
        with new.server.connect(autocommit=True) as direct:
            assert direct.execute(_OPTIONS).fetchall() == [(False, False, False)]
            found = "select node, problem from herd.verify where object = 'memberships of role bob'"
            assert a.execute(found).fetchall() == []
            direct.execute("grant dave to bob with inherit true")
            a.commit()
            assert a.execute(found).fetchall() == [(node, "they are not those on home")]
            direct.execute("grant dave to bob with inherit false")
