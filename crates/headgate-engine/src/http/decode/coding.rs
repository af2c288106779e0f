//! Which codings were applied to a body.

use crate::model::headers::Headers;

/// How many codings may be applied one over the other.
pub(super) const MAX_CODINGS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The codings of a response, in the order in which they were applied.
#[derive(Debug, PartialEq, Eq)]
pub struct Codings {
    /// Separated by commas.
    names: String,
    pub(super) undoing: Undoing,
}

/// Whether they can be undone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undoing {
    Known(Vec<Coding>),
    /// One of them is unknown to us: then the body stays as it came.
    Unknown,
    TooMany,
}

impl Codings {
    pub fn of(headers: &Headers) -> Self {
        let (mut names, mut known, mut is_known) = (String::new(), Vec::new(), true);
        let values = headers.get_all("content-encoding").flat_map(|value| value.split(|byte| *byte == b','));
        for name in values.map(|name| name.trim_ascii().to_ascii_lowercase()) {
            let coding = match name.as_slice() {
                b"" | b"identity" => continue,
                b"gzip" | b"x-gzip" => Some(Coding::Gzip),
                b"deflate" => Some(Coding::Deflate),
                b"br" => Some(Coding::Brotli),
                b"zstd" => Some(Coding::Zstd),
                _ => None,
            };
            if !names.is_empty() {
                names.push_str(", ");
            }
            names.push_str(&String::from_utf8_lossy(&name));
            is_known &= coding.is_some();
            known.extend(coding);
        }
        let undoing = match known.len() {
            _ if !is_known => Undoing::Unknown,
            ..=MAX_CODINGS => Undoing::Known(known),
            _ => Undoing::TooMany,
        };
        Self { names, undoing }
    }

    /// `None`: there are none.
    pub fn names(self) -> Option<Box<str>> {
        (!self.names.is_empty()).then(|| self.names.into())
    }
}
