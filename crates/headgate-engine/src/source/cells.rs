//! From the cells of a line to a [`Row`]: what can't be used becomes the row's defect, never an error of the job.

use std::fmt;

use crate::model::reason::{Reason, shown};
use crate::model::row::{MAX_URL_BYTES, Row, RowHeaders};

/// Of a URL that is too long, so much is shown.
const SHOWN_URL_BYTES: usize = 256;

/// Where a row stands in its input: what a person would look for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Line(u64),
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(ordinal) => write!(f, "row {ordinal}"),
        }
    }
}

/// The row of a URL as it stands in the input.
pub(super) fn url_row(ordinal: u64, place: Place, url: &[u8]) -> Row {
    if url.is_empty() {
        return with_defect(Row::new(ordinal, ""), place, "the URL is empty");
    }
    if url.len() > MAX_URL_BYTES {
        return long_url_row(ordinal, place, url);
    }
    match std::str::from_utf8(url) {
        Ok(url) => Row::new(ordinal, url),
        Err(error) => {
            let row = Row::new(ordinal, String::from_utf8_lossy(url));
            with_defect(row, place, not_utf8("the URL is", url, error))
        }
    }
}

/// The row of a URL that is too long, of which at least the beginning is known.
pub(super) fn long_url_row(ordinal: u64, place: Place, url: &[u8]) -> Row {
    let shown = &url[..url.len().min(SHOWN_URL_BYTES)];
    // A character that the cut went through is left off; what is broken elsewhere is shown as such.
    let shown = match std::str::from_utf8(shown) {
        Err(error) if error.error_len().is_none() => &shown[..error.valid_up_to()],
        _ => shown,
    };
    let row = Row::new(ordinal, String::from_utf8_lossy(shown));
    with_defect(row, place, format!("the URL is longer than {MAX_URL_BYTES} bytes"))
}

/// The row of a line in which no URL could be found.
pub(super) fn defect_row(ordinal: u64, place: Place, trouble: impl Into<Reason>) -> Row {
    with_defect(Row::new(ordinal, ""), place, trouble)
}

pub(super) fn with_defect(mut row: Row, place: Place, trouble: impl Into<Reason>) -> Row {
    add_defect(&mut row, place, trouble);
    row
}

/// Of several defects the first is told.
pub(super) fn add_defect(row: &mut Row, place: Place, trouble: impl Into<Reason>) {
    let defect = &mut row.extra.get_or_insert_default().defect;
    defect.get_or_insert_with(|| trouble.into().at(place));
}

/// Empty: the job's default.
pub(super) fn set_method(row: &mut Row, place: Place, method: &[u8]) {
    if method.is_empty() {
        return;
    }
    match std::str::from_utf8(method) {
        Ok(method) => row.extra.get_or_insert_default().method = Some(method.into()),
        Err(error) => add_defect(row, place, not_utf8("the method is", method, error)),
    }
}

pub(super) fn set_headers(row: &mut Row, place: Place, headers: Result<RowHeaders, Reason>) {
    match headers {
        Ok(headers) if headers.is_empty() => {}
        Ok(headers) => match headers.iter().find(|(name, _)| is_never_of_row(name)) {
            Some((name, _)) => {
                add_defect(row, place, Reason::new("a row can't choose this header").with(shown(name.as_bytes())));
            }
            None => row.extra.get_or_insert_default().headers = headers,
        },
        Err(trouble) => add_defect(row, place, trouble),
    }
}

/// Headers that decide which host answers, through which proxy, and where a request ends. A row that could choose them would
/// reach hosts that its URL does not name, or smuggle a request.
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

/// `what` ("the URL is") not UTF-8, with the byte that breaks it.
pub(super) fn not_utf8(what: &str, bytes: &[u8], error: std::str::Utf8Error) -> Reason {
    let at = error.valid_up_to();
    let byte = bytes.get(at).copied().unwrap_or_default();
    Reason::new(format!("{what} not UTF-8")).with(format!("byte 0x{byte:02X} after {at} valid ones"))
}
