use headgate_core::memory::Reservation;
use proptest::prelude::*;

use super::*;

const MAX: u64 = 1000;

/// The status, the body, and whether more bytes followed; or the error kind, and the status if the head had arrived.
type Read = Result<(u16, Vec<u8>, bool), (ErrorKind, Option<u16>)>;

fn reader(wanted: WantedBody) -> ResponseReader {
    ResponseReader::new(false, IncomingBody::new(wanted, Reservation::default()), Redirects::none())
}

/// Feeds `data` in pieces of the given lengths, which are cycled, and then closes the connection.
fn read(data: &[u8], pieces: &[usize]) -> Read {
    let mut reader = reader(WantedBody::AtMost(MAX));
    let mut rest = data;
    let mut lengths = pieces.iter().cycle();
    let outcome = loop {
        if rest.is_empty() {
            break reader.finish();
        }
        let (piece, after) = rest.split_at(rest.len().min(*lengths.next().expect("cycled")));
        rest = after;
        if let Err(failure) = reader.feed(piece) {
            break Err(failure);
        }
    };
    let status = reader.head.as_ref().map(|head| head.status);
    match outcome {
        Ok(()) => Ok((status.unwrap_or_default(), reader.body.bytes, reader.excess)),
        Err(failure) => Err((failure.kind, status)),
    }
}

fn text(parts: &[&str]) -> Vec<u8> {
    parts.concat().into_bytes()
}

#[test]
fn responses_are_read_to_their_end() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    for (expected, data) in [
        ((200, "hello", false), text(&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"])),
        ((200, "hello", false), text(&["HTTP/1.1 200 OK\r\n\r\nhello"])),
        (
            (200, "hello", false),
            text(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]),
        ),
        ((201, "hello", false), text(&[interim, "HTTP/1.1 201 Made\r\nContent-Length: 5\r\n\r\nhello"])),
        ((204, "", false), text(&["HTTP/1.1 204 No Content\r\n\r\n"])),
        ((200, "hell", true), text(&["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello"])),
        ((204, "", true), text(&["HTTP/1.1 204 No Content\r\n\r\nbody"])),
    ] {
        let (status, body, excess) = expected;
        for pieces in [&[10_000][..], &[1], &[3, 7]] {
            let expected = Ok((status, body.as_bytes().to_vec(), excess));
            assert_eq!(expected, read(&data, pieces), "{}", String::from_utf8_lossy(&data));
        }
    }
}

#[test]
fn each_failure_has_its_error_kind() {
    let endless_interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(101);
    for (kind, status, data) in [
        (ErrorKind::ConnectionClosed, None, text(&[""])),
        (ErrorKind::ConnectionClosed, None, text(&["HTTP/1.1 200 OK\r\nContent-"])),
        (ErrorKind::ConnectionClosed, Some(200), text(&["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello"])),
        (
            ErrorKind::ConnectionClosed,
            Some(200),
            text(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"]),
        ),
        (ErrorKind::Protocol, None, text(&["<html>no head at all"])),
        (ErrorKind::Protocol, None, text(&["HTTP/1.1 101 Switching Protocols\r\n\r\n"])),
        (ErrorKind::Protocol, None, text(&[&endless_interim])),
        (ErrorKind::Protocol, Some(200), text(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello"])),
        (ErrorKind::BodyTooLarge, Some(200), text(&["HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n"])),
        (ErrorKind::BodyTooLarge, Some(200), text(&["HTTP/1.1 200 OK\r\n\r\n", &"x".repeat(1001)])),
    ] {
        for pieces in [&[100_000][..], &[1], &[3, 7]] {
            assert_eq!(Err((kind, status)), read(&data, pieces), "{}", String::from_utf8_lossy(&data));
        }
    }
}

#[test]
fn a_head_that_comes_byte_by_byte_is_not_parsed_after_each_byte() {
    let mut searched = 0;
    let mut data = b"HTTP/1.1 200 OK\r\n".to_vec();
    assert!(!has_end(&data, &mut searched));
    assert_eq!(14, searched);
    data.extend(b"\r");
    assert!(!has_end(&data, &mut searched));
    data.extend(b"\n");
    assert!(has_end(&data, &mut searched));
}

/// Reads a body of 10 bytes. Returns the bytes kept, whether they are cut off, and whether the connection is reusable.
fn first_bytes(wanted: WantedBody, data: &str, pieces: &[usize]) -> (Vec<u8>, bool, bool) {
    let mut reader = reader(wanted);
    let mut rest = data.as_bytes();
    let mut lengths = pieces.iter().cycle();
    while !reader.is_done() && !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(*lengths.next().expect("cycled")));
        rest = after;
        reader.feed(piece).expect("the response is valid");
    }
    if !reader.is_done() {
        reader.finish().expect("it ends with the connection");
    }
    let keeps = reader.head.as_ref().is_some_and(|head| head.keep_alive);
    let is_cut = reader.body.is_cut;
    (std::mem::take(&mut reader.body.bytes), is_cut, keeps && reader.is_at_end())
}

#[test]
fn the_first_bytes_of_a_long_body_are_kept_and_the_rest_is_drained_or_abandoned() {
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n";
    let until_close = "HTTP/1.1 200 OK\r\n\r\n0123456789";
    let broken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\nno size\r\n";
    let whole = &[1000][..];
    for (pieces, data, reusable) in [
        (whole, length, true),
        (&[1], length, true),
        (whole, chunked, true),
        (&[1], chunked, false),
        (whole, until_close, false),
        (&[1], until_close, false),
        (whole, broken, false),
    ] {
        for max_bytes in [0, 1, 9] {
            let kept = first_bytes(WantedBody::FirstBytes(max_bytes as u64), data, pieces);
            assert_eq!((b"0123456789"[..max_bytes].to_vec(), true, reusable), kept, "{data} {pieces:?}");
        }
        let (body, _, keeps) = first_bytes(WantedBody::Nothing, data, pieces);
        assert_eq!((Vec::new(), reusable), (body, keeps), "{data} {pieces:?}");
    }
    for (data, keeps) in [(length, true), (chunked, true), (until_close, false)] {
        let kept = first_bytes(WantedBody::FirstBytes(10), data, &[1]);
        assert_eq!((b"0123456789".to_vec(), false, keeps), kept, "{data}");
    }
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n0123", MAX_DRAINED_BYTES + 1);
    assert_eq!((Vec::new(), false, false), first_bytes(WantedBody::Nothing, &long, &[long.len() - 4]));
    assert_eq!((b"0".to_vec(), true, true), {
        let little = format!("HTTP/1.1 200 OK\r\nContent-Length: {MAX_DRAINED_BYTES}\r\n\r\n");
        let little = little + &"0".repeat(MAX_DRAINED_BYTES as usize);
        first_bytes(WantedBody::FirstBytes(1), &little, &[5000])
    });
}

#[test]
fn the_bytes_of_a_failed_body_are_kept() {
    let kept = |data: &[u8]| {
        let mut reader = reader(WantedBody::AtMost(8));
        let fed = reader.feed(data).and_then(|()| reader.finish());
        (fed.expect_err("it fails").kind, String::from_utf8(reader.body.bytes).expect("ASCII"))
    };
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n";
    for (kind, body, data) in [
        (ErrorKind::BodyTooLarge, "01234567", text(&["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"])),
        (ErrorKind::BodyTooLarge, "01", text(&["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01"])),
        (ErrorKind::BodyTooLarge, "01234567", text(&["HTTP/1.1 200 OK\r\n\r\n0123456789"])),
        (ErrorKind::BodyTooLarge, "01234567", text(&[chunked, "6\r\n456789\r\n0\r\n\r\n"])),
        (ErrorKind::ConnectionClosed, "01234", text(&["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n01234"])),
        (ErrorKind::ConnectionClosed, "012345", text(&[chunked, "6\r\n45"])),
        (ErrorKind::Protocol, "0123", text(&[chunked, "no size\r\n"])),
    ] {
        assert_eq!((kind, body.to_owned()), kept(&data), "{}", String::from_utf8_lossy(&data));
    }
}

proptest! {
    #[test]
    fn the_response_does_not_depend_on_how_the_bytes_are_cut(
        head in "(HTTP/1.1 (100|200|204|304|999) x\r\n)?(Content-Length: [0-9]{1,2}\r\n|Transfer-Encoding: chunked\r\n){0,2}(\r?\n)?",
        body in "[0-9a\r\n]{0,40}",
        pieces in proptest::collection::vec(1_usize..9, 1..5),
    ) {
        let data = text(&[&head, &body]);
        prop_assert_eq!(read(&data, &[100_000]), read(&data, &pieces));
        if let Some(whole) = parse_whole(&data, &mut head::header_buffer(), false, WantedBody::AtMost(MAX)) {
            let expected = Ok((whole.head.status, whole.body.expect("wanted").to_vec(), false));
            prop_assert_eq!(expected, read(&data, &[100_000]));
        }
    }
}
