//! Any rows, in any format with any options: what is written is read, however the stream is cut.

use bytes::BytesMut;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Cut, cut_chunks};
use crate::{BINARY_HEADER, CopyOptions, ForcedColumns, Format, Header, RowEncoder, append_fields};

const NAMES: [&str; 3] = ["a", "b\"\n", "c\t,"];

type Row = Vec<Option<String>>;

/// Strings of what means something to some format.
fn value() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        Just(None),
        "[,;|\t\r\n\"'\\\\.Nnilabx0-9é漢]{0,12}".prop_map(Some),
        Just(Some("\\.".to_string())),
        Just(Some("nil".to_string())),
        ".{0,20}".prop_map(|s| Some(s.replace('\0', ""))),
    ]
}

fn rows(columns: usize) -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(prop::collection::vec(value(), columns), 0..8)
}

fn options() -> impl Strategy<Value = CopyOptions> {
    let format = prop_oneof![Just(Format::Text), Just(Format::Csv), Just(Format::Binary)];
    let header = prop_oneof![Just(Header::No), Just(Header::Skip)];
    let quote = prop_oneof![Just((b'"', b'"')), Just((b'\'', b'\\')), Just((b'x', b'"'))];
    let force_quote = prop_oneof![Just(ForcedColumns::None), Just(ForcedColumns::All)];
    (format, header, quote, force_quote, any::<bool>(), any::<bool>()).prop_map(
        |(format, header, (quote, escape), force_quote, other_delimiter, other_null)| {
            let mut options = CopyOptions::new(format);
            if format != Format::Binary {
                options.header = header;
            }
            if other_delimiter {
                options.delimiter = b'|';
            }
            if other_null {
                options.null = b"nil".to_vec();
            }
            CopyOptions { quote, escape, force_quote, ..options }
        },
    )
}

/// What the options make of a row: in text a value that is written like the marker is NULL, for PostgreSQL as well.
/// Backslashes are doubled, so `\N` is not.
fn as_read(options: &CopyOptions, row: &Row) -> Vec<Option<Vec<u8>>> {
    let is_written_so = |value: &String| value.as_bytes() == options.null && !value.contains('\\');
    let is_null = |value: &String| options.format == Format::Text && is_written_so(value);
    row.iter().map(|value| value.clone().filter(|v| !is_null(v)).map(String::into_bytes)).collect()
}

fn encode(options: &CopyOptions, columns: usize, rows: &[Row]) -> (Vec<u8>, Vec<Vec<u8>>, Vec<u8>) {
    let encoder = RowEncoder::new(options, &NAMES[..columns]).expect("the options fit");
    let part = |write: &dyn Fn(&mut BytesMut)| {
        let mut out = BytesMut::new();
        write(&mut out);
        out.to_vec()
    };
    let records = rows.iter().map(|row| {
        let values: Vec<Option<&[u8]>> = row.iter().map(|value| value.as_ref().map(String::as_bytes)).collect();
        part(&|out| encoder.row(&values, out))
    });
    let records = records.collect();
    (part(&|out| encoder.header(out)), records, part(&|out| encoder.trailer(out)))
}

/// Cuts data at random places.
fn chunks(data: &[u8], cuts: Vec<Index>) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(data.len() + 1)).collect();
    places.extend([0, data.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| data[pair[0]..pair[1]].to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_written_is_read(
        options in options(),
        (columns, rows) in (1usize..=3).prop_flat_map(|columns| (Just(columns), rows(columns))),
        cuts in prop::collection::vec(any::<Index>(), 0..12),
    ) {
        let (header, records, trailer) = encode(&options, columns, &rows);
        let data = [&header[..], &records.concat(), &trailer].concat();
        let chunks = chunks(&data, cuts);
        let found = cut_chunks(&options, &NAMES[..columns], chunks.iter().map(Vec::as_slice)).expect("it was written so");
        let values = rows.iter().map(|row| as_read(&options, row));
        prop_assert_eq!(found, Cut {
            preamble: Some(header).filter(|header| !header.is_empty()),
            records: records.into_iter().zip(values).collect(),
        });
        prop_assert!(options.format != Format::Binary || data.starts_with(&BINARY_HEADER));
    }

    /// Whatever comes: the same for all chunkings, and nothing lost or made up.
    #[test]
    fn cuts_change_nothing(
        options in options(),
        data in "[,|\t\r\n\"'\\\\.nilx0-9]{0,40}",
        cuts in prop::collection::vec(any::<Index>(), 0..12),
        marker in any::<bool>(),
    ) {
        let options = CopyOptions { csv_end_marker: marker, ..options };
        let whole = cut_chunks(&options, &NAMES[..1], std::iter::once(data.as_bytes()));
        let chunks = chunks(data.as_bytes(), cuts);
        prop_assert_eq!(&whole, &cut_chunks(&options, &NAMES[..1], chunks.iter().map(Vec::as_slice)));
        if let Ok(found) = whole {
            let mut all = found.preamble.unwrap_or_default();
            found.records.iter().for_each(|(record, _)| all.extend(record));
            let rest = data.as_bytes().strip_prefix(&all[..]);
            prop_assert!(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"\\.")), "{:?}", all);
        }
    }

    #[test]
    fn appended_fields_are_read(
        options in options().prop_filter("text", |o| o.format != Format::Binary),
        row in prop::collection::vec(value(), 2),
        end in prop_oneof![Just(""), Just("\n"), Just("\r"), Just("\r\n")],
    ) {
        let (_, records, _) = encode(&options, 1, &[row[..1].to_vec()]);
        let line = [records[0].strip_suffix(b"\n").expect("a line"), end.as_bytes()].concat();
        let mut out = Vec::new();
        append_fields(&options, &line, &[row[1].as_deref()], &mut out);
        let options = CopyOptions { header: Header::No, ..options };
        let found = cut_chunks(&options, &NAMES[..2], std::iter::once(&out[..])).expect("it was written so");
        let mut expected = as_read(&options, &row);
        if row[1].as_deref().is_some_and(|v| !v.is_empty()) {
            // Other than COPY TO, it tells a value from the marker.
            expected[1] = row[1].clone().map(String::into_bytes);
        }
        prop_assert_eq!(found.records, [(out, expected)]);
    }
}
