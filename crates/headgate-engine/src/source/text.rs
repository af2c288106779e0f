//! One URL a line: `.txt` and standard input.

use std::io::Read;

use super::batches::Rows;
use super::cells::{Place, long_url_row, url_row};
use super::content::Passing;
use super::fingerprint::Fingerprint;
use super::input::{Input, Reader};
use super::lines::{Line, Lines};
use crate::model::error::JobError;
use crate::model::message::Message;
use crate::model::row::{MAX_URL_BYTES, Row};
use crate::model::source_size::SourceSize;

pub(super) struct Text {
    input: Input,
    lines: Lines<Reader>,
    /// Whoever writes to us may be slow: what has arrived is not held back for the sake of a full batch.
    live: bool,
}

impl Text {
    pub(super) fn new((input, reader): (Input, Reader)) -> Self {
        // Of unknown size are a FIFO and its like: somebody writes while we read.
        let live = input.size().bytes.is_none();
        Self { input, lines: Lines::new(reader, MAX_URL_BYTES), live }
    }

    /// What somebody writes while we read.
    pub(super) fn live(name: &str, reader: impl Read + Send + 'static) -> Self {
        Self::new(Input::stream(name, reader))
    }
}

impl Rows for Text {
    fn next_row(&mut self, ordinal: u64, passing: Option<&mut Passing>) -> Result<Option<Row>, JobError> {
        let line = match self.lines.next_row(passing) {
            Ok(line) => line,
            Err(error) => return self.input.ended_by(&error, ordinal).map(|()| None),
        };
        Ok(line.map(|(number, line)| match line {
            Line::Whole(line) => url_row(ordinal, Place::Line(number), line.trim_ascii()),
            Line::TooLong(start) => long_url_row(ordinal, Place::Line(number), start.trim_ascii_start()),
        }))
    }

    fn skip(&mut self, ordinal: u64, count: u64, passing: Option<&mut Passing>) -> Result<u64, JobError> {
        self.lines
            .skip_rows(count, passing)
            .or_else(|(error, skipped)| self.input.ended_by(&error, ordinal + skipped).map(|()| skipped))
    }

    fn size(&self) -> SourceSize {
        self.input.size()
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.input.fingerprint()
    }

    fn note(&self) -> Option<Message> {
        self.input.note()
    }

    fn ends_batch(&self) -> bool {
        self.live && !self.lines.has_line()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::model::options::SourceOptions;
    use crate::source::batches::Batches;

    /// Each piece is what has arrived when somebody reads.
    struct Pieces(std::vec::IntoIter<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.next().unwrap_or_default().as_bytes();
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn what_has_arrived_is_handed_on_before_more_is_waited_for() {
        let pieces = vec!["http://a/\n", "http://b/\nhttp://c/\n", "http", "://d/\nhttp:", "//e/"];
        let mut source =
            Batches::boxed(Text::live("pieces", Pieces(pieces.into_iter())), &SourceOptions::default(), None)
                .expect("no names of files");
        let mut batches = Vec::new();
        while let Some(batch) = source.next_batch().expect("no error in memory") {
            batches.push(batch.iter().map(|row| row.url.to_string()).collect::<Vec<_>>().join(" "));
        }
        assert_eq!(vec!["http://a/", "http://b/ http://c/", "http://d/", "http://e/"], batches);
    }
}
