//! Percent-encoding of values: all bytes but the unreserved ones (RFC 3986 section 2.3), so that a value has no special
//! meaning anywhere in a URL or a form.

use headgate_core::reason::Reason;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::cell::RenderBuffer;

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(super) fn push(value: &[u8], out: &mut RenderBuffer) -> Result<(), Reason> {
    percent_encode(value, RESERVED).try_for_each(|piece| out.push(piece.as_bytes()))
}

pub(super) fn encoded(text: &str) -> String {
    percent_encode(text.as_bytes(), RESERVED).to_string()
}
