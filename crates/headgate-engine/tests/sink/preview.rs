use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use headgate_core::error::JobErrorKind;
use headgate_core::options::{Format, SinkOptions};
use headgate_engine::preview;
use headgate_engine::testing::Preview;
use parquet::arrow::ArrowWriter;

use crate::outcomes::{batch, failed, open, options, succeeded, write};

fn values<'a>(preview: &'a Preview, column: &str) -> Vec<Option<&'a str>> {
    let column = preview.columns.iter().position(|name| name == column).unwrap();
    preview.rows.iter().map(|row| row[column].as_deref()).collect()
}

/// Creates two parts of succeeded rows, with one and two rows, and one part of failed rows.
fn results(directory: &Path, format: Format) {
    let options = SinkOptions { part_size: 1, ..options(directory, format) };
    let bodies = [succeeded(1, b"two\nlines"), succeeded(2, &[0xff; 1000])];
    write(&options, [batch([failed(3)]), batch([succeeded(0, &[b'x'; 100])]), batch(bodies)]);
}

#[test]
fn the_first_rows_are_those_of_the_first_parts_and_succeeded_rows_come_first() {
    for format in [Format::Parquet, Format::Ndjson] {
        let directory = tempfile::tempdir().unwrap();
        results(directory.path(), format);

        let seen = preview(directory.path(), 10, false).unwrap();

        assert_eq!(21, seen.columns.len());
        assert_eq!(vec![Some("0"), Some("1"), Some("2"), Some("3")], values(&seen, "row"));
        let cut = format!("{}…", "x".repeat(80));
        assert_eq!(vec![Some(cut.as_str()), Some("two\\nlines"), Some("<1000 bytes>"), None], values(&seen, "body"));
        assert_eq!(Some("server: nginx; set-cookie: a=1; set-cookie: b=2"), values(&seen, "headers")[0]);
        assert_eq!(vec![None, None, None, Some("connect")], values(&seen, "error"));
        assert_eq!(vec![Some("2026-05-14T09:30:00.000042Z"); 4], values(&seen, "started_at"));
        assert_eq!(Some(4), seen.total_rows);
    }
}

#[test]
fn no_more_rows_are_read_than_requested() {
    for format in [Format::Parquet, Format::Ndjson] {
        let directory = tempfile::tempdir().unwrap();
        results(directory.path(), format);

        assert_eq!(vec![Some("0"), Some("1")], values(&preview(directory.path(), 2, false).unwrap(), "row"));
        assert_eq!(0, preview(directory.path(), 0, false).unwrap().rows.len());
    }
}

#[test]
fn failed_rows_can_be_shown_alone() {
    for format in [Format::Parquet, Format::Ndjson] {
        let directory = tempfile::tempdir().unwrap();
        results(directory.path(), format);
        let seen = preview(directory.path(), 10, true).unwrap();
        assert_eq!((vec![Some("3")], Some(1)), (values(&seen, "row"), seen.total_rows));
        // The parts are without the job to which they belong.
        fs::remove_dir_all(directory.path().join("_headgate")).unwrap();
        assert_eq!(vec![Some("3")], values(&preview(directory.path(), 10, true).unwrap(), "row"));

        let name = if format == Format::Parquet { "part-00000001.parquet" } else { "part-00000001.ndjson" };
        let error = preview(&directory.path().join(name), 10, true).unwrap_err();
        assert!(error.to_string().ends_with("not a file of failed rows: name the directory that it is in"), "{error}");
        assert_eq!(1, preview(&directory.path().join(name.replace("part", "failed")), 10, true).unwrap().rows.len());
    }
    let only_succeeded = tempfile::tempdir().unwrap();
    write(&options(only_succeeded.path(), Format::Parquet), [batch([succeeded(0, b"")])]);
    let seen = preview(only_succeeded.path(), 10, true).unwrap();
    assert_eq!((0, Some(0)), (seen.rows.len(), seen.total_rows));
}

#[test]
fn a_timestamp_beyond_the_calendar_hides_no_other_value() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("times.parquet");
    let times = TimestampMicrosecondArray::from(vec![i64::MAX, 0]).with_timezone("UTC");
    let records = RecordBatch::try_from_iter([("at", Arc::new(times) as ArrayRef)]).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), records.schema(), None).unwrap();
    writer.write(&records).unwrap();
    writer.close().unwrap();
    let seen = preview(&path, 10, false).unwrap();
    let [Some(beyond), Some("1970-01-01T00:00:00Z")] = values(&seen, "at")[..] else { panic!("{seen:?}") };
    assert!(beyond.starts_with('<') && beyond.contains("9223372036854775807"), "{beyond}");
}

#[test]
fn a_single_file_can_be_previewed() {
    for (format, name) in [(Format::Parquet, "failed-00000001.parquet"), (Format::Ndjson, "failed-00000001.ndjson")] {
        let directory = tempfile::tempdir().unwrap();
        results(directory.path(), format);
        assert_eq!(vec![Some("3")], values(&preview(&directory.path().join(name), 10, false).unwrap(), "row"));
    }
}

#[test]
fn a_result_without_rows_still_shows_its_columns() {
    let directory = tempfile::tempdir().unwrap();
    write(&options(directory.path(), Format::Parquet), []);

    let seen = preview(directory.path(), 10, false).unwrap();

    assert_eq!((21, 0, Some(0)), (seen.columns.len(), seen.rows.len(), seen.total_rows));
}

#[test]
fn a_file_that_cannot_be_previewed_has_a_clear_error() {
    let parent = tempfile::tempdir().unwrap();
    let message = |name: &str| {
        let error = preview(&parent.path().join(name), 10, false).unwrap_err();
        assert_eq!(JobErrorKind::Input, error.kind);
        error.to_string().replace(&format!("{}/", parent.path().display()), "")
    };
    assert_eq!("missing: no such file or directory", message("missing"));

    fs::create_dir(parent.path().join("foreign")).unwrap();
    assert_eq!("foreign contains no results: it is not an output directory of headgate", message("foreign"));

    let running = open(&options(&parent.path().join("running"), Format::Parquet)).unwrap();
    assert_eq!(
        "running contains no results yet: the first appear with the first commit (commit_interval)",
        message("running")
    );
    drop(running);

    fs::write(parent.path().join("urls.txt"), "").unwrap();
    assert_eq!(
        "urls.txt: not a file of results: name an output directory, or a .parquet or .ndjson file",
        message("urls.txt")
    );

    fs::write(parent.path().join("broken.parquet"), "PAR1").unwrap();
    assert!(message("broken.parquet").starts_with("can't read broken.parquet: "), "{}", message("broken.parquet"));

    fs::write(parent.path().join("list.ndjson"), "{\"row\":1}\n[1]\n").unwrap();
    assert!(
        message("list.ndjson").starts_with("can't read list.ndjson: line 2 is not a JSON object"),
        "{}",
        message("list.ndjson")
    );
}
