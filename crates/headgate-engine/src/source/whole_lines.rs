//! The decompressed bytes of a file, less a line that was being written when it was opened.
//!
//! A file may have been opened between two writes of somebody who appends to it, and end in half a line. Half a URL is a URL too,
//! but not one that anybody asked for. If the file has grown when its end is reached and what was read does not end in a line's
//! end, then that line is no row; a note says so.

use std::error::Error;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use super::opened::Opened;

pub(super) struct WholeLines<R> {
    reader: R,
    opened: Arc<Opened>,
    /// What is added to compressed data says nothing of how the line went on.
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
            let is_half = || Ok(self.compressed || !matches!(self.opened.byte_behind()?, Some(b'\n' | b'\r')));
            if self.opened.has_grown() { is_half() } else { Ok(false) }
        })
    }
}

impl<R: Read> Read for WholeLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        match buffer[..read].last() {
            Some(last) => self.ends_line = *last == b'\n',
            None if !buffer.is_empty() && self.is_half()? => return Err(io::Error::other(HalfLine)),
            None => {}
        }
        Ok(read)
    }
}

/// What was read last is no whole line, and nothing follows.
#[derive(Debug)]
pub(super) struct HalfLine;

impl HalfLine {
    pub(super) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<Self>)
    }
}

impl fmt::Display for HalfLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the last line is still being written")
    }
}

impl Error for HalfLine {}
