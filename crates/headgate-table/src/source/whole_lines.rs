//! The decompressed bytes of a file, without a line that was being written when it was opened.
//!
//! A file may have been opened between two writes of a program that appends to it, and end in half a line. Half a URL is a
//! URL too, but not one of the list. If the file has grown when its end is reached, and the bytes do not end with a line
//! end, that line is not a row; a note says so.

use std::io::{self, Read};
use std::sync::Arc;

use super::input_error::InputError;
use super::opened::Opened;

pub(super) struct WholeLines<R> {
    reader: R,
    opened: Arc<Opened>,
    /// Bytes that are added to compressed data do not tell how the line continued.
    compressed: bool,
    ends_line: bool,
}

impl<R> WholeLines<R> {
    pub(super) fn new(reader: R, opened: Arc<Opened>, compressed: bool) -> Self {
        Self { reader, opened, compressed, ends_line: true }
    }

    fn is_half(&self) -> io::Result<bool> {
        if self.ends_line {
            return Ok(false);
        }
        self.opened.ends_in_half_line(|| {
            let is_half = || Ok(self.compressed || !matches!(self.opened.first_added_byte()?, Some(b'\n' | b'\r')));
            if self.opened.has_grown() { is_half() } else { Ok(false) }
        })
    }
}

impl<R: Read> Read for WholeLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        match buffer[..read].last() {
            Some(last) => self.ends_line = *last == b'\n',
            None if !buffer.is_empty() && self.is_half()? => return Err(InputError::HalfLine.into()),
            None => {}
        }
        Ok(read)
    }
}
