//! One URL a line, or one value of which templates make requests: `.txt` and standard input.

use std::io::Read;

use super::batches::Rows;
use super::cells::{Place, defect_row, long_url_row, url_row};
use super::columns::Names;
use super::content::Passing;
use super::fingerprint::Fingerprint;
use super::input::{Input, Reader};
use super::lines::{Line, Lines};
use super::template::bound::RequestTemplates;
use super::template::cell::Cell;
use crate::model::error::JobError;
use crate::model::message::Message;
use crate::model::options::SourceOptions;
use crate::model::row::{MAX_URL_BYTES, Row};
use crate::model::source_size::SourceSize;

/// The name of the one column, for templates.
const COLUMN: &str = "line";

pub(super) struct Text {
    input: Input,
    lines: Lines<Reader>,
    templates: Option<RequestTemplates>,
    /// Whoever writes to us may be slow: what has arrived is not held back for the sake of a full batch.
    live: bool,
}

impl Text {
    /// # Errors
    /// `Usage`: a template that is none. `Input`: one of another column than the line.
    pub(super) fn new((input, reader): (Input, Reader), options: &SourceOptions) -> Result<Self, JobError> {
        // Of unknown size are a FIFO and its like: somebody writes while we read.
        let live = input.size().bytes.is_none();
        let templates = RequestTemplates::new(options, &mut Names::new(options, [COLUMN].into_iter()))?;
        Ok(Self { input, lines: Lines::new(reader, MAX_URL_BYTES), templates, live })
    }

    /// What somebody writes while we read.
    pub(super) fn live(
        name: &str,
        reader: impl Read + Send + 'static,
        options: &SourceOptions,
    ) -> Result<Self, JobError> {
        Self::new(Input::stream(name, reader), options)
    }
}

fn whole_row(ordinal: u64, place: Place, line: &[u8], templates: Option<&RequestTemplates>) -> Row {
    let Some(templates) = templates else { return url_row(ordinal, place, line) };
    let cells = [Cell::of_text(line)];
    let mut row =
        if templates.make_urls() { templates.row(ordinal, place, &cells) } else { url_row(ordinal, place, line) };
    templates.fill(&mut row, place, &cells);
    row
}

fn long_row(ordinal: u64, place: Place, start: &[u8], templates: Option<&RequestTemplates>) -> Row {
    if templates.is_some_and(RequestTemplates::make_urls) {
        return defect_row(ordinal, place, format!("the line is longer than {MAX_URL_BYTES} bytes"));
    }
    long_url_row(ordinal, place, start)
}

impl Rows for Text {
    fn next_row(&mut self, ordinal: u64, passing: Option<&mut Passing>) -> Result<Option<Row>, JobError> {
        let line = match self.lines.next_row(passing) {
            Ok(line) => line,
            Err(error) => return self.input.ended_by(&error, ordinal).map(|()| None),
        };
        let templates = self.templates.as_ref();
        Ok(line.map(|(number, line)| match line {
            Line::Whole(line) => whole_row(ordinal, Place::Line(number), line.trim_ascii(), templates),
            Line::TooLong(start) => long_row(ordinal, Place::Line(number), start.trim_ascii_start(), templates),
        }))
    }

    fn skip(&mut self, ordinal: u64, count: u64, passing: Option<&mut Passing>) -> Result<u64, JobError> {
        self.lines
            .skip_rows(count, passing)
            .or_else(|(error, skipped)| self.input.ended_by(&error, ordinal + skipped).map(|()| skipped))
    }

    fn begin_behind(&mut self, rows: u64) {
        self.templates.iter_mut().for_each(|templates| templates.begin_behind(rows));
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
        let text = Text::live("pieces", Pieces(pieces.into_iter()), &SourceOptions::default());
        let mut source = Batches::boxed(text.expect("no templates"), None, None);
        let mut batches = Vec::new();
        while let Some(batch) = source.next_batch().expect("no error in memory") {
            batches.push(batch.iter().map(|row| row.url.to_string()).collect::<Vec<_>>().join(" "));
        }
        assert_eq!(vec!["http://a/", "http://b/ http://c/", "http://d/", "http://e/"], batches);
    }
}
