use proptest::prelude::*;

use super::*;
use crate::headers::Headers;

/// 2026-11-22 18:00:00 UTC, a Sunday.
const NOW_MS: u64 = 1_795_370_400_000;
const NOW: &str = "Sun, 22 Nov 2026 18:00:00 GMT";

fn requested(status: u16, headers: Fields<'_>) -> Option<Duration> {
    let headers: Headers = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    requested_pause(status, HeadersRef::Kept(&headers), NOW_MS)
}

fn ms(ms: impl Into<Option<u64>>) -> Option<Duration> {
    ms.into().map(Duration::from_millis)
}

type Fields<'a> = &'a [(&'a str, &'a str)];

/// Checks the pause in milliseconds that a response requests because of a quota.
fn check_quotas(table: &[(Option<u64>, u16, Fields<'_>)]) {
    for (expected, status, headers) in table {
        assert_eq!(ms(*expected), requested(*status, headers), "{status} {headers:?}");
    }
}

#[test]
fn retry_after_is_seconds_or_a_date_in_any_of_three_forms() {
    for (expected, value) in [
        (Some(0), "0"),
        (Some(120_000), "120"),
        (Some(1500), "1.5"),
        (Some(30_000), "Sun, 22 Nov 2026 18:00:30 GMT"),
        (Some(30_000), "Sunday, 22-Nov-26 18:00:30 GMT"),
        (Some(30_000), "Sun Nov 22 18:00:30 2026"),
        (Some(0), "Sun, 22 Nov 2026 17:59:00 GMT"),
        (Some(0), "Sunday, 06-Nov-94 08:49:37 GMT"),
        (Some(0), "Sun Nov  6 08:49:37 1994"),
        (Some(u64::MAX), "99999999999999999999999999"),
        (None, ""),
        (None, "-1"),
        (None, "1e3"),
        (None, "inf"),
        (None, "soon"),
        (None, "Mon, 22 Nov 2026 18:00:30 GMT"),
        (None, "Sunday, 22-Növ-26 18:00:3 GMT"),
        (None, "S, 22-Nov-26 18:00:30 GMT"),
    ] {
        assert_eq!(ms(expected), requested(429, &[("Retry-After", value)]), "{value}");
    }
}

#[test]
fn a_year_of_two_digits_is_at_most_50_years_away() {
    let seconds = |value| date_ms(value, NOW_MS).map(|ms| ms / 1000);
    for (expected, value) in [
        ("Sat, 15 Jun 2075 12:00:00 GMT", "Saturday, 15-Jun-75 12:00:00 GMT"),
        ("Mon, 15 Jun 2076 12:00:00 GMT", "Monday, 15-Jun-76 12:00:00 GMT"),
        ("Wed, 15 Jun 1977 12:00:00 GMT", "Wednesday, 15-Jun-77 12:00:00 GMT"),
        ("Tue, 15 Jun 1999 12:00:00 GMT", "Tuesday, 15-Jun-99 12:00:00 GMT"),
        ("Thu, 15 Jun 2000 12:00:00 GMT", "Thursday, 15-Jun-00 12:00:00 GMT"),
    ] {
        assert!(seconds(value).is_some(), "{value}");
        assert_eq!(seconds(expected), seconds(value), "{value}");
    }
}

#[test]
fn a_date_is_relative_to_the_date_of_the_response() {
    let at = "Sun, 22 Nov 2026 18:00:30 GMT";
    for (expected, date) in [
        (30_000, NOW),
        (90_000, "Sun, 22 Nov 2026 17:59:00 GMT"),
        (3_630_000, "Sunday, 22-Nov-26 17:00:00 GMT"),
        (0, "Mon, 23 Nov 2026 00:00:00 GMT"),
        (30_000, "yesterday"),
    ] {
        assert_eq!(ms(expected), requested(503, &[("retry-after", at), ("date", date)]), "{date}");
        assert_eq!(ms(expected), requested(503, &[("DATE", date), ("RETRY-AFTER", at)]), "{date}");
    }
    let epoch = [("Date", "Sun, 22 Nov 2026 17:59:00 GMT"), ("X-RateLimit-Reset", "1795370430")];
    assert_eq!(ms(90_000), requested(429, &epoch));
}

#[test]
fn retry_after_counts_where_a_server_refuses_or_redirects_and_then_comes_first() {
    let quota = [("RateLimit", "\"default\";r=0;t=30"), ("Retry-After", "5")];
    for (expected, status) in [
        (ms(5000), 429),
        (ms(5000), 503),
        (ms(5000), 413),
        (ms(5000), 302),
        (ms(30_000), 200),
        (ms(30_000), 404),
        (ms(30_000), 500),
    ] {
        assert_eq!(expected, requested(status, &quota), "{status}");
    }
    assert_eq!(None, requested(200, &[("Retry-After", "5")]));
    assert_eq!(ms(0), requested(429, &[("RateLimit", "\"default\";r=0;t=30"), ("Retry-After", "0")]));
    assert_eq!(ms(7000), requested(429, &[("Retry-After", "7"), ("Retry-After", "5")]));
    assert_eq!(ms(30_000), requested(429, &[("RateLimit", "\"default\";r=0;t=30"), ("Retry-After", "?")]));
}

#[test]
fn the_longest_quota_that_is_used_up_counts_in_ratelimit() {
    check_quotas(&[
        (Some(30_000), 200, &[("RateLimit", "\"default\";r=0;t=30")]),
        (None, 200, &[("RateLimit", "\"default\";r=1;t=30")]),
        (None, 429, &[("RateLimit", "\"default\";r=1;t=30")]),
        (None, 200, &[("RateLimit", "\"default\";r=0")]),
        (None, 200, &[("RateLimit", "\"default\";r=0;t=0")]),
        (None, 200, &[("RateLimit", "\"default\";t=30")]),
        (Some(30_000), 429, &[("RateLimit", "\"default\";t=30")]),
        (Some(60_000), 200, &[("RateLimit", "\"a\";r=0;t=30,\"b\"; r=0; t=60, \"c\";r=9;t=3600")]),
        (Some(60_000), 200, &[("RateLimit", "\"a\";r=0;t=30"), ("ratelimit", "\"b\";r=0;t=60")]),
        (Some(30_000), 200, &[("RateLimit", "default;pk=:c2VjcmV0:;r=0;x;y=?1;z=\"a \\\" ;t=9\";q=1.5;t=30")]),
        (Some(5000), 200, &[("RateLimit", "limit=100, remaining=0, reset=5")]),
        (Some(5000), 200, &[("RateLimit", "limit=100;w=60,remaining=0,\treset=5")]),
        (None, 200, &[("RateLimit", "limit=100, remaining=2, reset=5")]),
        (None, 200, &[("RateLimit-Policy", "\"default\";q=0;w=30")]),
    ]);
}

#[test]
fn a_ratelimit_that_is_malformed_is_ignored_as_a_whole() {
    for malformed in [
        "",
        ",",
        "0",
        "\"a\";r=0;t=30,",
        "\"a\";r=0;t=30 \"b\";r=0;t=30",
        "\"a\";r=0;t=30, b=1",
        "\"a\";r=0;t=-30",
        "\"a\";r=\"0\";t=30",
        "\"a\";r=0;t=1.5",
        "\"a\";r=0;t",
        "\"a\";r=0;t=",
        "\"a\" ;r=0;t=30",
        "\"a;r=0;t=30",
        "\"a\\x\";r=0;t=30",
        "\"a\";pk=:x;r=0;t=30",
        "\"a\";x=?2;r=0;t=30",
        "\"a\";;r=0;t=30",
        "\"ä\";r=0;t=30",
        "\"a\";r=0;t=99999999999999999999999999",
        "limit=100, remaining=0, reset=soon",
        "limit=100, remaining=0 reset=5",
    ] {
        let both = [("RateLimit", "\"default\";r=0;t=60"), ("RateLimit", malformed), ("X-RateLimit-Remaining", "0")];
        assert_eq!(None, requested(429, &both), "{malformed}");
        let reset = ("X-RateLimit-Reset", "7");
        assert_eq!(ms(7000), requested(429, &[both[0], both[1], both[2], reset]), "{malformed}");
    }
}

#[test]
fn the_common_spellings_of_a_quota_are_understood() {
    check_quotas(&[
        (Some(5000), 200, &[("RateLimit-Remaining", "0"), ("RateLimit-Reset", "5")]),
        (Some(5000), 200, &[("x-rate-limit-reset", "1795370405"), ("x-rate-limit-remaining", "0")]),
        (Some(5000), 403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1795370405")]),
        (Some(5000), 200, &[("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "1795370405000")]),
        (Some(3500), 200, &[("X-RateLimit-Remaining", "0.0"), ("X-RateLimit-Reset", "1795370403.5")]),
        (Some(321_000), 200, &[("X-Ratelimit-Remaining", "0.0"), ("X-Ratelimit-Reset", "321")]),
        (None, 200, &[("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "1795370399")]),
        (None, 200, &[("X-RateLimit-Remaining", "1"), ("X-RateLimit-Reset", "60")]),
        (None, 429, &[("X-RateLimit-Remaining", "1"), ("X-RateLimit-Reset", "60")]),
        (None, 200, &[("X-RateLimit-Reset", "60")]),
        (None, 500, &[("X-RateLimit-Reset", "60")]),
        (Some(60_000), 429, &[("X-RateLimit-Reset", "60")]),
        (Some(60_000), 503, &[("X-RateLimit-Reset", "60"), ("X-RateLimit-Remaining", "none")]),
        (None, 429, &[("X-RateLimit-Remaining", "0")]),
        (Some(u64::MAX - NOW_MS), 429, &[("X-RateLimit-Reset", "9999999999999999999999999")]),
        // Discord: the remaining time, and its end.
        (
            Some(470),
            429,
            &[
                ("X-RateLimit-Remaining", "0"),
                ("X-RateLimit-Reset", "1795370401.2"),
                ("X-RateLimit-Reset-After", "0.470"),
            ],
        ),
        // The reset of one spelling does not apply to another.
        (None, 200, &[("X-RateLimit-Remaining", "0"), ("RateLimit-Remaining", "3"), ("RateLimit-Reset", "60")]),
    ]);
}

#[test]
fn requests_and_tokens_are_quotas_of_their_own_with_durations_as_go_writes_them() {
    for (expected, duration) in [
        (Some(1000), "1s"),
        (Some(12), "12ms"),
        (Some(360_000), "6m0s"),
        (Some(3_723_500), "1h2m3.5s"),
        (Some(8), "7.25ms"),
        (Some(1), "3µs"),
        (Some(2000), "2"),
        (None, "0s"),
        (None, ""),
        (None, "1x"),
        (None, "1s2"),
        (None, "s"),
        (None, "1..5s"),
        (None, "-1s"),
    ] {
        check_quotas(&[
            (expected, 200, &[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", duration)]),
            (expected, 200, &[("X-RateLimit-Remaining-Tokens", "0"), ("X-RateLimit-Reset-Tokens", duration)]),
            (
                expected,
                429,
                &[
                    ("x-ratelimit-remaining-requests", "59"),
                    ("x-ratelimit-reset-requests", "1h"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", duration),
                ],
            ),
        ]);
    }
}

#[test]
fn a_response_without_such_fields_requests_no_pause() {
    let headers = [("Date", NOW), ("X-Request-Id", "0"), ("Retry-Later", "9"), ("X-RateLimit-Limit", "0"), ("", "0")];
    for status in [200, 302, 429, 503] {
        assert_eq!(None, requested(status, &headers));
    }
}

proptest! {
    #[test]
    fn no_headers_cause_a_panic(
        status in 100..600_u16,
        now in any::<u64>(),
        fields in prop::collection::vec((0..14_usize, bytes()), 0..6),
    ) {
        const NAMES: [&str; 14] = [
            "date", "retry-after", "ratelimit", "ratelimit-remaining", "ratelimit-reset", "x-ratelimit-remaining",
            "x-ratelimit-reset", "x-ratelimit-reset-after", "x-rate-limit-remaining", "x-rate-limit-reset",
            "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", "x-ratelimit-remaining-tokens",
            "x-ratelimit-reset-tokens",
        ];
        let headers: Headers = fields.iter().map(|(name, value)| (NAMES[*name], &value[..])).collect();
        requested_pause(status, HeadersRef::Kept(&headers), now);
    }
}

/// Returns bytes of any kind, and some that are nearly valid.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "[0-9.:hmsnu]{0,24}".prop_map(String::into_bytes),
        "[\"a-c;, rt=0-9:?\\\\ö]{0,40}".prop_map(String::into_bytes),
        "(Sun|Monday|ö), [0-9]{1,2}[- ](Nov|Fév|Feb)[- ][0-9]{2,4} [0-9:]{8} GMT".prop_map(String::into_bytes),
    ]
}
