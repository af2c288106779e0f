//! The input of a call: the rows of record batches that the caller provides.

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{Fields, SchemaRef};
use bytes::Bytes;
use headgate_core::error::JobError;
use headgate_core::options::{RequestOptions, SelectionOptions, SourceOptions};
use headgate_core::row::Row;
use headgate_table::columns::result::ResultColumns;
use headgate_table::source::record_batches::{self, BatchRows};

/// The batches of a call, or without batches, its requests.
pub(super) struct BatchInput {
    options: SourceOptions,
    defaults: RowDefaults,
    /// `None`: no batch has arrived, and so the columns are unknown.
    rows: Option<BatchRows>,
    /// The reader of batches, the current batch, and its next row.
    reader: Option<Box<dyn RecordBatchReader + Send>>,
    batch: Option<(RecordBatch, usize)>,
    is_at_end: bool,
}

/// The values of rows that have none of their own, if the run does not set them.
#[derive(Default)]
struct RowDefaults {
    base_url: String,
    method: Option<Box<str>>,
    body: Option<Bytes>,
}

impl BatchInput {
    /// Creates the input of a call; its columns are known once the first batch arrives.
    ///
    /// # Errors
    /// `Usage`: an invalid template.
    pub(super) fn new(options: SourceOptions) -> Result<Self, JobError> {
        record_batches::check(&options)?;
        Ok(Self { options, defaults: RowDefaults::default(), rows: None, reader: None, batch: None, is_at_end: false })
    }

    /// Sets the values of rows that have none of their own. They replace those of the run.
    pub(super) fn with_defaults(self, base_url: String, request: &RequestOptions) -> Self {
        let method = request.method.as_deref().map(Into::into);
        let body = request.body.clone().map(Into::into);
        Self { defaults: RowDefaults { base_url, method, body }, ..self }
    }

    pub(super) fn options(&self) -> &SourceOptions {
        &self.options
    }

    /// Returns the columns of results, including the columns `kept` of the input.
    ///
    /// # Errors
    /// As [`ResultColumns::new`].
    pub(super) fn columns(&self, response: &SelectionOptions, kept: Fields) -> Result<ResultColumns, JobError> {
        ResultColumns::new(&self.options, response, kept)
    }

    /// Sets or checks the columns of batches, and returns those that are kept.
    ///
    /// # Errors
    /// `Input`: columns are missing or unusable (the message names them), or differ from earlier ones.
    pub(super) fn set_columns(&mut self, schema: &SchemaRef) -> Result<Fields, JobError> {
        if let Some(rows) = &self.rows {
            rows.check_schema(schema)?;
            return Ok(rows.kept_fields().clone());
        }
        let rows = BatchRows::new(&self.options, schema.clone())?;
        Ok(self.rows.insert(rows).kept_fields().clone())
    }

    /// Sets the reader of the next batches.
    pub(super) fn set_reader(&mut self, reader: Box<dyn RecordBatchReader + Send>) {
        self.reader = Some(reader);
    }

    /// Ends the input.
    pub(super) fn end(&mut self) {
        self.is_at_end = true;
    }

    /// Drops the rest of the input.
    pub(super) fn close(&mut self) {
        (self.reader, self.batch) = (None, None);
    }

    /// Returns whether rows are available without waiting.
    pub(super) fn has_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// Returns whether the input needs another batch or reader.
    pub(super) fn needs_batch(&self) -> bool {
        !self.is_at_end && self.has_no_rows()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.is_at_end && self.has_no_rows()
    }

    fn has_no_rows(&self) -> bool {
        self.batch.is_none() && self.reader.is_none()
    }

    /// Returns the next rows, of which the first gets the ordinal `first`; `None`: no batch is available.
    ///
    /// # Errors
    /// `Input`: a batch can't be read, or has values that can't be kept.
    pub(super) fn rows(&mut self, first: u64) -> Result<Option<Vec<Row>>, JobError> {
        let Some((batch, at)) = self.next_batch()? else { return Ok(None) };
        let Some(batch_rows) = &self.rows else { return Ok(None) };
        let count = BatchRows::rows_at_a_time(&batch).min(batch.num_rows() - at);
        let mut rows = batch_rows.rows(first, &batch.slice(at, count))?;
        for row in &mut rows {
            self.defaults.complete(row);
        }
        if at + count < batch.num_rows() {
            self.batch = Some((batch, at + count));
        }
        Ok(Some(rows))
    }

    fn next_batch(&mut self) -> Result<Option<(RecordBatch, usize)>, JobError> {
        if let Some(batch) = self.batch.take() {
            return Ok(Some(batch));
        }
        while let Some(reader) = &mut self.reader {
            match reader.next() {
                None => self.reader = None,
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => return Ok(Some((batch, 0))),
                Some(Err(error)) => {
                    let name = &self.options.input;
                    return Err(JobError::input(format!("{name}: can't be read further: {error}")));
                }
            }
        }
        Ok(None)
    }
}

impl RowDefaults {
    /// Adds the values that a row lacks.
    fn complete(&self, row: &mut Row) {
        if is_relative(&self.base_url, &row.url) {
            row.url = joined(&self.base_url, &row.url).into();
        }
        if self.method.is_none() && self.body.is_none() {
            return;
        }
        let extra = row.extra.get_or_insert_default();
        if extra.method.is_none() {
            extra.method.clone_from(&self.method);
        }
        if extra.body.is_none() {
            extra.body = self.body.clone().map(Into::into);
        }
    }
}

/// Makes a template absolute, unless it begins with a column: its values may be absolute.
pub(super) fn join_template(base_url: &str, template: &mut String) {
    if is_relative(base_url, template) && !template.starts_with('{') {
        *template = joined(&base_url.replace('{', "{{").replace('}', "}}"), template);
    }
}

fn is_relative(base_url: &str, url: &str) -> bool {
    let scheme_ends = url.find(['/', '?', '#']).filter(|&at| url[at..].starts_with("//") && url[..at].ends_with(':'));
    !base_url.is_empty() && scheme_ends.is_none()
}

/// Appends a relative URL to the base URL, whose whole path is kept.
fn joined(base_url: &str, url: &str) -> String {
    match url {
        "" => base_url.to_owned(),
        url => format!("{}/{}", base_url.trim_end_matches('/'), url.trim_start_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_url_is_joined_to_its_base() {
        let cases = [
            ("http://a/v1/x", "http://a/v1", "x"),
            ("http://a/v1/x", "http://a/v1/", "/x"),
            ("http://a/v1", "http://a/v1", ""),
            ("https://b/x", "http://a/v1", "https://b/x"),
            ("http://a/v1/x?to=https://b/", "http://a/v1", "x?to=https://b/"),
            ("/x", "", "/x"),
        ];
        for (expected, base_url, url) in cases {
            let defaults = RowDefaults { base_url: base_url.to_owned(), ..RowDefaults::default() };
            let mut row = Row::new(0, url);
            defaults.complete(&mut row);
            assert_eq!(expected, &*row.url, "{base_url} and {url}");
        }
    }

    #[test]
    fn a_row_keeps_its_own_values() {
        let defaults = RowDefaults { method: Some("PUT".into()), body: Some("all".into()), ..RowDefaults::default() };
        let (mut plain, mut own) = (Row::new(0, "http://a/"), Row::new(1, "http://a/"));
        let extra = own.extra.get_or_insert_default();
        (extra.method, extra.body) = (Some("PATCH".into()), Some("own".into()));
        for (row, expected) in [(&mut plain, ("PUT", "all")), (&mut own, ("PATCH", "own"))] {
            defaults.complete(row);
            let extra = row.extra.as_ref().expect("its values");
            assert_eq!(Some(expected.0), extra.method.as_deref());
            assert_eq!(Some(expected.1.into()), extra.body);
        }
    }
}
