//! Constants as PostgreSQL reads them, and what is none.

use wire::type_oid;

use super::*;

#[test]
fn numbers_have_the_types_postgresql_gives_them() {
    assert_eq!(number("2147483648"), Ok(Ty::Int8));
    assert_eq!(number("-2147483648"), Ok(Ty::Int4));
    assert_eq!(number("9223372036854775807"), Ok(Ty::Int8));
    assert_eq!(number("9223372036854775808"), Ok(Ty::Numeric { digits: 19, scale: 0 }));
    assert_eq!(number("1.50"), Ok(Ty::Numeric { digits: 3, scale: 2 }));
    assert_eq!(number("-0.05"), Ok(Ty::Numeric { digits: 2, scale: 2 }));
    assert_eq!(number("0.0"), Ok(Ty::Numeric { digits: 1, scale: 1 }));
    for refused in ["1e3", ".5", "5.", "0x1FFFFFFFFF", "5_000_000_000", "123456789012345678901234567890.123456789"] {
        assert!(number(refused).is_err(), "{refused}");
    }
}

#[test]
fn texts_are_read_in_their_plainest_form_alone() {
    let reads = |ty, text: &str| read(text, ty).is_some();
    for text in ["0", "-5", "007", "2147483647"] {
        assert!(reads(Ty::Int4, text), "{text}");
    }
    for text in ["", "-", "+5", " 5", "5 ", "2147483648", "1.0", "0x5", "5_0", "٣"] {
        assert!(!reads(Ty::Int4, text), "{text}");
    }
    for text in ["2026-01-31", "2024-02-29", "0001-01-01", "9999-12-31"] {
        assert!(reads(Ty::Date, text) && reads(Ty::Timestamp, text), "{text}");
    }
    for text in [
        "2026-1-31",
        "2026-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-04-31",
        "0000-01-01",
        "10000-01-01",
        "infinity",
        "today",
        "31.1.2026",
        "2026-01-31 BC",
    ] {
        assert!(!reads(Ty::Date, text), "{text}");
    }
    for text in ["2026-01-31 00:00:00", "2026-01-31 23:59:59.999999", "2026-01-31 10:20:30.5"] {
        assert!(reads(Ty::Timestamp, text) && !reads(Ty::Date, text), "{text}");
    }
    for text in [
        "2026-01-31 24:00:00",
        "2026-01-31 10:20",
        "2026-01-31 10:20:60",
        "2026-01-31 10:20:30.",
        "2026-01-31 10:20:30.1234567",
        "2026-01-31T10:20:30",
        "2026-01-31 10:20:30+00",
        "2026-01-31  10:20:30",
    ] {
        assert!(!reads(Ty::Timestamp, text), "{text}");
    }
    for text in ["1", "-0", "1.5", "1e10", "2.5E-3"] {
        assert!(reads(Ty::Float8, text), "{text}");
    }
    for text in ["NaN", "inf", "Infinity", "1e400", "e5", "1e", ".5", "1e31"] {
        assert!(!reads(Ty::Float8, text), "{text}");
    }
    assert!(reads(Ty::Uuid, "A0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"));
    assert!(!reads(Ty::Uuid, "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"));
    assert!(!reads(Ty::Uuid, "a0eebc999c0b4ef8bb6d6bb9bd380a11"));
    assert!(reads(Ty::Bool, "true") && !reads(Ty::Bool, "yes"));
}

#[test]
fn parameters_are_written_with_their_types() {
    let of = |oid, value| parameter(oid, Some(value));
    assert_eq!(of(type_oid::INT4, "5").as_deref(), Some("'5'::INTEGER"));
    assert_eq!(of(type_oid::TEXT, "it's \\ ").as_deref(), Some("'it''s \\ '"));
    assert_eq!(of(type_oid::BPCHAR, "ab  ").as_deref(), Some("'ab'"));
    assert_eq!(of(type_oid::NUMERIC, "-12.50").as_deref(), Some("'-12.50'::DECIMAL(4,2)"));
    assert_eq!(parameter(type_oid::DATE, None).as_deref(), Some("NULL::DATE"));
    // More digits than a comparison has been promised.
    assert_eq!(of(type_oid::NUMERIC, "1234567890123456789"), None);
    assert_eq!(of(type_oid::NUMERIC, "0.1234567890123456789"), None);
    assert_eq!(of(type_oid::NUMERIC, "NaN"), None);
    assert_eq!(of(type_oid::INT4, "2147483648"), None);
    assert_eq!(of(type_oid::TIMESTAMPTZ, "2026-01-31"), None);
    assert_eq!(of(type_oid::JSONB, "{}"), None);
}

#[test]
fn moments_are_read_with_their_offset_alone() {
    let reads = |text: &str| read(text, Ty::Timestamptz).map(|(_, text)| text);
    for (text, utc) in [
        ("2026-01-31 10:20:30+00", "2026-01-31 10:20:30"),
        ("2026-01-31 10:20:30.5Z", "2026-01-31 10:20:30.5"),
        ("2026-01-01 00:59:59.999999+01", "2025-12-31 23:59:59.999999"),
        ("2024-02-29 23:30:00-03:30", "2024-03-01 03:00:00"),
        ("2023-03-01 00:00:00+00:01", "2023-02-28 23:59:00"),
        ("2026-12-31 12:00:00-14", "2027-01-01 02:00:00"),
    ] {
        assert_eq!(reads(text).as_deref(), Some(utc), "{text}");
    }
    for text in [
        "2026-01-31 10:20:30",
        "2026-01-31",
        "2026-01-31+00",
        "2026-01-31 10:20:30+1",
        "2026-01-31 10:20:30+15",
        "2026-01-31 10:20:30+01:60",
        "2026-01-31 10:20:30 +01",
        "2026-01-31 10:20:30 Europe/Paris",
        "0001-01-01 00:00:00+01",
        "9999-12-31 23:00:00-01",
        "infinity",
        "é+01",
    ] {
        assert_eq!(reads(text), None, "{text}");
    }
}
