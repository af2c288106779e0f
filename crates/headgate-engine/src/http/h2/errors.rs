//! What went wrong over HTTP/2, in words that are the same for a cause.

use h2::{Error, Reason as Code};

use crate::http::h2::meter::End;
use crate::model::error::{ErrorKind, Failure};
use crate::model::reason::Reason;

/// Why there is no answer, or no whole one; `end`: why the connection ended, if it did; `when`: what there was of the answer.
pub(super) fn failure(error: &Error, end: Option<End>, when: &'static str) -> Failure {
    let code = error.reason().map(name);
    match (end, code) {
        (Some(End::Failed(failure)), _) => failure,
        (_, Some(code)) if error.is_remote() => {
            let what = if error.is_reset() { "stream" } else { "connection" };
            Failure::new(ErrorKind::Closed, format!("the server ended the HTTP/2 {what} {when} ({code})"))
        }
        (_, Some(code)) => Failure::new(ErrorKind::Protocol, format!("the server breaks the rules of HTTP/2 ({code})")),
        (Some(End::Closed), None) => closed(when),
        (None, None) if error.is_io() => closed(when),
        (None, None) => {
            Failure::new(ErrorKind::InvalidRequest, Reason::new("HTTP/2 can't send it").with(error.to_string()))
        }
    }
}

pub(super) fn closed(when: &str) -> Failure {
    Failure::new(ErrorKind::Closed, format!("the server closed the connection {when}"))
}

/// Whether the server has said that it did nothing with the request (RFC 9113 section 8.7).
pub(super) fn did_nothing(error: &Error) -> bool {
    // Where all of it ends, h2 tells those streams alone that the server has left alone.
    error.is_remote() && (error.is_go_away() || error.reason() == Some(Code::REFUSED_STREAM))
}

/// Whether the server wants the request over HTTP/1.1; it did nothing with it.
pub(super) fn wants_http1(error: &Error) -> bool {
    error.is_remote() && error.reason() == Some(Code::HTTP_1_1_REQUIRED)
}

/// As RFC 9113 section 7 has it.
fn name(code: Code) -> String {
    let text = format!("{code:?}");
    // The others are numbers, which it has as those of 16.
    if text.starts_with("Reason(") { format!("error {}", u32::from(code)) } else { text }
}
