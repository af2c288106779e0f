//! Times as `If-Modified-Since` has them.

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use arrow_cast::parse::string_to_timestamp_nanos;
use httpdate::{fmt_http_date, parse_http_date};

use crate::model::reason::{Reason, shown};

/// A date of HTTP (RFC 9110 section 5.6.7) as it stands; a time or date of RFC 3339 as one. Without an offset it is UTC.
///
/// # Errors
/// It is none of them.
pub(super) fn http_date<'a>(column: &str, value: &'a [u8]) -> Result<Cow<'a, [u8]>, Reason> {
    let text = std::str::from_utf8(value).ok().map(str::trim);
    if let Some(text) = text
        && parse_http_date(text).is_ok()
    {
        return Ok(text.as_bytes().into());
    }
    let nanos = text.and_then(|text| string_to_timestamp_nanos(text).ok());
    // Before 1970 there is no such date, nor anything on the web.
    match nanos.and_then(|nanos| u64::try_from(nanos).ok()) {
        Some(nanos) => Ok(fmt_http_date(UNIX_EPOCH + Duration::from_nanos(nanos)).into_bytes().into()),
        None => Err(Reason::new(format!("the column {column:?} has no time: write it as 2026-05-14T09:30:00Z"))
            .with(shown(value))),
    }
}
