//! Makes a [`Row`] of the cells of a line: an unusable value is the row's defect, never an error of the job.

use std::fmt;

use headgate_core::reason::{Reason, shown};
use headgate_core::row::{MAX_URL_BYTES, Row, RowHeaders};

/// A message shows this much of a URL that is too long.
const SHOWN_URL_BYTES: usize = 256;

/// The position of a row in its input, as users count.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowPosition {
    Line(u64),
    Row(u64),
}

impl fmt::Display for RowPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(ordinal) => write!(f, "row {ordinal}"),
        }
    }
}

/// Returns the row of a URL as the input has it.
pub(super) fn url_row(ordinal: u64, position: RowPosition, url: &[u8]) -> Row {
    if url.is_empty() {
        return with_defect(Row::new(ordinal, ""), position, "the URL is empty");
    }
    if url.len() > MAX_URL_BYTES {
        return long_url_row(ordinal, position, url);
    }
    match std::str::from_utf8(url) {
        Ok(url) => Row::new(ordinal, url),
        Err(error) => {
            let row = Row::new(ordinal, String::from_utf8_lossy(url));
            with_defect(row, position, not_utf8("the URL is", url, error))
        }
    }
}

/// Returns the row of a URL that is too long, of which at least the beginning is known.
pub(super) fn long_url_row(ordinal: u64, position: RowPosition, url: &[u8]) -> Row {
    let shown = &url[..url.len().min(SHOWN_URL_BYTES)];
    // A character that was cut in two is omitted; other invalid bytes are shown as such.
    let shown = match std::str::from_utf8(shown) {
        Err(error) if error.error_len().is_none() => &shown[..error.valid_up_to()],
        _ => shown,
    };
    let row = Row::new(ordinal, String::from_utf8_lossy(shown));
    with_defect(row, position, format!("the URL is longer than {MAX_URL_BYTES} bytes"))
}

/// Returns the row of a line in which no URL could be found.
pub(super) fn defect_row(ordinal: u64, position: RowPosition, reason: impl Into<Reason>) -> Row {
    with_defect(Row::new(ordinal, ""), position, reason)
}

pub(super) fn with_defect(mut row: Row, position: RowPosition, reason: impl Into<Reason>) -> Row {
    add_defect(&mut row, position, reason);
    row
}

/// Adds a defect. Of several defects, the first is reported.
pub(super) fn add_defect(row: &mut Row, position: RowPosition, reason: impl Into<Reason>) {
    let defect = &mut row.extra.get_or_insert_default().defect;
    defect.get_or_insert_with(|| reason.into().at(position));
}

/// Sets the method; an empty one is the job's default.
pub(super) fn set_method(row: &mut Row, position: RowPosition, method: &[u8]) {
    if method.is_empty() {
        return;
    }
    match std::str::from_utf8(method) {
        Ok(method) => row.extra.get_or_insert_default().method = Some(method.into()),
        Err(error) => add_defect(row, position, not_utf8("the method is", method, error)),
    }
}

pub(super) fn set_headers(row: &mut Row, position: RowPosition, headers: Result<RowHeaders, Reason>) {
    match headers {
        Ok(headers) if headers.is_empty() => {}
        Ok(headers) => match headers.iter().find(|(name, _)| is_never_of_row(name)) {
            Some((name, _)) => {
                add_defect(row, position, Reason::new("a row can't choose this header").with(shown(name.as_bytes())));
            }
            None => row.extra.get_or_insert_default().headers = headers,
        },
        Err(reason) => add_defect(row, position, reason),
    }
}

/// Headers that determine the host, the proxy, or where a request ends. A row that could set them would reach hosts that
/// its URL does not name, or smuggle a request.
const NEVER_OF_ROW: [&str; 12] = [
    "host",
    "proxy-authorization",
    "transfer-encoding",
    "content-length",
    "connection",
    "proxy-connection",
    "keep-alive",
    "upgrade",
    "http2-settings",
    "te",
    "trailer",
    "expect",
];

pub(super) fn is_never_of_row(header: &str) -> bool {
    NEVER_OF_ROW.iter().any(|never| never.eq_ignore_ascii_case(header))
}

/// Returns the reason that `what` ("the URL is") not UTF-8, with the offending byte.
pub(super) fn not_utf8(what: &str, bytes: &[u8], error: std::str::Utf8Error) -> Reason {
    let at = error.valid_up_to();
    let byte = bytes.get(at).copied().unwrap_or_default();
    Reason::new(format!("{what} not UTF-8")).with(format!("byte 0x{byte:02X} after {at} valid ones"))
}
