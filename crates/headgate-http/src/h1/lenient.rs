//! Parses a head that breaks the grammar line by line, as far as it is unambiguous.
//!
//! Nearly all heads keep to the grammar and are parsed in place by `httparse` (`head.rs`). `httparse` mostly refuses a head
//! for one header that does not affect where the body ends, and browsers, curl and Go tolerate such headers. So this parser
//! follows these rules, which are strict about framing and lenient elsewhere:
//!
//! - The minor version may be any digit; from 1 on it means HTTP/1.1 (RFC 9110 section 2.5). The reason phrase is not parsed.
//! - A line that begins with a blank continues the header before it. The fold becomes a space, as in curl and Go (RFC 9112
//!   section 5.2). A framing header (`content-length`, `transfer-encoding`) must not be folded, and a continued line must
//!   not look like one. Parsers that ignore folds, or strip blanks, would see another body.
//! - A line is skipped and counted if its name is not a token (RFC 9110 section 5.6.2). Tokens have no space, bracket, control
//!   character or byte beyond ASCII. Also skipped is a line without a colon or a name, or with a control character in its value.
//!   Chromium, too, skips lines without a colon; curl accepts any name, and Go names with spaces; both refuse some or all
//!   control characters. A client that keeps such a header passes it to code that may not handle it.
//! - A line that would be skipped is an error if it has the letters of a framing header in order, wherever they are. Examples
//!   are a space before the colon, a NUL before the name, and a byte that another parser might take for a line end. If it has
//!   the letters of `connection`, this is the last response on its connection.
//! - A CR that is not before an LF is an error, as in curl. A bare LF ends a line, as in `httparse` and RFC 9112 section 2.2.
//! - A head may have 5,000 headers in 300 KiB, as in curl (Chromium allows 256 KiB, Go 10 MiB). Heads with more headers than
//!   `httparse` can store are parsed only here.
//!
//! A property test ensures that both parsers agree on all heads that the strict one accepts.

use std::borrow::Cow;

use headgate_core::error::Failure;
use headgate_core::headers::Headers;
use headgate_core::option_rules::is_token;
use headgate_core::reason::{Reason, shown};
use http::Version;

use crate::h1::framing::{FramingHeaders, ResponseEnd};
use crate::h1::head::{Head, MAX_HEAD_BYTES, protocol};

/// The most headers of a head.
const MAX_HEADERS: usize = 5000;
/// The letters of the names of headers that determine where the body ends.
const FRAMING: [&[u8]; 2] = [b"contentlength", b"transferencoding"];
/// The length of the longest such name, with its colon.
const MAX_FRAMING_NAME: usize = "transfer-encoding:".len();

/// Parses a head at the beginning of `data`. Returns the head and its length, or `None` while it is incomplete.
///
/// # Errors
/// `protocol`: the head is broken, ambiguous, contradicts itself, or is too long.
pub(super) fn parse(data: &[u8], to_head: bool) -> Result<Option<(Head, usize)>, Failure> {
    let Some((line, mut at)) = line(data, 0) else { return incomplete(data) };
    let (http_11, status) = status_line(line)?;
    let mut parser =
        HeaderParser { status, headers: Headers::default(), meaning: FramingHeaders::default(), skipped: 0 };
    let mut field: Option<Cow<'_, [u8]>> = None;
    while let Some((line, after)) = self::line(data, at) {
        if after > MAX_HEAD_BYTES {
            return Err(too_long());
        }
        if line.contains(&b'\r') {
            return Err(parser.refused("a header has a carriage return in the middle", line));
        }
        at = after;
        match (line, &mut field) {
            ([b' ' | b'\t', ..], Some(field)) => parser.unfold(field.to_mut(), line)?,
            _ => {
                if let Some(field) = field.replace(line.into()) {
                    parser.add(&field)?;
                }
            }
        }
        if line.is_empty() {
            let ResponseEnd { framing, keep_alive } =
                parser.meaning.ending(status, to_head, http_11).map_err(protocol)?;
            let HeaderParser { status, headers, meaning, skipped } = parser;
            let version = if http_11 { Version::HTTP_11 } else { Version::HTTP_10 };
            let encoded = meaning.encoded;
            return Ok(Some((Head { status, version, headers, framing, keep_alive, encoded, skipped }, at)));
        }
    }
    incomplete(data)
}

/// The headers of a head, as far as they are parsed.
struct HeaderParser {
    status: u16,
    headers: Headers,
    meaning: FramingHeaders,
    skipped: u32,
}

impl HeaderParser {
    /// Appends a folded line to its header.
    fn unfold(&self, field: &mut Vec<u8>, line: &[u8]) -> Result<(), Failure> {
        let is_framing = |line: &[u8]| {
            let colon = memchr::memchr(b':', line);
            colon.is_some_and(|colon| FRAMING.contains(&&*letters(&line[..colon])))
        };
        // Only the longest name's length of the header is searched: there may be many folds.
        if is_framing(&field[..field.len().min(MAX_FRAMING_NAME)]) || is_framing(line) {
            return Err(self.refused("a header that frames the body is folded", line));
        }
        field.truncate(field.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1));
        field.push(b' ');
        field.extend_from_slice(trim_blanks(line));
        Ok(())
    }

    /// Adds a header with all its lines, or skips it.
    fn add(&mut self, field: &[u8]) -> Result<(), Failure> {
        if self.headers.len() + self.skipped as usize == MAX_HEADERS {
            let reason = Reason::new(format!("the response has more than {MAX_HEADERS} headers"));
            return Err(protocol(reason.with(format!("status {}", self.status))));
        }
        let colon = field.iter().position(|byte| *byte == b':').unwrap_or(field.len());
        let (name, value) = (&field[..colon], field.get(colon + 1..).map(trim_blanks));
        match (std::str::from_utf8(name), value) {
            (Ok(name), Some(value)) if is_token(name) && value.iter().all(|byte| is_value_byte(*byte)) => {
                self.meaning.add(name, value).map_err(|message| self.refused(message, field))?;
                self.headers.push(name, value);
                Ok(())
            }
            _ => self.skip(field),
        }
    }

    fn skip(&mut self, field: &[u8]) -> Result<(), Failure> {
        let letters = letters(field);
        if FRAMING.iter().any(|name| memchr::memmem::find(&letters, name).is_some()) {
            return Err(self.refused("a header that may frame the body is malformed", field));
        }
        self.meaning.close |= memchr::memmem::find(&letters, b"connection").is_some();
        self.skipped += 1;
        Ok(())
    }

    fn refused(&self, message: &'static str, header: &[u8]) -> Failure {
        protocol(Reason::new(message).with(format!("status {}, header {}", self.status, shown(header))))
    }
}

/// Returns whether the version is HTTP/1.1 or later, and the status.
fn status_line(line: &[u8]) -> Result<(bool, u16), Failure> {
    if let Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, b' ', status @ ..]) = line.get(..12)
        && minor.is_ascii_digit()
        && status.iter().all(u8::is_ascii_digit)
        && matches!(line[12..], [] | [b' ', ..])
        && !line.contains(&b'\r')
    {
        let status = status.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        return Ok((*minor != b'0', status));
    }
    Err(protocol(Reason::new("the status line is malformed").with(shown(line))))
}

/// Returns the line that begins at `at`, without its line end, and where the next line begins; `None`: the line is incomplete.
fn line(data: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let end = at + memchr::memchr(b'\n', &data[at..])?;
    let line = &data[at..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

fn incomplete(data: &[u8]) -> Result<Option<(Head, usize)>, Failure> {
    if data.len() > MAX_HEAD_BYTES { Err(too_long()) } else { Ok(None) }
}

fn too_long() -> Failure {
    protocol(format!("the head of the response is longer than {MAX_HEAD_BYTES} bytes"))
}

/// Returns the letters of a text in lower case, by which a lenient parser might recognize a name.
fn letters(text: &[u8]) -> Vec<u8> {
    text.iter().filter(|byte| byte.is_ascii_alphabetic()).map(u8::to_ascii_lowercase).collect()
}

fn trim_blanks(value: &[u8]) -> &[u8] {
    let start = value.iter().position(|byte| !is_blank(*byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_blank(*byte)).map_or(start, |last| last + 1);
    &value[start..end]
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7f
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::h1::framing::Framing;
    use crate::h1::head::{header_buffer, parse_in_place};

    type Pairs<'a> = Vec<(&'a str, &'a [u8])>;

    fn whole(data: &[u8], to_head: bool) -> (Head, usize) {
        parse(data, to_head).expect("a head").expect("whole")
    }

    fn read(lines: &str) -> Result<(Vec<(String, String)>, u32), String> {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
        let (head, length) =
            parse(text.as_bytes(), false).map_err(|failure| failure.reason.to_string())?.expect("whole");
        assert_eq!(text.len(), length);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        Ok((head.headers.iter().map(|(name, value)| (name.to_owned(), text(value))).collect(), head.skipped))
    }

    #[test]
    fn a_fold_becomes_a_space() {
        for lines in
            ["A: one\r\n two \r\n\t three\r\nB: x", "A:\r\n one\r\n two three\r\nB: x", "A:one \n two\n three\nB:x"]
        {
            let pairs = [("A", "one two three"), ("B", "x")].map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(Ok((pairs.to_vec(), 0)), read(lines), "{lines:?}");
        }
    }

    #[test]
    fn a_broken_header_is_skipped_and_counted_and_all_other_headers_are_kept() {
        for line in [
            "x : y",
            "x[0]: y",
            ": y",
            "no colon at all",
            "x: a\0b",
            "x: a\x1bb",
            "x\x7f: y",
            "x: \x7f",
            "caf\u{e9}: y",
            "x[]: a\r\n b",
            "x: a\r\n b\x01",
            "x\r\n y: z",
            "x: a\x0c\r\n b",
        ] {
            let pairs = vec![("a".to_owned(), "b".to_owned()), ("c".to_owned(), "d".to_owned())];
            assert_eq!(Ok((pairs, 1)), read(&format!("a: b\r\n{line}\r\nc: d")), "{line:?}");
        }
        assert_eq!(Ok((Vec::new(), 2)), read(" x: y\r\n[]: z"), "there is no header to continue");
    }

    #[test]
    fn a_possible_framing_header_is_an_error_that_quotes_it() {
        for line in [
            "Content-Length : 5",
            "Content-Length\x0b: 5",
            "\0Transfer-Encoding: chunked",
            "Transfer-Encoding\t: chunked",
            "Content\0-Length: 5",
            "Content-Length 5",
            "x: a\x0bContent-Length: 5",
            "Content-Length: \x005",
            ": transfer-encoding: chunked",
            "\u{a0}Content-Length: 5",
            "[Content-Length]: 5",
            "x : y\r\n content-length: 5",
        ] {
            let message = read(&format!("a: b\r\n{line}\r\nc: d")).expect_err(line);
            assert!(message.contains("frame"), "{line:?}: {message}");
            let quoted = line.rsplit("\r\n").next().unwrap_or_default().as_bytes();
            assert!(message.ends_with(&format!("(status 200, header {})", shown(quoted))), "{line:?}: {message}");
        }
        for line in ["Content-Length:\r\n 5", "Transfer-Encoding: chunked\r\n ", "x: a\r\n Content-Length: 5"] {
            let message = read(&format!("{line}\r\nc: d")).expect_err(line);
            assert!(message.starts_with("a header that frames the body is folded (status 200"), "{message}");
        }
        assert!(read("Access-Control-Expose-Headers: Content-Length,\r\n Transfer-Encoding").is_ok());
    }

    #[test]
    fn a_broken_connection_header_ends_the_connection() {
        let keeps = |line: &str| {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{line}\r\n\r\n");
            whole(text.as_bytes(), false).0.keep_alive
        };
        assert!(keeps("x : close"));
        assert!(!keeps("Connection : close") && !keeps("\0connection: close"));
    }

    #[test]
    fn a_minor_version_beyond_1_is_1_and_0_stays_0() {
        for (expected, minor) in
            [(Version::HTTP_10, '0'), (Version::HTTP_11, '1'), (Version::HTTP_11, '2'), (Version::HTTP_11, '9')]
        {
            let text = format!("HTTP/1.{minor} 200 OK\r\nContent-Length: 0\r\n\r\n");
            let (head, _) = whole(text.as_bytes(), false);
            assert_eq!((expected, minor > '0'), (head.version, head.keep_alive), "{minor}");
        }
        for line in [
            "HTTP/1.12 200 OK",
            "HTTP/1.x 200 OK",
            "HTTP/1.2200 OK",
            "HTTP/1.2 20",
            "HTTP/1.2 2000 OK",
            "HTTP/1.2 200 a\rb",
        ] {
            let failure = parse(format!("{line}\r\n\r\n").as_bytes(), false).expect_err(line);
            let quoted = format!("the status line is malformed ({})", shown(line.as_bytes()));
            assert_eq!(quoted, failure.reason.to_string());
        }
    }

    #[test]
    fn no_more_headers_are_accepted_than_curl_accepts() {
        let lines = |count| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(count));
        let (head, _) = whole(lines(MAX_HEADERS).as_bytes(), false);
        assert_eq!((MAX_HEADERS, 0), (head.headers.len(), head.skipped));
        let failure = parse(lines(MAX_HEADERS + 1).as_bytes(), false).expect_err("too many");
        assert_eq!("the response has more than 5000 headers (status 200)", failure.reason.to_string());
        let long = format!("HTTP/1.1 200 OK\r\na[]: {}\r\n\r\n", "b".repeat(MAX_HEAD_BYTES));
        let failure = parse(long.as_bytes(), false).expect_err("too long");
        assert_eq!("the head of the response is longer than 307200 bytes", failure.reason.to_string());
    }

    #[test]
    fn many_folds_take_time_in_proportion_to_their_length() {
        let long = format!("HTTP/1.1 200 OK\r\n{}{}\r\n\r\n", "x".repeat(150_000), "\r\n ".repeat(50_000));
        let (head, _) = whole(long.as_bytes(), false);
        assert_eq!((0, 1), (head.headers.len(), head.skipped));
    }

    /// Returns whether the most lenient parser sees a framing header: any byte that ever ended a line does, and only letters of
    /// a name count.
    fn has_framing(text: &[u8]) -> bool {
        let mut lines = text.split(|byte| b"\n\r\0\x0b\x0c\x1c\x1d\x1e\x85".contains(byte));
        lines.any(|line| {
            // A line without a colon sets no length: it may be the rest of a folded list of names.
            memchr::memchr(b':', line).is_some_and(|colon| FRAMING.contains(&&*letters(&line[..colon])))
        })
    }

    proptest! {
        #[test]
        fn both_parsers_agree_on_heads_that_the_strict_one_accepts(
            version in 0..2,
            status in 100..1000,
            reason in "( [a-z ]{0,5})?",
            lines in proptest::collection::vec(
                "((X-[A-Za-z]{1,3}|content-length|Transfer-Encoding|Connection|Content-Encoding|a_b):[ \t]{0,2}(chunked|[0-9]{1,2}|close|keep-alive, x|gzip|\t|\u{e9})?[ \t]?\r?\n)", 0..6),
            to_head: bool,
        ) {
            let text = format!("HTTP/1.{version} {status}{reason}\r\n{}\r\nbody", lines.concat());
            let mut buffer = header_buffer();
            if let Ok(Some(strict)) = parse_in_place(text.as_bytes(), &mut buffer, to_head) {
                let (head, length) = whole(text.as_bytes(), to_head);
                let pairs: Pairs<'_> = strict.headers.iter().map(|header| (header.name, header.value)).collect();
                prop_assert_eq!(pairs, head.headers.iter().collect::<Pairs<'_>>());
                prop_assert_eq!(
                    (strict.status, strict.version, strict.framing, strict.keep_alive, strict.encoded, strict.length, 0),
                    (head.status, head.version, head.framing, head.keep_alive, head.encoded, length, head.skipped)
                );
            }
        }

        #[test]
        fn no_head_is_accepted_in_which_another_parser_sees_a_length_that_this_one_does_not(
            lines in proptest::collection::vec(
                "[ \t\0\x0b\\[]?(X|Content-Length|Transfer-Encoding|content\0?-\x0b?length)[ \t\0\x0b\x1c\\]]?:?[ \0]?(chunked|5|b|Content-Length: 5)?[\0 ]?(\r\n|\n|\r)", 1..4),
        ) {
            let text = format!("HTTP/1.1 200 OK\r\n{}\r\n", lines.concat());
            if let Ok(Some((head, _))) = parse(text.as_bytes(), false)
                && has_framing(text.as_bytes())
            {
                let ours = head.headers.iter().any(|(name, _)| FRAMING.contains(&&*letters(name.as_bytes())));
                prop_assert!(ours && head.framing != Framing::UntilClose, "{:?}", text);
            }
        }
    }
}
