//! The robots.txt of each origin, cached (RFC 9309).
//!
//! The first request to an origin fetches its `/robots.txt`, which is valid for a day; all other requests to the origin wait
//! for it. A missing file allows everything, and an unreadable one nothing. The cache is bounded in the number of origins and
//! in bytes; an evicted file is fetched once more when it is needed. `robots_rules.rs` parses files and matches paths.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use headgate_core::error::{ErrorKind, Failure};
use headgate_core::message::OptionName;
use headgate_core::origin::Origin;
use headgate_core::reason::Reason;
use lru::LruCache;
use tokio::sync::OnceCell;

use super::robots_rules::{MAX_BYTES as MAX_FILE_BYTES, RobotsRules, is_token_byte};

/// The most bytes of a file that are read; the rest is ignored (RFC 9309 section 2.5). The last byte only shows whether the
/// last line was cut off.
pub const MAX_ROBOTS_BYTES: u64 = MAX_FILE_BYTES as u64 + 1;
/// A file of more bytes is parsed by a thread of the decoder pool instead of the worker.
pub const MAX_BYTES_AT_ONCE: usize = 16 * 1024;
/// A path that takes more steps is matched by a thread of the decoder pool instead of the worker.
const MAX_STEPS_AT_ONCE: usize = 16 * 1024;
/// The time for which a file is valid (section 2.4).
const VALID_FOR: Duration = Duration::from_hours(24);
/// The time after which an unreadable file is fetched once more.
const UNREADABLE_FOR: Duration = Duration::from_mins(10);
/// The most origins in the cache.
const MAX_ORIGINS: usize = 16_384;
/// The most bytes in the cache.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// The bytes of an origin without rules.
const ORIGIN_BYTES: usize = 500;

/// The robots.txt of an origin.
#[derive(Debug)]
pub enum RobotsFile {
    Rules(RobotsRules),
    /// The file could not be read: then nothing may be fetched (section 2.3.1.4), and rows fail with this failure.
    Unreadable(Failure),
}

impl RobotsFile {
    /// Returns the file for the response to its request, after redirects. `body`: what came of it.
    pub fn of_response(status: u16, body: &[u8], token: &str) -> Self {
        match status {
            200..300 => Self::Rules(RobotsRules::parse(body, token)),
            300..500 => Self::Rules(RobotsRules::default()),
            _ => Self::Unreadable(blocked(unreadable(format!("status {status}")))),
        }
    }

    /// Returns the file for the failure of its request. If the host can't be reached, its rows fail with the same error kind;
    /// all other failures block them.
    pub fn of_failure(failure: &Failure) -> Self {
        use ErrorKind as Kind;
        let reason = unreadable(failure.to_string());
        Self::Unreadable(match failure.kind {
            Kind::TooManyRedirects | Kind::RedirectLoop => return Self::Rules(RobotsRules::default()),
            Kind::Dns
            | Kind::Connect
            | Kind::Tls
            | Kind::ConnectTimeout
            | Kind::Timeout
            | Kind::ConnectionClosed
            | Kind::HostDown
            | Kind::Proxy => {
                // The request for the file counts as evidence about the host. Its rows were not sent, so they don't.
                Failure { option: failure.option, ..Failure::new(failure.kind, reason) }.lasting().of_ours()
            }
            _ => blocked(reason),
        })
    }

    /// Returns the failure of a row with this path and query if the file disallows it.
    pub fn check(&self, path: &str) -> Option<Failure> {
        match self {
            Self::Rules(rules) if rules.allow(path) => None,
            Self::Rules(_) => Some(blocked(Reason::new("robots.txt disallows it"))),
            Self::Unreadable(failure) => Some(failure.clone()),
        }
    }

    /// Returns whether matching this path takes a worker too long.
    pub fn is_expensive(&self, path: &str) -> bool {
        matches!(self, Self::Rules(rules) if rules.steps(path) > MAX_STEPS_AT_ONCE)
    }

    fn valid_for(&self) -> Duration {
        if matches!(self, Self::Unreadable(_)) { UNREADABLE_FOR } else { VALID_FOR }
    }

    fn bytes(&self) -> usize {
        ORIGIN_BYTES + if let Self::Rules(rules) = self { rules.bytes() } else { 0 }
    }
}

fn unreadable(why: String) -> Reason {
    Reason::new("robots.txt can't be read").with(why)
}

fn blocked(reason: Reason) -> Failure {
    Failure::new(ErrorKind::BlockedByRobots, reason).with_option(OptionName::ObeyRobots).lasting()
}

/// The robots.txt of an origin, once it was fetched.
pub(crate) type RobotsCell = Arc<OnceCell<RobotsFile>>;

/// The robots.txt files of a run.
#[derive(Debug)]
pub struct RobotsTable {
    /// The product token by which files address this crawler (section 2.2.1).
    pub token: String,
    cache: Mutex<RobotsCache>,
}

#[derive(Debug)]
struct RobotsCache {
    origins: LruCache<Origin, RobotsEntry>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct RobotsEntry {
    cell: RobotsCell,
    /// When the file expires; `None`: it was not fetched yet.
    expires: Option<Instant>,
    bytes: usize,
}

impl RobotsTable {
    /// Returns an empty table for a crawler with this user agent.
    pub fn new(user_agent: &[u8]) -> Self {
        let token = user_agent.iter().copied().take_while(|byte| is_token_byte(*byte)).map(char::from).collect();
        Self { token, cache: Mutex::new(RobotsCache { origins: LruCache::unbounded(), bytes: 0 }) }
    }

    /// Returns the cell for the file of an origin. A caller that finds it empty fills it, and calls [`RobotsTable::record`].
    pub fn cell(&self, origin: &Origin, now: Instant) -> RobotsCell {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        match cache.origins.get(origin) {
            Some(entry) if entry.expires.is_none_or(|expires| now < expires) => return entry.cell.clone(),
            _ => {}
        }
        if let Some(expired) = cache.origins.pop(origin) {
            cache.bytes -= expired.bytes;
        }
        while cache.origins.len() >= MAX_ORIGINS || cache.bytes >= MAX_BYTES {
            let Some((_, oldest)) = cache.origins.pop_lru() else { break };
            cache.bytes -= oldest.bytes;
        }
        cache.origins.get_or_insert(origin.clone(), RobotsEntry::default).cell.clone()
    }

    /// Records the size of a file that was fetched, and when it expires.
    pub fn record(&self, origin: &Origin, file: &RobotsFile, now: Instant) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = cache.origins.peek_mut(origin).filter(|entry| entry.expires.is_none()) else { return };
        entry.expires = Some(now + file.valid_for());
        entry.bytes = file.bytes();
        cache.bytes += file.bytes();
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::target;

    use super::*;

    fn origin(number: usize) -> Origin {
        target::parse(&format!("http://h{number}.example/")).expect("a URL").origin
    }

    fn fill(table: &RobotsTable, number: usize, file: RobotsFile, now: Instant) -> RobotsCell {
        let cell = table.cell(&origin(number), now);
        cell.set(file).expect("it is empty");
        table.record(&origin(number), cell.get().expect("filled"), now);
        cell
    }

    fn check(file: &RobotsFile, path: &str) -> Option<String> {
        file.check(path).map(|failure| failure.to_string())
    }

    #[test]
    fn the_response_determines_which_paths_are_allowed() {
        let rules = b"User-agent: *\nDisallow: /\n\nUser-agent: HeadGate\nDisallow: /private\nAllow: /private/open\n";
        let disallowed = Some("blocked_by_robots: robots.txt disallows it".to_owned());
        let unreadable = |kind: &str, why: &str| Some(format!("{kind}: robots.txt can't be read ({why})"));
        let timeout = Failure::new(ErrorKind::Timeout, "no response came in time");
        let redirects = Failure::new(ErrorKind::TooManyRedirects, "there were more than 5 redirects");
        for (expected, file, path) in [
            (None, RobotsFile::of_response(200, rules, "headgate"), "/x"),
            (disallowed.clone(), RobotsFile::of_response(200, rules, "headgate"), "/private?q"),
            (None, RobotsFile::of_response(200, rules, "headgate"), "/private/open"),
            (None, RobotsFile::of_response(200, rules, "headgate"), "/robots.txt"),
            (disallowed.clone(), RobotsFile::of_response(200, rules, "another"), "/x"),
            (None, RobotsFile::of_response(404, rules, "another"), "/x"),
            (None, RobotsFile::of_response(429, b"", "another"), "/x"),
            (
                disallowed.clone(),
                RobotsFile::of_response(200, b" user-agent : HeadGate/0.1 (x)\r\nDisallow: /v\n", "headgate"),
                "/v",
            ),
            (
                disallowed.clone(),
                RobotsFile::of_response(200, b"\xef\xbb\xbfUserAgent headgate/1\nDisallow: /v\n", "headgate"),
                "/v",
            ),
            (
                disallowed.clone(),
                RobotsFile::of_response(200, b"User agent:headgate/1\nDisallow: /v\n", "headgate"),
                "/v",
            ),
            (None, RobotsFile::of_response(200, b"User-agent: headgate2/0.1\nDisallow: /v\n", "other"), "/v"),
            (unreadable("blocked_by_robots", "status 503"), RobotsFile::of_response(503, b"", "headgate"), "/x"),
            (unreadable("timeout", "timeout: no response came in time"), RobotsFile::of_failure(&timeout), "/x"),
            (
                unreadable("blocked_by_robots", "protocol: no HTTP"),
                RobotsFile::of_failure(&Failure::new(ErrorKind::Protocol, "no HTTP")),
                "/x",
            ),
            (None, RobotsFile::of_failure(&redirects), "/x"),
        ] {
            assert_eq!(expected, check(&file, path), "{path}");
        }
    }

    #[test]
    fn the_product_token_is_the_beginning_of_the_user_agent() {
        for (expected, user_agent) in [("headgate", "headgate/0.1.0"), ("My-Bot", "My-Bot (+https://me)"), ("a", "a")] {
            assert_eq!(expected, RobotsTable::new(user_agent.as_bytes()).token);
        }
    }

    #[test]
    fn a_file_is_valid_for_a_day_and_a_failure_for_minutes() {
        let (table, now) = (RobotsTable::new(b"headgate"), Instant::now());
        let file = fill(&table, 1, RobotsFile::of_response(404, b"", "x"), now);
        let failure = fill(&table, 2, RobotsFile::of_response(500, b"", "x"), now);
        let same = |number, cell: &RobotsCell, at| Arc::ptr_eq(cell, &table.cell(&origin(number), at));
        let second = Duration::from_secs(1);
        for (number, cell, time) in [(2, &failure, UNREADABLE_FOR), (1, &file, VALID_FOR)] {
            assert!(
                same(number, cell, now + time.saturating_sub(second)) && !same(number, cell, now + time),
                "{number}"
            );
        }
    }

    #[test]
    fn only_the_kept_part_of_a_file_counts() {
        let many = |line: &str| [b"User-agent: *\n".to_vec(), line.repeat(10_000).into_bytes()].concat();
        let bytes = |body: &[u8]| RobotsFile::of_response(200, body, "headgate").bytes();
        let numbered = (0..10_000).map(|number| format!("Allow:/*{number}")).collect::<Vec<_>>().join("\n");
        assert!(bytes(&[&b"User-agent: *\n"[..], numbered.as_bytes()].concat()) > 10_000 * 48);
        assert_eq!(ORIGIN_BYTES, bytes(&many("Sitemap: http://h/s.xml\n")));
        assert_eq!(ORIGIN_BYTES, bytes(&many("# nothing\n")));
    }

    #[test]
    fn the_cache_is_bounded_in_origins_and_in_bytes() {
        let (table, now) = (RobotsTable::new(b"headgate"), Instant::now());
        for number in 0..MAX_ORIGINS + 100 {
            table.cell(&origin(number), now);
        }
        {
            let cache = table.cache.lock().expect("not poisoned");
            assert!(cache.origins.len() <= MAX_ORIGINS);
        }
        let large = (0..30_000).map(|number| format!("Allow:/{number}")).collect::<Vec<_>>().join("\n");
        let large = ["User-agent: *\n", &large].concat().into_bytes();
        let bytes = RobotsFile::of_response(200, &large, "x").bytes();
        for number in 0..2 * MAX_BYTES / bytes {
            fill(&table, MAX_ORIGINS + 1000 + number, RobotsFile::of_response(200, &large, "x"), now);
            assert!(table.cache.lock().expect("not poisoned").bytes < MAX_BYTES + bytes);
        }
    }
}
