"""Collations that come with a type: a domain's, and those of a composite type's fields. No table's column need have one."""

import os
import shutil
import subprocess
import tempfile

import pytest

from harness.herd import Herd
from harness.plain_postgres import PlainPostgres

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(300)]

MADE = [
    "create collation en (provider = libc, locale = 'en_US.UTF-8')", "create domain den as text collate en", "create domain dden as den",
    "create type cen as (x int, y text collate en)", "create table d (id int primary key, g int, s text, c cen, r cen[])",
    "create table o (id int primary key, s text)", "create table k (id int primary key, s text)", "create view v as select id, s::den as e from d",
    "create function rows_of(int) returns table (q den) language sql immutable as $$ select 'b'::den union all select 'A' union all select 'a' $$",
]
ROWS = [
    "insert into d select i, i % 4, t, row(i, t)::cen, array[row(i, t)::cen] from (select i, case when i % 2 = 0 then upper(chr(97 + i % 13)) else chr(97 + i % 11) end || i % 3 as t"
    " from generate_series(1, 40) i) z",
    "insert into o select i, 'z' from generate_series(1, 6) i",
]
STATEMENTS = [
    "select s from d order by s::den desc, id limit 5",
    "select s from d order by s::dden, id limit 5",
    "select id from d order by (c).y, id limit 12",
    "select id from d order by (r[1]).y desc, id limit 3",
    "select s from d order by s, id limit 5",
    "select max(s::den), min(s::den), max((c).y) from d",
    "select max(s::den) > 'Z', greatest(max(s::den), 'Z') from d",
    "select id from d where s::den = (select max(s::den) from d)",
    "select pg_collation_for(max(s::den)) from d",
    "with w as materialized (select s::den x from d) select max(x) from w",
    "select x from (select s::den x from d order by id limit 30) z order by x",
    "select s::den, count(*) from d group by 1 order by 1",
    "select s::den from d union select s from o order by 1",
    "select e from v order by e, id limit 7",
    "select s::den from d order by 1 desc fetch first 3 rows with ties",
    "select array_agg(distinct s::den) from d",
    "select d.id, q from d, rows_of(d.id) where d.id < 4 order by q, d.id",
    "select s from d order by (array[s::den])[1], id limit 4",
    "select row(id, s) from d order by id limit 3",
    "with w as (select s from d order by s::den desc limit 3) select * from w order by 1",
    "update o set s = (select max(s::den) from d)",
    "insert into k select id, s from d order by s::den limit 2",
    "select * from k order by id",
    "select distinct s from o",
]


@pytest.fixture(scope="module")
def both():
    """A herd and a plain server on a machine that has en_US.UTF-8, where there is none otherwise."""
    with tempfile.TemporaryDirectory(prefix="pgherd-test-locales-") as place:
        # Servers run as somebody else.
        os.chmod(place, 0o755)
        make = ["localedef", "-i", "en_US", "-f", "UTF-8", f"{place}/en_US.UTF-8"]
        if not shutil.which("localedef") or subprocess.run(make, capture_output=True).returncode:
            pytest.skip("en_US can't be made here: localedef has no sources of it")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOCPATH", place)
            herd, plain = Herd(nodes=3, shards=8), PlainPostgres("collations")
            try:
                yield herd.server, plain.server
            finally:
                herd.stop()
                plain.stop()


def test_as_on_one_server(both):
    herd, plain = both
    for server in both:
        server.run(*MADE)
    herd.run(*(f"select create_distributed_table('{table}', 'id')" for table in "dok"))
    for server in both:
        server.run(*ROWS)
    different = []
    with herd.connect() as there, plain.connect() as here:
        for sql in STATEMENTS:
            answers = []
            for connection in (there, here):
                cursor = connection.execute(sql)
                answers.append((cursor.statusmessage, cursor.fetchall() if cursor.description else None))
            if answers[0] != answers[1]:
                different.append((sql, *answers))
        assert here.execute("select 'a' < 'B' collate en").fetchone() == (True,)
    assert not different, "\n".join(map(str, different))
