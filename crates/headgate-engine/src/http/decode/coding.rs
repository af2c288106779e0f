//! Which codings were applied to a body.

use crate::model::error::{ErrorKind, Failure};
use crate::model::headers::Headers;

/// How many codings may be applied one over the other.
const MAX_CODINGS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The codings of a response, in the order in which they were applied; none where one is unknown to us: then the body stays
/// as it came.
pub(super) fn codings(headers: &Headers) -> Result<Vec<Coding>, Failure> {
    let mut codings = Vec::new();
    for value in headers.get_all("content-encoding") {
        for name in value.split(|byte| *byte == b',') {
            let coding = match name.trim_ascii().to_ascii_lowercase().as_slice() {
                b"" | b"identity" => continue,
                b"gzip" | b"x-gzip" => Coding::Gzip,
                b"deflate" => Coding::Deflate,
                b"br" => Coding::Brotli,
                b"zstd" => Coding::Zstd,
                _ => return Ok(Vec::new()),
            };
            if codings.len() == MAX_CODINGS {
                let message = format!("more than {MAX_CODINGS} layers of content codings");
                return Err(Failure::new(ErrorKind::Decode, message));
            }
            codings.push(coding);
        }
    }
    Ok(codings)
}
