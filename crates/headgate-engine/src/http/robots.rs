//! What hosts ask robots to leave alone (RFC 9309).
//!
//! Each origin's `/robots.txt` is fetched once and believed for a day, by whoever comes first; others to the same origin wait for
//! it. A file that is not there allows everything, one that can't be reached nothing. Parsing and matching is the `robotxt`
//! crate's. Bounded: in the number of origins, and in bytes over all of them; what is pushed out is fetched again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use robotxt::{BYTE_LIMIT, Robots, Rule};
use tokio::sync::OnceCell;
use url::Url;

use crate::model::error::{ErrorKind, Failure};
use crate::model::message::OptionName;
use crate::model::origin::Origin;
use crate::model::reason::Reason;

/// Of a file, the rest is ignored (RFC 9309 section 2.5). One byte more tells whether its last line was cut off.
pub const MAX_ROBOTS_BYTES: u64 = BYTE_LIMIT as u64 + 1;
/// How long a file is believed (section 2.4).
const BELIEVED_FOR: Duration = Duration::from_hours(24);
/// How long a server is left alone that could not say what it asks for.
const UNREACHABLE_FOR: Duration = Duration::from_mins(10);
/// Origins whose files are known.
const MAX_ORIGINS: usize = 16_384;
/// Bytes of these files.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// UTF-8's, which a file may begin with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// What the allocator adds to a text.
const ALLOCATED_BYTES: usize = 16;
/// What an origin takes up without any rules.
const ORIGIN_BYTES: usize = 500;

/// What an origin asks for.
#[derive(Debug)]
pub enum Asked {
    Rules {
        robots: Robots,
        bytes: usize,
    },
    /// Nobody could say, for this reason: then nothing may be fetched (section 2.3.1.4).
    Unknown(Reason),
}

impl Asked {
    /// By the answer to a request for the file, after redirects; `body` as far as it came.
    pub fn answered(status: u16, body: &[u8], token: &str) -> Self {
        match status {
            200..300 => {
                let robots = Robots::parse(&without_versions(body), token);
                Self::Rules { bytes: kept_bytes(&robots), robots }
            }
            300..500 => Self::Rules { robots: Robots::allow_all(), bytes: 0 },
            _ => Self::Unknown(Reason::new("robots.txt can't be read").with(format!("status {status}"))),
        }
    }

    /// By the failure of that request.
    pub fn failed(failure: &Failure) -> Self {
        if failure.kind == ErrorKind::TooManyRedirects {
            return Self::Rules { robots: Robots::allow_all(), bytes: 0 };
        }
        Self::Unknown(Reason::new("robots.txt can't be read").with(failure.to_string()))
    }

    /// Why this path and query may not be fetched, if so.
    pub fn objection(&self, path: &str) -> Option<Failure> {
        let reason = match self {
            Self::Rules { robots, .. } if robots.is_allowed(path) => return None,
            Self::Rules { .. } => Reason::new("robots.txt disallows it"),
            Self::Unknown(reason) => reason.clone(),
        };
        Some(Failure::new(ErrorKind::Blocked, reason).with_option(OptionName::Robots).lasting())
    }

    fn is_believed_for(&self) -> Duration {
        if matches!(self, Self::Unknown(_)) { UNREACHABLE_FOR } else { BELIEVED_FOR }
    }

    fn bytes(&self) -> usize {
        ORIGIN_BYTES + if let Self::Rules { bytes, .. } = self { *bytes } else { 0 }
    }
}

/// The file with spaces for what follows a product's name where robots are named: `headgate/1.0` is there what we call ourselves,
/// and as Google's parser reads it, it means us.
fn without_versions(body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    let start = if body.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    for line in body[start..].split_mut(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
        let Some(value) = named_robot(line) else { continue };
        let name = line[value..].iter().take_while(|byte| is_of_token(**byte)).count();
        if name > 0 {
            line[value + name..].fill(b' ');
        }
    }
    body
}

/// Where the name begins on a line that names a robot, in each of the spellings that the parser takes.
fn named_robot(line: &[u8]) -> Option<usize> {
    let rest = after(line.trim_ascii_start(), b"user")?;
    let rest = rest.strip_prefix(b"-").or(rest.strip_prefix(b" ")).unwrap_or(rest);
    let rest = after(rest, b"agent")?;
    let value = rest.trim_ascii_start();
    let value = value.strip_prefix(b":").map_or(value, <[u8]>::trim_ascii_start);
    (value.len() < rest.len()).then(|| line.len() - value.len())
}

fn after<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let (begin, rest) = text.split_at_checked(word.len())?;
    begin.eq_ignore_ascii_case(word).then_some(rest)
}

/// RFC 9309 section 2.2.1.
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_')
}

/// What is kept of a file: several times what short lines have in it, and nothing of its comments.
fn kept_bytes(robots: &Robots) -> usize {
    let rules = robots.rules().iter().map(|rule| size_of::<Rule>() + ALLOCATED_BYTES + rule.pattern().len());
    let sitemaps = robots.sitemaps().iter().map(|url| size_of::<Url>() + ALLOCATED_BYTES + url.as_str().len());
    rules.chain(sitemaps).sum()
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

#[derive(Debug, Default)]
struct Known {
    by_origin: HashMap<Origin, Entry>,
    /// In the order in which they were met.
    order: VecDeque<(Origin, u64)>,
    bytes: usize,
    next_number: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    cell: Cell,
    /// Once it is known.
    until: Option<Instant>,
    bytes: usize,
}

impl RobotsTable {
    /// For one who calls himself so.
    pub fn new(user_agent: &[u8]) -> Self {
        let token = user_agent.iter().copied().take_while(|byte| is_of_token(*byte)).map(char::from).collect();
        Self { token, known: Mutex::default() }
    }

    /// Where what an origin asks for is or will be: whoever finds it empty fills it, and says so with [`RobotsTable::filled`].
    pub fn cell(&self, origin: &Origin, now: Instant) -> Cell {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.by_origin.get(origin) {
            if entry.until.is_none_or(|until| now < until) {
                return entry.cell.clone();
            }
            known.forget(origin);
        }
        while known.by_origin.len() >= MAX_ORIGINS || known.bytes >= MAX_BYTES {
            known.forget_oldest();
        }
        let number = known.next_number;
        known.next_number += 1;
        let cell = Cell::default();
        known.by_origin.insert(origin.clone(), Entry { number, cell: cell.clone(), until: None, bytes: 0 });
        known.order.push_back((origin.clone(), number));
        cell
    }

    /// An origin's cell was filled.
    pub fn filled(&self, origin: &Origin, asked: &Asked, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = known.by_origin.get_mut(origin).filter(|entry| entry.until.is_none()) else { return };
        entry.until = Some(now + asked.is_believed_for());
        entry.bytes = asked.bytes();
        known.bytes += asked.bytes();
    }
}

impl Known {
    fn forget(&mut self, origin: &Origin) {
        if let Some(entry) = self.by_origin.remove(origin) {
            self.bytes -= entry.bytes;
        }
        // What was forgotten by name is still in the order.
        if self.order.len() > 2 * self.by_origin.len() + 16 {
            let Self { by_origin, order, .. } = self;
            order.retain(|(origin, number)| by_origin.get(origin).is_some_and(|entry| entry.number == *number));
        }
    }

    fn forget_oldest(&mut self) {
        while let Some((origin, number)) = self.order.pop_front() {
            if self.by_origin.get(&origin).is_some_and(|entry| entry.number == number) {
                self.forget(&origin);
                return;
            }
        }
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
        let disallowed = Some("blocked: robots.txt disallows it".to_owned());
        let unknown = |why: &str| Some(format!("blocked: robots.txt can't be read ({why})"));
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
            (unknown("status 503"), Asked::answered(503, b"", "headgate"), "/x"),
            (unknown("timeout: no answer came in time"), Asked::failed(&timeout), "/x"),
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
        assert!(bytes(&many("Allow:/a\n")) > 10_000 * size_of::<Rule>());
        assert!(bytes(&many("Sitemap:a:b\n")) > 10_000 * size_of::<Url>());
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
            assert!(known.by_origin.len() <= MAX_ORIGINS && known.order.len() <= 2 * MAX_ORIGINS + 16);
        }
        let large = [b"User-agent: *\n".to_vec(), b"Allow:/a\n".repeat(50_000)].concat();
        let bytes = Asked::answered(200, &large, "x").bytes();
        for number in 0..2 * MAX_BYTES / bytes {
            fill(&table, MAX_ORIGINS + 1000 + number, Asked::answered(200, &large, "x"), now);
            assert!(table.known.lock().expect("whole").bytes < MAX_BYTES + bytes);
        }
    }
}
