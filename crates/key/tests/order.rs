//! Order, location, pruning and conversion against a real PostgreSQL: `compare` against its `<`, range and list bounds against
//! its tuple routing, `convert` against its `=` between two types.

#[allow(dead_code, reason = "shared by several test programs")]
mod random;
#[allow(dead_code, reason = "shared by several test programs")]
mod server;

use std::cmp::Ordering;

use key::{
    Bound, Converted, Datum, Located, PartitionStrategy, compare, convert, hash, locate, locate_prefix, orderable,
    overlapping,
};
use random::Random;
use server::{Server, copy_field, unhex};

/// The orderable types: oid, name, send function.
fn orderable_types(server: &Server) -> Vec<(u32, String, String)> {
    let rows = server.query("SELECT oid, typname, typsend::oid::regproc FROM pg_type WHERE oid < 10000 ORDER BY 1");
    let types = rows.into_iter().map(|row| (row[0].parse().expect("an oid"), row[1].clone(), row[2].clone()));
    types.filter(|(oid, ..)| orderable(*oid)).collect()
}

/// COPY rows for an `(id, k …)` table.
fn copy(table: &str, rows: &[Vec<String>]) -> String {
    let mut script = format!("COPY {table} FROM STDIN;\n");
    for (id, row) in rows.iter().enumerate() {
        script.push_str(&format!("{id}\t{}\n", row.join("\t")));
    }
    script.push_str("\\.\n");
    script
}

#[test]
fn compare_is_the_servers_order() {
    let Some(server) = server::shared() else {
        return;
    };
    let mut random = Random::new("order");
    let types = orderable_types(&server);
    assert!(types.len() >= 28, "only {} types", types.len());
    for (oid, name, send) in types {
        let mut rows: Vec<Vec<String>> = (0..150).map(|_| vec![copy_field(&random.scalar(&name))]).collect();
        // Values that differ in form, not in order.
        let twins: &[&str] = match name.as_str() {
            "bpchar" | "text" => &["a", "a  ", "a\u{1}", ""],
            "numeric" => &["1", "1.00", "0", "-0.0", "10000", "9999.9999", "-10000", "NaN", "Infinity", "-Infinity"],
            "float4" | "float8" => &["0", "-0", "NaN", "Infinity", "-Infinity"],
            "interval" => &["1 mon", "30 days", "720:00:00", "-1 mon", "29 days 24:00:00"],
            "timetz" => &["10:00+00", "12:00+02", "08:00-02"],
            "inet" | "cidr" => &["10.0.0.0/8", "10.0.0.0/16", "10.0.0.0/32", "0.0.0.0/0", "::/0", "::/128"],
            _ => &[],
        };
        rows.extend(twins.iter().map(|text| vec![copy_field(text)]));
        let mut script = format!("CREATE TEMP TABLE o (id int, k pg_catalog.\"{name}\");\n{}", copy("o", &rows));
        script.push_str(&format!(
            "SELECT encode({send}(a.k), 'hex'), encode({send}(b.k), 'hex'), CASE WHEN a.k < b.k THEN -1 WHEN a.k = b.k THEN 0 ELSE 1 END
             FROM o a, o b WHERE (a.id + b.id) % 4 = 0 OR a.id >= 150 AND b.id >= 150;"
        ));
        for row in server.query(&script) {
            let expected = row[2].parse::<i32>().expect("an order").cmp(&0);
            let (a, b) = (unhex(&row[0]), unhex(&row[1]));
            assert_eq!(compare(oid, &a, &b), Ok(expected), "{name}: {row:?}");
            if expected.is_eq() && (name != "char" || a[0].is_ascii()) {
                assert_eq!(hash(oid, &a), hash(oid, &b), "{name}: equal values must hash alike: {row:?}");
            }
        }
    }
}

/// A range key of `(int4, text, numeric)`.
const RANGE_TYPES: [u32; 3] = [23, 25, 1700];

/// One column of a bound, with its SQL.
fn random_datum(random: &mut Random, column: usize) -> (Datum, String) {
    if random.chance(15) {
        return (Datum::MinValue, "MINVALUE".to_owned());
    }
    if random.chance(15) {
        return (Datum::MaxValue, "MAXVALUE".to_owned());
    }
    let text = small_value(random, column);
    let value = key::parse_text(RANGE_TYPES[column], &text).expect("a small value");
    (Datum::Value(value), format!("'{text}'"))
}

/// Few distinct values, so that keys meet bounds.
fn small_value(random: &mut Random, column: usize) -> String {
    match column {
        0 => random.below(6).to_string(),
        1 => random.pick(&["", "a", "a ", "b", "ab", "é"]).to_owned(),
        _ => random.pick(&["-1", "0", "0.5", "1.00", "1", "2"]).to_owned(),
    }
}

/// A bound point; behind MINVALUE or MAXVALUE all columns repeat it, as PostgreSQL demands.
fn random_point(random: &mut Random) -> (Vec<Datum>, Vec<String>) {
    let mut point: (Vec<Datum>, Vec<String>) = (Vec::new(), Vec::new());
    for column in 0..RANGE_TYPES.len() {
        let (datum, sql) = match point.0.last() {
            Some(last @ (Datum::MinValue | Datum::MaxValue)) => (last.clone(), point.1[column - 1].clone()),
            _ => random_datum(random, column),
        };
        point.0.push(datum);
        point.1.push(sql);
    }
    point
}

fn compare_points(a: &[Datum], b: &[Datum]) -> Ordering {
    let rank = |datum: &Datum| match datum {
        Datum::MinValue => 0,
        Datum::Value(_) => 1,
        Datum::MaxValue => 2,
    };
    let columns = a.iter().zip(b).zip(RANGE_TYPES);
    columns.fold(Ordering::Equal, |order, ((a, b), oid)| {
        order.then_with(|| match (a, b) {
            (Datum::Value(a), Datum::Value(b)) => compare(oid, a, b).expect("an order"),
            _ => rank(a).cmp(&rank(b)),
        })
    })
}

#[test]
fn range_keys_are_located_as_the_server_routes_them() {
    let Some(server) = server::shared() else {
        return;
    };
    let mut random = Random::new("range");
    for round in 0..6 {
        check_range_table(&server, &mut random, round);
    }
}

fn check_range_table(server: &Server, random: &mut Random, round: u32) {
    let mut points: Vec<_> = (0..14).map(|_| random_point(random)).collect();
    points.sort_by(|a, b| compare_points(&a.0, &b.0));
    points.dedup_by(|a, b| compare_points(&a.0, &b.0).is_eq());
    // Some gaps, which the default partition covers.
    let mut pieces: Vec<_> =
        points.windows(2).filter(|_| random.chance(80)).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    if round.is_multiple_of(2) {
        // Not in order: the binary search must not mislead.
        for index in (1..pieces.len()).rev() {
            pieces.swap(index, random.below(index as u64 + 1) as usize);
        }
    }
    let table = format!("r_{round}");
    let mut script = format!(
        "CREATE TABLE {table} (id int, a int4, b text, c numeric) PARTITION BY RANGE (a, b, c);\nCREATE TABLE {table}_default PARTITION OF {table} DEFAULT;\n"
    );
    let mut bounds = Vec::new();
    for (index, (from, to)) in pieces.iter().enumerate() {
        bounds.push(Bound::Range { from: from.0.clone(), to: to.0.clone() });
        let (from, to) = (from.1.join(", "), to.1.join(", "));
        script.push_str(&format!(
            "CREATE TABLE {table}_{index} PARTITION OF {table} FOR VALUES FROM ({from}) TO ({to});\n"
        ));
    }
    let rows: Vec<Vec<String>> = (0..800)
        .map(|_| {
            (0..3).map(|column| if random.chance(4) { "\\N".to_owned() } else { small_value(random, column) }).collect()
        })
        .collect();
    script.push_str(&copy(&table, &rows));
    script.push_str(&format!(
        "SELECT split_part(tableoid::regclass::text, '_', 3), coalesce(encode(int4send(a), 'hex'), 'NULL'),
         coalesce(encode(textsend(b), 'hex'), 'NULL'), coalesce(encode(numeric_send(c), 'hex'), 'NULL') FROM {table};"
    ));
    for row in server.query(&script) {
        let values: Vec<Option<Vec<u8>>> = row[1..].iter().map(|hex| (hex != "NULL").then(|| unhex(hex))).collect();
        check_range_row(&bounds, &values, row[0].parse().ok());
    }
}

/// `shard` is `None` where the server put the row into the default partition.
fn check_range_row(bounds: &[Bound], values: &[Option<Vec<u8>>], shard: Option<usize>) {
    let at = |bounds: &[Bound]| locate(PartitionStrategy::Range, &RANGE_TYPES, bounds, values).expect("a location");
    assert_eq!(at(bounds), shard.map_or(Located::Nowhere, Located::Shard), "{values:?} in {bounds:?}");
    let mut with_default = vec![Bound::Default];
    with_default.extend_from_slice(bounds);
    let expected = shard.map_or(0, |shard| shard + 1);
    assert_eq!(at(&with_default), Located::Shard(expected), "{values:?} in {with_default:?}");
    for len in 0..=values.len() {
        let shards =
            locate_prefix(PartitionStrategy::Range, &RANGE_TYPES, &with_default, &values[..len]).expect("shards");
        assert!(shards.contains(&expected), "prefix {len} of {values:?} gives {shards:?}, not {expected}");
    }
    if let Some(first) = &values[0] {
        let exact = Some((first.as_slice(), true));
        for (low, high) in [(exact, exact), (exact, None), (None, exact)] {
            let shards = overlapping(&RANGE_TYPES, &with_default, low, high).expect("shards");
            assert!(shards.contains(&expected), "{low:?} to {high:?} gives {shards:?}, not {expected}");
        }
    }
}

#[test]
fn list_keys_are_located_as_the_server_routes_them() {
    let Some(server) = server::shared() else {
        return;
    };
    let tables = [
        ("text", 25, "textsend", vec!["'a', 'b'", "'A', NULL", "'ä', ''"], vec!["a", "b", "A", "", "ä", "a ", "x"]),
        (
            "numeric",
            1700,
            "numeric_send",
            vec!["1, 2.50", "'NaN', NULL", "-0.0, 1e5"],
            vec!["1.00", "2.5", "NaN", "0", "100000", "3", "-1"],
        ),
        ("bpchar", 1042, "bpcharsend", vec!["'a', 'b '", "NULL", "'c'"], vec!["a", "a  ", "b", "c ", "d"]),
        ("boolean", 16, "boolsend", vec!["true", "NULL", "false"], vec!["t", "f"]),
    ];
    for (number, (name, oid, send, lists, values)) in tables.into_iter().enumerate() {
        let table = format!("l_{number}");
        let mut script = format!(
            "CREATE TABLE {table} (id int, k {name}) PARTITION BY LIST (k);\nCREATE TABLE {table}_default PARTITION OF {table} DEFAULT;\n"
        );
        let mut bounds = Vec::new();
        for (index, list) in lists.iter().enumerate() {
            script.push_str(&format!("CREATE TABLE {table}_{index} PARTITION OF {table} FOR VALUES IN ({list});\n"));
            let listed = list.split(", ").map(|value| {
                (value != "NULL").then(|| key::parse_text(oid, value.trim_matches('\'')).expect("a value"))
            });
            bounds.push(Bound::List { values: listed.collect() });
        }
        let mut rows: Vec<Vec<String>> = values.iter().map(|value| vec![(*value).to_owned()]).collect();
        rows.push(vec!["\\N".to_owned()]);
        script.push_str(&copy(&table, &rows));
        script.push_str(&format!("SELECT split_part(tableoid::regclass::text, '_', 3), coalesce(encode({send}(k), 'hex'), 'NULL') FROM {table};"));
        let answers = server.query(&script);
        assert_eq!(answers.len(), rows.len());
        for row in answers {
            let value = (row[1] != "NULL").then(|| unhex(&row[1]));
            let expected = row[0].parse().map_or(Located::Nowhere, Located::Shard);
            assert_eq!(locate(PartitionStrategy::List, &[oid], &bounds, &[value]), Ok(expected), "{name}: {row:?}");
        }
    }
}

/// Values of every type that convert knows, chosen to meet each other.
const CONVERTIBLE: &[(u32, &str, &str, &[&str])] = &[
    (21, "int2", "int2send", &["0", "1", "-1", "5", "32767", "-32768"]),
    (23, "int4", "int4send", &["0", "1", "-1", "5", "32767", "32768", "16777217", "2147483647", "-2147483648"]),
    (
        20,
        "int8",
        "int8send",
        &[
            "0",
            "1",
            "-1",
            "5",
            "32768",
            "16777217",
            "4294967295",
            "9007199254740993",
            "9223372036854775807",
            "-9223372036854775808",
        ],
    ),
    (26, "oid", "oidsend", &["0", "1", "5", "4294967295", "2147483648"]),
    (
        1700,
        "numeric",
        "numeric_send",
        &[
            "0",
            "1.0",
            "-1",
            "5.000",
            "1.5",
            "0.1",
            "32768",
            "16777217",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "1e30",
            "1e400",
            "NaN",
            "Infinity",
            "10000",
            "0.00001",
        ],
    ),
    (
        700,
        "float4",
        "float4send",
        &["0", "-0", "1", "-1", "5", "1.5", "0.1", "32768", "16777216", "1e30", "NaN", "Infinity"],
    ),
    (
        701,
        "float8",
        "float8send",
        &[
            "0",
            "-0",
            "1",
            "-1",
            "5",
            "1.5",
            "0.1",
            "32768",
            "16777216",
            "16777217",
            "9007199254740992",
            "9223372036854775807",
            "1e30",
            "1e300",
            "NaN",
            "Infinity",
        ],
    ),
    (25, "text", "textsend", &["", " ", "a", "a ", "a  ", "b", " a", "ä"]),
    (1043, "varchar", "varcharsend", &["", " ", "a", "a ", "b", "ä"]),
    (1042, "bpchar", "bpcharsend", &["", " ", "a", "a ", "b", "ä"]),
    (19, "name", "namesend", &["", " ", "a", "a ", "b", "ä"]),
    (869, "inet", "inet_send", &["10.0.0.0/8", "10.0.0.1", "10.0.0.1/8", "::1"]),
    (650, "cidr", "cidr_send", &["10.0.0.0/8", "10.0.0.1/32", "::1/128"]),
];

#[test]
fn convert_agrees_with_the_servers_equality() {
    let Some(server) = server::shared() else {
        return;
    };
    let mut known = 0;
    for (from, from_name, from_send, params) in CONVERTIBLE {
        for (to, to_name, to_send, keys) in CONVERTIBLE {
            let table = |name: &str, type_name: &str, values: &[&str]| {
                let rows: Vec<Vec<String>> = values.iter().map(|value| vec![(*value).to_owned()]).collect();
                format!("CREATE TEMP TABLE {name} (id int, v pg_catalog.\"{type_name}\");\n{}", copy(name, &rows))
            };
            // A comparison that fails (1e400 as double precision) is false here: nothing is claimed about it.
            let script = format!(
                "{}{}SET client_min_messages = error;
                 CREATE FUNCTION pg_temp.eq(k pg_catalog.\"{to_name}\", p pg_catalog.\"{from_name}\") RETURNS text LANGUAGE plpgsql AS
                 $$ BEGIN RETURN k = p; EXCEPTION WHEN undefined_function OR ambiguous_function THEN RETURN 'none'; WHEN others THEN RETURN 'error'; END $$;
                 SELECT encode({from_send}(p.v), 'hex'), encode({to_send}(k.v), 'hex'), pg_temp.eq(k.v, p.v) FROM p, k;",
                table("p", from_name, params),
                table("k", to_name, keys),
            );
            for row in server.query(&script) {
                let (param, key) = (unhex(&row[0]), unhex(&row[1]));
                let what = format!("{to_name} key = {from_name}: {row:?}");
                let Some(converted) = convert(*from, *to, &param) else {
                    continue;
                };
                known += 1;
                // "error": no row can be wrong, as the statement fails wherever it runs.
                match (converted, row[2].as_str()) {
                    (_, "error") => {}
                    (Converted::NoMatch, equal) => assert_eq!(equal, "false", "{what}"),
                    (Converted::Value(value), "true") => {
                        assert_eq!(hash(*to, &value), hash(*to, &key), "{what}")
                    }
                    (Converted::Value(value), equal) => {
                        assert_eq!(equal, "false", "{what}");
                        assert_ne!(compare(*to, &value, &key), Ok(Ordering::Equal), "{what}");
                    }
                }
            }
        }
    }
    assert!(known > 3000, "only {known} comparisons were known");
}
