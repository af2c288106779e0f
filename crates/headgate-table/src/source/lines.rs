//! Lines of bounded length: one that is too long is skipped and not stored.

use std::io::{self, BufRead, BufReader, Read};
use std::mem;

use memchr::memchr;
use twox_hash::XxHash3_128;

use super::READ_BYTES;

pub(super) struct Lines<R> {
    reader: BufReader<R>,
    /// How many bytes of the buffer the current line has, if it lies in the buffer.
    used: usize,
    /// The current line, if it does not lie in the buffer as a whole.
    line: Vec<u8>,
    max_bytes: usize,
    number: u64,
}

/// A line without its end (LF or CR LF).
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// The beginning of a line that has more than `max_bytes`.
    TooLong(&'a [u8]),
}

impl Line<'_> {
    /// Returns whether the line is a row. One that is too long is a row whatever it holds, since its end is never read.
    fn is_row(&self) -> bool {
        match self {
            Self::Whole(line) => !line.trim_ascii().is_empty(),
            Self::TooLong(_) => true,
        }
    }
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R, max_bytes: usize) -> Self {
        let reader = BufReader::with_capacity(READ_BYTES, reader);
        Self { reader, used: 0, line: Vec::new(), max_bytes, number: 0 }
    }

    /// Returns the next line that is not blank, and its number, from 1. Sets `hash` to that of its bytes.
    pub(super) fn next_row(&mut self, hash: Option<&mut u128>) -> io::Result<Option<(u64, Line<'_>)>> {
        while self.advance()? {
            if self.line().is_row() {
                if let (Some(hash), Line::Whole(bytes) | Line::TooLong(bytes)) = (hash, self.line()) {
                    *hash = XxHash3_128::oneshot(bytes);
                }
                return Ok(Some((self.number, self.line())));
            }
        }
        Ok(None)
    }

    /// Advances to the next line, and returns whether there is one.
    fn advance(&mut self) -> io::Result<bool> {
        self.reader.consume(mem::take(&mut self.used));
        self.line.clear();
        // Most lines lie in the buffer, and need not be copied.
        if let Some(length) = memchr(b'\n', self.reader.buffer()) {
            self.used = length + 1;
            self.number += 1;
            return Ok(true);
        }
        let is_there = self.copy_line()?;
        self.number += u64::from(is_there);
        Ok(is_there)
    }

    /// Copies the next line, up to the bytes that show that it is too long, and returns whether there is one.
    fn copy_line(&mut self) -> io::Result<bool> {
        const LINE_END: usize = 2;
        let most = self.max_bytes + LINE_END;
        let mut is_there = false;
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok([]) => return Ok(is_there),
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            is_there = true;
            let end = memchr(b'\n', buffer);
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.line.extend_from_slice(&buffer[..used.min(most - self.line.len())]);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// Returns the current line.
    fn line(&self) -> Line<'_> {
        let line = if self.used > 0 { &self.reader.buffer()[..self.used] } else { &self.line };
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.get(..self.max_bytes) {
            Some(start) if line.len() > self.max_bytes => Line::TooLong(start),
            _ => Line::Whole(line),
        }
    }

    /// Returns whether the buffer holds the whole next line.
    pub(super) fn has_line(&self) -> bool {
        memchr(b'\n', &self.reader.buffer()[self.used..]).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A reader that returns its bytes in pieces of the given lengths, which are cycled.
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

    /// Returns the next line, blank or not.
    fn next_line<R: Read>(lines: &mut Lines<R>) -> io::Result<Option<Line<'_>>> {
        Ok(if lines.advance()? { Some(lines.line()) } else { None })
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
            while let Some(line) = next_line(&mut lines).expect("no error in memory") {
                read.push(match line {
                    Line::Whole(line) => (false, line.to_vec()),
                    Line::TooLong(start) => (true, start.to_vec()),
                });
            }
            prop_assert_eq!(naive(&bytes, max_bytes), read.clone());
            prop_assert_eq!(read.len() as u64, lines.number);
        }
    }

    proptest! {
        #[test]
        fn a_skip_counts_only_lines_that_are_not_blank(
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
            // At the end of the input, the blank lines after its last row are skipped, too.
            let passed = match count {
                0 => 0,
                _ => rows.get(count - 1).map_or(lines.len(), |last| last + 1),
            };

            let pieces = Pieces { bytes: &bytes, lengths: lengths.into_iter().cycle() };
            let mut read = Lines::new(pieces, max_bytes);
            let skipped = (0..count).take_while(|_| read.next_row(None).expect("no error in memory").is_some()).count();
            prop_assert_eq!(count.min(rows.len()), skipped);
            prop_assert_eq!(passed as u64, read.number);
            for (too_long, line) in &lines[passed..] {
                let expected = if *too_long { Line::TooLong(line) } else { Line::Whole(line) };
                prop_assert_eq!(Some(expected), next_line(&mut read).expect("no error in memory"));
            }
            prop_assert_eq!(None, next_line(&mut read).expect("no error in memory"));
        }
    }

    #[test]
    fn an_endless_line_is_skipped_and_not_stored() {
        let endless = io::repeat(b'x').take(50_000_000).chain(&b"\nhttp://a/\n"[..]);
        let mut lines = Lines::new(endless, 1000);
        assert_eq!(Some(Line::TooLong(&[b'x'; 1000][..])), next_line(&mut lines).expect("no error"));
        assert_eq!(Some(Line::Whole(&b"http://a/"[..])), next_line(&mut lines).expect("no error"));
        assert!(lines.line.capacity() < 10_000, "{}", lines.line.capacity());
    }
}
