//! The invariants of the Delta log of a job.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use headgate_engine::status::parts;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use crate::power::files_below;

/// Checks that the newest version names only files that are there, each with its length, and that it is that of the newest
/// commit or of the one before. A log that readers refuse is no mistake while it is rewritten, unless they are told to begin with
/// a checkpoint that is not there.
pub fn check_delta(out: &Path) {
    let log = out.join("_delta_log");
    if let Ok(last) = fs::read_to_string(log.join("_last_checkpoint")) {
        let last: Value = serde_json::from_str(&last).unwrap();
        in_checkpoint(&log, last["version"].as_u64().unwrap());
    }
    let Some(newest) = newest(&log) else { return };
    for (name, bytes) in files(&log, newest).into_iter().flatten() {
        let found = fs::metadata(out.join(&name)).map(|found| found.len()).ok();
        assert_eq!(Some(bytes), found, "version {newest} names {name}");
    }
    let commit = numbers(&out.join("_headgate/log"), ".json").max();
    assert!(commit.is_some_and(|commit| [newest, newest + 1].contains(&commit)) || newest == 0, "{commit:?}: {newest}");
}

/// Checks that a reader of the table finds exactly the current parts.
pub fn check_delta_is_current(out: &Path) {
    let parts = parts(out).unwrap().files.into_iter().map(|file| {
        let bytes = fs::metadata(&file.path).unwrap().len();
        (file.path.file_name().unwrap().to_str().unwrap().to_owned(), bytes)
    });
    let log = out.join("_delta_log");
    let newest = newest(&log).expect("there is a version");
    assert_eq!(Some(parts.collect()), files(&log, newest));
    assert_eq!(numbers(&out.join("_headgate/log"), ".json").max(), Some(newest));
}

pub fn newest(log: &Path) -> Option<u64> {
    numbers(log, ".json").max()
}

/// Returns the numbers of the files with this ending.
pub fn numbers(log: &Path, ending: &str) -> impl Iterator<Item = u64> {
    files_below(log).into_iter().filter_map(move |path| {
        let number = path.file_name()?.to_str()?.strip_suffix(ending)?;
        number.parse().ok()
    })
}

/// Returns the files of a version, with their lengths, as a reader finds them: it begins with the newest checkpoint, or with
/// version 0. `None`: a version is missing, or none defines the table.
fn files(log: &Path, newest: u64) -> Option<BTreeMap<String, u64>> {
    let checkpoint = numbers(log, ".checkpoint.parquet").filter(|number| *number <= newest).max();
    let mut files = checkpoint.map(|number| in_checkpoint(log, number)).unwrap_or_default();
    let mut is_defined = checkpoint.is_some();
    for number in checkpoint.map_or(0, |number| number + 1)..=newest {
        let text = fs::read_to_string(log.join(format!("{number:020}.json"))).ok()?;
        for action in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            is_defined |= action["metaData"]["schemaString"].is_string();
            if let Some(name) = action["add"]["path"].as_str() {
                assert_eq!(None, files.insert(name.to_owned(), action["add"]["size"].as_u64().unwrap()), "{name}");
            } else if let Some(name) = action["remove"]["path"].as_str() {
                assert!(files.remove(name).is_some(), "{name}");
            }
        }
    }
    is_defined.then_some(files)
}

fn in_checkpoint(log: &Path, number: u64) -> BTreeMap<String, u64> {
    let file = File::open(log.join(format!("{number:020}.checkpoint.parquet"))).unwrap();
    let batches = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let mut files = BTreeMap::new();
    for batch in batches.map(Result::unwrap) {
        let adds = batch.column_by_name("add").unwrap().as_struct();
        let paths = adds.column_by_name("path").unwrap().as_string::<i32>();
        let sizes = adds.column_by_name("size").unwrap().as_primitive::<Int64Type>();
        let is_add = |at: &usize| adds.is_valid(*at) && paths.is_valid(*at);
        files.extend((0..adds.len()).filter(is_add).map(|at| (paths.value(at).to_owned(), sizes.value(at) as u64)));
    }
    files
}
