//! `.txt` and standard input: a URL a line, or a value a line of which templates make requests.

use std::io::{self, Read};

use headgate_core::error::JobError;
use headgate_core::options::SourceOptions;
use headgate_core::row::{MAX_URL_BYTES, Row};

use super::cells::{RowPosition, defect_row, long_url_row, url_row};
use super::columns::ColumnNames;
use super::input::{InputReader, OpenInput};
use super::keep::KeptText;
use super::lines::{Line, Lines};
use super::template::bound::RequestTemplates;
use super::template::cell::Cell;
use super::text_rows::{TextForm, TextRows};

/// The name of the only column, for templates.
const COLUMN: &str = "line";

pub(super) struct Text {
    lines: Lines<InputReader>,
    templates: Option<RequestTemplates>,
    /// Whether rows that have arrived do not wait for a full batch, as the writer may be slow.
    live: bool,
}

impl Text {
    /// # Errors
    /// `Usage`: an invalid template. `Input`: a template names another column than the line.
    pub(super) fn open(
        (input, reader): (OpenInput, InputReader),
        options: &SourceOptions,
    ) -> Result<TextRows<Self>, JobError> {
        // FIFOs and the like, which are written while they are read, have no size.
        let live = input.size().bytes.is_none();
        let mut names = ColumnNames::new(options, [COLUMN].into_iter());
        let templates = RequestTemplates::new(options, &mut names)?;
        names.check_missing()?;
        let text = Self { lines: Lines::new(reader, MAX_URL_BYTES), templates, live };
        Ok(TextRows::new(input, text, KeptText::new(&options.input, &[])?))
    }

    /// Opens an input that is written while it is read.
    pub(super) fn live(
        name: &str,
        reader: impl Read + Send + 'static,
        options: &SourceOptions,
    ) -> Result<TextRows<Self>, JobError> {
        Self::open(OpenInput::stream(name, reader), options)
    }
}

fn whole_row(ordinal: u64, position: RowPosition, line: &[u8], templates: Option<&RequestTemplates>) -> Row {
    let Some(templates) = templates else { return url_row(ordinal, position, line) };
    let cells = [Cell::of_text(line)];
    let mut row =
        if templates.make_urls() { templates.row(ordinal, position, &cells) } else { url_row(ordinal, position, line) };
    templates.fill(&mut row, position, &cells);
    row
}

fn long_row(ordinal: u64, position: RowPosition, start: &[u8], templates: Option<&RequestTemplates>) -> Row {
    if templates.is_some_and(RequestTemplates::make_urls) {
        return defect_row(ordinal, position, format!("the line is longer than {MAX_URL_BYTES} bytes"));
    }
    long_url_row(ordinal, position, start)
}

impl TextForm for Text {
    fn next_row(&mut self, ordinal: u64, _kept: &mut KeptText, hash: Option<&mut u128>) -> io::Result<Option<Row>> {
        let templates = self.templates.as_ref();
        Ok(self.lines.next_row(hash)?.map(|(number, line)| match line {
            Line::Whole(line) => whole_row(ordinal, RowPosition::Line(number), line.trim_ascii(), templates),
            Line::TooLong(start) => long_row(ordinal, RowPosition::Line(number), start.trim_ascii_start(), templates),
        }))
    }

    fn skip_row(&mut self, hash: Option<&mut u128>) -> io::Result<bool> {
        Ok(self.lines.next_row(hash)?.is_some())
    }

    fn templates(&mut self) -> Option<&mut RequestTemplates> {
        self.templates.as_mut()
    }

    fn ends_batch(&self) -> bool {
        self.live && !self.lines.has_line()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::batches::Batches;

    /// A reader whose pieces are the bytes that have arrived by the time of each read.
    struct Pieces(std::vec::IntoIter<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.next().unwrap_or_default().as_bytes();
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn lines_that_have_arrived_are_returned_before_the_reader_waits_for_more() {
        let pieces = vec!["http://a/\n", "http://b/\nhttp://c/\n", "http", "://d/\nhttp:", "//e/"];
        let text = Text::live("pieces", Pieces(pieces.into_iter()), &SourceOptions::default());
        let mut source = Batches::boxed(Box::new(text.expect("no templates")), None);
        let mut batches = Vec::new();
        while let Some(batch) = source.next_batch().expect("no error in memory") {
            batches.push(batch.iter().map(|row| row.url.to_string()).collect::<Vec<_>>().join(" "));
        }
        assert_eq!(vec!["http://a/", "http://b/ http://c/", "http://d/", "http://e/"], batches);
    }
}
