//! Finds the files of a result, and reads their first rows.

use std::fs;
use std::io;
use std::path::Path;

use headgate_core::error::{JobError, cause};
use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::open_regular;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_table::parts::name::{PartKind, PartName};
use headgate_table::parts::read::{PartFile, is_parquet};

use super::table::Preview;
use super::{ndjson, parquet};
use crate::job::status::{self, Parts};

/// Returns the first `rows` rows of an output directory (succeeded rows first, or only failed ones), or of one file of results.
/// Memory is bounded by `rows` short texts and one batch of a file. Only committed rows of a job are shown.
///
/// # Errors
/// `Input`: the path does not exist, has no results, or can't be read. `Output`: the results of a job are not those that were
/// committed.
pub fn preview(path: &Path, rows: usize, only_failed: bool) -> Result<Preview, JobError> {
    let FoundFiles { files, total_rows } = files(path, only_failed)?;
    let mut preview = Preview { total_rows: Some(0), ..Preview::default() };
    for part in files {
        let wanted = rows - preview.rows.len();
        let is_enough = wanted == 0 && !preview.columns.is_empty();
        if is_enough && total_rows.is_some() {
            break;
        }
        let opened = match part.committed {
            Some(_) => part.open()?,
            None => open_regular(&part.path).map_err(|error| unreadable(&part.path, &cause(&error)))?,
        };
        let file = part.path;
        if is_parquet(&file) {
            let total = parquet::read(opened, wanted, &mut preview).map_err(|error| unreadable(&file, &error))?;
            preview.total_rows = preview.total_rows.map(|before| before + total);
        } else {
            preview.total_rows = None;
            if wanted == 0 {
                break;
            }
            ndjson::read(opened, wanted, &mut preview).map_err(|error| unreadable(&file, &error))?;
        }
    }
    preview.total_rows = total_rows.or(preview.total_rows);
    let width = preview.columns.len();
    preview.rows.iter_mut().for_each(|row| row.resize(width, None));
    Ok(preview)
}

/// The files to read, in order.
struct FoundFiles {
    files: Vec<PartFile>,
    /// The number of rows, if it is known without reading the files.
    total_rows: Option<u64>,
}

fn files(path: &Path, only_failed: bool) -> Result<FoundFiles, JobError> {
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => JobError::input(format!("{shown}: no such file or directory")),
        _ => unreadable(path, &cause(&error)),
    })?;
    if !metadata.is_dir() {
        let is_failed =
            || path.file_name().and_then(|name| Some(PartName::parse(name.to_str()?)?.kind == PartKind::Failed));
        return match extension(path) {
            _ if only_failed && is_failed() != Some(true) => {
                Err(JobError::input(format!("{shown}: not a file of failed rows: name the directory that it is in")))
            }
            Some("parquet" | "ndjson" | "jsonl") => Ok(FoundFiles { files: vec![of_a_job(path)?], total_rows: None }),
            _ => Err(JobError::input(format!(
                "{shown}: not a file of results: name an output directory, or a .parquet or .ndjson file"
            ))),
        };
    }
    let nothing_yet = || {
        JobError::input(message!(
            "{shown} contains no results yet: the first appear with the first commit (",
            OptionName::CommitInterval,
            ")"
        ))
    };
    if path.join(OWN_DIRECTORY).join("job.json").exists() {
        let Parts { files, rows, .. } = status::checked_parts(path, only_failed)?;
        return if files.is_empty() && !only_failed {
            Err(nothing_yet())
        } else {
            Ok(FoundFiles { files, total_rows: Some(rows) })
        };
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| unreadable(path, &cause(&error)))? {
        let entry = entry.map_err(|error| unreadable(path, &cause(&error)))?;
        names.extend(entry.file_name().to_str().and_then(PartName::parse));
    }
    if names.is_empty() {
        let holds_none =
            || JobError::input(format!("{shown} contains no results: it is not an output directory of headgate"));
        return Err(if path.join(OWN_DIRECTORY).is_dir() { nothing_yet() } else { holds_none() });
    }
    names.retain(|name| !only_failed || name.kind == PartKind::Failed);
    names.sort_unstable();
    let files = names.iter().map(|name| path.join(name.to_string()).into()).collect();
    Ok(FoundFiles { files, total_rows: None })
}

/// Returns the part at this path, with its committed checksum if it belongs to a job.
fn of_a_job(path: &Path) -> Result<PartFile, JobError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_part = path.file_name().and_then(|name| PartName::parse(name.to_str()?)).is_some();
    if is_part && parent.join(OWN_DIRECTORY).join("job.json").exists() {
        let is_it = |part: &PartFile| part.path.file_name() == path.file_name();
        if let Some(part) = status::parts(parent)?.files.into_iter().find(is_it) {
            return Ok(part);
        }
    }
    Ok(path.to_owned().into())
}

fn extension(path: &Path) -> Option<&str> {
    path.extension().and_then(|extension| extension.to_str())
}

fn unreadable(path: &Path, cause: &str) -> JobError {
    JobError::input(format!("can't read {}: {cause}", path.display()))
}
