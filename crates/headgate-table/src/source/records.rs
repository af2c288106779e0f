//! Records of CSV and TSV (RFC 4180) of bounded length.
//!
//! The `csv` crate handles damaged files badly: after a stray quote it reads everything up to the next quote or the end of
//! the file, however far that is, as one record. This reader requires a quoted field to be closed, followed by a delimiter
//! or the end of the line, within a bounded number of bytes. Otherwise it reports the *line* that the record began on as
//! broken, and continues with the next line. So a bad line affects only itself. A quote in the middle of a field that did
//! not begin with one is an ordinary character.
//!
//! Cost: a record is parsed in the buffer and its fields are copied once. The buffer grows to the bound and no further.
//! Where quotes are broken over and over, a line may be scanned up to the bound each time.

use std::io::{self, Read};

use memchr::{memchr, memchr_iter, memchr2};
use twox_hash::XxHash3_128;

use super::READ_BYTES;

pub(super) struct Records<R> {
    reader: R,
    delimiter: u8,
    max_bytes: usize,
    buffer: Vec<u8>,
    /// The part of the buffer that was read and not yet returned.
    start: usize,
    end: usize,
    at_end: bool,
    /// The error that ended reading, which is reported once the records before it were returned.
    failed: Option<io::Error>,
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
    /// The mistake in the line.
    Broken(String),
}

#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// The size of the record in bytes and line ends.
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
        Self { reader, delimiter, max_bytes, buffer, start: 0, end: 0, at_end: false, failed: None, lines: 0, fields }
    }

    /// Returns the next record and the number, from 1, of the line that it begins on. Blank lines are skipped. Sets `hash`
    /// to that of its bytes, without the end of its last line.
    pub(super) fn next_record(&mut self, hash: Option<&mut u128>) -> io::Result<Option<(u64, Record<'_>)>> {
        loop {
            let line = self.lines + 1;
            let broken = match parse(&self.buffer[self.start..self.end], self.at_end, self.delimiter, &mut self.fields)
            {
                Parsed::Record { bytes, lines } => {
                    if let Some(hash) = hash {
                        *hash = XxHash3_128::oneshot(without_end(&self.buffer[self.start..self.start + bytes]));
                    }
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
                Parsed::Incomplete { in_quotes: true } if self.at_end => "a quotation mark is never closed".to_owned(),
                Parsed::Incomplete { in_quotes: true } => {
                    format!("a quotation mark is not closed within {} bytes", self.max_bytes)
                }
                Parsed::Incomplete { in_quotes: false } => format!("longer than {} bytes", self.max_bytes),
                Parsed::TextAfterQuote => "text between a closing quote and the end of its field".to_owned(),
            };
            self.skip_line(hash)?;
            return Ok(Some((line, Record::Broken(broken))));
        }
    }

    /// Reads until the buffer is full, so that the cost of parsing a long record anew stays proportional to its length.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize((self.buffer.len() * 2).min(self.max_bytes), 0);
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        while self.end < self.buffer.len() && !self.at_end && self.failed.is_none() {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.failed = Some(error),
            }
        }
        Ok(())
    }

    /// Skips to the next line; the bytes before it are not stored.
    fn skip_line(&mut self, hash: Option<&mut u128>) -> io::Result<()> {
        let mut hasher = hash.is_some().then(XxHash3_128::new);
        self.lines += 1;
        loop {
            let rest = &self.buffer[self.start..self.end];
            let length = memchr(b'\n', rest);
            if let Some(hasher) = &mut hasher {
                hasher.write(&rest[..length.unwrap_or(rest.len())]);
            }
            self.start = length.map_or(self.end, |length| self.start + length + 1);
            if length.is_some() || self.at_end {
                break;
            }
            self.fill()?;
        }
        if let (Some(hash), Some(hasher)) = (hash, hasher) {
            *hash = hasher.finish_128();
        }
        Ok(())
    }
}

fn without_end(record: &[u8]) -> &[u8] {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}

/// Parses the record that `bytes` begin with; `at_end`: nothing follows them.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type ReadBack = Vec<(u64, Result<Vec<String>, String>)>;

    fn read(text: impl Read, max_bytes: usize) -> ReadBack {
        let mut records = Records::new(text, b',', max_bytes);
        let mut read = ReadBack::new();
        while let Some((line, record)) = records.next_record(None).expect("no error in memory") {
            let record = match record {
                Record::Fields(fields) => {
                    Ok(fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect())
                }
                Record::Broken(reason) => Err(reason),
            };
            read.push((line, record));
        }
        assert!(records.buffer.len() <= max_bytes, "the buffer grew to {}", records.buffer.len());
        read
    }

    fn good(line: u64, fields: &[&str]) -> (u64, Result<Vec<String>, String>) {
        (line, Ok(fields.iter().map(ToString::to_string).collect()))
    }

    fn broken(line: u64, reason: &str) -> (u64, Result<Vec<String>, String>) {
        (line, Err(reason.to_owned()))
    }

    #[test]
    fn records_have_their_fields_and_the_line_they_begin_on() {
        let cases: [(&str, ReadBack); 9] = [
            ("", vec![]),
            ("\n\r\n\r", vec![]),
            ("a,b\nc,d\n", vec![good(1, &["a", "b"]), good(2, &["c", "d"])]),
            ("a,b\r\nc,d", vec![good(1, &["a", "b"]), good(2, &["c", "d"])]),
            ("\n\na,\n,\n", vec![good(3, &["a", ""]), good(4, &["", ""])]),
            ("\"\"\na\n", vec![good(1, &[""]), good(2, &["a"])]),
            ("\"a\nb\",\"c\"\"\r\n\"\r\nd\n", vec![good(1, &["a\nb", "c\"\r\n"]), good(4, &["d"])]),
            ("a\"b\",c\"\n", vec![good(1, &["a\"b\"", "c\""])]),
            ("a,\"b\"\r", vec![good(1, &["a", "b"])]),
        ];
        for (text, expected) in cases {
            assert_eq!(expected, read(text.as_bytes(), 64), "{text:?}");
        }
    }

    #[test]
    fn a_broken_quote_affects_only_its_own_line() {
        let after = "text between a closing quote and the end of its field";
        assert_eq!(
            vec![good(1, &["a", "b"]), broken(2, after), good(3, &["e", "f"]), good(4, &["g", "h"])],
            read(&b"a,b\n\"c,d\ne,f\n\"g\",h\n"[..], 1024)
        );
        let never = "a quotation mark is never closed";
        assert_eq!(vec![broken(1, never), good(2, &["b"])], read(&b"\"a\nb\n"[..], 1024));
        let far = "a quotation mark is not closed within 16 bytes";
        assert_eq!(
            vec![broken(1, far), good(2, &["b"]), good(3, &["c"])],
            read(&b"\"a\nb\nc\n\n\n\n\n\n\n\n\n\n\n\n\n"[..], 16)
        );
    }

    #[test]
    fn an_endless_record_is_skipped_and_not_stored() {
        let endless = io::repeat(b'x').take(5_000_000).chain(&b"\na,b\n"[..]);
        assert_eq!(vec![broken(1, "longer than 600000 bytes"), good(2, &["a", "b"])], read(endless, 600_000));
    }

    proptest! {
        #[test]
        fn output_of_the_csv_crate_is_read_back(
            records in proptest::collection::vec(proptest::collection::vec("[a\",\r\n é]{0,6}", 3), 0..20),
        ) {
            let mut writer = csv::Writer::from_writer(Vec::new());
            for record in &records {
                writer.write_record(record).expect("in memory");
            }
            let text = writer.into_inner().expect("in memory");
            let read: Vec<_> = read(text.as_slice(), 4096).into_iter().map(|(_, record)| record).collect();
            prop_assert_eq!(records.into_iter().map(Ok).collect::<Vec<_>>(), read);
        }
    }
}
