//! Refuses output names that do not look like the name of a directory.

use std::path::Path;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_table::source::scheme_of;

/// The extensions of result files, which one of [`COMPRESSED`] may follow.
const RESULT_EXTENSIONS: [&str; 5] = ["parquet", "ndjson", "jsonl", "json", "csv"];
const COMPRESSED: [&str; 2] = ["gz", "zst"];

/// Checks the name of a new directory.
///
/// # Errors
/// `Usage`: the name is a URL, or has the extension of a file.
pub(super) fn check_new(root: &Path) -> Result<(), JobError> {
    // As the user typed it: `Path` ignores a slash at the end.
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

/// Returns the name of a result file without its extensions. `None`: it has none of these, or nothing before them.
fn without_extension(name: &str) -> Option<&str> {
    let uncompressed = COMPRESSED.iter().find_map(|extension| strip(name, extension)).unwrap_or(name);
    let stem = RESULT_EXTENSIONS.iter().find_map(|extension| strip(uncompressed, extension))?;
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
    fn a_name_that_is_not_that_of_a_directory_is_refused_with_advice() {
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
    fn any_other_name_is_accepted() {
        for name in ["out", "out.d", "results-1.5", "out.parquet/", "parquet", ".json", "a/.csv", "./s3://x", "out.gz"]
        {
            assert_eq!(Ok(()), check_new(Path::new(name)), "{name}");
        }
    }
}
