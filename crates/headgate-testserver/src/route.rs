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
    ("/hash", "length and SHA-256 of the request's body, as JSON"),
    ("/status/CODE", "that status, 200 to 599"),
    ("/bytes/N", "N bytes of text, drawn from the seed"),
    ("/image/N", "the same, called an image/jpeg"),
    ("/delay/SECONDS", "the default answer after so many seconds; fractions are fine"),
    ("/encoded/CODING/N", "the text of /bytes/N as gzip, gzip-members (several in a row), deflate, br or zstd"),
    ("/chunked/N", "the text of /bytes/N in chunks"),
    ("/close-delimited/N", "the text of /bytes/N, ended by closing the connection"),
    ("/redirect/N", "302 to /redirect/N-1 and so on; /redirect/0 is the default answer"),
    ("/relative-redirect/N", "the same, with `N-1` as the whole of each Location"),
    ("/absolute-redirect/N", "the same, with scheme and host in each Location"),
    ("/redirect-to?url=URL&status_code=CODE", "that status, 300 to 399 (302), with that URL as Location"),
    ("/headers", "the headers as JSON: the values of each name"),
    ("/response-headers?NAME=VALUE&...", "the default answer with these headers, which may be repeated"),
    ("/cookies", "the cookies of the request as JSON"),
    ("/cookies/set?NAME=VALUE&...", "sets these cookies, and 302 to /cookies"),
    ("/cookies/delete?NAME&...", "has these cookies expired, and 302 to /cookies"),
    ("/basic-auth/USER/PASSWORD", "401 to who doesn't send these"),
    ("/range/N", "the text of /bytes/N, or the part of it that Range asks for"),
    ("/gzip", "the JSON of /echo in this coding; so do /deflate, /brotli and /zstd"),
    ("/encoding/utf8", "text in UTF-8 with letters of many languages"),
    ("/base64/VALUE", "the bytes that this is the base64 of, as text"),
    ("/v1/chat/completions", "POST: the last of the `messages`, said back by an assistant, with `usage` in words"),
    ("/drip?numbytes=N&duration=S&delay=S&code=CODE", "N bytes (10) evenly over S seconds (2), after a delay"),
    ("/robots.txt", "forbids /deny; another path's answer if the server was told so"),
    ("/deny", "what /robots.txt forbids"),
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
    Hash,
    Status(u16),
    Bytes(u64),
    Image(usize),
    Chat,
    Delay(Duration),
    Encoded(Coding, usize),
    Chunked(u64),
    CloseDelimited(u64),
    Redirect(Reference, u32),
    RedirectTo,
    Headers,
    ResponseHeaders,
    Cookies,
    SetCookies,
    DeleteCookies,
    BasicAuth,
    Range(u64),
    /// The request as JSON in this coding.
    Coded(Coding),
    Utf8,
    Base64,
    Drip,
    Robots,
    /// The fault, and its place in [`table::all`].
    Fault(usize, &'static Fault),
    /// Meant for a helper or a fault, but not one: a mistyped name must not look like a server in good health.
    Unknown,
}

/// How a `Location` names the next URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// By its path.
    Path,
    /// By what differs from the URL before.
    Relative,
    /// By all of it.
    Absolute,
}

impl Route {
    /// Whether the answer depends on more of the request than its path.
    pub fn reads_request(self) -> bool {
        match self {
            Route::Echo
            | Route::Hash
            | Route::Redirect(Reference::Absolute, _)
            | Route::RedirectTo
            | Route::Headers
            | Route::ResponseHeaders
            | Route::Cookies
            | Route::SetCookies
            | Route::DeleteCookies
            | Route::BasicAuth
            | Route::Range(_)
            | Route::Coded(_)
            | Route::Base64
            | Route::Chat
            | Route::Drip
            | Route::Robots => true,
            Route::Default
            | Route::Index
            | Route::Stats
            | Route::Capacity(_)
            | Route::Status(_)
            | Route::Bytes(_)
            | Route::Image(_)
            | Route::Delay(_)
            | Route::Encoded(..)
            | Route::Chunked(_)
            | Route::CloseDelimited(_)
            | Route::Redirect(..)
            | Route::Utf8
            | Route::Fault(..)
            | Route::Unknown => false,
        }
    }

    /// Whether it is counted: not those that look at the server or change it.
    pub fn is_counted(self) -> bool {
        !matches!(self, Route::Stats | Route::Capacity(_))
    }

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
            ("hash", None) => Some(Route::Hash),
            ("status", Some(rest)) => number(rest).filter(|code| STATUSES.contains(code)).map(Route::Status),
            ("bytes", Some(rest)) => number(rest).map(Route::Bytes),
            ("image", Some(rest)) => number(rest).filter(|bytes| *bytes <= MAX_ENCODED_BYTES).map(Route::Image),
            ("v1", Some("chat/completions")) => Some(Route::Chat),
            ("delay", Some(rest)) => {
                let seconds = number(rest).filter(|seconds| (0.0..=MAX_DELAY_S).contains(seconds));
                seconds.map(|seconds| Route::Delay(Duration::from_secs_f64(seconds)))
            }
            ("encoded", Some(rest)) => encoded(rest),
            ("chunked", Some(rest)) => number(rest).map(Route::Chunked),
            ("close-delimited", Some(rest)) => number(rest).map(Route::CloseDelimited),
            ("redirect", Some(rest)) => redirect(Reference::Path, rest),
            ("relative-redirect", Some(rest)) => redirect(Reference::Relative, rest),
            ("absolute-redirect", Some(rest)) => redirect(Reference::Absolute, rest),
            ("redirect-to", None) => Some(Route::RedirectTo),
            ("headers", None) => Some(Route::Headers),
            ("response-headers", None) => Some(Route::ResponseHeaders),
            ("cookies", None) => Some(Route::Cookies),
            ("cookies", Some("set")) => Some(Route::SetCookies),
            ("cookies", Some("delete")) => Some(Route::DeleteCookies),
            ("basic-auth", Some(rest)) => rest.contains('/').then_some(Route::BasicAuth),
            ("range", Some(rest)) => number(rest).map(Route::Range),
            ("gzip", None) => Some(Route::Coded(Coding::Gzip)),
            ("deflate", None) => Some(Route::Coded(Coding::Deflate)),
            ("brotli", None) => Some(Route::Coded(Coding::Brotli)),
            ("zstd", None) => Some(Route::Coded(Coding::Zstd)),
            ("encoding", Some("utf8")) => Some(Route::Utf8),
            ("base64", Some(_)) => Some(Route::Base64),
            ("drip", None) => Some(Route::Drip),
            ("robots.txt", None) => Some(Route::Robots),
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

fn redirect(reference: Reference, rest: &str) -> Option<Route> {
    match number(rest)? {
        0 => Some(Route::Default),
        count @ ..=MAX_REDIRECTS => Some(Route::Redirect(reference, count)),
        _ => None,
    }
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
            "/relative-redirect/-1",
            "/basic-auth/user",
            "/range/x",
            "/fault",
            "/fault/",
            "/fault/no-such",
        ];
        for target in mistyped {
            assert!(matches!(Route::of(target), Route::Unknown), "{target}");
        }
    }
}
