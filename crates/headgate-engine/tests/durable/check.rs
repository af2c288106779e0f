//! The invariants of a job's directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int16Type, Int64Type};
use arrow_array::{Array as _, RecordBatch};
use arrow_schema::SchemaRef;
use headgate_engine::status::{parts, status};
use headgate_engine::testing::DoneRows;
use headgate_table::columns::result::ResultColumns;
use headgate_table::parts::read::PartRows;
use serde_json::Value;

use crate::check_delta::{check_delta, check_delta_is_current};
use crate::check_saved::{check_all_saved, check_saved, is_saved};
use crate::harness::{Bench, Expected, ROWS, Run};
use crate::power::files_below;
use crate::storage::Recorder;

/// Returns the rows in a directory as a reader without knowledge of commits sees them: each at least once, and more than once
/// those in files that the newest commit replaces or keeps. Of these, the current ones are returned.
pub fn rows(out: &Path) -> BTreeMap<u64, Expected> {
    check_delta(out);
    let replaced = replaced_by_newest(out);
    let (old, current): (BTreeSet<_>, _) = files_in(out).into_iter().partition(|path| replaced.contains(name_of(path)));
    let mut rows: BTreeMap<_, _> = old.into_iter().flat_map(|path| rows_in(&BTreeSet::from([path]))).collect();
    rows.extend(rows_in(&current));
    rows
}

/// Returns the parts that the newest commit removes, and those that it keeps.
fn replaced_by_newest(out: &Path) -> BTreeSet<String> {
    let commits = files_below(&out.join("_headgate/log"));
    let newest = commits.iter().max().and_then(|path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).ok());
    let Some(Value::Object(newest)) = newest.map(|newest| newest["record"].clone()) else { return BTreeSet::new() };
    let names = |list: &str| newest.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let kept = names("replaced").into_iter().map(|file| file["name"].clone());
    names("removes").into_iter().chain(kept).map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn files_in(out: &Path) -> BTreeSet<PathBuf> {
    let files = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.filter(|path| is_part(name_of(path))).collect()
}

/// Returns the paths of saved bodies that the rows state.
pub fn saved_paths(out: &Path) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    each_batch(&files_in(out), |batch, _| {
        let (rows, paths) = (batch.column_by_name("row").unwrap(), batch.column_by_name("path").unwrap());
        let (rows, paths) = (rows.as_primitive::<Int64Type>(), paths.as_string::<i32>());
        let saved = (0..batch.num_rows()).filter(|at| paths.is_valid(*at));
        found.extend(saved.map(|at| (rows.value(at) as u64, paths.value(at).to_owned())));
    });
    found
}

/// Returns the rows in these parts, each at most once.
fn rows_in(paths: &BTreeSet<PathBuf>) -> BTreeMap<u64, Expected> {
    let mut found = BTreeMap::new();
    each_batch(paths, |batch, failed| {
        for (row, result) in rows_of(batch, failed) {
            assert_eq!(None, found.insert(row, result), "row {row} is present twice");
        }
    });
    found
}

/// Calls `each` for each batch, with whether its rows failed.
fn each_batch(paths: &BTreeSet<PathBuf>, mut each: impl FnMut(&RecordBatch, bool)) {
    for path in paths {
        let columns = columns_of(path.parent().unwrap());
        let failed = name_of(path).starts_with("failed-");
        for batch in PartRows::new(vec![path.clone().into()], columns) {
            each(&batch.unwrap(), failed);
        }
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn is_part(name: &str) -> bool {
    (name.starts_with("part-") || name.starts_with("failed-")) && !name.contains('/')
}

/// Returns the columns of the job in this directory, or of the job whose `tmp` is this directory.
fn columns_of(directory: &Path) -> SchemaRef {
    let manifests = ["_headgate/job.json", "../job.json"].map(|name| fs::read_to_string(directory.join(name)));
    let saved = manifests.into_iter().flatten().any(|manifest| manifest.contains(r#""save_to":""#));
    ResultColumns { saved, ..ResultColumns::default() }.schema()
}

fn rows_of(batch: &RecordBatch, failed: bool) -> Vec<(u64, Expected)> {
    let column = |name| batch.column_by_name(name).unwrap();
    let row = column("row").as_primitive::<Int64Type>();
    let status = column("status").as_primitive::<Int16Type>();
    let attempts = column("attempts").as_primitive::<Int16Type>();
    let (error, body) = (column("error").as_string::<i32>(), column("body").as_binary::<i32>());
    let one = |at: usize| Expected {
        failed,
        status: status.is_valid(at).then(|| status.value(at)),
        error: error.is_valid(at).then(|| error.value(at).to_owned()),
        body: body.is_valid(at).then(|| body.value(at).to_vec()),
        attempts: attempts.value(at),
    };
    (0..batch.num_rows()).map(|at| (row.value(at) as u64, one(at))).collect()
}

/// Checks what always holds: rows are present at most once and with their outcomes, files are complete, and none is foreign.
pub fn check_readable(bench: &Bench) -> BTreeMap<u64, Expected> {
    let out = bench.out();
    let shown = |path: &Path| path.strip_prefix(&out).unwrap().display().to_string();
    let names: Vec<String> = files_below(&out).iter().map(|path| shown(path)).collect();
    for name in &names {
        let own = name.strip_prefix("_headgate/");
        let is_ours = own.is_some_and(|own| {
            let directories = ["log/", "tmp/", "names/"];
            ["job.json", "lock"].contains(&own)
                || ["heartbeat.json", "series.ndjson"].contains(&own.trim_end_matches(".new"))
                || directories.iter().any(|directory| own.starts_with(directory))
        });
        let is_delta = name.starts_with("_delta_log/");
        assert!(is_part(name) || is_ours || is_delta || is_saved(bench, name), "{names:?}");
    }
    if !names.iter().any(|name| name == "_headgate/job.json") {
        assert!(!names.iter().any(|name| is_part(name)), "{names:?}");
        return BTreeMap::new();
    }
    let files = files_in(&out);
    let rows = rows(&out);
    for (row, result) in &rows {
        assert_eq!(&bench.expected(*row), result, "row {row}");
    }
    if bench.saves {
        check_saved(bench, &rows);
    }
    // The status of the job counts all done rows, even if the last steps of a commit are missing.
    let status = match status(&out) {
        Err(error) if error.to_string().contains("was being started over") => return rows,
        status => status.unwrap(),
    };
    // A finished job also looks finished to a reader without knowledge of commits.
    assert!(!status.finished || rows.len() as u64 == ROWS, "{status:?}: {rows:?}");
    assert!(!status.finished || status.parts_to_place == 0, "{status:?}");
    let parts = match parts(&out) {
        Err(error) if error.to_string().contains("is starting a job") => return rows,
        parts => parts.unwrap(),
    };
    let of_job: BTreeSet<PathBuf> = parts.files.into_iter().map(|file| file.path).collect();
    if of_job == files {
        assert_eq!(status.done, rows.len() as u64);
    } else {
        let of_job = rows_in(&of_job);
        assert_eq!(status.done, of_job.len() as u64);
        assert!(of_job.iter().all(|(row, result)| *result == bench.expected(*row)));
    }
    rows
}

/// Checks that committed rows are lost neither to a resumed run nor to a reader, and that the job resumes and finishes.
pub fn check_resumes(bench: &Bench, run: &Run) {
    let seen = check_readable(bench);
    let job = bench.open(&Recorder::new()).unwrap();
    check_kept(bench, &run.committed, job.done_rows());
    let uncommitted = seen.keys().find(|row| !job.done_rows().is_done(**row));
    assert_eq!(None, uncommitted, "it was seen before it was committed");
    drop(job);
    bench.run(&Recorder::new()).result.unwrap();
    check_finished(bench);
}

/// Checks that the done rows are the visible ones, and include the committed ones.
pub fn check_kept(bench: &Bench, committed: &DoneRows, done: &DoneRows) {
    let rows = check_readable(bench);
    for row in 0..ROWS {
        assert!(done.is_done(row) || !committed.is_done(row), "row {row} was committed and would be requested again");
        assert_eq!(done.is_done(row), rows.contains_key(&row), "row {row}");
    }
}

/// Checks that every row is present once, the figures are right, and no file is left over.
pub fn check_finished(bench: &Bench) {
    let rows = check_readable(bench);
    assert_eq!((0..ROWS).collect::<Vec<_>>(), rows.keys().copied().collect::<Vec<_>>());
    let status = status(&bench.out()).unwrap();
    assert!(status.finished && !status.process.running && status.resumable, "{status:?}");
    assert_eq!((ROWS, ROWS, Some(ROWS)), (status.done, status.watermark, status.rows));
    let of_each = ROWS / 5;
    assert_eq!((3 * of_each, 2 * of_each), (status.succeeded, status.failed));
    assert_eq!(BTreeMap::from([("connect".into(), of_each), ("status:503".into(), of_each)]), status.errors);
    check_figures(&bench.out());
    if bench.saves {
        check_all_saved(bench, 3 * of_each);
    }
    // Parts of each kind were merged, unless they are full.
    assert!(status.parts == 2 || bench.archives(), "{status:?}");
}

/// Checks that the counted parts and bytes are the existing ones, and that no file is left over.
pub fn check_figures(out: &Path) {
    let parts = parts(out).unwrap().files;
    let bytes: u64 = parts.iter().map(|file| fs::metadata(&file.path).unwrap().len()).sum();
    let status = status(out).unwrap();
    assert_eq!((status.parts, status.bytes), (parts.len() as u64, bytes));
    assert_eq!(0, files_below(&out.join("_headgate/tmp")).len());
    assert_eq!(parts.iter().map(|file| file.path.clone()).collect::<BTreeSet<_>>(), files_in(out));
    if parts[0].path.extension().is_some_and(|extension| extension == "parquet") {
        check_delta_is_current(out);
    }
}
