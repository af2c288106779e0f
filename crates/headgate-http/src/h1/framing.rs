//! Interprets the headers of a head: where the body ends and whether the connection stays open (RFC 9112 sections 6 and 9).
//!
//! These rules are strict, however a head was parsed. Two parsers that disagree on where a response ends can be made to take
//! one response for another (response splitting). So contradicting lengths are refused, and anything unusual closes the
//! connection after this response.

use headgate_core::reason::Reason;

/// The framing of a body: where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    Length(u64),
    Chunked,
    /// The body ends when the server closes the connection.
    UntilClose,
}

/// The headers that affect the body and the connection, as far as they were added.
#[expect(clippy::struct_excessive_bools, reason = "each is one independent header")]
#[derive(Debug, Default)]
pub(super) struct FramingHeaders {
    content_length: Option<u64>,
    chunked: bool,
    pub(super) close: bool,
    keep_alive: bool,
    pub(super) encoded: bool,
}

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResponseEnd {
    pub(super) framing: Framing,
    /// The connection can take another request after the body.
    pub(super) keep_alive: bool,
}

impl FramingHeaders {
    /// Adds one header.
    ///
    /// # Errors
    /// Returns a message for the user if the header leaves unclear where the body ends.
    pub(super) fn add(&mut self, name: &str, value: &[u8]) -> Result<(), &'static str> {
        // The length alone rules out most other headers.
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
                // The request allowed no other coding (it had no TE header), and chunked may be applied only once.
                if self.chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err("the transfer-encoding is not `chunked`");
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns how a response with these headers ends. `to_head`: the request's method is HEAD.
    ///
    /// # Errors
    /// The status is out of range, or a response of HTTP/1.0 is chunked.
    pub(super) fn ending(&self, status: u16, to_head: bool, http_11: bool) -> Result<ResponseEnd, Reason> {
        if !(100..=999).contains(&status) {
            return Err(Reason::new("the status is out of range").with(status.to_string()));
        }
        let never_has_body = status == 204 || status == 304 || status < 200;
        let announced = match self.content_length {
            _ if self.chunked && !http_11 && !never_has_body && !to_head => {
                let reason = Reason::new("a response of HTTP/1.0 can't be chunked");
                return Err(reason.with(format!("status {status}")));
            }
            _ if self.chunked => Framing::Chunked,
            Some(0) => Framing::Empty,
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        };
        let framing = if never_has_body || to_head { Framing::Empty } else { announced };
        let keep_alive = !self.close
            && (http_11 || self.keep_alive)
            // Also in response to HEAD: some servers send a generated body even so, and it ends with the connection.
            && (never_has_body || announced != Framing::UntilClose)
            // Both headers together are a means of response smuggling (RFC 9112 section 6.3).
            && !(self.chunked && self.content_length.is_some())
            // A 204 must have neither header (RFC 9110 section 8.6, RFC 9112 section 6.1); the announced body may follow.
            && !(status == 204 && (self.chunked || self.content_length.is_some_and(|length| length > 0)));
        Ok(ResponseEnd { framing, keep_alive })
    }
}

fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Returns the value of a string of digits, and `None` for a sign, a space or an overflow.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}
