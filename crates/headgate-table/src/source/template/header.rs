//! Headers that are made of columns. A value can't begin another header, and is sent unchanged or not at all.

use headgate_core::message::Message;
use headgate_core::reason::Reason;

use super::cell::{Cell, RenderBuffer};
use super::parse::Template;

/// Servers accept far less for all headers together.
pub(super) const MAX_HEADER_BYTES: usize = 64 * 1024;

/// # Errors
/// The text of the template can't be sent.
pub(super) fn check_literals(template: &Template) -> Result<(), Message> {
    if template.literals().all(|text| text.bytes().all(is_fit)) {
        return Ok(());
    }
    Err("has a character that can't be sent in a header".into())
}

/// Returns the value of the header with this name.
///
/// # Errors
/// Why a row with these values has none.
pub(super) fn render(name: &str, template: &Template, cells: &[Cell<'_>]) -> Result<Box<[u8]>, Reason> {
    let mut header = RenderBuffer::new("a header", MAX_HEADER_BYTES);
    template.render(cells, &mut header, |_, value, header| header.push(value))?;
    check(name, &header.bytes)?;
    Ok(header.bytes.into())
}

/// # Errors
/// The value can't be sent as the header with this name, or would lose white space at an end. Receivers strip it (RFC 9110
/// section 5.5). The message omits the value, which may be a secret.
pub(super) fn check(name: &str, value: &[u8]) -> Result<(), Reason> {
    if value.len() > MAX_HEADER_BYTES {
        return Err(format!("a header is longer than {MAX_HEADER_BYTES} bytes").into());
    }
    if !value.iter().copied().all(is_fit) {
        return Err(format!("the header {name:?} has a character that can't be sent, such as a line break").into());
    }
    if [value.first(), value.last()].into_iter().flatten().any(|byte| b" \t".contains(byte)) {
        return Err(format!("the header {name:?} begins or ends with white space, which would be lost").into());
    }
    Ok(())
}

/// Returns whether RFC 9110 section 5.5 allows the byte: visible characters, spaces, tabs, and bytes beyond ASCII.
fn is_fit(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7F
}
