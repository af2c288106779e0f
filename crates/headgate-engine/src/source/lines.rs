//! Lines of bounded length: one that is too long is passed over without being held.

use std::io::{self, BufRead, BufReader, Read};

use memchr::memchr_iter;

use super::READ_BYTES;

pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    max_bytes: usize,
    number: u64,
}

/// A line without its end (LF or CR LF).
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// The beginning of a line that has more than the most bytes.
    TooLong(&'a [u8]),
}

/// What is known of a line that is passed over, of which the buffer may hold only a piece.
struct Passed {
    bytes: usize,
    blank: bool,
    ends_in_cr: bool,
}

impl Passed {
    const NOTHING: Self = Self { bytes: 0, blank: true, ends_in_cr: false };

    fn extend(&mut self, piece: &[u8]) {
        if let Some(last) = piece.last() {
            self.bytes += piece.len();
            self.blank = self.blank && piece.iter().all(u8::is_ascii_whitespace);
            self.ends_in_cr = *last == b'\r';
        }
    }

    /// A line that is too long is a row whatever it holds, since its end is never looked at.
    fn is_row(&self, max_bytes: usize) -> bool {
        !self.blank || self.bytes - usize::from(self.ends_in_cr) > max_bytes
    }
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R, max_bytes: usize) -> Self {
        Self { reader: BufReader::with_capacity(READ_BYTES, reader), line: Vec::new(), max_bytes, number: 0 }
    }

    pub(super) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        const LINE_END: usize = 2;
        self.line.clear();
        let most = self.max_bytes + LINE_END;
        let read = (&mut self.reader).take(most as u64).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read == most {
            self.reader.skip_until(b'\n')?;
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(Some(match self.line.get(..self.max_bytes) {
            Some(start) if self.line.len() > self.max_bytes => Line::TooLong(start),
            _ => Line::Whole(&self.line),
        }))
    }

    /// Passes over so many lines that are not blank, and the blank ones between them: how many there were, also with
    /// the error that ended them. Nothing is copied.
    pub(super) fn skip_rows(&mut self, count: u64) -> Result<u64, (io::Error, u64)> {
        let mut skipped = 0;
        let mut line = Passed::NOTHING;
        while skipped < count {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err((error, skipped)),
            };
            if buffer.is_empty() {
                self.number += u64::from(line.bytes > 0);
                skipped += u64::from(line.is_row(self.max_bytes));
                break;
            }
            let mut used = 0;
            for end in memchr_iter(b'\n', buffer) {
                line.extend(&buffer[used..end]);
                used = end + 1;
                self.number += 1;
                skipped += u64::from(line.is_row(self.max_bytes));
                line = Passed::NOTHING;
                if skipped == count {
                    break;
                }
            }
            if skipped < count {
                line.extend(&buffer[used..]);
                used = buffer.len();
            }
            self.reader.consume(used);
        }
        Ok(skipped)
    }

    /// Of the line that was returned last, or passed over, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the next line can be had without reading.
    pub(super) fn has_line(&self) -> bool {
        self.reader.buffer().contains(&b'\n')
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hands out its bytes in pieces of the given lengths, over and over.
    struct Pieces<'a> {
        bytes: &'a [u8],
        lengths: std::iter::Cycle<std::vec::IntoIter<usize>>,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.lengths.next().unwrap_or(1).min(buffer.len()).min(self.bytes.len());
            let (piece, rest) = self.bytes.split_at(length);
            buffer[..length].copy_from_slice(piece);
            self.bytes = rest;
            Ok(length)
        }
    }

    fn naive(bytes: &[u8], max_bytes: usize) -> Vec<(bool, Vec<u8>)> {
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        let whole = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        let cut = |line: Vec<u8>| (line.len() > max_bytes, line[..line.len().min(max_bytes)].to_vec());
        lines.into_iter().map(whole).map(cut).collect()
    }

    proptest! {
        #[test]
        fn lines_are_those_of_a_naive_split_however_the_bytes_arrive(
            bytes in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'\r'), Just(b'\n')], 0..200),
            lengths in proptest::collection::vec(1_usize..20, 1..5),
            max_bytes in 1_usize..12,
        ) {
            let mut lines = Lines::new(Pieces { bytes: &bytes, lengths: lengths.into_iter().cycle() }, max_bytes);
            let mut read = Vec::new();
            while let Some(line) = lines.next_line().expect("no error in memory") {
                read.push(match line {
                    Line::Whole(line) => (false, line.to_vec()),
                    Line::TooLong(start) => (true, start.to_vec()),
                });
            }
            prop_assert_eq!(naive(&bytes, max_bytes), read.clone());
            prop_assert_eq!(read.len() as u64, lines.number());
        }
    }

    proptest! {
        #[test]
        fn lines_after_a_skip_are_those_after_so_many_that_are_not_blank(
            bytes in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b' '), Just(b'\r'), Just(b'\n')], 0..200),
            lengths in proptest::collection::vec(1_usize..20, 1..5),
            max_bytes in 1_usize..12,
            count in 0_usize..60,
        ) {
            let lines = naive(&bytes, max_bytes);
            let rows: Vec<usize> = lines
                .iter()
                .enumerate()
                .filter(|(_, (too_long, line))| *too_long || !line.trim_ascii().is_empty())
                .map(|(index, _)| index)
                .collect();
            // At the end of the input the blank lines behind its last row are passed over, too.
            let passed = match count {
                0 => 0,
                _ => rows.get(count - 1).map_or(lines.len(), |last| last + 1),
            };

            let pieces = Pieces { bytes: &bytes, lengths: lengths.into_iter().cycle() };
            let mut read = Lines::new(pieces, max_bytes);
            prop_assert_eq!(count.min(rows.len()) as u64, read.skip_rows(count as u64).expect("no error in memory"));
            prop_assert_eq!(passed as u64, read.number());
            for (too_long, line) in &lines[passed..] {
                let expected = if *too_long { Line::TooLong(line) } else { Line::Whole(line) };
                prop_assert_eq!(Some(expected), read.next_line().expect("no error in memory"));
            }
            prop_assert_eq!(None, read.next_line().expect("no error in memory"));
        }
    }

    #[test]
    fn a_line_without_end_is_passed_over_without_being_held() {
        let endless = io::repeat(b'x').take(50_000_000).chain(&b"\nhttp://a/\n"[..]);
        let mut lines = Lines::new(endless, 1000);
        assert_eq!(Some(Line::TooLong(&[b'x'; 1000][..])), lines.next_line().expect("no error"));
        assert_eq!(Some(Line::Whole(&b"http://a/"[..])), lines.next_line().expect("no error"));
        assert!(lines.line.capacity() < 10_000, "{}", lines.line.capacity());
    }
}
