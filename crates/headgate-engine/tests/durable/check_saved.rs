//! The invariants of saved bodies, in files and in archives.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::check::saved_paths;
use crate::harness::{Bench, Expected, ROWS, expected};
use crate::power::files_below;

/// Returns the saved bodies among the files in a job's directory.
pub fn is_saved(bench: &Bench, name: &str) -> bool {
    if bench.archives() {
        return is_archive(Path::new(name)) && !name.contains('/');
    }
    bench.saves && name.to_lowercase().starts_with("images/")
}

fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tar")
}

/// Checks that each visible row has its body under its path, and that every visible body is complete.
pub fn check_saved(bench: &Bench, rows: &BTreeMap<u64, Expected>) {
    let (there, listed) = (saved_rows(bench), saved_paths(&bench.out()));
    for row in rows.iter().filter(|(_, result)| !result.failed).map(|(row, _)| row) {
        assert!(listed.contains_key(row), "row {row}");
        assert_eq!(listed.get(row), there.get(row), "row {row}");
    }
}

/// Checks the number of saved bodies.
pub fn check_all_saved(bench: &Bench, count: u64) {
    let there = saved_rows(bench);
    assert_eq!(count, there.len() as u64, "no body without a row");
    let needs_mark = |row: &&u64| bench.archives() || Bench::path(**row).starts_with("Images");
    let marked = files_below(&bench.out().join("_headgate/names")).len();
    assert_eq!(there.keys().filter(needs_mark).count(), marked, "one for each name that is not its own mark");
}

/// Checks that these rows have their bodies in place.
fn saved_rows(bench: &Bench) -> BTreeMap<u64, String> {
    if bench.archives() { in_archives(bench) } else { in_files(bench) }
}

fn body(bench: &Bench, row: u64) -> Vec<u8> {
    expected(row, bench.edition).body.unwrap()
}

/// Checks that each file is complete.
fn in_files(bench: &Bench) -> BTreeMap<u64, String> {
    let out = bench.out();
    let rows: BTreeMap<String, u64> = (0..ROWS).map(|row| (Bench::path(row), row)).collect();
    let files = ["images", "Images"].into_iter().flat_map(|directory| files_below(&out.join(directory)));
    let row_of = |file: PathBuf| {
        let path = file.strip_prefix(&out).unwrap().display().to_string();
        let row = rows[&path];
        assert!(fs::read(&file).unwrap() == body(bench, row), "{path}");
        (row, path)
    };
    files.map(row_of).collect()
}

/// Checks that each archive is complete: it has the body and the description of each of its rows, which are in no other
/// archive.
pub fn in_archives(bench: &Bench) -> BTreeMap<u64, String> {
    let files = fs::read_dir(bench.out()).unwrap().map(|entry| entry.unwrap().path());
    let mut rows = BTreeMap::new();
    for archive in files.filter(|path| is_archive(path)) {
        let name = archive.file_name().unwrap().to_str().unwrap();
        for pair in members(&fs::read(&archive).unwrap()).chunks(2) {
            let [(member, bytes), (describing, description)] = pair else { panic!("{name}: half a row") };
            let described: Value = serde_json::from_slice(description).unwrap();
            let row = described["row"].as_u64().unwrap();
            assert_eq!(&Bench::path(row), member);
            assert_eq!(&member.replace(".txt", ".json"), describing);
            assert!(*bytes == body(bench, row), "{name}/{member}");
            assert_eq!(None, rows.insert(row, format!("{name}/{member}")), "{name}/{member} is there twice");
        }
    }
    rows
}

/// Returns the members of a complete archive: their names and contents.
fn members(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    assert!(archive.len() >= 1024 && archive[archive.len() - 1024..].iter().all(|byte| *byte == 0), "it has no end");
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (entry.path().unwrap().display().to_string(), bytes)
    });
    entries.collect()
}
