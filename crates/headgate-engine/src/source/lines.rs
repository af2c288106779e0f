//! Lines of bounded length: one that is too long is passed over without being held.

use std::io::{self, BufRead, BufReader, Read};

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

    /// Of the line that was returned last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the next line can be had without reading.
    pub(super) fn has_line(&self) -> bool {
        self.reader.buffer().contains(&b'\n')
    }
}
