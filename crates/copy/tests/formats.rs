//! The COPY formats against a real PostgreSQL: what it writes is split rightly and stored again as it was, and what
//! it makes of broken data the splitter makes of it too. Needs no herd.

#[path = "../../pool/tests/common/mod.rs"]
mod common;

use std::io::Write;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::BytesMut;
use common::{DATABASE, Server, USER, any_bin};
use copy::{CopyError, CopyOptions, ForcedColumns, Format, Header, RowEncoder, Splitter, append_fields};

type Values = Vec<Option<Vec<u8>>>;

const COLUMNS: [&str; 3] = ["a", "b c", "d"];
/// What the records of a COPY are, with the preamble first.
struct Cut {
    preamble: Vec<u8>,
    records: Vec<(Vec<u8>, Values)>,
}

fn server() -> Option<Server> {
    if catch_unwind(any_bin).is_err() {
        println!("skipped: no PostgreSQL found");
        return None;
    }
    Some(Server::start())
}

fn psql(server: &Server, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(any_bin().join("psql"))
        .args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", USER, "-d", DATABASE])
        .args(["-p", &server.port.to_string()])
        .args(arguments)
        .env("PGCLIENTENCODING", "UTF8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql runs");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("psql ends");
    let _ = writer.join();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn query(server: &Server, sql: &str) -> Vec<u8> {
    psql(server, &["-c", sql], b"")
}

/// Splits data in chunks of that many bytes, wanting all columns.
fn split(options: &CopyOptions, data: &[u8], chunk: usize) -> Result<Cut, CopyError> {
    let mut splitter = Splitter::new(options, vec![0, 1, 2], &COLUMNS);
    let mut records = Vec::new();
    let mut record = |bytes: &[u8], keys: &[Option<&[u8]>]| {
        records.push((bytes.to_vec(), keys.iter().map(|key| key.map(<[u8]>::to_vec)).collect()));
        Ok::<(), CopyError>(())
    };
    data.chunks(chunk).try_for_each(|part| splitter.push(part, &mut record))?;
    splitter.finish(&mut record)?;
    Ok(Cut { preamble: splitter.preamble().unwrap_or_default().to_vec(), records })
}

/// Lines as `try_copy` and SELECT below write them: hex fields, `-` for NULL.
fn hex_lines<'a>(rows: impl Iterator<Item = &'a Values>) -> String {
    let hex = |bytes: &Vec<u8>| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let field = |value: &Option<Vec<u8>>| value.as_ref().map_or("-".to_string(), hex);
    let line = |row: &Values| row.iter().map(field).collect::<Vec<_>>().join(",");
    rows.map(line).collect::<Vec<_>>().join(";")
}

const HEX_ROWS: &str = "coalesce(string_agg(array_to_string(array[
    encode(convert_to(a, 'UTF8'), 'hex'), encode(convert_to(\"b c\", 'UTF8'), 'hex'),
    encode(convert_to(d, 'UTF8'), 'hex')], ',', '-'), ';' ORDER BY id), '')";

/// The same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    fn of<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
}

fn nasty_value(random: &mut Random) -> Option<String> {
    const PIECES: [&str; 20] = [
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\\",
        "\"",
        "'",
        ",",
        "|",
        ";",
        ".",
        "N",
        "nil",
        "x41",
        "101",
        " ",
        "é",
        "漢字",
        "\u{1f427}",
        "\u{1}",
    ];
    match random.below(8) {
        0 => None,
        1 => Some(random.of(&["", "\\N", "\\.", "nil", "\\\\.", "\"\"", "\\", "\n"]).to_string()),
        _ => Some((0..random.below(6)).map(|_| random.of(&PIECES)).collect()),
    }
}

fn literal(value: &Option<String>) -> String {
    let quote = |v: &String| format!("E'{}'", v.replace('\\', "\\\\").replace('\'', "\\'"));
    value.as_ref().map_or("NULL".to_string(), quote)
}

/// Options as SQL, and as they are here.
fn formats() -> Vec<(&'static str, CopyOptions)> {
    let (text, csv) = (CopyOptions::new(Format::Text), CopyOptions::new(Format::Csv));
    vec![
        ("FORMAT text", text.clone()),
        ("FORMAT text, HEADER", CopyOptions { header: Header::Skip, ..text.clone() }),
        (
            "FORMAT text, DELIMITER '|', NULL 'nil'",
            CopyOptions { delimiter: b'|', null: b"nil".into(), ..text.clone() },
        ),
        ("FORMAT text, DELIMITER E'\\x01', NULL ''", CopyOptions { delimiter: 1, null: vec![], ..text }),
        ("FORMAT csv", csv.clone()),
        ("FORMAT csv, HEADER", CopyOptions { header: Header::Skip, ..csv.clone() }),
        (
            "FORMAT csv, DELIMITER E'\\t', NULL '\\N', FORCE_QUOTE (\"b c\")",
            CopyOptions {
                delimiter: b'\t',
                null: b"\\N".into(),
                force_quote: ForcedColumns::Named(vec!["b c".into()]),
                ..csv.clone()
            },
        ),
        (
            "FORMAT csv, QUOTE '''', ESCAPE '\\', NULL 'nil', FORCE_QUOTE *, HEADER",
            CopyOptions {
                quote: b'\'',
                escape: b'\\',
                null: b"nil".into(),
                force_quote: ForcedColumns::All,
                header: Header::Skip,
                ..csv
            },
        ),
        ("FORMAT binary", CopyOptions::new(Format::Binary)),
    ]
}

/// FORCE_QUOTE is for writing only.
fn for_reading(sql: &str) -> String {
    let parts = sql.split(", ").filter(|part| !part.starts_with("FORCE_QUOTE"));
    parts.collect::<Vec<_>>().join(", ")
}

#[test]
fn what_postgresql_writes_is_split_and_stored_again() {
    let Some(server) = server() else { return };
    let mut random = Random(1);
    let rows: Vec<[Option<String>; 3]> = (0..400).map(|_| std::array::from_fn(|_| nasty_value(&mut random))).collect();
    let values = rows.iter().map(|row| format!("({})", row.each_ref().map(literal).join(",")));
    let table = "(id serial, a text, \"b c\" text, d text)";
    let insert = values.collect::<Vec<_>>().join(",");
    let setup =
        format!("CREATE TABLE t {table}; CREATE TABLE copied {table}; INSERT INTO t (a, \"b c\", d) VALUES {insert};");
    psql(&server, &["-f", "-"], setup.as_bytes());
    let stored = |name: &str| query(&server, &format!("SELECT {HEX_ROWS} FROM {name}"));

    for (sql, options) in formats() {
        let select = "SELECT a, \"b c\", d FROM t ORDER BY id";
        let data = query(&server, &format!("COPY ({select}) TO STDOUT ({sql})"));
        for chunk in [1, 7, 8192, data.len()] {
            let cut = split(&options, &data, chunk).expect(sql);
            assert_eq!(cut.records.len(), rows.len(), "{sql}");
            // An empty marker makes empty strings NULL in text, for PostgreSQL itself as well.
            let ambiguous = options.format == Format::Text && options.null != b"\\N";
            if !ambiguous {
                let keys = hex_lines(cut.records.iter().map(|(_, keys)| keys)) + "\n";
                assert_eq!(keys.as_bytes(), stored("t"), "{sql}");
            }
            let mut all = cut.preamble;
            cut.records.iter().for_each(|(record, _)| all.extend(record));
            assert!(data.starts_with(&all) && data.len() - all.len() <= 2, "{sql}");
        }
        written_alike(&rows, sql, &options, &data);

        // A copy of the rows by way of two streams, as two nodes would get them.
        let cut = split(&options, &data, 100).expect(sql);
        query(&server, "TRUNCATE copied RESTART IDENTITY");
        let (left, right) = cut.records.split_at(rows.len() / 3);
        for half in [left, right] {
            let records: Vec<u8> = half.iter().flat_map(|(record, _)| record.clone()).collect();
            let input = [&cut.preamble[..], &records].concat();
            let copy = format!("\\copy copied (a, \"b c\", d) FROM pstdin ({})", for_reading(sql));
            psql(&server, &["-c", &copy], &input);
        }
        if options.format != Format::Text || options.null == b"\\N" {
            assert!(stored("copied") == stored("t"), "{sql}");
        } else {
            let keys = hex_lines(cut.records.iter().map(|(_, keys)| keys)) + "\n";
            assert_eq!(keys.as_bytes(), stored("copied"), "{sql}");
        }
    }
}

/// `RowEncoder` writes what PostgreSQL has written.
fn written_alike(rows: &[[Option<String>; 3]], sql: &str, options: &CopyOptions, data: &[u8]) {
    let encoder = RowEncoder::new(options, &COLUMNS).expect(sql);
    let mut out = BytesMut::new();
    encoder.header(&mut out);
    for row in rows {
        encoder.row(&row.each_ref().map(|value| value.as_ref().map(String::as_bytes)), &mut out);
    }
    encoder.trailer(&mut out);
    assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(data), "{sql}");
}

#[test]
fn appended_fields_are_stored() {
    let Some(server) = server() else { return };
    query(&server, "CREATE TABLE t (id serial, a text, \"b c\" text, d text)");
    for (sql, options) in formats().into_iter().filter(|(_, o)| o.format != Format::Binary && o.header == Header::No) {
        let (mut data, mut expected) = (Vec::new(), Vec::<Values>::new());
        let mut random = Random(2);
        let encoder =
            RowEncoder::new(&CopyOptions { force_quote: ForcedColumns::None, ..options.clone() }, &["a"]).expect(sql);
        for _ in 0..100 {
            let row: [Option<String>; 3] = std::array::from_fn(|_| nasty_value(&mut random).filter(|v| !v.is_empty()));
            let Some(first) = row[0].as_ref().filter(|v| v.as_bytes() != options.null) else { continue };
            let mut record = BytesMut::new();
            encoder.row(&[Some(first.as_bytes())], &mut record);
            append_fields(&options, &record, &[row[1].as_deref(), row[2].as_deref()], &mut data);
            expected.push(row.iter().map(|value| value.clone().map(String::into_bytes)).collect());
        }
        query(&server, "TRUNCATE t");
        psql(&server, &["-c", &format!("\\copy t (a, \"b c\", d) FROM pstdin ({})", for_reading(sql))], &data);
        let stored = query(&server, &format!("SELECT {HEX_ROWS} FROM t"));
        assert_eq!(hex_lines(expected.iter()) + "\n", String::from_utf8_lossy(&stored), "{sql}");
    }
}

/// COPY FROM in a function, so that a thousand attempts are one statement.
const TRY_COPY: &str = "CREATE TABLE t (id serial, a text, \"b c\" text, d text);
CREATE FUNCTION try_copy(file text, options text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM t;
    EXECUTE format('COPY t (a, \"b c\", d) FROM %L (%s)', file, options);
    RETURN (SELECT ROWS FROM t);
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END $$;";

#[test]
fn broken_data_is_judged_as_postgresql_does() {
    const PIECES: [&str; 18] =
        ["a", "b", "\\", "\\.", ".", "\\N", "\"", "\"\"", "'", ",", ",", "\t", "\t", "\n", "\n", "\r", "\r\n", "\\x4"];
    // Of some cases a line end is all there is but for data, so that the first line's does not decide alone.
    const ENDS: [&str; 3] = ["\n", "\r", "\r\n"];
    let Some(server) = server() else { return };
    psql(&server, &["-f", "-"], TRY_COPY.replace("ROWS", HEX_ROWS).as_bytes());
    let csv = CopyOptions::new(Format::Csv);
    let escaped = CopyOptions { quote: b'\'', escape: b'\\', ..csv.clone() };
    let forced = CopyOptions {
        force_null: ForcedColumns::All,
        force_not_null: ForcedColumns::Named(vec!["d".into()]),
        ..csv.clone()
    };
    let formats = [
        ("FORMAT text", CopyOptions::new(Format::Text)),
        ("FORMAT text, HEADER", CopyOptions { header: Header::Skip, ..CopyOptions::new(Format::Text) }),
        ("FORMAT csv", csv.clone()),
        ("FORMAT csv, QUOTE '''', ESCAPE '\\'", escaped),
        ("FORMAT csv, FORCE_NULL (a, \"b c\", d), FORCE_NOT_NULL (d)", forced),
    ];
    let mut random = Random(3);
    let mut counts = (0, 0);
    for (sql, options) in formats {
        let delimiter = char::from(options.delimiter).to_string();
        let cases: Vec<Vec<u8>> = (0..1500)
            .map(|case| {
                let end = random.of(&ENDS);
                let mut piece = |_| match (case % 3, random.below(12)) {
                    (1, 0..3) => end.to_string(),
                    (1, 3..6) => delimiter.clone(),
                    (1, _) => PIECES[random.below(10)].to_string(),
                    // Lines of the right number of fields.
                    (2, n) => {
                        format!("{}{delimiter}{}{delimiter}{n}{end}", random.of(&PIECES[..12]), random.of(&PIECES))
                    }
                    _ => random.of(&PIECES).to_string(),
                };
                (0..1 + case % 12).map(&mut piece).collect::<String>().into_bytes()
            })
            .collect();
        for (case, verdict) in cases.iter().zip(postgresql_says(&server, sql, &cases)) {
            let ours = match split(&options, case, 3) {
                Ok(cut) => hex_lines(cut.records.iter().map(|(_, keys)| keys)),
                Err(e) => format!("{} {e}", e.sqlstate()),
            };
            // Not for the splitter to judge.
            if verdict.contains("extra data after last expected column") || verdict.starts_with("22021") {
                continue;
            }
            assert_eq!(ours, verdict, "{sql}: {:?}", String::from_utf8_lossy(case));
            *if verdict.starts_with("22P04") { &mut counts.1 } else { &mut counts.0 } += 1;
        }
    }
    println!("{} accepted, {} refused", counts.0, counts.1);
    assert!(counts.0 > 300 && counts.1 > 300, "{counts:?}");
}

fn postgresql_says(server: &Server, sql: &str, cases: &[Vec<u8>]) -> Vec<String> {
    let path = |i: usize| server.dir.join(format!("case-{i}"));
    for (i, case) in cases.iter().enumerate() {
        std::fs::write(path(i), case).expect("the folder is ours");
    }
    let call = |i: usize| {
        let file = Path::to_str(&path(i)).expect("a plain path").to_string();
        format!("SELECT try_copy('{file}', $${sql}$$);\n")
    };
    let script: String = (0..cases.len()).map(call).collect();
    let output = psql(server, &["-f", "-"], format!("BEGIN;\n{script}COMMIT;\n").as_bytes());
    let lines: Vec<String> = String::from_utf8_lossy(&output).lines().map(str::to_string).collect();
    assert_eq!(lines.len(), cases.len());
    lines
}
