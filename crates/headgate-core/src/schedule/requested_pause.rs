//! The pause that a response requests.
//!
//! `Retry-After` (RFC 9110 section 10.2.3) counts where it applies to this host and to now: 413, 429, 503 and redirects.
//! There it takes precedence, even if it is zero. Otherwise quota fields count, in all common spellings: `RateLimit`
//! (draft-ietf-httpapi-ratelimit-headers, `rate_limit.rs`), `RateLimit-Remaining` and `-Reset` of its older drafts,
//! `X-RateLimit-*`, `X-Rate-Limit-*`, and the separate quotas for requests and tokens of language models. They request a
//! pause only if nothing remains, or if the request was refused (429, 503) and the remaining quota is not stated. Of
//! several quotas that are used up, the one that lasts longest counts.
//!
//! Times are relative to the response's own `Date`, so that it doesn't matter if a server's clock is wrong.
//!
//! Every response is checked. One without such fields costs a comparison of each name's first letter and length.

mod quota;
mod rate_limit;
#[cfg(test)]
mod tests;

use std::time::{Duration, UNIX_EPOCH};

use quota::Quota;

use crate::headers::HeadersRef;

/// A larger number is a time since 1970, in seconds; a smaller one is a number of seconds.
const MIN_EPOCH_S: f64 = 1e9;
/// A larger number is a time since 1970 in milliseconds.
const MIN_EPOCH_MS: f64 = 1e11;
/// A year of the Gregorian calendar on average.
const YEAR_MS: u64 = 31_556_952_000;

/// Returns the pause that a response with these headers, received at this time since 1970, requests, from the moment it
/// came. Zero: the request may be resent at once. Servers are trusted whatever they send, so that it may be more than can
/// be added to an `Instant`.
pub fn requested_pause(status: u16, headers: HeadersRef<'_>, now_unix_ms: u64) -> Option<Duration> {
    let mut has_pause_fields = false;
    headers.for_each(|name, _| has_pause_fields |= RateLimitField::of(name).is_some());
    if !has_pause_fields {
        return None;
    }
    let mut fields = PauseFields::new(status, server_time_ms(headers, now_unix_ms));
    headers.for_each(|name, value| {
        if let (Some(field), Ok(value)) = (RateLimitField::of(name), std::str::from_utf8(value)) {
            fields.read(field, value.trim());
        }
    });
    fields.pause()
}

/// Returns the server's time.
fn server_time_ms(headers: HeadersRef<'_>, now_unix_ms: u64) -> u64 {
    let mut date = None;
    headers.for_each(|name, value| {
        if date.is_none() && name.eq_ignore_ascii_case("date") {
            date = std::str::from_utf8(value).ok().and_then(|value| date_ms(value.trim(), now_unix_ms));
        }
    });
    date.unwrap_or(now_unix_ms)
}

#[derive(Debug, Clone, Copy)]
enum RateLimitField {
    RetryAfter,
    RateLimit,
    Remaining(Spelling),
    Reset(Spelling),
    /// Replaces [`Spelling::Vendor`]'s reset, which is a time: Discord sends both.
    ResetAfter,
}

/// Each spelling has a quota of its own.
#[derive(Debug, Clone, Copy)]
enum Spelling {
    Draft,
    Vendor,
    VendorHyphen,
    Requests,
    Tokens,
}

impl RateLimitField {
    /// Returns the field with this name. The names differ in length, so that at most one is compared.
    fn of(name: &str) -> Option<Self> {
        if !matches!(name.as_bytes().first(), Some(b'R' | b'r' | b'X' | b'x')) {
            return None;
        }
        let (known, field) = match name.len() {
            9 => ("ratelimit", Self::RateLimit),
            11 => ("retry-after", Self::RetryAfter),
            15 => ("ratelimit-reset", Self::Reset(Spelling::Draft)),
            17 => ("x-ratelimit-reset", Self::Reset(Spelling::Vendor)),
            18 => ("x-rate-limit-reset", Self::Reset(Spelling::VendorHyphen)),
            19 => ("ratelimit-remaining", Self::Remaining(Spelling::Draft)),
            21 => ("x-ratelimit-remaining", Self::Remaining(Spelling::Vendor)),
            22 => ("x-rate-limit-remaining", Self::Remaining(Spelling::VendorHyphen)),
            23 => ("x-ratelimit-reset-after", Self::ResetAfter),
            24 => ("x-ratelimit-reset-tokens", Self::Reset(Spelling::Tokens)),
            26 => ("x-ratelimit-reset-requests", Self::Reset(Spelling::Requests)),
            28 => ("x-ratelimit-remaining-tokens", Self::Remaining(Spelling::Tokens)),
            30 => ("x-ratelimit-remaining-requests", Self::Remaining(Spelling::Requests)),
            _ => return None,
        };
        name.eq_ignore_ascii_case(known).then_some(field)
    }
}

/// The fields that were read.
#[derive(Debug)]
struct PauseFields {
    retry_after_counts: bool,
    is_refused: bool,
    server_time_ms: u64,
    retry_after_ms: Option<u64>,
    quotas: [Quota; 5],
    reset_after_ms: Option<u64>,
    rate_limit_ms: Option<u64>,
    rate_limit_is_malformed: bool,
}

impl PauseFields {
    fn new(status: u16, server_time_ms: u64) -> Self {
        Self {
            retry_after_counts: matches!(status, 300..400 | 413 | 429 | 503),
            is_refused: matches!(status, 429 | 503),
            server_time_ms,
            retry_after_ms: None,
            quotas: [Quota::default(); 5],
            reset_after_ms: None,
            rate_limit_ms: None,
            rate_limit_is_malformed: false,
        }
    }

    fn read(&mut self, field: RateLimitField, value: &str) {
        match field {
            RateLimitField::RetryAfter => self.retry_after_ms = self.retry_after_ms.max(self.after_ms(value)),
            RateLimitField::RateLimit => match rate_limit::wait_ms(value, self.is_refused) {
                Ok(wait_ms) => self.rate_limit_ms = self.rate_limit_ms.max(wait_ms),
                Err(rate_limit::Malformed) => self.rate_limit_is_malformed = true,
            },
            RateLimitField::Remaining(spelling) => {
                let is_used_up = decimal(value).map(|remaining| remaining == 0.0);
                let quota = &mut self.quotas[spelling as usize];
                quota.is_used_up = quota.is_used_up.max(is_used_up);
            }
            RateLimitField::Reset(spelling) => {
                let reset_ms = self.reset_ms(value);
                let quota = &mut self.quotas[spelling as usize];
                quota.reset_ms = quota.reset_ms.max(reset_ms);
            }
            RateLimitField::ResetAfter => self.reset_after_ms = self.reset_after_ms.max(span_ms(value)),
        }
    }

    fn pause(mut self) -> Option<Duration> {
        if let Some(ms) = self.retry_after_ms.filter(|_| self.retry_after_counts) {
            return Some(Duration::from_millis(ms));
        }
        let vendor = &mut self.quotas[Spelling::Vendor as usize];
        vendor.reset_ms = self.reset_after_ms.or(vendor.reset_ms);
        let waits = self.quotas.iter().filter_map(|quota| quota.wait_ms(self.is_refused));
        let longest = waits.chain(self.rate_limit_ms.filter(|_| !self.rate_limit_is_malformed)).max();
        longest.filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// Parses `Retry-After`: seconds, or a date.
    fn after_ms(&self, value: &str) -> Option<u64> {
        let date = || date_ms(value, self.server_time_ms).map(|date| date.saturating_sub(self.server_time_ms));
        seconds_ms(value).or_else(date)
    }

    /// Parses a reset: a time, or a duration.
    fn reset_ms(&self, value: &str) -> Option<u64> {
        let epoch_ms = decimal(value).filter(|number| *number > MIN_EPOCH_S).map(|number| {
            let ms = if number > MIN_EPOCH_MS { number } else { number * 1000.0 };
            ms.ceil() as u64
        });
        epoch_ms.map(|ms| ms.saturating_sub(self.server_time_ms)).or_else(|| span_ms(value))
    }
}

/// Parses a length of time: a number of seconds, or with units as in `1h2m3.5s`, `6m0s` and `12ms` (Go's durations).
fn span_ms(value: &str) -> Option<u64> {
    seconds_ms(value).or_else(|| duration_ms(value))
}

fn seconds_ms(value: &str) -> Option<u64> {
    decimal(value).map(|seconds| (seconds * 1000.0).ceil() as u64)
}

fn duration_ms(value: &str) -> Option<u64> {
    let (mut rest, mut ms) = (value, 0.0);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !is_of_number(c))?);
        let (unit, after) = after.split_at(after.find(is_of_number).unwrap_or(after.len()));
        let unit_ms = match unit {
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1000.0,
            "ms" => 1.0,
            "us" | "µs" => 1e-3,
            "ns" => 1e-6,
            _ => return None,
        };
        ms += decimal(number)? * unit_ms;
        rest = after;
    }
    (!value.is_empty()).then_some(ms.ceil() as u64)
}

/// Parses a number; `f64` alone would accept `inf`, `1e9` or `-1`.
fn decimal(value: &str) -> Option<f64> {
    if value.chars().all(is_of_number) { value.parse().ok() } else { None }
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// Returns the milliseconds since 1970 of an HTTP date of any of the three forms.
fn date_ms(value: &str, now_unix_ms: u64) -> Option<u64> {
    let whole = with_century(value, now_unix_ms);
    let date = httpdate::parse_http_date(whole.as_deref().unwrap_or(value)).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_millis() as u64)
}

/// Returns `Sunday, 06-Nov-94 08:49:37 GMT` with its whole year. RFC 9110 section 5.6.7: it isn't more than 50 years from
/// now, whereas `httpdate` reads 1970 to 2069 and refuses a later one for its day of the week.
fn with_century(value: &str, now_unix_ms: u64) -> Option<String> {
    let (weekday, date) = value.split_once(", ").filter(|_| value.is_ascii())?;
    let mut parts = date.get(..9).filter(|_| date.len() == 22)?.split('-');
    let (day, month, two_digits) = (parts.next()?, parts.next()?, parts.next()?.parse::<u64>().ok()?);
    let this_year = 1970 + now_unix_ms / YEAR_MS;
    let since_oldest = (two_digits + 149).checked_sub(this_year % 100)? % 100;
    let year = this_year - 49 + since_oldest;
    Some(format!("{}, {day} {month} {year} {}", weekday.get(..3)?, &date[10..]))
}
