//! Encodes frames of HTTP/2 (RFC 9113 section 4.1), and the part of HPACK (RFC 7541) that needs no state.

pub(super) const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const RST_STREAM: u8 = 0x3;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const PUSH_PROMISE: u8 = 0x5;
pub(super) const PING: u8 = 0x6;
pub(super) const GOAWAY: u8 = 0x7;
pub(super) const WINDOW_UPDATE: u8 = 0x8;
pub(super) const CONTINUATION: u8 = 0x9;
/// An unknown frame type (RFC 9113 section 5.5).
pub(super) const UNKNOWN: u8 = 0xbb;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;

/// `:status 200`, of HPACK's static table.
pub(super) const STATUS_200: u8 = 0x88;
/// The newest entry of HPACK's dynamic table.
pub(super) const NEWEST_ENTRY: u8 = 0b1011_1110;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Encodes a header that is not added to the dynamic table; `name` and `value` are shorter than 127 bytes.
pub(super) fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

/// Encodes the headers of a response of 13 bytes.
pub(super) fn headers(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &[&[STATUS_200], &literal("content-length", "13")[..]].concat())
}

pub(super) fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, 0, stream, bytes)
}

pub(super) fn last_data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, END_STREAM, stream, bytes)
}

pub(super) fn response(stream: u32) -> Vec<u8> {
    [headers(stream), last_data(stream, b"Hello, World!")].concat()
}

/// Encodes a GOAWAY frame: streams up to `last` were processed, later ones were not.
pub(super) fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

pub(super) fn setting(name: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
}
