//! Where results can't go: names that look as if they meant something else than a directory.

use std::path::Path;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_table::source::scheme_of;

/// What the name of one file of results ends with, perhaps followed by one of [`COMPRESSED`].
const OF_A_FILE: [&str; 5] = ["parquet", "ndjson", "jsonl", "json", "csv"];
const COMPRESSED: [&str; 2] = ["gz", "zst"];

/// Refuses a name for a new directory that was hardly meant for one.
///
/// # Errors
/// `Usage`: it is a URL, or has the extension of a file.
pub(super) fn check_new(root: &Path) -> Result<(), JobError> {
    // As it was typed: a path has no slash at its end.
    let shown = root.as_os_str().to_string_lossy();
    if let Some(scheme) = scheme_of(&shown) {
        return Err(JobError::usage(message!(
            OptionName::Output.set(&*shown),
            ": results are written to a local directory, not to {scheme}://: name one, and upload it when the job has finished"
        )));
    }
    match without_extension(&shown) {
        Some(directory) => Err(JobError::usage(message!(
            OptionName::Output.set(&*shown),
            ": results are a directory of files, and this is the name of a file: use ",
            OptionName::Output.set(directory)
        ))),
        None => Ok(()),
    }
}

/// What is left of the name of a file; `None`: it is not one, or has nothing before its extension.
fn without_extension(name: &str) -> Option<&str> {
    let uncompressed = COMPRESSED.iter().find_map(|extension| strip(name, extension)).unwrap_or(name);
    let stem = OF_A_FILE.iter().find_map(|extension| strip(uncompressed, extension))?;
    (!stem.is_empty() && !stem.ends_with('/')).then_some(stem)
}

fn strip<'a>(name: &'a str, extension: &str) -> Option<&'a str> {
    let (stem, last) = name.rsplit_once('.')?;
    last.eq_ignore_ascii_case(extension).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_directorys_is_refused_with_what_to_do() {
        let local = |scheme: &str| {
            format!(
                ": results are written to a local directory, not to {scheme}://: name one, and upload it when the job has finished"
            )
        };
        let file = |directory: &str| {
            format!(": results are a directory of files, and this is the name of a file: use output={directory}")
        };
        for (name, expected) in [
            ("s3://bucket/x", local("s3")),
            ("gs://bucket/out.parquet", local("gs")),
            ("file:///tmp/x", local("file")),
            ("out.parquet", file("out")),
            ("a/b.c/out.v2.NDJSON", file("a/b.c/out.v2")),
            ("out.json.gz", file("out")),
        ] {
            let error = check_new(Path::new(name)).expect_err(name);
            assert_eq!(format!("output={name}{expected}"), error.to_string());
        }
    }

    #[test]
    fn any_other_name_is_a_directorys() {
        for name in ["out", "out.d", "results-1.5", "out.parquet/", "parquet", ".json", "a/.csv", "./s3://x", "out.gz"]
        {
            assert_eq!(Ok(()), check_new(Path::new(name)), "{name}");
        }
    }
}
