//! Fuzzing in both directions: what clients send and what nodes answer, as whole streams from their first byte. What must
//! hold: no panic; a stream gives the same messages however it is cut; nothing is reserved for what is only announced; what is
//! understood can be written again and is understood as the same. `make fuzz` runs it for long.

mod fuzz_support;

use std::path::Path;

use bytes::BytesMut;
use fuzz_support::{Seen, run};
use wire::scram::{ClientScram, Secret, ServerScram, Verifier};
use wire::{ErrorFields, backend, frame, frontend, put, startup};

const MAX: usize = 1 << 20;
/// One reservation of `frame::take`, and what a buffer doubles to.
const RESERVED_MAX: usize = (1 << 20) + (16 << 10);

const WORDS: &[&[u8]] = &[
    b"\0",
    b"\0\0\0\x04",
    b"\0\0\0\x08",
    b"\xff\xff\xff\xff",
    b"\0\x03\0\0",
    b"\0\x03\0\x02",
    b"user\0",
    b"Q\0\0\0\x06;\0",
    b"S\0\0\0\x04",
    b"X\0\0\0\x04",
    b"SELECT 1",
    b"\0\x01",
    b"C42P01\0",
    b"SFATAL\0",
    b"Z\0\0\0\x05I",
    b"Z\0\0\0\x05T",
    b"n,,n=,r=",
    b"r=",
    b",s=",
    b",i=4096",
    b"c=biws",
    b",p=",
    b"v=",
    b"\xc3\xa9",
    b"_pq_.",
];

fn corpus() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus"))
}

/// How large something is, roughly: counts are behaviour, their exact values are not.
fn size(n: usize) -> u32 {
    usize::BITS - n.leading_zeros()
}

/// The messages of a stream, taken out as they come in pieces of `chunk` bytes; and whether it ended in an error.
fn frames(stream: &[u8], chunk: usize) -> (Vec<frame::Frame>, Option<String>) {
    let (mut buf, mut found) = (BytesMut::new(), Vec::new());
    for piece in stream.chunks(chunk.max(1)) {
        buf.extend_from_slice(piece);
        loop {
            match frame::take(&mut buf, MAX) {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(e) => return (found, Some(e.to_string())),
            }
        }
        assert!(buf.capacity() <= RESERVED_MAX, "{} bytes reserved for {} that came", buf.capacity(), stream.len());
    }
    (found, None)
}

fn frames_in_any_pieces(stream: &[u8], seen: &mut Seen) -> Vec<frame::Frame> {
    let (found, error) = frames(stream, stream.len());
    for chunk in [1, 7] {
        assert_eq!((&found, &error), (&frames(stream, chunk).0, &frames(stream, chunk).1), "cut into {chunk}");
    }
    seen.note(("end", error.is_some()));
    found
}

fn client(stream: &[u8], seen: &mut Seen) {
    let rest = match startup::parse(stream) {
        Ok(Some((packet, length))) => {
            assert!((8..=stream.len().min(startup::STARTUP_MAX)).contains(&length));
            seen.note(("startup", std::mem::discriminant(&packet)));
            if let startup::Startup::Start { version, parameters } = &packet {
                seen.note(("start", (version & 0xffff).min(4), size(parameters.len())));
            }
            &stream[length..]
        }
        Ok(None) => return seen.note("startup is not complete"),
        Err(e) => {
            seen.note(("startup", std::mem::discriminant(&e)));
            stream
        }
    };
    for frame in frames_in_any_pieces(rest, seen) {
        let (tag, body) = (frame.tag(), frame.body());
        let mut again = BytesMut::new();
        match tag {
            b'Q' => {
                if let Ok(sql) = frontend::query(body) {
                    put::query(&mut again, sql);
                    assert_eq!(again, frame.raw);
                }
                seen.note((tag, frontend::query(body).is_ok()));
            }
            b'P' => match frontend::parse(body) {
                Ok(p) => {
                    put::parse(&mut again, p.name, p.sql, &p.types);
                    assert_eq!(again, frame.raw);
                    seen.note((tag, p.name.is_empty(), size(p.types.len())));
                }
                Err(e) => seen.note((tag, std::mem::discriminant(&e))),
            },
            b'B' => match frontend::bind(body) {
                Ok(b) => {
                    put::bind_tail(&mut again, b.portal, b.statement, b.tail);
                    assert_eq!(again, frame.raw);
                    (0..b.values.len() + 1).for_each(|i| _ = b.format(i));
                    let nulls = b.values.iter().filter(|v| v.is_none()).count();
                    seen.note((
                        tag,
                        size(b.values.len()),
                        size(nulls),
                        size(b.formats.len()),
                        size(b.result_formats.len()),
                    ));
                }
                Err(e) => seen.note((tag, std::mem::discriminant(&e))),
            },
            b'D' | b'C' => seen.note((tag, frontend::named(body).map(|n| matches!(n.kind, b'S' | b'P')).ok())),
            b'E' => match frontend::execute(body) {
                Ok(e) => {
                    put::execute(&mut again, e.portal, e.rows_max);
                    assert_eq!(again, frame.raw);
                    seen.note((tag, e.rows_max.signum()));
                }
                Err(e) => seen.note((tag, std::mem::discriminant(&e))),
            },
            b'p' => {
                let text = String::from_utf8_lossy(body);
                let mut server = ServerScram::new(Verifier::mock("u", &[1; 32], 4096), "server");
                seen.note(("scram first", server.handle_first(&text).is_ok()));
                let mut server = ServerScram::new(Verifier::mock("u", &[1; 32], 4096), "server");
                if server.handle_first("n,,n=,r=client").is_ok() {
                    assert!(server.handle_final(&text).is_err(), "a login without a secret");
                }
            }
            _ => seen.note("another message"),
        }
    }
}

fn node(stream: &[u8], seen: &mut Seen) {
    for frame in frames_in_any_pieces(stream, seen) {
        let (tag, body) = (frame.tag(), frame.body());
        let mut again = BytesMut::new();
        match tag {
            b'T' => match backend::parse_row_description(body) {
                Ok(fields) => {
                    backend::row_description(&mut again, &fields);
                    assert_eq!(again, frame.raw);
                    seen.note((tag, size(fields.len())));
                }
                Err(e) => seen.note((tag, std::mem::discriminant(&e))),
            },
            b't' => match backend::parse_parameter_description(body) {
                Ok(types) => {
                    backend::parameter_description(&mut again, &types);
                    assert_eq!(again, frame.raw);
                    seen.note((tag, size(types.len())));
                }
                Err(e) => seen.note((tag, std::mem::discriminant(&e))),
            },
            b'D' => match backend::parse_data_row(body) {
                Ok(values) => {
                    backend::data_row(&mut again, values.iter().copied());
                    assert_eq!(again, frame.raw);
                    seen.note((tag, size(values.len()), values.iter().any(Option::is_none)));
                }
                Err(e) => seen.note((tag, std::mem::discriminant(&e))),
            },
            b'C' => match backend::parse_command_complete(body) {
                Ok(text) => seen.note((tag, size(backend::rows_of_tag(text) as usize))),
                Err(e) => seen.note((tag, std::mem::discriminant(&e))),
            },
            b'S' => seen.note((tag, backend::parse_parameter_status(body).is_ok())),
            b'K' => seen.note((tag, backend::parse_backend_key_data(body).map(|(_, secret)| size(secret.len())).ok())),
            b'E' | b'N' => match ErrorFields::parse(body) {
                Ok(fields) => {
                    fields.put(&mut again, tag);
                    let read = ErrorFields::parse(&again[frame::HEADER_LEN..]).expect("what was just written");
                    assert_eq!((read.code(), read.message()), (fields.code(), fields.message()));
                    seen.note((tag, fields.is_fatal(), size(fields.code().len())));
                }
                Err(e) => seen.note((tag, std::mem::discriminant(&e))),
            },
            b'R' => {
                let text = String::from_utf8_lossy(body.get(4..).unwrap_or_default());
                let keys = Secret::Keys { client_key: [1; 32], server_key: [2; 32] };
                let mut scram = ClientScram::new(keys.clone(), "client");
                // Iterations cost time by design: the corpus is not to be slow.
                if !text.contains("i=") || text.len() < 80 {
                    seen.note(("scram first", scram.handle_first(&text).is_ok()));
                }
                let mut scram = ClientScram::new(keys, "client");
                scram.handle_first("r=clientserver,s=AAAA,i=1").expect("a server's first message");
                assert!(scram.verify(&text).is_err(), "a server without the verifier");
            }
            _ => seen.note("another message"),
        }
    }
}

fn client_seeds() -> Vec<Vec<u8>> {
    let mut whole = BytesMut::new();
    startup::put_start(&mut whole, &[("user", "u"), ("database", "d"), ("options", "-c a=b")]);
    let mut seeds = Vec::new();
    for one in [
        |b: &mut BytesMut| put::query(b, "SELECT 1"),
        |b: &mut BytesMut| put::parse(b, "s", "SELECT $1", &[23, 0]),
        |b: &mut BytesMut| put::bind_tail(b, "p", "s", b"\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\x01\0\x01"),
        |b: &mut BytesMut| put::describe(b, b'S', "s"),
        |b: &mut BytesMut| put::execute(b, "p", 10),
        |b: &mut BytesMut| put::close(b, b'P', "p"),
        |b: &mut BytesMut| put::sync(b),
        |b: &mut BytesMut| put::copy_data(b, b"1\tx\n"),
        |b: &mut BytesMut| put::copy_fail(b, "no"),
        |b: &mut BytesMut| put::password(b, b"n,,n=,r=client"),
        |b: &mut BytesMut| put::terminate(b),
    ] {
        let mut alone = BytesMut::new();
        startup::put_start(&mut alone, &[("user", "u")]);
        one(&mut alone);
        one(&mut whole);
        seeds.push(alone.to_vec());
    }
    let mut packet = BytesMut::new();
    startup::put_ssl_request(&mut packet);
    seeds.push(packet.to_vec());
    let mut packet = BytesMut::new();
    startup::put_cancel(&mut packet, 7, &[1; 32]);
    seeds.extend([packet.to_vec(), whole.to_vec()]);
    seeds
}

fn node_seeds() -> Vec<Vec<u8>> {
    let mut b = BytesMut::new();
    backend::auth_sasl(&mut b, &["SCRAM-SHA-256"]);
    backend::auth_sasl_data(&mut b, 11, b"r=clientserver,s=AAAA,i=1");
    backend::auth_sasl_data(&mut b, 12, b"v=AAAA");
    backend::auth_ok(&mut b);
    backend::negotiate_protocol(&mut b, 0, &["_pq_.x"]);
    backend::parameter_status(&mut b, "TimeZone", "UTC");
    backend::backend_key_data(&mut b, 1, &[1; 32]);
    backend::ready(&mut b, backend::IDLE);
    backend::parameter_description(&mut b, &[23, 25]);
    backend::row_description(&mut b, &[backend::Field::text("a"), backend::Field::new("b", 23, 4)]);
    backend::data_row(&mut b, [Some(&b"1"[..]), None].into_iter());
    backend::command_complete(&mut b, "INSERT 0 12");
    backend::copy_response(&mut b, b'G', 0, 2);
    ErrorFields::error("42P01", "no such table").detail("d").hint("h").position(5).put(&mut b, b'E');
    ErrorFields::fatal("57P01", "gone").put(&mut b, b'N');
    let (all, _) = frames(&b, b.len());
    all.iter().map(|f| f.raw.to_vec()).chain([b.to_vec()]).collect()
}

#[test]
fn what_clients_send() {
    run(corpus(), "client", client_seeds(), WORDS, client);
}

#[test]
fn what_nodes_answer() {
    run(corpus(), "node", node_seeds(), WORDS, node);
}
