//! Values: golden hashes taken from PostgreSQL 18, odd but legal binary forms, and properties over random input.
//! (The broad comparison with a real server is in tests/.)

use std::cmp::Ordering;

use proptest::prelude::*;

use crate::numeric::Numeric;
use crate::types::*;
use crate::{
    Converted, KeyError, Oid, combine, compare, convert, fit, hash, hashable, orderable, parse_text, type_name,
};

fn parsed(type_oid: Oid, text: &str) -> Vec<u8> {
    parse_text(type_oid, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn hash_text(type_oid: Oid, text: &str) -> i64 {
    hash(type_oid, &parsed(type_oid, text)).unwrap_or_else(|error| panic!("{text}: {error}")) as i64
}

/// A discrete range in binary format.
fn int4range(flags: u8, bounds: &[i32]) -> Vec<u8> {
    let mut value = vec![flags];
    for bound in bounds {
        value.extend(4_i32.to_be_bytes());
        value.extend(bound.to_be_bytes());
    }
    value
}

#[test]
fn hashes_are_the_servers() {
    // SELECT hash…extended(value, 8816678312871386365)
    assert_eq!(hash_text(INT4, "42"), 7363975540656877951);
    assert_eq!(hash_text(INT8, "-1"), -5017072347659237694);
    assert_eq!(hash_text(INT2, "7"), 1708571371176205364);
    assert_eq!(hash_text(TEXT, "hello world, hello"), 3659212521894741819);
    assert_eq!(hash_text(BPCHAR, "  "), -5700645584453517373);
    assert_eq!(hash_text(UUID, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), 424513190990560493);
    assert_eq!(hash_text(NUMERIC, "-1234.50"), 3353870475604672345);
    assert_eq!(hash_text(FLOAT8, "-0"), 8816678312871386365);
    assert_eq!(hash_text(FLOAT4, "1.5"), -2826383321045882978);
    assert_eq!(hash_text(TIMESTAMP, "2024-02-29 10:11:12"), -6297814889212080812);
    assert_eq!(hash_text(JSONB, r#"{"a":[1,null]}"#), 6331016897147576749);
    assert_eq!(hash_text(INET, "10.0.0.1/8"), -3798725246030467143);
}

#[test]
fn null_columns_do_not_change_a_rows_hash() {
    assert_eq!(combine(&[None, None]), 0);
    assert_eq!(combine(&[None, Some(5)]), combine(&[Some(5)]));
    assert_ne!(combine(&[Some(5), Some(6)]), combine(&[Some(6), Some(5)]));
}

#[test]
fn binary_ranges_are_brought_into_stored_form() {
    let stored = 3393796034680497348_u64;
    assert_eq!(hash(3904, &int4range(0x06, &[1, 3])), Ok(stored));
    for (flags, bounds) in [(0x02, [1, 4]), (0x00, [0, 4]), (0x04, [0, 3])] {
        assert_eq!(hash(3904, &int4range(flags, &bounds)), Ok(stored), "flags {flags}");
    }
    // (1,2) holds no integer.
    assert_eq!(hash(3904, &int4range(0x00, &[1, 2])), hash(3904, &int4range(0x01, &[])));
    assert!(matches!(hash(3904, &int4range(0x06, &[3, 1])), Err(KeyError::InvalidBinary { .. })));
    assert!(matches!(hash(3904, &int4range(0x06, &[1, i32::MAX])), Err(KeyError::OutOfRange { .. })));
}

#[test]
fn multiranges_that_the_server_would_merge_are_left_to_it() {
    let multirange = |ranges: &[[i32; 2]]| {
        let mut value = (ranges.len() as u32).to_be_bytes().to_vec();
        for range in ranges {
            let range = int4range(0x02, range);
            value.extend((range.len() as u32).to_be_bytes());
            value.extend(range);
        }
        value
    };
    assert_eq!(hash(4451, &multirange(&[[1, 4], [7, 9]])), Ok(-5128352748839297158_i64 as u64));
    for merged in [[[1, 4], [4, 9]], [[1, 8], [7, 9]], [[7, 9], [1, 4]], [[1, 1], [2, 3]]] {
        assert_eq!(hash(4451, &multirange(&merged)), Err(KeyError::NeedsServer), "{merged:?}");
    }
}

#[test]
fn odd_binary_forms_hash_as_what_the_server_reads() {
    assert_eq!(hash(BOOL, &[2]), hash(BOOL, &[1]));
    let eui64 = parsed(MACADDR8, "08:00:2b:ff:fe:01:02:03");
    assert_eq!(hash(MACADDR8, &[0x08, 0x00, 0x2b, 0x01, 0x02, 0x03]), hash(MACADDR8, &eui64));
    // 0 | 12 | 3456 . 7890 | 0 shown with one decimal: 123456.7
    let header = [5_u16, 2, 0, 1].map(u16::to_be_bytes).concat();
    let digits = [0_u16, 12, 3456, 7890, 0].map(u16::to_be_bytes).concat();
    let odd = [header, digits].concat();
    assert_eq!(hash(NUMERIC, &odd), hash(NUMERIC, &parsed(NUMERIC, "123456.7")));
    assert_eq!(compare(NUMERIC, &odd, &parsed(NUMERIC, "123456.70")), Ok(Ordering::Equal));
    // C's char is signed on some platforms only.
    assert_eq!(hash(CHAR, &[0xe4]), Err(KeyError::NeedsServer));
}

#[test]
fn types_whose_values_differ_between_servers_are_unsupported() {
    // regclass, aclitem, record, an oid of a user's type.
    for type_oid in [2205, 1033, 2249, 16_400] {
        assert!(!hashable(type_oid) && !orderable(type_oid) && type_name(type_oid).is_none());
        assert_eq!(hash(type_oid, &[0; 4]), Err(KeyError::Unsupported { type_oid }));
        assert_eq!(parse_text(type_oid, "1"), Err(KeyError::Unsupported { type_oid }));
    }
    assert!(hashable(JSONB) && !orderable(JSONB) && !orderable(1007));
}

#[test]
fn errors_are_worded_and_coded_as_the_servers() {
    let error = |type_oid, text| parse_text(type_oid, text).map_err(|error| (error.sqlstate(), error.to_string()));
    let expected = |sqlstate, message: &str| Err((sqlstate, message.to_owned()));
    assert_eq!(error(INT4, "x"), expected("22P02", "invalid input syntax for type integer: \"x\""));
    assert_eq!(error(INT2, "40000"), expected("22003", "value \"40000\" is out of range for type smallint"));
    assert_eq!(error(FLOAT4, "1e39"), expected("22003", "\"1e39\" is out of range for type real"));
    assert_eq!(error(NUMERIC, "1e200000"), expected("22003", "value overflows numeric format"));
    let long = fit(VARCHAR, 3 + 4, b"abcd".to_vec()).map_err(|error| (error.sqlstate(), error.to_string()));
    assert_eq!(long, expected("22001", "value too long for type character varying(3)"));
}

#[test]
fn timestamps_without_a_zone_are_never_guessed() {
    for text in ["2024-02-29 10:11:12", "2024-02-29", "now", "2024-02-29 10:11:12 CET", "2024-02-29+02:00"] {
        assert_eq!(parse_text(TIMESTAMPTZ, text), Err(KeyError::NeedsServer), "{text}");
    }
    for text in ["01/02/2024", "2024-02-30", "20240229", "Feb 29 2024"] {
        assert_eq!(parse_text(DATE, text), Err(KeyError::NeedsServer), "{text}");
    }
    assert_eq!(parsed(TIMESTAMPTZ, "2024-02-29 10:11:12+02"), parsed(TIMESTAMPTZ, "2024-02-29T08:11:12.0Z"));
}

#[test]
fn parameters_of_other_types_are_converted_or_cannot_match() {
    let from_int8 = |value: i64, to| convert(INT8, to, &value.to_be_bytes());
    assert_eq!(from_int8(7, INT2), Some(Converted::Value(vec![0, 7])));
    assert_eq!(from_int8(1 << 40, INT4), Some(Converted::NoMatch));
    assert_eq!(from_int8(7, NUMERIC), Some(Converted::Value(parsed(NUMERIC, "7"))));
    assert_eq!(convert(NUMERIC, INT4, &parsed(NUMERIC, "1.5")), Some(Converted::NoMatch));
    assert_eq!(convert(NUMERIC, INT4, &parsed(NUMERIC, "15.00")), Some(Converted::Value(parsed(INT4, "15"))));
    assert_eq!(convert(BPCHAR, TEXT, b"a  "), Some(Converted::Value(b"a".to_vec())));
    assert_eq!(convert(TEXT, BPCHAR, b"a "), Some(Converted::NoMatch));
    assert_eq!(convert(BPCHAR, VARCHAR, b"a"), None);
    assert_eq!(convert(UNKNOWN, INT4, b" 12 "), Some(Converted::Value(parsed(INT4, "12"))));
    assert_eq!(convert(TIMESTAMP, TIMESTAMPTZ, &[0; 8]), None);
}

/// An `i64` scaled by a power of ten, as numeric text.
fn decimal(value: i64, scale: u32) -> String {
    let (sign, digits) = (if value < 0 { "-" } else { "" }, value.unsigned_abs().to_string());
    let digits = format!("{digits:0>width$}", width = scale as usize + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

proptest! {
    #[test]
    fn integers_round_trip(value: i64) {
        prop_assert_eq!(parsed(INT8, &value.to_string()), value.to_be_bytes());
        prop_assert_eq!(parsed(INT8, &format!(" {}{:#x}\n", if value < 0 { "-" } else { "+" }, value.unsigned_abs())), value.to_be_bytes());
        prop_assert_eq!(parse_text(INT4, &value.to_string()).ok(), i32::try_from(value).ok().map(|value| value.to_be_bytes().to_vec()));
    }

    #[test]
    fn equal_integers_of_all_widths_hash_alike(value: i16) {
        let narrow = hash(INT2, &value.to_be_bytes());
        prop_assert_eq!(&narrow, &hash(INT4, &i32::from(value).to_be_bytes()));
        prop_assert_eq!(&narrow, &hash(INT8, &i64::from(value).to_be_bytes()));
    }

    #[test]
    fn numeric_text_order_and_rounding(a: i64, b: i64, scale in 0_u32..12, keep in 0_i32..14) {
        let (left, right) = (decimal(a, scale), decimal(b, scale));
        let encoded = parsed(NUMERIC, &left);
        prop_assert_eq!(Numeric::decode(&encoded).map(|numeric| numeric.to_text()), Ok(left.clone()));
        prop_assert_eq!(compare(NUMERIC, &encoded, &parsed(NUMERIC, &right)), Ok(a.cmp(&b)));
        // Zeros at the end change neither order nor hash.
        let padded = parsed(NUMERIC, &format!("{left}{}000", if scale == 0 { "." } else { "" }));
        prop_assert_eq!(compare(NUMERIC, &encoded, &padded), Ok(Ordering::Equal));
        prop_assert_eq!(hash(NUMERIC, &encoded), hash(NUMERIC, &padded));
        // numeric(40, keep), against rounding the integer itself.
        let unit = 10_i128.pow(scale.saturating_sub(keep as u32));
        let half_up = (i128::from(a).abs() + unit / 2) / unit * unit * i128::from(a.signum());
        let fitted = fit(NUMERIC, ((40 << 16) | keep) + 4, encoded.clone()).map(|value| Numeric::decode(&value));
        let expected = Numeric::parse(&decimal_i128(half_up, scale));
        prop_assert!(matches!((fitted, expected), (Ok(Ok(fitted)), Ok(expected)) if fitted.compare(&expected).is_eq()));
    }

    #[test]
    fn no_input_panics(type_oid in 0_u32..7000, bytes: Vec<u8>, text: String, typmod: i32) {
        let _ = (hash(type_oid, &bytes), compare(type_oid, &bytes, &bytes), fit(type_oid, typmod, bytes.clone()), parse_text(type_oid, &text));
    }

    #[test]
    fn no_input_of_a_known_type_panics(pick: prop::sample::Index, bytes in prop::collection::vec(prop_oneof![0_u8..4, any::<u8>()], 0..40), text in "[-+0-9a-fxeE._:TZ{}/\\\\ \"\\[\\],]{0,24}", typmod in -1_i32..4_000_000) {
        let known: Vec<Oid> = (0..7000).filter(|type_oid| hashable(*type_oid)).collect();
        let type_oid = *pick.get(&known);
        let _ = (hash(type_oid, &bytes), compare(type_oid, &bytes, &bytes), fit(type_oid, typmod, bytes.clone()));
        for to in [INT4, FLOAT4, BPCHAR, NAME, NUMERIC] {
            let _ = convert(type_oid, to, &bytes);
        }
        // What is read must be of the type.
        if let Ok(value) = parse_text(type_oid, &text) {
            prop_assert!(hash(type_oid, &value).is_ok() || type_oid == CHAR, "{}: {:?}", type_oid, text);
        }
    }
}

fn decimal_i128(value: i128, scale: u32) -> String {
    let text = value.unsigned_abs().to_string();
    format!("{}{text}e-{scale}", if value < 0 { "-" } else { "" })
}
