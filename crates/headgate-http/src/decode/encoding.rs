//! The content encodings of a body.

use headgate_core::error::{ErrorKind, Failure};
use headgate_core::headers::Headers;

/// The bound of nested encodings.
const MAX_ENCODINGS: usize = 5;
/// The bound for a streamed body: fewer, since their memory is reserved for as long as the stream is open.
const MAX_ENCODINGS_OF_STREAM: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The content encodings of a response (RFC 9110 section 8.4.1), in the order in which they were applied.
#[derive(Debug, PartialEq, Eq)]
pub struct ContentEncodings {
    /// Separated by commas.
    names: String,
    /// `None` if one of them is unknown to us.
    known: Option<Vec<Encoding>>,
}

impl ContentEncodings {
    /// Returns the content encodings that the headers name.
    pub fn of(headers: &Headers) -> Self {
        let (mut names, mut known) = (String::new(), Some(Vec::new()));
        let values = headers.get_all("content-encoding").flat_map(|value| value.split(|byte| *byte == b','));
        for name in values.map(|name| name.trim_ascii().to_ascii_lowercase()) {
            let encoding = match name.as_slice() {
                b"" | b"identity" => continue,
                b"gzip" | b"x-gzip" => Some(Encoding::Gzip),
                b"deflate" => Some(Encoding::Deflate),
                b"br" => Some(Encoding::Brotli),
                b"zstd" => Some(Encoding::Zstd),
                _ => None,
            };
            if !names.is_empty() {
                names.push_str(", ");
            }
            names.push_str(&String::from_utf8_lossy(&name));
            known = known.zip(encoding).map(|(known, encoding)| [known, vec![encoding]].concat());
        }
        Self { names, known }
    }

    /// Returns the encodings to decode. If one of them is unknown, the list is empty and the body is not decoded.
    ///
    /// # Errors
    /// `decode`: there are too many encodings.
    pub(super) fn supported(&self) -> Result<&[Encoding], Failure> {
        self.up_to(MAX_ENCODINGS, "")
    }

    /// Returns what [`ContentEncodings::supported`] does, for a streamed body.
    ///
    /// # Errors
    /// As there.
    pub(super) fn supported_in_stream(&self) -> Result<&[Encoding], Failure> {
        self.up_to(MAX_ENCODINGS_OF_STREAM, ", of a body that is streamed")
    }

    fn up_to(&self, max: usize, what: &str) -> Result<&[Encoding], Failure> {
        let known = self.known.as_deref().unwrap_or_default();
        if known.len() > max {
            return Err(Failure::new(ErrorKind::Decode, format!("more than {max} layers of content encodings{what}")));
        }
        Ok(known)
    }

    /// Returns whether the body has encodings that can be decoded.
    ///
    /// # Errors
    /// As [`ContentEncodings::supported`].
    pub(crate) fn can_be_decoded(&self) -> Result<bool, Failure> {
        self.supported().map(|encodings| !encodings.is_empty())
    }

    /// Returns the names of the encodings, separated by commas, or `None` if there are none.
    pub fn names(self) -> Option<Box<str>> {
        (!self.names.is_empty()).then(|| self.names.into())
    }
}
