use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use headgate_core::error::JobErrorKind;
use headgate_core::files::Directory;
use headgate_core::files::storage::Storage;
use headgate_core::options::{Format, Output, SinkOptions};

use crate::outcomes::{batch, failed, interrupt, names, open, open_error, open_on, options, succeeded};

/// A disk that has no space for one part.
#[derive(Debug)]
struct NoRoomFor(String, Directory);

impl Storage for NoRoomFor {
    fn directory(&self) -> &Directory {
        &self.1
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let file = self.1.create(path, mode)?;
        if path.ends_with(format!("{}.tmp", self.0)) { File::options().write(true).open("/dev/full") } else { Ok(file) }
    }
}

#[test]
fn a_full_disk_is_named_and_published_parts_stay() {
    for (format, extension) in [(Format::Parquet, "parquet"), (Format::Ndjson, "ndjson")] {
        let out = tempfile::tempdir().unwrap();
        let options = SinkOptions { part_size: 1, ..options(out.path(), format) };
        let second = format!("part-00000002.{extension}");
        let full = second.clone();
        let disk = move |directory| Arc::new(NoRoomFor(full.clone(), directory)) as Arc<dyn Storage>;
        let mut sink = open_on(&disk, &options).unwrap();
        let _ = sink.write(batch([succeeded(0, b"")])).unwrap();

        let error = sink.write(batch([succeeded(1, b""), failed(2)])).unwrap_err();

        assert_eq!(JobErrorKind::Storage, error.kind);
        let path = out.path().join(second);
        assert_eq!(
            format!(
                "can't write {}: no space left on device; free some space, and the same command continues",
                path.display()
            ),
            error.to_string()
        );
        let published = ["_headgate".to_owned(), format!("part-00000001.{extension}")];
        assert_eq!(published, names(out.path()).as_slice());
        assert_eq!(Vec::<String>::new(), names(&out.path().join("_headgate/tmp")), "its space is free");
    }
}

#[test]
fn a_part_that_cannot_be_created_is_named() {
    let out = tempfile::tempdir().unwrap();
    let mut sink = open(&options(out.path(), Format::Parquet)).unwrap();
    fs::remove_dir(out.path().join("_headgate/tmp")).unwrap();

    let error = sink.write(batch([succeeded(0, b"")])).unwrap_err();

    assert_eq!(JobErrorKind::Output, error.kind);
    let path = out.path().join("part-00000001.parquet");
    assert_eq!(format!("can't write {}: no such file or directory", path.display()), error.to_string());
}

#[test]
fn no_row_of_a_failed_commit_counts() {
    let out = tempfile::tempdir().unwrap();
    let disk = |directory| Arc::new(NoRoomFor("part-00000001.ndjson".into(), directory)) as Arc<dyn Storage>;
    let mut sink = open_on(&disk, &options(out.path(), Format::Ndjson)).unwrap();
    let _ = sink.write(batch([succeeded(0, b""), failed(1)])).unwrap();

    let error = interrupt(sink.as_mut()).unwrap_err();

    assert!(error.to_string().contains("part-00000001.ndjson: no space left on device; "), "{}", error.to_string());
    assert_eq!(["_headgate"], names(out.path()).as_slice());
}

#[test]
fn formats_that_do_not_fit_the_output_are_refused() {
    let with = |output, format| open_error(&SinkOptions { output, format, ..SinkOptions::default() });

    let error = with(Output::Stdout, Format::Parquet);
    assert_eq!(JobErrorKind::Usage, error.kind);
    assert_eq!(
        "parquet can't be written to standard output: use format=ndjson, or a directory for output",
        error.to_string()
    );
    for format in [Format::Parquet, Format::Ndjson] {
        let error = with(Output::Nowhere, format);
        assert_eq!(JobErrorKind::Usage, error.kind);
        assert_eq!(
            "there is no output for the results: give a directory with output, or format=none",
            error.to_string()
        );
    }
}

#[test]
fn format_none_accepts_all_rows_and_writes_nothing() {
    let parent = tempfile::tempdir().unwrap();
    for output in [Output::Nowhere, Output::Stdout, Output::Directory(parent.path().join("results"))] {
        let options = SinkOptions { output, format: Format::None, ..SinkOptions::default() };
        let mut sink = open(&options).unwrap();
        assert!(sink.write(batch([succeeded(0, b"")])).unwrap().is_continue());
        interrupt(sink.as_mut()).unwrap();
    }
    assert_eq!(Vec::<String>::new(), names(parent.path()));
}
