//! What a load takes over from a snapshot at hand is what it would have read: after each of many changes both say the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use catalog::*;

use crate::herd::Herd;
use crate::server::{Server, Session, now, on_each_server};

/// What is there to be changed. Of each sort of column one: texts come from the names of types, functions, relations, collations,
/// sequences, and from what is looked up elsewhere.
const OBJECTS: &str = "
    CREATE SCHEMA s; CREATE SCHEMA other;
    CREATE TYPE s.color AS ENUM ('red', 'green'); CREATE TYPE s.pair AS (a int, b text);
    CREATE DOMAIN s.few AS int DEFAULT 7 CHECK (value < 100); CREATE DOMAIN s.none AS text;
    CREATE SEQUENCE s.counter; CREATE SEQUENCE s.numbers;
    CREATE DOMAIN s.counted AS bigint DEFAULT nextval('s.counter');
    CREATE COLLATION s.mine (provider = libc, locale = 'C');
    CREATE FUNCTION s.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION s.of_pair(s.pair) RETURNS int LANGUAGE sql AS 'SELECT 1';
    CREATE OPERATOR s.<+> (FUNCTION = int4pl, LEFTARG = int, RIGHTARG = int);
    CREATE TABLE s.named (id int PRIMARY KEY);
    CREATE TABLE s.plain (id int, t text, v varchar(10) DEFAULT 'x', n numeric(10, 2) DEFAULT 12345.5, at timestamptz DEFAULT now());
    CREATE TABLE s.kinds (id bigserial PRIMARY KEY, c s.color DEFAULT 'red', p s.pair DEFAULT ROW(1, 'x'), few s.few, own s.few DEFAULT 3,
        none s.none, counted s.counted, colors s.color[], fs int DEFAULT s.f(), ops int DEFAULT 1 OPERATOR(s.<+>) 2, said text COLLATE s.mine,
        number bigint DEFAULT nextval('s.numbers'), doubled int GENERATED ALWAYS AS (2 * 3) STORED);
    CREATE TABLE s.names (id int GENERATED ALWAYS AS IDENTITY, one regclass DEFAULT 's.named', many regclass[] DEFAULT '{s.named}',
        type regtype DEFAULT 's.color', space regnamespace DEFAULT 'other', routine regprocedure DEFAULT 's.f()', sorted regcollation DEFAULT 's.mine',
        who aclitem DEFAULT 'owner=r/owner', called int DEFAULT s.of_pair(ROW(1, 'y')));
    CREATE VIEW s.seen AS SELECT id, c, p FROM s.kinds;
    CREATE MATERIALIZED VIEW s.held AS SELECT id FROM s.named;
    CREATE TABLE s.split (k int, at date) PARTITION BY RANGE (k); CREATE TABLE s.low PARTITION OF s.split FOR VALUES FROM (0) TO (10);
    CREATE FOREIGN DATA WRAPPER w; CREATE SERVER w FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE s.away (id int, t text) SERVER w;
    CREATE TABLE s.nothing ();
    CREATE TABLE public.events (tenant int, id bigserial, at date, PRIMARY KEY (tenant, id));";

/// Some undo what others do: they run in any order, and may fail.
const CHANGES: &str = "
    ALTER TABLE s.plain ADD COLUMN more int; ALTER TABLE s.plain DROP COLUMN more; ALTER TABLE s.plain ADD COLUMN more text DEFAULT 'm';
    ALTER TABLE s.plain RENAME COLUMN t TO u; ALTER TABLE s.plain RENAME COLUMN u TO t; ALTER TABLE s.plain ALTER t SET NOT NULL;
    ALTER TABLE s.plain ALTER t DROP NOT NULL; ALTER TABLE s.plain ALTER v TYPE varchar(20); ALTER TABLE s.plain ALTER v TYPE varchar(10);
    ALTER TABLE s.plain ALTER v SET DEFAULT 'y'; ALTER TABLE s.plain ALTER v SET DEFAULT 'x'; ALTER TABLE s.plain ALTER v DROP DEFAULT;
    ALTER TABLE s.plain ALTER t TYPE text COLLATE \"C\"; ALTER TABLE s.plain ALTER t TYPE text COLLATE \"default\";
    ALTER TABLE s.plain ALTER t TYPE text COLLATE s.mine; ALTER TABLE s.plain ALTER n TYPE numeric(12, 3);
    ALTER TABLE s.plain ADD UNIQUE (id); ALTER TABLE s.plain DROP CONSTRAINT plain_id_key; CREATE UNIQUE INDEX plain_t ON s.plain (t, id);
    DROP INDEX s.plain_t; ALTER TABLE s.plain RENAME TO plainer; ALTER TABLE s.plainer RENAME TO plain; ALTER TABLE s.plain SET SCHEMA other;
    ALTER TABLE other.plain SET SCHEMA s; ALTER TABLE s.plain ENABLE ROW LEVEL SECURITY; ALTER TABLE s.plain DISABLE ROW LEVEL SECURITY;
    DROP TABLE s.plain; CREATE TABLE s.plain (id int, t text, v varchar(10)); COMMENT ON COLUMN s.kinds.c IS 'c';
    ALTER TYPE s.color RENAME TO colour; ALTER TYPE s.colour RENAME TO color; ALTER TYPE s.color RENAME VALUE 'red' TO 'rot';
    ALTER TYPE s.color RENAME VALUE 'rot' TO 'red'; ALTER TYPE s.color ADD VALUE IF NOT EXISTS 'blue'; ALTER TYPE s.color SET SCHEMA other;
    ALTER TYPE other.color SET SCHEMA s; ALTER TYPE s.pair ADD ATTRIBUTE c int; ALTER TYPE s.pair DROP ATTRIBUTE c; ALTER TYPE s.pair RENAME ATTRIBUTE a TO aa;
    ALTER TYPE s.pair RENAME ATTRIBUTE aa TO a; ALTER TYPE s.pair RENAME TO pairs; ALTER TYPE s.pairs RENAME TO pair;
    ALTER DOMAIN s.few SET DEFAULT 8; ALTER DOMAIN s.few DROP DEFAULT; ALTER DOMAIN s.few SET DEFAULT 7; ALTER DOMAIN s.none SET DEFAULT 'n';
    ALTER DOMAIN s.none DROP DEFAULT; ALTER DOMAIN s.few RENAME TO fewer; ALTER DOMAIN s.fewer RENAME TO few;
    ALTER SEQUENCE s.counter RENAME TO count; ALTER SEQUENCE s.count RENAME TO counter; ALTER SEQUENCE s.numbers RENAME TO digits;
    ALTER SEQUENCE s.digits RENAME TO numbers; ALTER SEQUENCE s.kinds_id_seq RENAME TO kinds_ids; ALTER SEQUENCE s.kinds_ids RENAME TO kinds_id_seq;
    ALTER SEQUENCE s.names_id_seq RENAME TO names_ids; ALTER SEQUENCE s.names_ids RENAME TO names_id_seq; ALTER SEQUENCE s.numbers SET SCHEMA other;
    ALTER SEQUENCE other.numbers SET SCHEMA s;
    ALTER TABLE s.names ALTER id DROP IDENTITY IF EXISTS; ALTER TABLE s.names ALTER id SET NOT NULL; ALTER TABLE s.names ALTER id ADD GENERATED BY DEFAULT AS IDENTITY;
    ALTER TABLE s.names ALTER id SET GENERATED ALWAYS; ALTER TABLE s.kinds ALTER doubled DROP EXPRESSION;
    ALTER TABLE s.kinds ALTER number SET DEFAULT nextval('s.counter'); ALTER TABLE s.kinds ALTER number SET DEFAULT nextval('s.numbers');
    ALTER TABLE s.kinds ALTER c SET DEFAULT 'green'; ALTER TABLE s.kinds ALTER c SET DEFAULT 'red'; ALTER TABLE s.kinds ALTER few SET DEFAULT 1;
    ALTER TABLE s.kinds ALTER few DROP DEFAULT; ALTER TABLE s.kinds ALTER none TYPE text; ALTER TABLE s.kinds ALTER none TYPE s.none;
    ALTER COLLATION s.mine RENAME TO ours; ALTER COLLATION s.ours RENAME TO mine; ALTER COLLATION s.mine SET SCHEMA other; ALTER COLLATION other.mine SET SCHEMA s;
    ALTER FUNCTION s.f() RENAME TO g; ALTER FUNCTION s.g() RENAME TO f; ALTER FUNCTION s.f() SET SCHEMA other; ALTER FUNCTION other.f() SET SCHEMA s;
    ALTER FUNCTION s.of_pair(s.pair) RENAME TO of_two; ALTER FUNCTION s.of_two(s.pair) RENAME TO of_pair;
    ALTER OPERATOR s.<+> (int, int) SET SCHEMA other; ALTER OPERATOR other.<+> (int, int) SET SCHEMA s;
    ALTER SCHEMA s RENAME TO s2; ALTER SCHEMA s2 RENAME TO s; ALTER SCHEMA other RENAME TO others; ALTER SCHEMA others RENAME TO other;
    ALTER TABLE s.named RENAME TO renamed; ALTER TABLE s.renamed RENAME TO named; ALTER ROLE owner RENAME TO owner2; ALTER ROLE owner2 RENAME TO owner;
    CREATE OR REPLACE VIEW s.seen AS SELECT id, c, p, fs FROM s.kinds; ALTER VIEW s.seen RENAME COLUMN c TO colour; ALTER VIEW s.seen ALTER c SET DEFAULT 'green';
    DROP VIEW s.seen; CREATE VIEW s.seen AS SELECT id, c, p FROM s.kinds; GRANT SELECT (id) ON s.seen TO alice; REVOKE SELECT (id) ON s.seen FROM alice;
    REFRESH MATERIALIZED VIEW s.held; DROP MATERIALIZED VIEW s.held; CREATE MATERIALIZED VIEW s.held AS SELECT id, 1 AS one FROM s.named;
    ALTER TABLE s.split ADD COLUMN extra int DEFAULT 5; ALTER TABLE s.split DROP COLUMN extra; CREATE TABLE s.high PARTITION OF s.split FOR VALUES FROM (10) TO (20);
    ALTER TABLE s.split DETACH PARTITION s.high; ALTER TABLE s.split ATTACH PARTITION s.high FOR VALUES FROM (10) TO (20); DROP TABLE s.high;
    ALTER FOREIGN TABLE s.away ADD COLUMN x int; ALTER FOREIGN TABLE s.away DROP COLUMN x; ALTER TABLE s.nothing ADD COLUMN x int; ALTER TABLE s.nothing DROP COLUMN x;
    CREATE TABLE s.child (own int) INHERITS (s.named); ALTER TABLE s.named ADD COLUMN passed text DEFAULT 'p'; ALTER TABLE s.named DROP COLUMN passed CASCADE;
    DROP TABLE s.child; CREATE TABLE s.of_pair OF s.pair; DROP TABLE s.of_pair; CREATE TABLE s.copied AS SELECT id, few FROM s.kinds; DROP TABLE s.copied;
    ALTER TABLE public.events ADD COLUMN w int DEFAULT 4; ALTER TABLE public.events DROP COLUMN w; ALTER TABLE public.events RENAME COLUMN at TO day;
    ALTER TABLE public.events RENAME COLUMN day TO at; ALTER TABLE public.events RENAME COLUMN tenant TO renter; ALTER TABLE public.events RENAME COLUMN renter TO tenant;
    UPDATE herd.shard SET node = 3 - node WHERE number = 1; UPDATE herd.shard SET node = 3 - node; DELETE FROM herd.shard WHERE number = 3;
    UPDATE herd.shard SET bound = 'FOR VALUES WITH (MODULUS 8, REMAINDER 0)' WHERE number = 0; UPDATE herd.colocation SET moves = moves + 1;
    INSERT INTO herd.shard (colocation, number, node, bound) VALUES (1, 7, 1, 'FOR VALUES WITH (MODULUS 8, REMAINDER 4)'); UPDATE herd.colocation SET private = NOT private;
    INSERT INTO herd.colocation (id, strategy, key_types, shard_count) VALUES (9, 'range', '{23}', 1); UPDATE herd.shard SET number = number + 10 WHERE colocation = 9;
    INSERT INTO herd.shard (colocation, number, node, bound) VALUES (9, 0, 1, 'FROM (MINVALUE) TO (5)'), (9, 1, 2, 'FROM (5) TO (MAXVALUE)');
    UPDATE herd.shard SET bound = 'FROM (MINVALUE) TO (4)' WHERE colocation = 9; DELETE FROM herd.colocation WHERE id = 9; TRUNCATE herd.shard;
    UPDATE pg_attribute SET attname = 'u' WHERE attrelid = 's.plain'::regclass AND attname = 't';
    VACUUM FULL pg_attribute; VACUUM FULL pg_attrdef; ANALYZE s.plain; INSERT INTO s.plain DEFAULT VALUES";

/// All that loads say of relations, types and shards, in one order.
fn said(snapshot: &Snapshot) -> Vec<String> {
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let mut all = sorted(snapshot.relations.values().map(|r| format!("{r:?}")).collect());
    all.extend(sorted(snapshot.types.iter().map(|t| format!("{t:?}")).collect()));
    all.extend(sorted(snapshot.locked.iter().map(|oid| format!("locked {oid}")).collect()));
    all.extend(sorted(snapshot.replaced.iter().map(|oid| format!("replaced {oid}")).collect()));
    all.extend(sorted(snapshot.groups.values().map(|g| format!("{g:?}")).collect()));
    all.extend(sorted(snapshot.group_versions.iter().map(|v| format!("{v:?}")).collect()));
    all.extend(sorted(
        snapshot.bound_texts.iter().map(|(g, t)| format!("{g} {:?}", t.iter().collect::<BTreeMap<_, _>>())).collect(),
    ));
    all.push(format!("{} {}", snapshot.own_collations, snapshot.collation_is_bytes));
    all
}

fn same(taken: &Snapshot, whole: &Snapshot, behind: &str) {
    let (taken, whole) = (said(taken), said(whole));
    let differ = taken.iter().zip(&whole).find(|(taken, whole)| taken != whole);
    assert!(differ.is_none() && taken.len() == whole.len(), "behind {behind}: {differ:#?}");
}

/// How many relations have the very columns they had.
fn taken_over(before: &Snapshot, now: &Snapshot) -> usize {
    let old: Vec<_> = before.relations.values().filter(|r| !r.columns.is_empty()).collect();
    let is_old = |r: &&Arc<Relation>| old.iter().any(|o| o.oid == r.oid && Arc::ptr_eq(&o.columns, &r.columns));
    now.relations.values().filter(is_old).count()
}

fn place(server: &Server) -> Herd {
    let mut herd = Herd::new(server, 2);
    // All databases of a server have the same roles.
    let role = role(herd.home());
    herd.home().sql(&format!("CREATE ROLE {role}; {}", OBJECTS.replace("owner", &role)));
    herd.by_hash("events", &["tenant"]).unwrap();
    herd.home().sql("SET allow_system_table_mods = on");
    herd
}

fn role(home: &mut Session) -> String {
    format!("owner_in_{}", home.one("SELECT current_database()"))
}

fn changes(home: &mut Session) -> Vec<String> {
    let role = role(home);
    CHANGES.split(';').map(|change| change.trim().replace("owner", &role)).collect()
}

/// All that a load need not take over.
fn without_parts(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        columns: KeptColumns::default(),
        group_versions: HashMap::new(),
        asked: Arc::default(),
        ..snapshot.clone()
    }
}

/// Numbers that are the same each time (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

#[test]
fn after_each_change_it_says_what_a_whole_load_says() {
    on_each_server(|server| {
        let mut herd = place(server);
        let mut before = herd.snapshot();
        let home = herd.home();
        let mut chance = Chance(20_240_731);
        let changes = changes(home);
        let in_order = 0..changes.len();
        let at_random: Vec<usize> = (0..30).map(|_| chance.below(changes.len())).collect();
        let (mut done, mut all, mut kept) = (0, 0, 0);
        for change in in_order.chain(at_random).map(|at| &*changes[at]) {
            if home.try_sql(change).is_err() {
                continue;
            }
            done += 1;
            let next = now(load_with(home, Some(&before))).unwrap();
            same(&next, &now(load_with(home, Some(&without_parts(&before)))).unwrap(), change);
            all += next.relations.values().filter(|r| !r.columns.is_empty()).count();
            kept += taken_over(&before, &next);
            before = next;
        }
        assert!(done > changes.len() * 3 / 4, "{done} changes of {}", changes.len());
        assert!(kept * 10 > all * 7, "of {all} relations {kept} were taken over");
    });
}

#[test]
fn what_is_rolled_back_was_never_there() {
    on_each_server(|server| {
        let mut herd = place(server);
        let outside = herd.snapshot();
        let home = herd.home();
        let mut chance = Chance(7);
        let changes: Vec<String> = changes(home).into_iter().filter(|c| !c.starts_with("VACUUM")).collect();
        let look = |home: &mut Session, before: &Snapshot, behind: &str| {
            let next = now(load_in_transaction(home, Some(before))).unwrap();
            same(&next, &now(load_in_transaction(home, Some(&without_parts(before)))).unwrap(), behind);
            next
        };
        let mut last = outside.clone();
        for _ in 0..12 {
            home.sql("BEGIN; SAVEPOINT a");
            for _ in 0..6 {
                let change = &changes[chance.below(changes.len())];
                home.sql("SAVEPOINT b");
                if home.try_sql(change).is_err() {
                    home.sql("ROLLBACK TO SAVEPOINT b");
                    continue;
                }
                last = look(home, &last, change);
                if chance.below(3) == 0 {
                    home.sql("ROLLBACK TO SAVEPOINT b");
                    last = look(home, &last, &format!("{change}, and its ROLLBACK"));
                }
            }
            home.sql("ROLLBACK TO SAVEPOINT a");
            last = look(home, &last, "ROLLBACK TO SAVEPOINT");
            home.sql("ROLLBACK");
            let next = now(load_with(home, Some(&last))).unwrap();
            same(&next, &outside, "ROLLBACK");
            last = next;
        }
    });
}

#[test]
fn another_servers_catalog_is_read_where_it_differs() {
    on_each_server(|server| {
        let (mut one, mut other) = (place(server), place(server));
        other.home().sql("ALTER TABLE s.plain ADD COLUMN more int");
        let before = one.snapshot();
        let next = now(load_with(other.home(), Some(&before))).unwrap();
        same(&next, &other.snapshot(), "a change of servers");
    });
}

#[test]
fn one_change_reads_one_table() {
    on_each_server(|server| {
        let mut herd = place(server);
        let before = herd.snapshot();
        let home = herd.home();
        home.sql("ALTER TABLE s.plain ADD COLUMN more int");
        let next = now(load_with(home, Some(&before))).unwrap();
        let columns = |s: &Snapshot| s.relations.values().filter(|r| !r.columns.is_empty()).count();
        assert_eq!((columns(&next), taken_over(&before, &next)), (columns(&before), columns(&before) - 1));
    });
}
