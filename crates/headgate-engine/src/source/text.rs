//! One URL a line: `.txt` and standard input.

use super::SourceSize;
use super::batches::Rows;
use super::cells::{Place, long_url_row, url_row};
use super::compressed::Compression;
use super::input::{Input, Reader};
use super::lines::{Line, Lines};
use crate::error::JobError;
use crate::row::{MAX_URL_BYTES, Row};

pub(super) struct Text {
    input: Input,
    lines: Lines<Reader>,
    /// Whoever writes to us may be slow: what has arrived is not held back for the sake of a full batch.
    live: bool,
}

impl Text {
    pub(super) fn open(path: &str, compression: Compression) -> Result<Self, JobError> {
        let (input, reader) = Input::open(path, compression)?;
        Ok(Self { input, lines: Lines::new(reader, MAX_URL_BYTES), live: false })
    }

    pub(super) fn stdin() -> Self {
        let (input, reader) = Input::stdin();
        Self { input, lines: Lines::new(reader, MAX_URL_BYTES), live: true }
    }
}

impl Rows for Text {
    fn next_row(&mut self, ordinal: u64) -> Result<Option<Row>, JobError> {
        loop {
            let number = self.lines.number() + 1;
            match self.lines.next_line() {
                Ok(Some(Line::Whole(line))) => {
                    let url = line.trim_ascii();
                    if !url.is_empty() {
                        return Ok(Some(url_row(ordinal, Place::Line(number), url)));
                    }
                }
                Ok(Some(Line::TooLong(start))) => {
                    return Ok(Some(long_url_row(ordinal, Place::Line(number), start.trim_ascii_start())));
                }
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.input.failed(&error, ordinal)),
            }
        }
    }

    fn size(&self) -> SourceSize {
        self.input.size()
    }

    fn ends_batch(&self) -> bool {
        self.live && !self.lines.has_line()
    }
}
