//! A first look at results, for a person: a few rows, every value as short text.

mod ndjson;
mod parquet;
mod text;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::JobError;
use crate::job::OWN_DIRECTORY;
use crate::sink::{PartName, cause};

/// The first rows of a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preview {
    pub columns: Vec<String>,
    /// One value for each column; `None` is null.
    pub rows: Vec<Vec<Option<String>>>,
    /// Rows in all, where the files say so: Parquet does, NDJSON does not.
    pub total_rows: Option<u64>,
}

/// Reads the first `rows` rows of an output directory (answered ones first), or of one file of results. Memory is
/// bounded by `rows` short texts and one batch of a file.
///
/// # Errors
/// `Input`: there is nothing of that name, nothing of results in it, or what is there cannot be read.
pub fn preview(path: &Path, rows: usize) -> Result<Preview, JobError> {
    let mut preview = Preview { total_rows: Some(0), ..Preview::default() };
    for file in files(path)? {
        let wanted = rows - preview.rows.len();
        let opened = File::open(&file).map_err(|error| unreadable(&file, &cause(&error)))?;
        if extension(&file) == Some("parquet") {
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
    let width = preview.columns.len();
    preview.rows.iter_mut().for_each(|row| row.resize(width, None));
    Ok(preview)
}

impl Preview {
    /// Where values of that name go. Files of one result agree in their columns; lines may leave some out.
    fn column(&mut self, name: &str) -> usize {
        self.columns.iter().position(|known| known == name).unwrap_or_else(|| {
            self.columns.push(name.to_owned());
            self.columns.len() - 1
        })
    }

    /// Sets a value of the last row.
    fn set(&mut self, column: usize, value: Option<String>) {
        if let Some(row) = self.rows.last_mut() {
            if row.len() <= column {
                row.resize(column + 1, None);
            }
            row[column] = value;
        }
    }
}

/// The files to read, in order.
fn files(path: &Path) -> Result<Vec<PathBuf>, JobError> {
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => JobError::input(format!("{shown}: no such file or directory")),
        _ => unreadable(path, &cause(&error)),
    })?;
    if !metadata.is_dir() {
        return match extension(path) {
            Some("parquet" | "ndjson" | "jsonl") => Ok(vec![path.to_owned()]),
            _ => Err(JobError::input(format!(
                "{shown}: not a file of results: name an output directory, or a .parquet or .ndjson file"
            ))),
        };
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| unreadable(path, &cause(&error)))? {
        let entry = entry.map_err(|error| unreadable(path, &cause(&error)))?;
        names.extend(entry.file_name().to_str().and_then(PartName::parse));
    }
    if names.is_empty() {
        return Err(JobError::input(if path.join(OWN_DIRECTORY).is_dir() {
            format!("{shown} holds no results yet: the first appear with the first commit (--commit-every-s)")
        } else {
            format!("{shown} holds no results: it is not an output directory of headgate")
        }));
    }
    names.sort_unstable();
    Ok(names.iter().map(|name| path.join(name.to_string())).collect())
}

fn extension(path: &Path) -> Option<&str> {
    path.extension().and_then(|extension| extension.to_str())
}

fn unreadable(path: &Path, cause: &str) -> JobError {
    JobError::input(format!("cannot read {}: {cause}", path.display()))
}
