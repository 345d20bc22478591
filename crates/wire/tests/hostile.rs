//! Hostile bytes: nothing panics, nothing is taken that is not there, and memory stays within what really arrived
//! plus one bounded reservation.

use bytes::{BufMut, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::scram::{ClientScram, Secret, ServerScram, Verifier};
use wire::{ErrorFields, WireError, backend, frame, frontend, startup};

const MAX: usize = 1 << 30;

/// Every parser there is; results don't matter, only that each returns.
fn parse_with_everything(body: &[u8]) {
    let _ = frontend::query(body);
    let _ = frontend::parse(body);
    let _ = frontend::named(body);
    let _ = frontend::execute(body);
    if let Ok(bind) = frontend::bind(body) {
        (0..bind.values.len() + 1).for_each(|i| _ = bind.format(i));
    }
    let _ = backend::parse_row_description(body);
    let _ = backend::parse_parameter_description(body);
    let _ = backend::parse_data_row(body);
    let _ = backend::parse_command_complete(body).map(backend::rows_of_tag);
    let _ = backend::parse_parameter_status(body);
    let _ = backend::parse_backend_key_data(body);
    let _ = ErrorFields::parse(body).map(|e| (e.code().len(), e.is_fatal()));
    let _ = startup::parse(body);
}

/// Bytes that look like messages more often than chance would have it.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        vec(any::<u8>(), 0..12),
        Just(vec![0]),
        Just(vec![0xff; 4]),
        Just(b"a\0".to_vec()),
        (0..40u32).prop_map(|n| n.to_be_bytes().to_vec()),
        (0..4u16).prop_map(|n| n.to_be_bytes().to_vec()),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_never_panic(body in bytes()) {
        parse_with_everything(&body);
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut(
        messages in vec((any::<u8>(), vec(any::<u8>(), 0..300)), 1..10),
        chunk in 1..64usize,
    ) {
        let mut stream = BytesMut::new();
        for (tag, body) in &messages {
            wire::put::message(&mut stream, *tag, |b| b.put_slice(body));
        }
        let (mut buf, mut read) = (BytesMut::new(), Vec::new());
        for piece in stream.chunks(chunk) {
            buf.extend_from_slice(piece);
            while let Some(frame) = frame::take(&mut buf, MAX).unwrap() {
                prop_assert_eq!(frame.raw.len(), frame.body().len() + frame::HEADER_LEN);
                read.push((frame.tag(), frame.body().to_vec()));
            }
        }
        prop_assert_eq!(read, messages);
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn lying_lengths_allocate_a_bounded_amount(tag in any::<u8>(), len in any::<i32>(), max in 5..MAX) {
        let mut buf = BytesMut::new();
        buf.put_u8(tag);
        buf.put_i32(len);
        let taken = frame::take(&mut buf, max);
        prop_assert!(buf.capacity() <= (1 << 20) + 4096, "reserved {} for 5 bytes", buf.capacity());
        match len {
            ..4 => prop_assert_eq!(taken, Err(WireError::Length(len))),
            _ if len as usize + 1 > max => {
                prop_assert_eq!(taken, Err(WireError::TooLong { bytes: len as usize + 1, max }))
            }
            4 => prop_assert!(taken.unwrap().is_some()),
            _ => prop_assert_eq!(taken, Ok(None)),
        }
    }

    #[test]
    fn lying_counts_are_refused_before_anything_is_allocated(count in 100u16.., tail in vec(any::<u8>(), 0..100)) {
        let with_count = |head: &[u8]| [head, &count.to_be_bytes(), &tail].concat();
        prop_assert_eq!(frontend::parse(&with_count(b"\0\0")).unwrap_err(), WireError::Truncated);
        prop_assert_eq!(frontend::bind(&with_count(b"\0\0")).unwrap_err(), WireError::Truncated);
        prop_assert_eq!(backend::parse_data_row(&with_count(b"")).unwrap_err(), WireError::Truncated);
        prop_assert_eq!(backend::parse_row_description(&with_count(b"")).unwrap_err(), WireError::Truncated);
        prop_assert_eq!(backend::parse_parameter_description(&with_count(b"")).unwrap_err(), WireError::Truncated);
    }

    #[test]
    fn scram_survives_anything(text in "[nyp,=am]{0,6}[a-zA-Z0-9=,+/$:\u{e9}]{0,60}") {
        let _ = Verifier::parse(&text);
        let _ = Verifier::parse(&format!("SCRAM-SHA-256${text}"));
        let mut server = ServerScram::new(Verifier::mock("u", &[1; 32], 4096), "server");
        let _ = server.handle_first(&text);
        let mut server = ServerScram::new(Verifier::mock("u", &[1; 32], 4096), "server");
        server.handle_first("n,,n=,r=client").unwrap();
        prop_assert!(server.handle_final(&text).is_err());
        let keys = Secret::Keys { client_key: [1; 32], server_key: [2; 32] };
        let mut client = ClientScram::new(keys.clone(), "client");
        prop_assert!(client.handle_first(&text).is_err());
        let mut client = ClientScram::new(keys, "client");
        client.handle_first("r=clientserver,s=AAAA,i=1").unwrap();
        prop_assert!(client.verify(&text).is_err());
    }
}

#[test]
fn startup_lengths_are_limited() {
    for len in [i32::MIN, -1, 0, 4, 7] {
        let packet = [&len.to_be_bytes()[..], &[0; 20]].concat();
        assert_eq!(startup::parse(&packet), Err(WireError::Length(len)));
    }
    for len in [startup::STARTUP_MAX as i32 + 1, i32::MAX] {
        let refused = Err(WireError::TooLong { bytes: len as usize, max: startup::STARTUP_MAX });
        assert_eq!(startup::parse(&len.to_be_bytes()), refused, "refused before the rest has come");
    }
}
