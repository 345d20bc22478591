//! The partition hash against a real PostgreSQL: every hashable type, full 31 bits of the hash, composite keys, NULLs, split shards.

mod random;
mod server;

use key::{Bound, Located, PartitionStrategy, combine, hash, hashable, locate, parse_text};
use random::Random;
use server::{Server, copy_field, unhex};

const MODULUS: u32 = 32;
/// The largest modulus PostgreSQL takes: that many bits of the hash are compared.
const WIDE_MODULUS: u64 = i32::MAX as u64;
const VALUES_PER_TYPE: usize = 300;

/// A type as the server describes it.
struct Type {
    oid: u32,
    name: String,
    send: String,
    kind: Kind,
}

enum Kind {
    Scalar,
    Array(Box<Type>),
    Range(String),
    Multirange(String),
}

/// Every hashable type the server has, described by its own catalog.
fn types(server: &Server) -> Vec<Type> {
    let rows = server.query(
        "SELECT t.oid, t.typname, t.typsend::oid::regproc, t.typtype, coalesce(e.oid, 0), coalesce(s.typname, ''), t.typlen
         FROM pg_type t
         LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typsubscript = 'array_subscript_handler'::regproc AND t.typlen = -1 AND e.typarray = t.oid
         LEFT JOIN pg_range r ON t.oid IN (r.rngtypid, r.rngmultitypid)
         LEFT JOIN pg_type s ON s.oid = r.rngsubtype
         WHERE t.oid < 10000 ORDER BY 1",
    );
    let find = |oid: &str| rows.iter().find(|row| row[0] == oid).expect("an element type");
    fn describe<'a>(row: &'a [String], find: &impl Fn(&str) -> &'a Vec<String>) -> Type {
        let kind = match (row[3].as_str(), row[4].as_str()) {
            ("r", _) => Kind::Range(row[5].clone()),
            ("m", _) => Kind::Multirange(row[5].clone()),
            (_, "0") => Kind::Scalar,
            (_, element) => Kind::Array(Box::new(describe(find(element), find))),
        };
        Type { oid: row[0].parse().expect("an oid"), name: row[1].clone(), send: row[2].clone(), kind }
    }
    rows.iter().filter(|row| hashable(row[0].parse().expect("an oid"))).map(|row| describe(row, &find)).collect()
}

fn literal(random: &mut Random, described: &Type) -> String {
    match &described.kind {
        Kind::Scalar => random.scalar(&described.name),
        Kind::Array(element) => random.array(|random| literal(random, element)),
        Kind::Range(subtype) => random.range(subtype),
        Kind::Multirange(subtype) => random.multirange(subtype),
    }
}

fn hash_bounds(modulus: u32) -> Vec<Bound> {
    (0..modulus).map(|remainder| Bound::Hash { modulus, remainder }).collect()
}

/// `CREATE TABLE … PARTITION OF` for each bound, named by its index.
fn create_partitions(table: &str, bounds: &[Bound]) -> String {
    let create = |(index, bound): (usize, &Bound)| match bound {
        Bound::Hash { modulus, remainder } => {
            format!(
                "CREATE TABLE {table}_{index} PARTITION OF {table} FOR VALUES WITH (MODULUS {modulus}, REMAINDER {remainder});\n"
            )
        }
        _ => unreachable!("hash bounds only"),
    };
    bounds.iter().enumerate().map(create).collect()
}

#[test]
fn every_hashable_type_agrees_with_the_server() {
    let Some(server) = server::shared() else {
        return;
    };
    let mut random = Random::new("hash");
    let bounds = hash_bounds(MODULUS);
    let types = types(&server);
    assert!(types.len() > 80, "only {} types", types.len());
    for described in &types {
        check_type(&server, &mut random, &bounds, described);
    }
}

fn check_type(server: &Server, random: &mut Random, bounds: &[Bound], described: &Type) {
    let Type { oid, name, send, .. } = described;
    let table = format!("t_{oid}");
    let literals: Vec<String> = (0..VALUES_PER_TYPE).map(|_| literal(random, described)).collect();
    let mut script = format!("CREATE TABLE {table} (id int, k pg_catalog.\"{name}\") PARTITION BY HASH (k);\n");
    script.push_str(&create_partitions(&table, bounds));
    script.push_str(&format!("COPY {table} FROM STDIN;\n-1\t\\N\n"));
    for (id, literal) in literals.iter().enumerate() {
        script.push_str(&format!("{id}\t{}\n", copy_field(literal)));
    }
    script.push_str(&format!(
        "\\.\nSET TimeZone = 'UTC';
         SELECT id, split_part(tableoid::regclass::text, '_', 3), encode({send}(k), 'hex'), encode(convert_to(format('%s', k), 'UTF8'), 'hex')
         FROM {table} ORDER BY id;"
    ));
    let rows = server.query(&script);
    assert_eq!(rows.len(), literals.len() + 1);

    let types = [*oid];
    let shard = |value| {
        locate(PartitionStrategy::Hash, &types, bounds, &[value]).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert_eq!(shard(None), Located::Shard(rows[0][1].parse().expect("a shard")), "{name}: NULL");
    let mut answered = 0;
    let mut values = Vec::new();
    for (row, literal) in rows[1..].iter().zip(&literals) {
        let value = unhex(&row[2]);
        let expected = Located::Shard(row[1].parse().expect("a shard"));
        assert_eq!(shard(Some(value.clone())), expected, "{name}: {literal}");
        let canonical = String::from_utf8(unhex(&row[3])).expect("UTF-8");
        for text in [literal, &canonical] {
            match parse_text(*oid, text) {
                Ok(parsed) => {
                    assert_eq!(parsed, value, "{name}: parse_text({text:?})");
                    answered += 1;
                }
                Err(error) => assert_eq!(error, key::KeyError::NeedsServer, "{name}: parse_text({text:?})"),
            }
        }
        let remainder = combine(&[Some(hash(*oid, &value).expect("a hash"))]) % WIDE_MODULUS;
        values.push(format!("({}, {remainder})", row[0]));
    }
    let wrong = server.query(&format!(
        "SELECT t.id FROM {table} t JOIN (VALUES {}) h (id, remainder) USING (id)
         WHERE NOT satisfies_hash_partition('{table}'::regclass, {WIDE_MODULUS}, h.remainder::int, k);
         DROP TABLE {table};",
        values.join(", ")
    ));
    assert!(
        wrong.is_empty(),
        "{name}: wrong hash of {:?}",
        wrong.iter().map(|row| &literals[row[0].parse::<usize>().unwrap_or(0)]).collect::<Vec<_>>()
    );
    // Texts with an obvious meaning must not be pushed to the server.
    let must_answer = matches!(described.kind, Kind::Scalar)
        && !["tid", "oidvector", "int2vector", "interval"].contains(&name.as_str());
    assert!(!must_answer || answered > VALUES_PER_TYPE, "{name}: parse_text answered only {answered} texts");
}

/// Nothing the server could hash is forgotten, but for what is left out on purpose.
#[test]
fn hashable_is_what_the_server_can_hash() {
    let Some(server) = server::shared() else {
        return;
    };
    let rows = server.query(
        "CREATE TABLE hashable (oid oid, name text);
         DO $$ DECLARE t record; BEGIN
           FOR t IN SELECT oid, typname FROM pg_type WHERE oid < 10000 AND typtype IN ('b', 'r', 'm') LOOP
             BEGIN
               EXECUTE format('CREATE TABLE probe (k pg_catalog.%I) PARTITION BY HASH (k); DROP TABLE probe', t.typname);
               INSERT INTO hashable VALUES (t.oid, t.typname);
             EXCEPTION WHEN undefined_object OR invalid_table_definition THEN NULL;
             END;
           END LOOP;
         END $$;
         -- An array can be declared as a key whatever its elements, but only be hashed where they can.
         SELECT h.oid, name FROM hashable h JOIN pg_type t ON t.oid = h.oid
         WHERE typcategory <> 'A' OR typelem IN (SELECT oid FROM hashable) ORDER BY 1;",
    );
    let mut left_out = Vec::new();
    for row in &rows {
        let (oid, name) = (row[0].parse::<u32>().expect("an oid"), row[1].as_str());
        // Their values are oids of objects, which differ between servers; or they belong to the system catalogs alone.
        let internal = ["int2vector", "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list"];
        let by_intent =
            name.contains("reg") || name.contains("aclitem") || internal.contains(&name.trim_start_matches('_'));
        if !hashable(oid) && !by_intent {
            left_out.push((oid, name));
        }
        assert!(!(hashable(oid) && by_intent), "{name}");
    }
    let unknown = (1..10_000).filter(|oid| hashable(*oid) && !rows.iter().any(|row| row[0] == oid.to_string()));
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<u32>::new(), "hashable here, not in the server");
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// `(int4, text)` with NULLs, over 8 shards of which one was split in two by doubling its modulus.
#[test]
fn composite_keys_and_split_shards() {
    let Some(server) = server::shared() else {
        return;
    };
    let mut random = Random::new("composite");
    let mut bounds = hash_bounds(8);
    bounds[5] = Bound::Hash { modulus: 16, remainder: 13 };
    bounds.push(Bound::Hash { modulus: 16, remainder: 5 });
    bounds.swap(0, 3);
    let types = [23, 25];
    let mut script = "CREATE TABLE c (a int4, b text) PARTITION BY HASH (a, b);\n".to_owned();
    script.push_str(&create_partitions("c", &bounds));
    script.push_str("COPY c FROM STDIN;\n");
    for _ in 0..2000 {
        let a = if random.chance(20) { "\\N".to_owned() } else { random.int(32).to_string() };
        let b = if random.chance(20) { "\\N".to_owned() } else { copy_field(&random.string(10)) };
        script.push_str(&format!("{a}\t{b}\n"));
    }
    script.push_str(
        "\\.\nSELECT split_part(tableoid::regclass::text, '_', 2), coalesce(encode(int4send(a), 'hex'), 'NULL'),
         coalesce(encode(textsend(b), 'hex'), 'NULL') FROM c;",
    );
    let rows = server.query(&script);
    assert_eq!(rows.len(), 2000);
    for row in &rows {
        let values: Vec<Option<Vec<u8>>> = row[1..].iter().map(|hex| (hex != "NULL").then(|| unhex(hex))).collect();
        let expected = Located::Shard(row[0].parse().expect("a shard"));
        assert_eq!(locate(PartitionStrategy::Hash, &types, &bounds, &values), Ok(expected), "{row:?}");
    }
}
