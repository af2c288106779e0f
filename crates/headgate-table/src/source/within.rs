//! Finds out whether results would be read as input when the job is resumed, because they lie where the input is looked
//! for.

use std::fs;
use std::path::{Path, PathBuf};

use glob::Pattern;
use headgate_core::options::SourceOptions;

use super::listed::{MATCHING, absolute, is_hidden, is_path, is_pattern};

/// Names of results, for patterns.
const RESULTS: [&str; 2] = ["part-0.parquet", "part-0.ndjson"];

/// Returns the first input that includes the contents of this directory.
pub fn first_that_holds<'a>(options: &'a SourceOptions, results: &Path) -> Option<&'a str> {
    let results = real(results);
    options.inputs().filter(|input| is_path(input)).find(|input| holds(input, &results))
}

fn holds(input: &str, results: &Path) -> bool {
    let path = Path::new(input);
    if path.is_dir() {
        let below = results.strip_prefix(real(path));
        return below.is_ok_and(|below| !below.components().any(|part| is_hidden(&part.as_os_str().to_string_lossy())));
    }
    let pattern = absolute(input).filter(|_| is_pattern(input) && !path.exists());
    let Some(pattern) = pattern.and_then(|pattern| Pattern::new(pattern.to_str()?).ok()) else { return false };
    let files = RESULTS.iter().map(|name| results.join(name));
    // All files of a directory that matches are read.
    let directories = results.ancestors().map(Path::to_owned);
    files.chain(directories).any(|path| pattern.matches_path_with(&path, MATCHING))
}

/// Resolves links, also if the end of the path does not exist yet.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match found {
        Some((above, real)) => real.join(path.strip_prefix(above).unwrap_or(Path::new(""))),
        None => path,
    }
}
