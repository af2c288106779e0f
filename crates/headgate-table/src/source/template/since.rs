//! Times in the format of `If-Modified-Since`.

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use arrow_cast::parse::string_to_timestamp_nanos;
use headgate_core::reason::{Reason, shown};
use httpdate::{fmt_http_date, parse_http_date};

/// Returns an HTTP date (RFC 9110 section 5.6.7) unchanged, and converts a time or date of RFC 3339. Without an offset it
/// is UTC.
///
/// # Errors
/// The value is neither.
pub(super) fn http_date<'a>(column: &str, value: &'a [u8]) -> Result<Cow<'a, [u8]>, Reason> {
    let text = std::str::from_utf8(value).ok().map(str::trim);
    if let Some(text) = text
        && parse_http_date(text).is_ok()
    {
        return Ok(text.as_bytes().into());
    }
    let nanos = text.and_then(|text| string_to_timestamp_nanos(text).ok());
    // Earlier dates than 1970 are not converted: nothing on the web is older.
    match nanos.and_then(|nanos| u64::try_from(nanos).ok()) {
        Some(nanos) => Ok(fmt_http_date(UNIX_EPOCH + Duration::from_nanos(nanos)).into_bytes().into()),
        None => Err(Reason::new(format!("the column {column:?} has no time: write it as 2026-05-14T09:30:00Z"))
            .with(shown(value))),
    }
}
