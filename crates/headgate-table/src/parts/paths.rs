//! The paths of the saved bodies of a part's rows. Only this column of the part is read.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use headgate_core::files::storage::Storage;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Deserialize;

use super::checksum::BUFFER_BYTES;
use super::read::is_parquet;

const COLUMN: &str = "path";

#[derive(Deserialize)]
struct PathLine<'a> {
    #[serde(borrow)]
    path: Option<Cow<'a, str>>,
}

/// Calls `each` with the paths of a part, one after another.
///
/// # Errors
/// The part can't be read, or `each` fails.
pub fn saved_paths(storage: &dyn Storage, part: &Path, mut each: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    let file = storage.read(part)?;
    if !is_parquet(part) {
        return paths_of_lines(file, each);
    }
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(io::Error::other)?;
    let only = ProjectionMask::columns(builder.parquet_schema(), [COLUMN]);
    for batch in builder.with_projection(only).build().map_err(io::Error::other)? {
        let batch = batch.map_err(io::Error::other)?;
        let Some(paths) = batch.column_by_name(COLUMN).and_then(|column| column.as_string_opt::<i32>()) else {
            continue;
        };
        (0..paths.len()).filter(|at| paths.is_valid(*at)).try_for_each(|at| each(paths.value(at)))?;
    }
    Ok(())
}

fn paths_of_lines(file: File, mut each: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        if let Some(path) = serde_json::from_slice::<PathLine<'_>>(&line).map_err(io::Error::other)?.path {
            each(&path)?;
        }
        line.clear();
    }
    Ok(())
}
