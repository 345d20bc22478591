"""What values are compared by comes to a new node as it is on home: ranges, collations, operators, their classes, and what text search has. Constraints that old rows
never met come as such."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("add-node-compared"), pytest.mark.timeout(600)]

_RANGES = """
select rngtypid::regtype::text, rngsubtype::regtype::text, rngmultitypid::regtype::text, rngsubdiff::regproc::text, rngcollation::regcollation::text, rngcanonical::regproc::text,
       (select n.nspname || '.' || l.opcname from pg_opclass l join pg_namespace n on n.oid = l.opcnamespace where l.oid = rngsubopc)
  from pg_range where rngtypid >= 16384 order by 1
"""
_ATTRIBUTES = """
select a.attrelid::regclass::text, a.attname, a.attcollation::regcollation::text from pg_attribute a join pg_class c on c.oid = a.attrelid where c.relkind = 'c' and c.oid >= 16384 order by 1, 2
"""
_COLLATIONS = "select to_jsonb(c) - 'oid' - 'collnamespace' - 'collversion' - 'collowner', collowner::regrole::text from pg_collation c where collnamespace = 'cmp'::regnamespace order by collname"
_OPERATORS = """
select o.oid::regoperator::text, o.oprcode::regprocedure::text, o.oprcom::regoperator::text, o.oprnegate::regoperator::text, o.oprrest::text, o.oprjoin::text, o.oprcanhash, o.oprcanmerge, o.oprowner::regrole::text
  from pg_operator o where o.oid >= 16384 order by 1
"""
_CLASSES = """
select n.nspname, c.opcname, a.amname, f.opfname, c.opcdefault, c.opcintype::regtype::text, nullif(c.opckeytype, 0)::regtype::text, c.opcowner::regrole::text
  from pg_opclass c join pg_namespace n on n.oid = c.opcnamespace join pg_am a on a.oid = c.opcmethod join pg_opfamily f on f.oid = c.opcfamily where c.oid >= 16384 order by 2, 3
"""
_MEMBERS = """
select f.opfname, m.amopstrategy::int, m.amopopr::regoperator::text, pg_describe_object(d.refclassid, d.refobjid, 0), d.deptype::text from pg_amop m join pg_opfamily f on f.oid = m.amopfamily
  join pg_depend d on d.classid = 'pg_amop'::regclass and d.objid = m.oid and d.refclassid in ('pg_opclass'::regclass, 'pg_opfamily'::regclass) where m.oid >= 16384
union all
select f.opfname, m.amprocnum, m.amproc::regprocedure::text, pg_describe_object(d.refclassid, d.refobjid, 0), d.deptype::text from pg_amproc m join pg_opfamily f on f.oid = m.amprocfamily
  join pg_depend d on d.classid = 'pg_amproc'::regclass and d.objid = m.oid and d.refclassid in ('pg_opclass'::regclass, 'pg_opfamily'::regclass) where m.oid >= 16384 order by 1, 2, 3
"""
_SEARCHED = """
select c.cfgname, m.maptokentype, m.mapseqno, d.dictname, d.dictinitoption, t.tmplname from pg_ts_config c join pg_ts_config_map m on m.mapcfg = c.oid join pg_ts_dict d on d.oid = m.mapdict join pg_ts_template t on t.oid = d.dicttemplate
 where c.oid >= 16384 order by 1, 2, 3
"""


@pytest.fixture(scope="module")
def compared(pair):
    with pair.a.connect() as a:
        has_icu = a.execute("select exists (select from pg_collation where collname = 'en-x-icu')").fetchone()[0]
    loose = "provider = icu, locale = 'und-u-ks-level2', deterministic = false" if has_icu else "lc_collate = 'C', lc_ctype = 'POSIX'"
    pair.a.run(
        *(f"create extension {name}" for name in ("citext", "hstore", "ltree", "btree_gist", "intarray")),
        "create role cmp_owner superuser", "create schema cmp authorization cmp_owner", "set role cmp_owner", f"create collation cmp.loose ({loose})", "create collation cmp.bytes (provider = libc, locale = 'C')",
        'create type cmp.tr as range (subtype = text, collation = "C")',
        "create function cmp.apart(float8, float8) returns float8 language sql immutable as 'select $1 - $2'",
        "create type cmp.fr as range (subtype = float8, subtype_diff = cmp.apart, multirange_type_name = cmp.fr_many)",
        'create type cmp.pair as (a text collate "C", b text, c text collate cmp.loose)',
        "create domain cmp.name as text collate cmp.bytes",
        # What another one names as its negator is older than its function.
        "create type cmp.p as (n int)",
        "create function cmp.eq(cmp.p, cmp.p) returns bool language sql immutable as 'select $1.n = $2.n'",
        "create operator cmp.=== (function = cmp.eq, leftarg = cmp.p, rightarg = cmp.p, commutator = operator(cmp.===), negator = operator(cmp.!==), restrict = eqsel, join = eqjoinsel, hashes, merges)",
        "create function cmp.ne(cmp.p, cmp.p) returns bool language sql immutable as 'select $1.n <> $2.n'",
        "create operator cmp.!== (function = cmp.ne, leftarg = cmp.p, rightarg = cmp.p, commutator = operator(cmp.!==), negator = operator(cmp.===))",
        "create function cmp.minus(int) returns int language sql immutable as 'select -$1'", "create operator cmp.#- (function = cmp.minus, rightarg = int)",
        "create function cmp.backwards(text, text) returns int language sql immutable as 'select bttextcmp($2, $1)'",
        "create function cmp.is(int4, text) returns bool language sql immutable as 'select $1::text = $2'", "create operator cmp.=~ (function = cmp.is, leftarg = int4, rightarg = text)",
        "create function cmp.versus(int4, text) returns int language sql immutable as 'select bttextcmp($1::text, $2)'",
        "create operator family cmp.odd using btree", "create operator class cmp.desc_ops for type text using btree family cmp.odd as operator 1 >, operator 2 >=, operator 3 =, operator 4 <=, operator 5 <, function 1 cmp.backwards(text, text)",
        "create function cmp.int_hash(cmp.p) returns int language sql immutable as 'select hashint4($1.n)'",
        "create operator class cmp.p_ops default for type cmp.p using hash as operator 1 cmp.===, function 1 cmp.int_hash(cmp.p)",
        "alter operator family cmp.odd using btree add operator 3 = (int4, int8), function 1 (int4, int8) btint48cmp(int4, int8)",
        "alter operator family pg_catalog.integer_ops using btree add operator 3 cmp.=~ (int4, text), function 1 (int4, text) cmp.versus(int4, text)",
        "create type cmp.down as range (subtype = text, subtype_opclass = cmp.desc_ops)",
        "create text search dictionary cmp.simply (template = simple, accept = false, stopwords = 'english')",
        "create text search configuration cmp.plain (copy = english)", "alter text search configuration cmp.plain alter mapping for asciiword with cmp.simply, english_stem",
        "create function cmp.words(text) returns tsvector language sql immutable as $$ select to_tsvector('cmp.plain', $1) $$", "reset role",
        "create table cmp.late (id int primary key, v int)", "insert into cmp.late values (1, -1)", "alter table cmp.late add constraint late_v check (v > 0) not valid",
        "alter table cmp.late add constraint late_to foreign key (v) references cmp.late not valid", "select create_reference_table('cmp.late')",
        "create function cmp.same(cmp.late, cmp.late) returns bool language sql immutable as 'select ($1).v = ($2).v'",
        "create operator cmp.~~~ (function = cmp.same, leftarg = cmp.late, rightarg = cmp.late)",
        "create table cmp.spread (id int primary key, v int, r cmp.tr, p cmp.p)", "insert into cmp.spread values (1, -1)", "alter table cmp.spread add constraint spread_v check (v > 0) not valid",
        "create index on cmp.spread (r)", "create index on cmp.spread using hash (p)", "select create_distributed_table('cmp.spread', 'id')",
    )  # fmt: skip
    return pair


def test_all_of_it_comes_along(compared):
    new = compared.new_node()
    with compared.a.connect() as a:
        a.execute(f"select citus_add_node('127.0.0.1', {new.port})")
        with compared.nodes[0].server.connect() as home, new.server.connect() as direct:
            for question in (_RANGES, _ATTRIBUTES, _COLLATIONS, _OPERATORS, _CLASSES, _MEMBERS, _SEARCHED):
                wanted = home.execute(question).fetchall()
                assert wanted and direct.execute(question).fetchall() == wanted, question
            for asked in ("select cmp.words('the running foxes')", "select 'Z'::text <@ cmp.tr('a', 'z'), 'b'::text <@ cmp.down('c', 'a')", "select operator(cmp.#-) 3", "select 'A' = 'a' collate cmp.loose"):
                assert direct.execute(asked).fetchall() == home.execute(asked).fetchall(), asked
            late = "select conrelid::regclass::text, conname, convalidated from pg_constraint where conname in ('late_v', 'late_to', 'spread_v') and conrelid in ('cmp.late'::regclass, 'cmp.spread'::regclass) order by 2"
            assert direct.execute(late).fetchall() == [("cmp.late", "late_to", False), ("cmp.late", "late_v", False), ("cmp.spread", "spread_v", False)]
        assert a.execute("select * from herd.verify").fetchall() == []
        with pytest.raises(psycopg.errors.CheckViolation):
            a.execute("insert into cmp.late values (2, -1)")


def test_what_is_written_in_c_is_asked_for(compared):
    other = compared.new_node()
    with compared.a.connect() as a:
        a.execute("create conversion cmp.odd for 'LATIN1' to 'UTF8' from iso8859_1_to_utf8")
        with compared.nodes[1].server.connect() as direct:
            direct.execute("select 1")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="conversion cmp.odd is not on the new node") as refused:
            a.execute(f"select citus_add_node('127.0.0.1', {other.port})")
        assert "Create it there" in refused.value.diag.message_hint
        with other.server.connect(autocommit=True) as direct:
            direct.execute("create schema cmp")
            direct.execute("create conversion cmp.odd for 'LATIN1' to 'UTF8' from iso8859_1_to_utf8")
        a.execute(f"select citus_add_node('127.0.0.1', {other.port})")
