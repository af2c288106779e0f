//! Failures of HTTP/2 exchanges, with the same message for the same cause.

use h2::{Error, Reason as Code};
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::reason::Reason;

use crate::h2::meter::CloseReason;

/// Returns why a response is missing or incomplete. `closed_by`: why the connection was closed, if it was; `when`: how much of
/// the response had come.
pub(super) fn failure(error: &Error, closed_by: Option<CloseReason>, when: &'static str) -> Failure {
    let code = error.reason().map(name);
    match (closed_by, code) {
        (Some(CloseReason::Failed(failure)), _) => failure,
        (_, Some(code)) if error.is_remote() => {
            let what = if error.is_reset() { "stream" } else { "connection" };
            Failure::new(ErrorKind::ConnectionClosed, format!("the server ended the HTTP/2 {what} {when} ({code})"))
        }
        (_, Some(code)) => Failure::new(ErrorKind::Protocol, format!("the server violates HTTP/2 ({code})")),
        (Some(CloseReason::ByServer), None) => closed(when),
        (None, None) if error.is_io() => closed(when),
        (None, None) => {
            Failure::new(ErrorKind::InvalidRequest, Reason::new("HTTP/2 can't send it").with(error.to_string()))
        }
    }
}

pub(super) fn closed(when: &str) -> Failure {
    Failure::new(ErrorKind::ConnectionClosed, format!("the server closed the connection {when}"))
}

/// Returns whether the server has reported that it did not process the request (RFC 9113 section 8.7).
pub(super) fn is_unprocessed(error: &Error) -> bool {
    // When the server closes the connection, h2 reports GOAWAY only to streams that the server did not process.
    error.is_remote() && (error.is_go_away() || error.reason() == Some(Code::REFUSED_STREAM))
}

/// Returns whether the server requires the request over HTTP/1.1; then it did not process it.
pub(super) fn wants_http1(error: &Error) -> bool {
    error.is_remote() && error.reason() == Some(Code::HTTP_1_1_REQUIRED)
}

/// Returns the name of an error code in RFC 9113 section 7.
fn name(code: Code) -> String {
    let text = format!("{code:?}");
    // h2 formats unknown codes as hexadecimal numbers.
    if text.starts_with("Reason(") { format!("error {}", u32::from(code)) } else { text }
}
