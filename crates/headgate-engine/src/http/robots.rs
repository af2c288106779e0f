//! What hosts ask robots to leave alone (RFC 9309).
//!
//! Each origin's `/robots.txt` is fetched once and believed for a day, by whoever comes first; others to the same origin wait for
//! it. A file that is not there allows everything, one that can't be read nothing. Bounded: in the number of origins, and in
//! bytes over all of them; what is pushed out is fetched again. Parsing and matching is in `robots_rules.rs`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::OnceCell;

use super::robots_rules::{MAX_BYTES as MAX_FILE_BYTES, Rules, is_of_token};
use crate::model::error::{ErrorKind, Failure};
use crate::model::message::OptionName;
use crate::model::origin::Origin;
use crate::model::reason::Reason;

/// Of a file, the rest is ignored (RFC 9309 section 2.5). One byte more tells whether its last line was cut off.
pub const MAX_ROBOTS_BYTES: u64 = MAX_FILE_BYTES as u64 + 1;
/// A file of more bytes is parsed by a thread of the decoder pool, not by a worker.
pub const MAX_BYTES_AT_ONCE: usize = 16 * 1024;
/// The same of deciding on a path: rules and bytes of the path.
const MAX_STEPS_AT_ONCE: usize = 16 * 1024;
/// How long a file is believed (section 2.4).
const BELIEVED_FOR: Duration = Duration::from_hours(24);
/// How long a server is left alone that could not say what it asks for.
const UNREACHABLE_FOR: Duration = Duration::from_mins(10);
/// Origins whose files are known.
const MAX_ORIGINS: usize = 16_384;
/// Bytes of these files.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// What an origin takes up without any rules.
const ORIGIN_BYTES: usize = 500;

/// What an origin asks for.
#[derive(Debug)]
pub enum Asked {
    Rules(Rules),
    /// The file could not be read: then nothing may be fetched (section 2.3.1.4), and rows fail so.
    Unknown(Failure),
}

impl Asked {
    /// By the answer to a request for the file, after redirects; `body` as far as it came.
    pub fn answered(status: u16, body: &[u8], token: &str) -> Self {
        match status {
            200..300 => Self::Rules(Rules::parse(body, token)),
            300..500 => Self::Rules(Rules::default()),
            _ => Self::Unknown(blocked(unreadable(format!("status {status}")))),
        }
    }

    /// By the failure of that request. A host that can't be reached fails its rows with the kind of that failure, and one that
    /// answers with something else than a file blocks them.
    pub fn failed(failure: &Failure) -> Self {
        use ErrorKind as Kind;
        let reason = unreadable(failure.to_string());
        Self::Unknown(match failure.kind {
            Kind::TooManyRedirects | Kind::RedirectLoop => return Self::Rules(Rules::default()),
            Kind::Resolve
            | Kind::Connect
            | Kind::Tls
            | Kind::ConnectTimeout
            | Kind::Timeout
            | Kind::Closed
            | Kind::HostDown
            | Kind::Proxy => {
                // The host was judged by the request for the file. Its rows were not sent, and say nothing more about it.
                Failure { option: failure.option, ..Failure::new(failure.kind, reason) }.lasting().of_ours()
            }
            _ => blocked(reason),
        })
    }

    /// Why this path and query may not be fetched, if so.
    pub fn objection(&self, path: &str) -> Option<Failure> {
        match self {
            Self::Rules(rules) if rules.allow(path) => None,
            Self::Rules(_) => Some(blocked(Reason::new("robots.txt disallows it"))),
            Self::Unknown(failure) => Some(failure.clone()),
        }
    }

    /// Whether deciding on this path takes a worker too long.
    pub fn is_much(&self, path: &str) -> bool {
        matches!(self, Self::Rules(rules) if rules.steps(path) > MAX_STEPS_AT_ONCE)
    }

    fn is_believed_for(&self) -> Duration {
        if matches!(self, Self::Unknown(_)) { UNREACHABLE_FOR } else { BELIEVED_FOR }
    }

    fn bytes(&self) -> usize {
        ORIGIN_BYTES + if let Self::Rules(rules) = self { rules.bytes() } else { 0 }
    }
}

fn unreadable(why: String) -> Reason {
    Reason::new("robots.txt can't be read").with(why)
}

fn blocked(reason: Reason) -> Failure {
    Failure::new(ErrorKind::BlockedByRobots, reason).with_option(OptionName::Robots).lasting()
}

/// What an origin asks for, once it is known.
pub type Cell = Arc<OnceCell<Asked>>;

/// What the origins of a run ask for.
#[derive(Debug)]
pub struct RobotsTable {
    /// By which files address us (section 2.2.1).
    pub token: String,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    origins: LruCache<Origin, Entry>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Entry {
    cell: Cell,
    /// Once it is known.
    until: Option<Instant>,
    bytes: usize,
}

impl RobotsTable {
    /// For one who calls himself so.
    pub fn new(user_agent: &[u8]) -> Self {
        let token = user_agent.iter().copied().take_while(|byte| is_of_token(*byte)).map(char::from).collect();
        Self { token, known: Mutex::new(Known { origins: LruCache::unbounded(), bytes: 0 }) }
    }

    /// Where what an origin asks for is or will be: whoever finds it empty fills it, and says so with [`RobotsTable::filled`].
    pub fn cell(&self, origin: &Origin, now: Instant) -> Cell {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.origins.get(origin) {
            Some(entry) if entry.until.is_none_or(|until| now < until) => return entry.cell.clone(),
            _ => {}
        }
        if let Some(outdated) = known.origins.pop(origin) {
            known.bytes -= outdated.bytes;
        }
        while known.origins.len() >= MAX_ORIGINS || known.bytes >= MAX_BYTES {
            let Some((_, oldest)) = known.origins.pop_lru() else { break };
            known.bytes -= oldest.bytes;
        }
        known.origins.get_or_insert(origin.clone(), Entry::default).cell.clone()
    }

    /// An origin's cell was filled.
    pub fn filled(&self, origin: &Origin, asked: &Asked, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = known.origins.peek_mut(origin).filter(|entry| entry.until.is_none()) else { return };
        entry.until = Some(now + asked.is_believed_for());
        entry.bytes = asked.bytes();
        known.bytes += asked.bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::target;

    fn origin(number: usize) -> Origin {
        target::parse(&format!("http://h{number}.example/")).expect("a URL").origin
    }

    fn fill(table: &RobotsTable, number: usize, asked: Asked, now: Instant) -> Cell {
        let cell = table.cell(&origin(number), now);
        cell.set(asked).expect("it is empty");
        table.filled(&origin(number), cell.get().expect("filled"), now);
        cell
    }

    fn objection(asked: &Asked, path: &str) -> Option<String> {
        asked.objection(path).map(|failure| failure.to_string())
    }

    #[test]
    fn what_may_be_fetched_follows_from_the_answer() {
        let rules = b"User-agent: *\nDisallow: /\n\nUser-agent: HeadGate\nDisallow: /private\nAllow: /private/open\n";
        let disallowed = Some("blocked_by_robots: robots.txt disallows it".to_owned());
        let unknown = |kind: &str, why: &str| Some(format!("{kind}: robots.txt can't be read ({why})"));
        let timeout = Failure::new(ErrorKind::Timeout, "no answer came in time");
        let circle = Failure::new(ErrorKind::TooManyRedirects, "there were more than 5 redirects");
        for (expected, asked, path) in [
            (None, Asked::answered(200, rules, "headgate"), "/x"),
            (disallowed.clone(), Asked::answered(200, rules, "headgate"), "/private?q"),
            (None, Asked::answered(200, rules, "headgate"), "/private/open"),
            (None, Asked::answered(200, rules, "headgate"), "/robots.txt"),
            (disallowed.clone(), Asked::answered(200, rules, "another"), "/x"),
            (None, Asked::answered(404, rules, "another"), "/x"),
            (None, Asked::answered(429, b"", "another"), "/x"),
            (
                disallowed.clone(),
                Asked::answered(200, b" user-agent : HeadGate/0.1 (x)\r\nDisallow: /v\n", "headgate"),
                "/v",
            ),
            (
                disallowed.clone(),
                Asked::answered(200, b"\xef\xbb\xbfUserAgent headgate/1\nDisallow: /v\n", "headgate"),
                "/v",
            ),
            (disallowed.clone(), Asked::answered(200, b"User agent:headgate/1\nDisallow: /v\n", "headgate"), "/v"),
            (None, Asked::answered(200, b"User-agent: headgate2/0.1\nDisallow: /v\n", "other"), "/v"),
            (unknown("blocked_by_robots", "status 503"), Asked::answered(503, b"", "headgate"), "/x"),
            (unknown("timeout", "timeout: no answer came in time"), Asked::failed(&timeout), "/x"),
            (
                unknown("blocked_by_robots", "protocol: no HTTP"),
                Asked::failed(&Failure::new(ErrorKind::Protocol, "no HTTP")),
                "/x",
            ),
            (None, Asked::failed(&circle), "/x"),
        ] {
            assert_eq!(expected, objection(&asked, path), "{path}");
        }
    }

    #[test]
    fn files_address_us_by_the_name_of_our_product() {
        for (expected, user_agent) in [("headgate", "headgate/0.1.0"), ("My-Bot", "My-Bot (+https://me)"), ("a", "a")] {
            assert_eq!(expected, RobotsTable::new(user_agent.as_bytes()).token);
        }
    }

    #[test]
    fn a_file_is_believed_for_a_day_and_a_failure_for_minutes() {
        let (table, now) = (RobotsTable::new(b"headgate"), Instant::now());
        let file = fill(&table, 1, Asked::answered(404, b"", "x"), now);
        let failure = fill(&table, 2, Asked::answered(500, b"", "x"), now);
        let same = |number, cell: &Cell, at| Arc::ptr_eq(cell, &table.cell(&origin(number), at));
        let second = Duration::from_secs(1);
        for (number, cell, time) in [(2, &failure, UNREACHABLE_FOR), (1, &file, BELIEVED_FOR)] {
            assert!(
                same(number, cell, now + time.saturating_sub(second)) && !same(number, cell, now + time),
                "{number}"
            );
        }
    }

    #[test]
    fn a_file_counts_as_what_is_kept_of_it() {
        let many = |line: &str| [b"User-agent: *\n".to_vec(), line.repeat(10_000).into_bytes()].concat();
        let bytes = |body: &[u8]| Asked::answered(200, body, "headgate").bytes();
        let numbered = (0..10_000).map(|number| format!("Allow:/*{number}")).collect::<Vec<_>>().join("\n");
        assert!(bytes(&[&b"User-agent: *\n"[..], numbered.as_bytes()].concat()) > 10_000 * 48);
        assert_eq!(ORIGIN_BYTES, bytes(&many("Sitemap: http://h/s.xml\n")));
        assert_eq!(ORIGIN_BYTES, bytes(&many("# nothing\n")));
    }

    #[test]
    fn what_is_known_is_bounded_in_origins_and_in_bytes() {
        let (table, now) = (RobotsTable::new(b"headgate"), Instant::now());
        for number in 0..MAX_ORIGINS + 100 {
            table.cell(&origin(number), now);
        }
        {
            let known = table.known.lock().expect("whole");
            assert!(known.origins.len() <= MAX_ORIGINS);
        }
        let large = (0..30_000).map(|number| format!("Allow:/{number}")).collect::<Vec<_>>().join("\n");
        let large = ["User-agent: *\n", &large].concat().into_bytes();
        let bytes = Asked::answered(200, &large, "x").bytes();
        for number in 0..2 * MAX_BYTES / bytes {
            fill(&table, MAX_ORIGINS + 1000 + number, Asked::answered(200, &large, "x"), now);
            assert!(table.known.lock().expect("whole").bytes < MAX_BYTES + bytes);
        }
    }
}
