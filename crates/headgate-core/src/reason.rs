//! Reasons of failures, for the user.

use std::borrow::Cow;
use std::fmt;

/// The number of bytes that are shown of what a peer sent.
const MAX_SHOWN_BYTES: usize = 60;

/// A message that is the same for the same cause, so that failures can be counted by it, and the detail that varies: an
/// address, a position in a line, a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    pub message: Cow<'static, str>,
    pub detail: Option<Box<str>>,
}

impl Reason {
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), detail: None }
    }

    /// Adds a detail.
    #[must_use]
    pub fn with(mut self, detail: impl Into<Box<str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds a position, before the detail.
    #[must_use]
    pub fn at(self, position: impl fmt::Display) -> Self {
        let detail = match &self.detail {
            Some(detail) => format!("{position}: {detail}"),
            None => position.to_string(),
        };
        self.with(detail)
    }
}

impl From<&'static str> for Reason {
    fn from(message: &'static str) -> Self {
        Self::new(message)
    }
}

impl From<String> for Reason {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(f, "{} ({detail})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Returns the beginning of what a peer sent, escaped so that it does a terminal no harm.
pub fn shown(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(MAX_SHOWN_BYTES)];
    let cut = if start.len() < bytes.len() { "…" } else { "" };
    format!("`{}{cut}`", start.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_before_the_detail() {
        let broken = Reason::new("the line is broken");
        assert_eq!("the line is broken (line 3)", broken.clone().at("line 3").to_string());
        assert_eq!("the line is broken (line 3: byte 7)", broken.with("byte 7").at("line 3").to_string());
    }

    #[test]
    fn text_of_a_server_is_shortened_and_escaped_for_terminals() {
        assert_eq!(r"`a\x1b[2J\r\n\xff`", shown(b"a\x1b[2J\r\n\xff"));
        assert_eq!(format!("`{}…`", "x".repeat(60)), shown(&[b'x'; 61]));
    }
}
