//! What the headers of a head say of its body and of the connection (RFC 9112 sections 6 and 9).
//!
//! This is decided strictly, however a head was read, because two readers that disagree on where a response ends can be
//! made to take one's answer for another's (response splitting): contradicting lengths are refused, and whatever is
//! unusual ends the connection after this response.

use crate::model::reason::Reason;

/// Where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    Length(u64),
    Chunked,
    /// With the connection.
    UntilClose,
}

/// What of the headers concerns us.
#[expect(clippy::struct_excessive_bools, reason = "what headers say, each by itself")]
#[derive(Debug, Default)]
pub(super) struct Meaning {
    content_length: Option<u64>,
    chunked: bool,
    pub(super) close: bool,
    keep_alive: bool,
    pub(super) encoded: bool,
}

/// What follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) framing: Framing,
    /// Whether the connection may be used again after the body.
    pub(super) keep_alive: bool,
}

impl Meaning {
    /// # Errors
    /// Why nobody can tell where the body ends.
    pub(super) fn take(&mut self, name: &str, value: &[u8]) -> Result<(), &'static str> {
        // Most headers are told from ours by their length alone.
        match name.len() {
            10 if name.eq_ignore_ascii_case("connection") => {
                for option in list(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                for value in list(value) {
                    let length = decimal(value).ok_or("the content-length is not a number")?;
                    if self.content_length.is_some_and(|other| other != length) {
                        return Err("the response has several content-lengths that differ");
                    }
                    self.content_length = Some(length);
                }
            }
            16 if name.eq_ignore_ascii_case("content-encoding") => self.encoded = true,
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                // No other coding was asked for (there was no TE header), and chunked may be applied once only.
                if self.chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err("the transfer-encoding is not `chunked`");
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// # Errors
    /// Why it can't be.
    pub(super) fn ending(&self, status: u16, to_head: bool, http_11: bool) -> Result<Ending, Reason> {
        if !(100..=999).contains(&status) {
            return Err(Reason::new("the status is out of range").with(status.to_string()));
        }
        let never_has_body = status == 204 || status == 304 || status < 200;
        let said = match self.content_length {
            _ if self.chunked && !http_11 && !never_has_body && !to_head => {
                let reason = Reason::new("a response of HTTP/1.0 can't be chunked");
                return Err(reason.with(format!("status {status}")));
            }
            _ if self.chunked => Framing::Chunked,
            Some(0) => Framing::Empty,
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        };
        let framing = if never_has_body || to_head { Framing::Empty } else { said };
        let keep_alive = !self.close
            && (http_11 || self.keep_alive)
            // To HEAD, too: servers that make up a body as they go send it all the same, and it ends with the connection.
            && (never_has_body || said != Framing::UntilClose)
            // Both at once is how responses are smuggled (RFC 9112 section 6.3).
            && !(self.chunked && self.content_length.is_some())
            // Neither may be there (RFC 9110 section 8.6, RFC 9112 section 6.1); the body it announces may be on its way.
            && !(status == 204 && (self.chunked || self.content_length.is_some_and(|length| length > 0)));
        Ok(Ending { framing, keep_alive })
    }
}

fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Digits only: no sign, no space, no overflow.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}
