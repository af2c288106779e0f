//! The rules of a robots.txt (RFC 9309 sections 2.1 and 2.2): parses those for one crawler, and matches paths.
//!
//! A file of 500 KiB can have 40,000 rules, and a path 64 KiB. Plain prefixes are found by binary search. A pattern with `*` is
//! matched from left to right in time linear in the path. A decision searches at most [`MAX_WORK`] bytes for patterns: a path
//! that needs more is disallowed.

use std::borrow::Cow;
use std::cmp::Reverse;

use memchr::memmem;

/// The most bytes of a file that are read; the rest is ignored (RFC 9309 section 2.5: at least 500 KiB).
pub(super) const MAX_BYTES: usize = 500 * 1024;
/// The byte order mark of UTF-8, with which a file may begin.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The most bytes that one decision searches for patterns: a path of 64 KiB for 1,000 patterns, or one of 200 bytes for
/// 300,000.
const MAX_WORK: usize = 64 * 1024 * 1024;
/// The overhead of the allocator for each text.
const ALLOCATED_BYTES: usize = 16;

/// The rules of a file for one crawler.
#[derive(Debug, Default)]
pub struct RobotsRules {
    /// All rules, by descending priority.
    all: Box<[RobotsRule]>,
    /// Indexes of the plain prefixes, ordered by their text.
    plain: Box<[u32]>,
    /// Indexes of the patterns, by descending priority.
    patterns: Box<[u32]>,
}

#[derive(Debug)]
struct RobotsRule {
    text: Box<str>,
    allows: bool,
}

impl RobotsRules {
    /// Parses the rules of a file for a crawler with this product token (section 2.2.1).
    pub fn parse(file: &[u8], token: &str) -> Self {
        let file = file.strip_prefix(BYTE_ORDER_MARK).unwrap_or(file);
        let is_named = lines(file).any(|(key, name)| key == Key::Agent && is_addressed(name, token));
        let (mut rules, mut in_agents, mut applies) = (Vec::new(), false, false);
        for (key, value) in lines(file) {
            if key == Key::Agent {
                applies &= in_agents;
                applies |= if is_named { is_addressed(value, token) } else { value == b"*" };
            } else if key != Key::Ignored && applies && !value.is_empty() {
                rules.push(RobotsRule { text: normalized(value).into(), allows: key == Key::Allow });
            }
            in_agents = key == Key::Agent;
        }
        Self::new(rules)
    }

    fn new(mut rules: Vec<RobotsRule>) -> Self {
        // The longest rule wins, and of several with the same length one that allows (section 2.2.2).
        rules.sort_by(|one, other| one.text.cmp(&other.text).then(other.allows.cmp(&one.allows)));
        rules.dedup_by(|one, other| one.text == other.text);
        rules.sort_by_key(|rule| (Reverse(rule.text.len()), !rule.allows));
        let is_plain = |number: &u32| {
            let text = &rules[*number as usize].text;
            !text.contains('*') && !text.ends_with('$')
        };
        let (mut plain, patterns): (Vec<u32>, Vec<u32>) = (0..rules.len() as u32).partition(is_plain);
        plain.sort_by(|one, other| rules[*one as usize].text.cmp(&rules[*other as usize].text));
        Self { plain: plain.into(), patterns: patterns.into(), all: rules.into() }
    }

    /// Returns whether a path with its query may be fetched.
    pub fn allow(&self, path: &str) -> bool {
        let path = normalized(path.as_bytes());
        if path == "/robots.txt" || self.all.is_empty() {
            return true;
        }
        let plain = self.find_plain(&path).unwrap_or(u32::MAX);
        let mut work = 0;
        for number in self.patterns.iter().copied().take_while(|number| *number < plain) {
            let rule = &self.all[number as usize];
            if matches(rule.text.as_bytes(), path.as_bytes(), &mut work) {
                return rule.allows;
            }
            if work > MAX_WORK {
                return false;
            }
        }
        self.all.get(plain as usize).is_none_or(|rule| rule.allows)
    }

    /// Returns about how many steps matching this path takes.
    pub fn steps(&self, path: &str) -> usize {
        path.len() + self.patterns.len().saturating_mul(path.len()).min(MAX_WORK)
    }

    /// Returns about how many bytes of memory the rules take.
    pub fn bytes(&self) -> usize {
        let texts: usize =
            self.all.iter().map(|rule| size_of::<RobotsRule>() + ALLOCATED_BYTES + rule.text.len()).sum();
        texts + size_of_val(&*self.plain) + size_of_val(&*self.patterns)
    }

    /// Returns the longest plain rule that `path` begins with.
    fn find_plain(&self, path: &str) -> Option<u32> {
        let text = |number: &u32| &*self.all[*number as usize].text;
        let (mut within, mut begin) = (&*self.plain, path);
        loop {
            within = &within[..within.partition_point(|number| text(number) <= begin)];
            let last = within.last()?;
            if begin.starts_with(text(last)) {
                return Some(*last);
            }
            // A shorter rule must be a prefix of what both have in common.
            let common = begin.bytes().zip(text(last).bytes()).take_while(|(one, other)| one == other).count();
            begin = &begin[..common];
        }
    }
}

/// Returns whether a path matches a pattern with `*`, or with `$` at its end; `work` grows by the bytes that are searched. The
/// earliest match of each part leaves the most for the next part, so no backtracking is needed.
fn matches(pattern: &[u8], path: &[u8], work: &mut usize) -> bool {
    let (text, is_anchored) = pattern.strip_suffix(b"$").map_or((pattern, false), |text| (text, true));
    let mut parts = text.split(|byte| *byte == b'*');
    let prefix = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(prefix) else { return false };
    let Some(last) = parts.next_back() else { return !is_anchored || rest.is_empty() };
    *work += rest.len();
    for part in parts {
        let Some(at) = memmem::find(rest, part) else { return false };
        rest = &rest[at + part.len()..];
    }
    if is_anchored { rest.ends_with(last) } else { memmem::find(rest, last).is_some() }
}

/// The key of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Agent,
    Allow,
    Disallow,
    /// An ignored rule, which ends the user agents of a group.
    Ignored,
}

/// All keys, with the misspellings that Google's parser accepts.
const KEYS: [(&str, Key); 15] = [
    ("user-agent", Key::Agent),
    ("user agent", Key::Agent),
    ("useragent", Key::Agent),
    ("allow", Key::Allow),
    ("alow", Key::Allow),
    ("allaw", Key::Allow),
    ("disallow", Key::Disallow),
    ("dissallow", Key::Disallow),
    ("dissalow", Key::Disallow),
    ("disalow", Key::Disallow),
    ("diasllow", Key::Disallow),
    ("disallaw", Key::Disallow),
    ("crawl-delay", Key::Ignored),
    ("crawl delay", Key::Ignored),
    ("crawldelay", Key::Ignored),
];

/// Returns the keys and values of a file's lines, without unknown lines and without a last line that is cut off.
fn lines(file: &[u8]) -> impl Iterator<Item = (Key, &[u8])> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r' | 0);
    let whole = match file.get(..=MAX_BYTES) {
        Some(begin) => &begin[..begin.iter().rposition(is_end).unwrap_or(0)],
        None => file,
    };
    whole.split(is_end).filter_map(line_of)
}

fn line_of(line: &[u8]) -> Option<(Key, &[u8])> {
    let line = line.trim_ascii_start();
    let is_key = |key: &str| line.get(..key.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(key.as_bytes()));
    let (text, key) = KEYS.iter().find(|(text, _)| is_key(text))?;
    let rest = &line[text.len()..];
    let value = rest.trim_ascii_start();
    // After the key comes a colon, or at least white space.
    let value = match value.strip_prefix(b":") {
        Some(value) => value,
        None if value.len() < rest.len() => value,
        None => return None,
    };
    let value = value.split(|byte| *byte == b'#').next().unwrap_or_default();
    Some((*key, value.trim_ascii()))
}

/// Returns whether a user-agent line is for the product with this token: `headgate/1.0` is for `headgate`.
fn is_addressed(name: &[u8], token: &str) -> bool {
    let length = name.iter().take_while(|byte| is_token_byte(**byte)).count();
    length > 0 && name[..length].eq_ignore_ascii_case(token.as_bytes())
}

/// Returns whether a byte may be in a product token (RFC 9309 section 2.2.1).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_')
}

/// Returns a path or a pattern in normal form, in which they are compared (section 2.2.2). It begins with `/`, and only bytes
/// that must be percent-encoded are, with capitals.
fn normalized(text: &[u8]) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>`{}%".contains(&byte);
    if text.starts_with(b"/")
        && text.iter().all(|byte| is_plain(*byte))
        && let Ok(text) = std::str::from_utf8(text)
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 1);
    if !text.starts_with(b"/") {
        out.push('/');
    }
    let value_at = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let encoded = value_at(at + 1).zip(value_at(at + 2)).filter(|_| byte == b'%');
        let (byte, length) = encoded.map_or((byte, 1), |(high, low)| ((high * 16 + low) as u8, 3));
        let is_kept = if length == 3 {
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
        } else {
            is_plain(byte) || byte == b'%'
        };
        if is_kept {
            out.push(char::from(byte));
        } else {
            let digit = |digit: u8| char::from(b"0123456789ABCDEF"[usize::from(digit)]);
            out.extend(['%', digit(byte >> 4), digit(byte & 0xf)]);
        }
        at += length;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lines: &str) -> RobotsRules {
        RobotsRules::parse(format!("User-agent: *\n{lines}").as_bytes(), "headgate")
    }

    fn rest(pattern: &[u8], path: &[u8], is_anchored: bool) -> bool {
        match pattern.split_first() {
            None => !is_anchored || path.is_empty(),
            Some((b'*', behind)) => (0..=path.len()).any(|at| rest(behind, &path[at..], is_anchored)),
            Some((byte, behind)) => path.first() == Some(byte) && rest(behind, &path[1..], is_anchored),
        }
    }

    /// Matches as RFC 9309 describes it, without optimizations.
    fn matches_by_the_rfc(pattern: &str, path: &str) -> bool {
        let (pattern, is_anchored) = match pattern.strip_suffix('$') {
            Some(pattern) => (pattern, true),
            None => (pattern, false),
        };
        rest(pattern.as_bytes(), path.as_bytes(), is_anchored)
    }

    proptest! {
        #[test]
        fn the_rule_that_decides_is_the_longest_that_matches(
            rules in prop::collection::vec(("/[ab/*$]{0,6}", any::<bool>()), 0..12),
            path in "/[ab/]{0,9}",
        ) {
            let text = rules
                .iter()
                .map(|(pattern, allows)| format!("{}: {pattern}\n", if *allows { "Allow" } else { "Disallow" }))
                .collect::<Vec<_>>()
                .concat();
            let winner = rules.iter().filter(|(pattern, _)| matches_by_the_rfc(pattern, &path));
            let winner = winner.max_by_key(|(pattern, allows)| (pattern.len(), *allows));
            prop_assert_eq!(winner.is_none_or(|(_, allows)| *allows), of(&text).allow(&path), "{}", text);
        }
    }

    #[test]
    fn a_segment_is_found_within_the_prefix_of_another_pattern() {
        for (path, rules) in [("/ab", "Allow: /ab*b\nDisallow: /*b\n"), ("/abab", "Allow: /abab*b\nDisallow: /*a*b\n")]
        {
            assert!(!of(rules).allow(path), "{path}: {rules}");
        }
    }

    #[test]
    fn paths_are_compared_in_normal_form() {
        for (expected, rule, path) in [
            (false, "/%61", "/a"),
            (false, "/ä", "/%c3%a4"),
            (false, "/a%2f", "/a%2Fb"),
            (true, "/a%2f", "/a/b"),
            (false, "/{x}", "/%7Bx%7D"),
            (false, "*.php$", "/x.php"),
            (true, "/a$b", "/a"),
            (false, "/", "/%"),
        ] {
            assert_eq!(expected, of(&format!("Disallow: {rule}")).allow(path), "{rule} {path}");
        }
    }

    #[test]
    fn the_first_500_kib_of_a_file_are_read_without_a_cut_line() {
        let rule = "Disallow: /open\n";
        for (expected, left) in [(false, rule.len()), (true, rule.len() - 2)] {
            let begin = format!("User-agent: *\nDisallow: /private\n#{}\n", "x".repeat(MAX_BYTES));
            let mut file = begin.as_bytes()[..MAX_BYTES - left - 1].to_vec();
            file.push(b'\n');
            file.extend(rule.bytes());
            let rules = RobotsRules::parse(&file, "headgate");
            assert!(!rules.allow("/private"), "{left}");
            assert_eq!(expected, rules.allow("/open"), "{left}");
        }
    }

    /// CVE-2021-33503 of urllib3 is of this class: the server's text determines how long matching takes.
    #[test]
    fn urllib3_cve_2021_33503_no_rules_make_a_decision_search_more_than_its_bound() {
        let path = format!("/{}", "ab".repeat(32 * 1024));
        let many = |make: fn(usize) -> String| (0..40_000).map(|at| make(at) + "\n").collect::<String>();
        // Each part is within the next one.
        let nested: String = (1..900).flat_map(|length| ["*".to_owned(), "a".repeat(length)]).collect();
        for (name, is_allowed, rules) in [
            ("parts that are not there", false, many(|at| format!("Disallow:/*{at:05}"))),
            ("prefixes", true, many(|at| format!("Disallow:/a{at:05}"))),
            ("prefixes with a part behind them", true, many(|at| format!("Disallow:/a{at:05}*b"))),
            ("one pattern of many parts", true, format!("Disallow: /{}c\n", "*ab*a".repeat(20_000))),
            ("the same part many times", false, many(|at| format!("Disallow:/*ab*{at:05}"))),
            ("nested parts", true, format!("Disallow: /{nested}*zz\n")),
        ] {
            let rules = of(&rules);
            assert_eq!(is_allowed, rules.allow(&path), "{name}");
            assert!(rules.bytes() < 5 * MAX_BYTES, "{name}: {} bytes", rules.bytes());
            let mut work = 0;
            for number in &rules.patterns {
                matches(rules.all[*number as usize].text.as_bytes(), path.as_bytes(), &mut work);
                if work > MAX_WORK {
                    break;
                }
            }
            assert!(work <= MAX_WORK + path.len(), "{name}: {work}");
        }
        assert!(!of(&many(|at| format!("Disallow:/*{at:05}"))).allow("/x00042"), "a path of usual length is decided");
    }
}
