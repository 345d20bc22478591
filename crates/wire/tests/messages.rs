//! What is written is read back: every message with a writer and a parser, over random contents. And what is cut short
//! or has something behind it is refused.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wire::backend::{self, Field};
use wire::frame::{self, Frame};
use wire::startup::{self, Startup};
use wire::{ErrorFields, frontend, put};

const MAX: usize = 1 << 20;

/// A string as the protocol can carry it: anything without a zero byte.
fn text() -> impl Strategy<Value = String> {
    "[^\0]{0,40}"
}

fn values() -> impl Strategy<Value = Vec<Option<Vec<u8>>>> {
    vec(option::of(vec(any::<u8>(), 0..50)), 0..20)
}

/// Takes the only frame out of `buf`.
fn one(mut buf: BytesMut) -> Frame {
    let frame = frame::take(&mut buf, MAX).unwrap().expect("a whole frame was written");
    assert!(buf.is_empty(), "the length covers the whole message");
    frame
}

fn written(write: impl FnOnce(&mut BytesMut)) -> Frame {
    let mut buf = BytesMut::new();
    write(&mut buf);
    one(buf)
}

/// `parse` must refuse every shorter body, and the body with a byte behind it.
fn strict<T, E>(body: &[u8], parse: impl Fn(&[u8]) -> Result<T, E>) {
    for end in 0..body.len() {
        assert!(parse(&body[..end]).is_err(), "cut at {end} of {}", body.len());
    }
    assert!(parse(&[body, &[0]].concat()).is_err(), "a byte too many");
}

fn slices(values: &[Option<Vec<u8>>]) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
    values.iter().map(|v| v.as_deref())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn query(sql in text()) {
        let frame = written(|b| put::query(b, &sql));
        prop_assert_eq!((frame.tag(), frontend::query(frame.body()).unwrap()), (b'Q', &*sql));
        strict(frame.body(), |b| frontend::query(b).map(|_| ()));
    }

    #[test]
    fn parse(name in text(), sql in text(), types in vec(any::<u32>(), 0..20)) {
        let frame = written(|b| put::parse(b, &name, &sql, &types));
        let parsed = frontend::parse(frame.body()).unwrap();
        prop_assert_eq!((frame.tag(), parsed.name, parsed.sql, &parsed.types), (b'P', &*name, &*sql, &types));
        strict(frame.body(), |b| frontend::parse(b).map(|_| ()));
    }

    #[test]
    fn bind(portal in text(), statement in text(), formats in vec(0..2i16, 0..5), values in values(),
            results in vec(0..2i16, 0..5)) {
        let frame = written(|b| put::bind(b, &portal, &statement, &formats, slices(&values), &results));
        let bind = frontend::bind(frame.body()).unwrap();
        prop_assert_eq!((bind.portal, bind.statement), (&*portal, &*statement));
        prop_assert_eq!((&bind.formats[..], &bind.result_formats[..]), (&formats[..], &results[..]));
        prop_assert_eq!(&bind.values[..], &slices(&values).collect::<Vec<_>>()[..]);
        // Under another name, everything else stays as it was.
        let renamed = written(|b| put::bind_tail(b, "p", "h1", bind.tail));
        let renamed = frontend::bind(renamed.body()).unwrap();
        prop_assert_eq!((renamed.portal, renamed.statement), ("p", "h1"));
        prop_assert_eq!((renamed.formats, &renamed.values[..], renamed.result_formats),
                        (bind.formats, &bind.values[..], bind.result_formats));
        strict(frame.body(), |b| frontend::bind(b).map(|_| ()));
    }

    #[test]
    fn named_and_execute(name in text(), rows_max in any::<i32>()) {
        for (frame, tag) in [(written(|b| put::describe(b, b'S', &name)), b'D'), (written(|b| put::close(b, b'S', &name)), b'C')] {
            let named = frontend::named(frame.body()).unwrap();
            prop_assert_eq!((frame.tag(), named.kind, named.name), (tag, b'S', &*name));
            strict(frame.body(), |b| frontend::named(b).map(|_| ()));
        }
        let frame = written(|b| put::execute(b, &name, rows_max));
        let execute = frontend::execute(frame.body()).unwrap();
        prop_assert_eq!((frame.tag(), execute.portal, execute.rows_max), (b'E', &*name, rows_max));
        strict(frame.body(), |b| frontend::execute(b).map(|_| ()));
    }

    #[test]
    fn rows(values in values(), fields in vec((text(), any::<u32>(), any::<i16>(), any::<i32>()), 0..10)) {
        let frame = written(|b| backend::data_row(b, slices(&values)));
        prop_assert_eq!(backend::parse_data_row(frame.body()).unwrap(), slices(&values).collect::<Vec<_>>());
        strict(frame.body(), |b| backend::parse_data_row(b).map(|_| ()));

        let fields: Vec<Field> = fields
            .into_iter()
            .map(|(name, oid, small, typmod)| Field {
                name, table_oid: oid, column: small, type_oid: !oid, type_len: !small, typmod, format: small & 1,
            })
            .collect();
        let frame = written(|b| backend::row_description(b, &fields));
        prop_assert_eq!(&backend::parse_row_description(frame.body()).unwrap(), &fields);
        strict(frame.body(), backend::parse_row_description);

        let oids: Vec<u32> = fields.iter().map(|f| f.table_oid).collect();
        let frame = written(|b| backend::parameter_description(b, &oids));
        prop_assert_eq!(backend::parse_parameter_description(frame.body()).unwrap(), oids);
        strict(frame.body(), backend::parse_parameter_description);
    }

    #[test]
    fn small_backend_messages(name in text(), value in text(), pid in any::<i32>(), secret in vec(any::<u8>(), 4..256)) {
        let frame = written(|b| backend::parameter_status(b, &name, &value));
        prop_assert_eq!(backend::parse_parameter_status(frame.body()).unwrap(), (&*name, &*value));
        strict(frame.body(), |b| backend::parse_parameter_status(b).map(|_| ()));
        let frame = written(|b| backend::command_complete(b, &name));
        prop_assert_eq!(backend::parse_command_complete(frame.body()).unwrap(), &*name);
        strict(frame.body(), |b| backend::parse_command_complete(b).map(|_| ()));
        let frame = written(|b| backend::backend_key_data(b, pid, &secret));
        prop_assert_eq!(backend::parse_backend_key_data(frame.body()).unwrap(), (pid, secret));
    }

    #[test]
    fn errors(fields in vec((1u8.., text()), 0..8)) {
        let error = ErrorFields { fields };
        let frame = written(|b| error.put(b, b'E'));
        prop_assert_eq!(&ErrorFields::parse(frame.body()).unwrap(), &error);
        strict(frame.body(), ErrorFields::parse);
    }

    #[test]
    fn zero_bytes_in_an_error_cannot_forge_fields(message in "[a-z\0]{1,20}") {
        let frame = written(|b| ErrorFields::error("XX000", message.clone()).put(b, b'E'));
        let read = ErrorFields::parse(frame.body()).unwrap();
        prop_assert_eq!(read.fields.len(), 4);
        prop_assert_eq!(read.message(), message.replace('\0', " "));
    }

    #[test]
    fn startup_packets(parameters in vec(("[^\0]{1,10}", text()), 0..6), pid in any::<i32>(),
                       secret in vec(any::<u8>(), 1..=256)) {
        let pairs: Vec<(&str, &str)> = parameters.iter().map(|(n, v)| (&**n, &**v)).collect();
        let mut buf = BytesMut::new();
        startup::put_start(&mut buf, &pairs);
        let (read, len) = startup::parse(&buf).unwrap().unwrap();
        prop_assert_eq!((read, len), (Startup::Start { version: startup::PROTOCOL_3_0, parameters }, buf.len()));
        for end in 0..buf.len() {
            prop_assert_eq!(startup::parse(&buf[..end]), Ok(None), "incomplete, not wrong");
        }
        buf.clear();
        startup::put_cancel(&mut buf, pid, &secret);
        prop_assert_eq!(startup::parse(&buf).unwrap().unwrap(), (Startup::Cancel { pid, secret }, buf.len()));
        buf.clear();
        startup::put_ssl_request(&mut buf);
        prop_assert_eq!(startup::parse(&buf).unwrap().unwrap(), (Startup::Ssl, 8));
    }
}

#[test]
fn errors_in_another_encoding_are_still_shown() {
    let read = ErrorFields::parse(b"SFATAL\0C28P01\0MPa\xdfwort\0\0").unwrap();
    assert_eq!((read.code(), read.message(), read.is_fatal()), ("28P01", "Pa\u{fffd}wort", true));
}

#[test]
fn rows_of_command_tags() {
    for (tag, rows) in [("INSERT 0 5", 5), ("SELECT 3", 3), ("COPY 12", 12), ("CREATE TABLE", 0), ("", 0)] {
        assert_eq!(backend::rows_of_tag(tag), rows, "{tag}");
    }
}
