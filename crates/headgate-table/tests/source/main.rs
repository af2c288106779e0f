//! The inputs that a user may give, and their rows or error messages.

mod changing;
mod compared;
mod compressed;
mod cost;
mod delimited;
mod errors;
mod fingerprint;
mod keep;
mod keep_all_of_lines;
mod keep_types;
mod ndjson;
mod parquet;
mod pattern;
mod request_columns;
mod reread;
mod selected;
mod several;
mod several_columns;
mod several_compared;
mod skip;
mod templates;
mod text;

use std::path::{Path, PathBuf};

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use headgate_core::error::{JobError, JobErrorKind};
use headgate_core::options::SourceOptions;
use headgate_core::row::{MAX_BATCH_ROWS, Row, RowBody};
use headgate_table::source::{self, Source};
use tempfile::TempDir;

/// A directory of input files that is removed when the test ends.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> SourceOptions {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file in a temporary directory");
        options(&path)
    }

    /// Returns the message without the directory.
    fn message(&self, error: &JobError) -> String {
        assert_eq!(JobErrorKind::Input, error.kind, "{error}");
        self.without_directory(&error.to_string())
    }

    fn without_directory(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn options(path: &Path) -> SourceOptions {
    naming_columns(SourceOptions { input: path.display().to_string(), ..SourceOptions::default() })
}

/// Returns options that name those of the columns `method`, `headers` and `body` that the input has.
fn naming_columns(options: SourceOptions) -> SourceOptions {
    let path = Path::new(&options.input);
    let first_line = || {
        let text = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(text.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned()
    };
    let extension = path.extension().and_then(std::ffi::OsStr::to_str);
    let name = path.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    let columns: Vec<String> = if name.contains(".ndjson") || name.contains(".jsonl") {
        // Each line has its own columns.
        ["method", "headers", "body"].map(str::to_owned).to_vec()
    } else if extension == Some("parquet") {
        let file = std::fs::File::open(path).ok();
        let reader = file.and_then(|file| ParquetRecordBatchReaderBuilder::try_new(file).ok());
        let fields = reader.map(|reader| reader.schema().fields().clone());
        fields.iter().flat_map(|fields| fields.iter()).map(|field| field.name().clone()).collect()
    } else if matches!(extension, Some("csv" | "tsv")) {
        let line = first_line();
        let names = line.trim_start_matches('\u{feff}').split([',', '\t']);
        names.map(|name| name.trim().trim_matches('"').to_owned()).collect()
    } else {
        Vec::new()
    };
    let named = |name: &str| columns.iter().any(|column| column == name).then(|| name.to_owned());
    SourceOptions {
        method_column: named("method"),
        headers_column: named("headers"),
        body_column: named("body"),
        ..options
    }
}

fn open(options: &SourceOptions) -> Box<dyn Source> {
    source::open::open(options).expect("an input that can be opened")
}

fn open_error(options: &SourceOptions) -> JobError {
    source::open::open(options).err().expect("an input that can't be opened")
}

/// Returns all rows, and the error that ended them, if any; it checks the invariants of every batch.
fn drain(source: &mut dyn Source) -> (Vec<Row>, Option<JobError>) {
    drain_from(source, 0)
}

/// Reads rows as [`drain`] does, from a source whose next row must have the ordinal `first`.
fn drain_from(source: &mut dyn Source, first: u64) -> (Vec<Row>, Option<JobError>) {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        match source.next_batch() {
            Ok(Some(batch)) => {
                assert!((1..=MAX_BATCH_ROWS).contains(&batch.len()), "a batch of {} rows", batch.len());
                rows.extend(batch);
            }
            Ok(None) => break,
            Err(error) => return (rows, Some(error)),
        }
    }
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(first + index as u64, row.ordinal);
    }
    (rows, None)
}

fn rows(options: &SourceOptions) -> Vec<Row> {
    let (rows, error) = drain(open(options).as_mut());
    assert_eq!(None, error);
    rows
}

fn urls(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.url.as_ref()).collect()
}

fn defects(rows: &[Row]) -> Vec<Option<&'static str>> {
    let defect = |row: &Row| Some(&*row.extra.as_ref()?.defect.as_ref()?.to_string().leak());
    rows.iter().map(defect).collect()
}

fn headers(row: &Row) -> Vec<(&str, &str)> {
    let headers = row.extra.iter().flat_map(|extra| &extra.headers);
    headers.map(|(name, value)| (name.as_ref(), std::str::from_utf8(value).expect("text"))).collect()
}

fn method(row: &Row) -> Option<&str> {
    row.extra.as_ref().and_then(|extra| extra.method.as_deref())
}

fn body(row: &Row) -> Option<&[u8]> {
    row.extra.as_ref().and_then(|extra| extra.body.as_ref()).map(|body| match body {
        RowBody::Bytes(bytes) => &bytes[..],
        body => panic!("a body in pieces: {body:?}"),
    })
}
