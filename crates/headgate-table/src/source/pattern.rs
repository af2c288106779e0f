//! A URL with curl's ranges and sets: `http://{a,b}.example/[001-100]` is two hundred rows, the last part varying
//! fastest. Row `n` is computed from `n` alone, so a pattern of a billion URLs takes no more memory than its text.
//!
//! The grammar is curl's (`tool_urlglob.c`, curl 8): `[1-100]`, `[001-100]` (padded with zeros), `[1-100:5]`
//! (step), `[a-z]`, `[a-z:2]`, `{one,two,}`; a backslash takes the meaning from `[ ] { }`, and within a set from a
//! comma; an IPv6 address in brackets is no range.

use std::net::Ipv6Addr;

use headgate_core::error::JobError;
use headgate_core::options::SourceOptions;
use headgate_core::row::Row;
use headgate_core::source_size::SourceSize;

use super::batches::Rows;
use super::cells::{RowPosition, url_row};
use super::columns::ColumnNames;
use super::content::Passing;
use super::fingerprint::Fingerprint;
use super::template::bound::RequestTemplates;

#[derive(Debug)]
pub(super) struct Pattern {
    text: String,
    parts: Vec<Part>,
    count: u64,
    /// The templates of headers and bodies, which have no columns here.
    templates: Option<RequestTemplates>,
}

#[derive(Debug)]
enum Part {
    Literal(Box<str>),
    Set(Vec<Box<str>>),
    Numbers { first: u64, step: u64, count: u64, width: usize },
    Letters { first: u8, step: u8, count: u8 },
}

impl Part {
    fn count(&self) -> u64 {
        match self {
            Self::Literal(_) => 1,
            Self::Set(texts) => texts.len() as u64,
            Self::Numbers { count, .. } => *count,
            Self::Letters { count, .. } => u64::from(*count),
        }
    }

    fn push(&self, index: u64, url: &mut String) {
        match self {
            Self::Literal(text) => url.push_str(text),
            Self::Set(texts) => url.push_str(&texts[index as usize]),
            Self::Numbers { first, step, width, .. } => {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(first + index * step);
                url.extend(std::iter::repeat_n('0', width.saturating_sub(digits.len())));
                url.push_str(digits);
            }
            Self::Letters { first, step, .. } => url.push(char::from(first + index as u8 * step)),
        }
    }
}

impl Pattern {
    /// # Errors
    /// As [`Pattern::parse`]. `Input`: a template names a column, of which there are none.
    pub(super) fn open(options: &SourceOptions) -> Result<Self, JobError> {
        let mut names = ColumnNames::new(options, std::iter::empty());
        let templates = RequestTemplates::new(options, &mut names)?;
        names.check_missing()?;
        Ok(Self { templates, ..Self::parse(&options.input)? })
    }

    /// # Errors
    /// `Input`: the text is not a pattern (the message has the position), or it has more rows than 64 bits can count.
    pub(super) fn parse(text: &str) -> Result<Self, JobError> {
        Parser { text, at: 0 }
            .parts()
            .and_then(|parts| {
                let count = parts.iter().try_fold(1_u64, |count, part| count.checked_mul(part.count()));
                let count = count.ok_or("the ranges and sets multiply to more URLs than 64 bits can count")?;
                Ok(Self { text: text.to_owned(), parts, count, templates: None })
            })
            .map_err(|reason| JobError::input(format!("{text}: {reason}")))
    }

    /// Returns what all its URLs begin with, if that is text.
    pub(super) fn beginning(&self) -> Option<&str> {
        match self.parts.first()? {
            Part::Literal(text) => Some(text),
            _ => None,
        }
    }

    /// Returns whether it is a single URL.
    pub(super) fn is_one_url(&self) -> bool {
        matches!(&*self.parts, [Part::Literal(_)])
    }

    fn url(&self, ordinal: u64) -> String {
        let mut url = String::with_capacity(96);
        let mut below = self.count;
        for part in &self.parts {
            let count = part.count();
            below /= count;
            part.push(ordinal / below % count, &mut url);
        }
        url
    }
}

impl Rows for Pattern {
    fn next_row(&mut self, ordinal: u64, _passing: Option<&mut Passing>) -> Result<Option<Row>, JobError> {
        Ok((ordinal < self.count).then(|| {
            let mut row = url_row(ordinal, RowPosition::Row(ordinal), self.url(ordinal).as_bytes());
            if let Some(templates) = &self.templates {
                templates.fill(&mut row, RowPosition::Row(ordinal), &[]);
            }
            row
        }))
    }

    fn skip(&mut self, ordinal: u64, count: u64, _passing: Option<&mut Passing>) -> Result<u64, JobError> {
        Ok(self.count.saturating_sub(ordinal).min(count))
    }

    fn size(&self) -> SourceSize {
        SourceSize { rows: Some(self.count), ..SourceSize::default() }
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        Some(Fingerprint::Pattern { text: self.text.clone() })
    }
}

struct Parser<'a> {
    text: &'a str,
    /// In bytes; always at the start of a character.
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn parts(mut self) -> Result<Vec<Part>, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        while let Some(next) = self.rest().chars().next() {
            let part = match next {
                '[' if let Some(length) = ipv6_length(self.rest()) => {
                    literal.push_str(&self.rest()[..length]);
                    self.at += length;
                    continue;
                }
                '[' => self.range()?,
                '{' => self.set()?,
                ']' | '}' => {
                    return Err(format!(
                        "{} has no opening before it: write \\{next} for the character",
                        self.position()
                    ));
                }
                _ => {
                    literal.push(self.literal("[]{}").unwrap_or(next));
                    continue;
                }
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal).into()));
            }
            parts.push(part);
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        Ok(parts)
    }

    /// Consumes the next character; a backslash before one of `special` makes it literal.
    fn literal(&mut self, special: &str) -> Option<char> {
        let mut chars = self.rest().chars();
        let first = chars.next()?;
        let escaped = chars.next().filter(|second| first == '\\' && special.contains(*second));
        let literal = escaped.unwrap_or(first);
        self.at += literal.len_utf8() + escaped.map_or(0, |_| 1);
        Some(literal)
    }

    fn set(&mut self) -> Result<Part, String> {
        let open = self.position();
        self.at += 1;
        let mut texts = Vec::new();
        let mut text = String::new();
        loop {
            match self.rest().chars().next() {
                None => return Err(format!("{open} is not closed: write \\{{ for the character")),
                Some('}') if texts.is_empty() && text.is_empty() => return Err(format!("{open} opens an empty set")),
                Some(end @ (',' | '}')) => {
                    texts.push(std::mem::take(&mut text).into());
                    self.at += 1;
                    if end == '}' {
                        return Ok(Part::Set(texts));
                    }
                }
                Some(next @ ('{' | '[' | ']')) => {
                    return Err(format!("{} is within a set: write \\{next} for the character", self.position()));
                }
                Some(next) => text.push(self.literal("[]{},").unwrap_or(next)),
            }
        }
    }

    fn range(&mut self) -> Result<Part, String> {
        let open = self.position();
        let Some(length) = self.rest().find(']') else {
            return Err(format!("{open} is not closed: write \\[ for the character"));
        };
        let inner = &self.rest()[1..length];
        let part = range(inner).map_err(|reason| format!("{open} doesn't start a range: {reason}"))?;
        self.at += length + 1;
        Ok(part)
    }

    fn position(&self) -> String {
        let next = self.rest().chars().next().unwrap_or(' ');
        format!("the {next} at position {}", self.text[..self.at].chars().count() + 1)
    }
}

/// Parses the text between the brackets: `first-last` or `first-last:step`.
fn range(inner: &str) -> Result<Part, String> {
    let (ends, step) = match inner.split_once(':') {
        Some((ends, step)) => (ends, number(step)?),
        None => (inner, 1),
    };
    let form = || "it needs two numbers or two letters, as in [1-100], [001-100], [1-100:5], [a-z]".to_owned();
    let (first, last) = ends.split_once('-').ok_or_else(form)?;
    let letter = |text: &str| match text.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => Some(*letter),
        _ => None,
    };
    match (letter(first), letter(last)) {
        (Some(first), Some(last)) if first.is_ascii_lowercase() == last.is_ascii_lowercase() => {
            let count = count(u64::from(first), u64::from(last), step)?;
            Ok(Part::Letters { first, step: step as u8, count: count as u8 })
        }
        (Some(_), Some(_)) => Err("its letters differ in case".into()),
        (None, None) if first.starts_with(|c: char| c.is_ascii_digit()) => {
            let width = if first.starts_with('0') { first.len() } else { 0 };
            let (first, last) = (number(first)?, number(last)?);
            Ok(Part::Numbers { first, step, count: count(first, last, step)?, width })
        }
        _ => Err(form()),
    }
}

fn count(first: u64, last: u64, step: u64) -> Result<u64, String> {
    if first > last {
        return Err("it ends before it starts".into());
    }
    // As in curl, a step beyond the end is a typing mistake and not a range of one.
    if step == 0 || step > (last - first).max(1) {
        return Err(format!("its step {step} does not fit into it"));
    }
    ((last - first) / step).checked_add(1).ok_or_else(|| "it has more numbers than 64 bits can count".into())
}

fn number(text: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} is not a number"));
    }
    text.parse().map_err(|_| format!("{text} is more than 64 bits can represent"))
}

/// Returns the length of the IPv6 address in brackets (with its zone, RFC 6874) that `text` begins with.
fn ipv6_length(text: &str) -> Option<usize> {
    let (inner, _) = text.strip_prefix('[')?.split_once(']')?;
    let (address, _zone) = inner.split_once('%').unwrap_or((inner, ""));
    address.parse::<Ipv6Addr>().ok().map(|_| inner.len() + "[]".len())
}
