//! Records of CSV and TSV (RFC 4180) of bounded length.
//!
//! Our own reader, and not the `csv` crate, for the sake of what is wrong with real files: a stray quote there
//! swallows all that follows, up to the next quote or the end of the file, however far that is, and passes as one
//! record. Here a quoted field must be closed, followed by a delimiter or the end of the line, and be closed
//! within a bounded number of bytes; else the *line* that the record began on is reported as broken and reading
//! goes on with the next line. So a bad line costs itself and nothing else. A quote in the middle of a field that
//! did not begin with one is a character as any other.
//!
//! Cost: a record is parsed in place in the buffer and its fields are copied once. The buffer grows to the bound
//! and no further. Where quotes are broken over and over, a line may be scanned up to the bound each time.

use std::io::{self, Read};

use memchr::{memchr, memchr_iter, memchr2};

use super::READ_BYTES;

pub(super) struct Records<R> {
    reader: R,
    delimiter: u8,
    max_bytes: usize,
    buffer: Vec<u8>,
    /// What of the buffer was read and not yet returned.
    start: usize,
    end: usize,
    at_end: bool,
    /// Line ends before `start`.
    lines: u64,
    fields: Fields,
}

/// The cells of a record, unquoted.
#[derive(Debug, Default)]
pub(super) struct Fields {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.bytes.get(start..*self.ends.get(index)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn end_field(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

pub(super) enum Record<'a> {
    Fields(&'a Fields),
    /// What is wrong with the line.
    Broken(String),
}

#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// The record takes so many bytes and line ends.
    Record {
        bytes: usize,
        lines: u64,
    },
    Blank {
        bytes: usize,
    },
    /// The bytes end before the record does.
    Incomplete {
        in_quotes: bool,
    },
    TextAfterQuote,
}

impl<R: Read> Records<R> {
    pub(super) fn new(reader: R, delimiter: u8, max_bytes: usize) -> Self {
        let buffer = vec![0; READ_BYTES.min(max_bytes)];
        let fields = Fields::default();
        Self { reader, delimiter, max_bytes, buffer, start: 0, end: 0, at_end: false, lines: 0, fields }
    }

    /// The next record and the number, from 1, of the line that it begins on. Blank lines are passed over.
    pub(super) fn next_record(&mut self) -> io::Result<Option<(u64, Record<'_>)>> {
        loop {
            let line = self.lines + 1;
            let broken = match parse(&self.buffer[self.start..self.end], self.at_end, self.delimiter, &mut self.fields)
            {
                Parsed::Record { bytes, lines } => {
                    self.start += bytes;
                    self.lines += lines;
                    return Ok(Some((line, Record::Fields(&self.fields))));
                }
                Parsed::Blank { bytes } => {
                    self.start += bytes;
                    self.lines += 1;
                    continue;
                }
                Parsed::Incomplete { .. } if self.at_end && self.start == self.end => return Ok(None),
                Parsed::Incomplete { .. } if !self.at_end && self.end - self.start < self.max_bytes => {
                    self.fill()?;
                    continue;
                }
                Parsed::Incomplete { in_quotes: true } if self.at_end => {
                    "a quote is opened and never closed".to_owned()
                }
                Parsed::Incomplete { in_quotes: true } => {
                    format!("a quote is opened and not closed within {} bytes", self.max_bytes)
                }
                Parsed::Incomplete { in_quotes: false } => format!("longer than {} bytes", self.max_bytes),
                Parsed::TextAfterQuote => "text between a closing quote and the end of its field".to_owned(),
            };
            self.skip_line()?;
            return Ok(Some((line, Record::Broken(broken))));
        }
    }

    /// Reads until the buffer is full, which keeps the work of parsing a long record anew in proportion to its length.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize((self.buffer.len() * 2).min(self.max_bytes), 0);
        }
        while self.end < self.buffer.len() && !self.at_end {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Goes on after the next line end; what lies before it is not held.
    fn skip_line(&mut self) -> io::Result<()> {
        self.lines += 1;
        loop {
            if let Some(length) = memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += length + 1;
                return Ok(());
            }
            self.start = self.end;
            if self.at_end {
                return Ok(());
            }
            self.fill()?;
        }
    }
}

/// The record that `bytes` begin with; `at_end`: nothing follows them.
fn parse(bytes: &[u8], at_end: bool, delimiter: u8, fields: &mut Fields) -> Parsed {
    fields.clear();
    match bytes {
        [b'\n', ..] => return Parsed::Blank { bytes: 1 },
        [b'\r', b'\n', ..] => return Parsed::Blank { bytes: 2 },
        [b'\r'] if at_end => return Parsed::Blank { bytes: 1 },
        [] => return Parsed::Incomplete { in_quotes: false },
        _ => {}
    }
    let mut at = 0;
    let mut lines = 1;
    loop {
        if bytes.get(at) == Some(&b'"') {
            at += 1;
            loop {
                let Some(length) = memchr(b'"', &bytes[at..]) else { return Parsed::Incomplete { in_quotes: true } };
                let text = &bytes[at..at + length];
                fields.bytes.extend_from_slice(text);
                lines += memchr_iter(b'\n', text).count() as u64;
                at += length + 1;
                if bytes.get(at) != Some(&b'"') {
                    break;
                }
                fields.bytes.push(b'"');
                at += 1;
            }
            fields.end_field();
            match &bytes[at..] {
                [next, ..] if *next == delimiter => at += 1,
                [b'\n', ..] => return Parsed::Record { bytes: at + 1, lines },
                [b'\r', b'\n', ..] => return Parsed::Record { bytes: at + 2, lines },
                rest @ ([] | [b'\r']) if at_end => return Parsed::Record { bytes: at + rest.len(), lines },
                [] | [b'\r'] => return Parsed::Incomplete { in_quotes: false },
                _ => return Parsed::TextAfterQuote,
            }
        } else {
            let rest = &bytes[at..];
            let Some(length) = memchr2(delimiter, b'\n', rest) else {
                if !at_end {
                    return Parsed::Incomplete { in_quotes: false };
                }
                fields.bytes.extend_from_slice(rest.strip_suffix(b"\r").unwrap_or(rest));
                fields.end_field();
                return Parsed::Record { bytes: bytes.len(), lines };
            };
            let text = &rest[..length];
            at += length + 1;
            if rest[length] == delimiter {
                fields.bytes.extend_from_slice(text);
                fields.end_field();
            } else {
                fields.bytes.extend_from_slice(text.strip_suffix(b"\r").unwrap_or(text));
                fields.end_field();
                return Parsed::Record { bytes: at, lines };
            }
        }
    }
}
