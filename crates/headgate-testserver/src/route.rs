//! What a path asks for.

use std::str::FromStr;
use std::time::Duration;

use crate::config::{CAPACITIES, MAX_DELAY_S, STATUSES};
use crate::content::Coding;
use crate::faults::{Fault, table};

/// Encoding is done in one piece, in memory, while the other connections of the worker wait.
const MAX_ENCODED_BYTES: usize = 16 * 1024 * 1024;
const MAX_REDIRECTS: u32 = 1_000_000;

/// Shown at `/`: path and what it answers.
pub(crate) const HELPERS: &[(&str, &str)] = &[
    ("/", "this list"),
    ("/stats", "what the server saw, as JSON; not counted itself"),
    ("/capacity/N", "from now on N requests at once, of a server with a capacity; not counted"),
    ("/echo", "the request as JSON: method, path, headers as [name, value] in their order, body or body_base64"),
    ("/status/CODE", "that status, 200 to 599"),
    ("/bytes/N", "N bytes of text, drawn from the seed"),
    ("/delay/SECONDS", "the default answer after so many seconds; fractions are fine"),
    ("/encoded/CODING/N", "the text of /bytes/N as gzip, gzip-members (several in a row), deflate, br or zstd"),
    ("/chunked/N", "the text of /bytes/N in chunks"),
    ("/close-delimited/N", "the text of /bytes/N, ended by closing the connection"),
    ("/redirect/N", "302 to /redirect/N-1 and so on; /redirect/0 is the default answer"),
    ("/fault/NAME", "misbehaves, see below"),
    ("anything else", "the default answer: as configured, after the configured delay"),
];

#[derive(Debug, Clone, Copy)]
pub(crate) enum Route {
    Default,
    Index,
    Stats,
    Capacity(usize),
    Echo,
    Status(u16),
    Bytes(u64),
    Delay(Duration),
    Encoded(Coding, usize),
    Chunked(u64),
    CloseDelimited(u64),
    Redirect(u32),
    /// The fault, and its place in [`table::all`].
    Fault(usize, &'static Fault),
    /// Meant for a helper or a fault, but not one: a mistyped name must not look like a server in good health.
    Unknown,
}

impl Route {
    /// `target` as in the request line: the query, and scheme and authority of an absolute one, don't matter.
    pub fn of(target: &str) -> Self {
        let path = path(target);
        let Some(path) = path.strip_prefix('/') else { return Route::Default };
        let (first, rest) = path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let known = match (first, rest) {
            ("", None) => Some(Route::Index),
            ("stats", None) => Some(Route::Stats),
            ("capacity", Some(rest)) => number(rest).filter(|size| CAPACITIES.contains(size)).map(Route::Capacity),
            ("echo", _) => Some(Route::Echo),
            ("status", Some(rest)) => number(rest).filter(|code| STATUSES.contains(code)).map(Route::Status),
            ("bytes", Some(rest)) => number(rest).map(Route::Bytes),
            ("delay", Some(rest)) => {
                let seconds = number(rest).filter(|seconds| (0.0..=MAX_DELAY_S).contains(seconds));
                seconds.map(|seconds| Route::Delay(Duration::from_secs_f64(seconds)))
            }
            ("encoded", Some(rest)) => encoded(rest),
            ("chunked", Some(rest)) => number(rest).map(Route::Chunked),
            ("close-delimited", Some(rest)) => number(rest).map(Route::CloseDelimited),
            ("redirect", Some(rest)) => match number(rest) {
                Some(0) => Some(Route::Default),
                Some(count @ ..=MAX_REDIRECTS) => Some(Route::Redirect(count)),
                _ => None,
            },
            ("fault", Some(name)) => table::find(name).map(|(index, fault)| Route::Fault(index, fault)),
            ("fault", None) => None,
            _ => Some(Route::Default),
        };
        known.unwrap_or(Route::Unknown)
    }
}

fn path(target: &str) -> &str {
    let target = if target.starts_with('/') {
        target
    } else {
        let authority = target.find("://").map_or(0, |scheme| scheme + 3);
        target[authority..].find('/').map_or("/", |slash| &target[authority + slash..])
    };
    target.split_once('?').map_or(target, |(path, _)| path)
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn encoded(rest: &str) -> Option<Route> {
    let (coding, bytes) = rest.split_once('/')?;
    let bytes = number(bytes).filter(|bytes| *bytes <= MAX_ENCODED_BYTES)?;
    Some(Route::Encoded(Coding::named(coding)?, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_get_the_default_answer() {
        for target in ["/1", "/hello", "/hello/world", "/statistics", "/bytes", "/1?/fault/refuse", "/redirect/0"] {
            assert!(matches!(Route::of(target), Route::Default), "{target}");
        }
    }

    #[test]
    fn query_scheme_and_authority_do_not_matter() {
        for target in ["/bytes/5", "/bytes/5?a=b", "http://localhost:80/bytes/5", "http://localhost/bytes/5?/x"] {
            assert!(matches!(Route::of(target), Route::Bytes(5)), "{target}");
        }
        for target in ["/", "/?a", "http://localhost", "http://localhost?a", "*"] {
            assert!(matches!(Route::of(target), Route::Index), "{target}");
        }
    }

    #[test]
    fn mistyped_helpers_and_faults_are_unknown() {
        let mistyped = [
            "/capacity/0",
            "/status/abc",
            "/status/100",
            "/status/600",
            "/bytes/-1",
            "/bytes/",
            "/delay/nan",
            "/delay/-1",
            "/delay/1e9",
            "/encoded/gzip",
            "/encoded/rot13/5",
            "/encoded/gzip/999999999",
            "/redirect/x",
            "/fault",
            "/fault/",
            "/fault/no-such",
        ];
        for target in mistyped {
            assert!(matches!(Route::of(target), Route::Unknown), "{target}");
        }
    }
}
