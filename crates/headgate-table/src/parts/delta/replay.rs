//! Reads a log as readers of the table do.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};

use arrow_array::Array as _;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::schema;
use crate::parts::parquet::read::ParquetBatches;

/// The maximum length of an action. The longest one has the columns of the table.
const MAX_ACTION_BYTES: u64 = 64 * 1024 * 1024;

/// The state of a table after a checkpoint and the versions that follow it.
#[derive(Debug)]
pub struct TableState {
    /// The maximum number of files.
    max: u64,
    files: BTreeMap<String, u64>,
    is_defined: bool,
}

#[derive(Deserialize)]
struct Action {
    #[serde(default)]
    add: Option<Add>,
    #[serde(default)]
    remove: Option<Remove>,
    #[serde(default, rename = "metaData")]
    metadata: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Add {
    path: String,
    size: u64,
}

#[derive(Deserialize)]
struct Remove {
    path: String,
}

impl TableState {
    /// Returns the state before the first version. A table with more than `max` files is refused.
    pub fn new(max: u64) -> Self {
        Self { max, files: BTreeMap::new(), is_defined: false }
    }

    /// Applies a checkpoint. `None`: it is damaged.
    pub fn apply_checkpoint(&mut self, file: File) -> Option<()> {
        let mut batches = ParquetBatches::new(file, &schema::of_checkpoint()).ok()?;
        batches.project(&["add.path", "add.size", "metaData.schemaString"]);
        while let Some(batch) = batches.next_batch().ok()? {
            self.apply_actions(&batch)?;
        }
        Some(())
    }

    fn apply_actions(&mut self, batch: &RecordBatch) -> Option<()> {
        let column = |action: &str, field: &str| {
            let action = batch.column_by_name(action)?.as_struct_opt()?;
            Some((action.clone(), action.column_by_name(field)?.clone()))
        };
        let (metadata, _) = column("metaData", "schemaString")?;
        self.is_defined |= metadata.null_count() < metadata.len();
        let ((adds, paths), (_, sizes)) = (column("add", "path")?, column("add", "size")?);
        let (paths, sizes) = (paths.as_string_opt::<i32>()?, sizes.as_primitive_opt::<Int64Type>()?);
        for at in (0..adds.len()).filter(|at| adds.is_valid(*at)) {
            self.add(paths.value(at).to_owned(), u64::try_from(sizes.value(at)).ok()?)?;
        }
        Some(())
    }

    /// Applies a version. `None`: it is damaged, or contradicts those before it.
    pub fn apply_version(&mut self, from: impl Read) -> Option<()> {
        let (mut from, mut line, mut is_empty) = (BufReader::new(from), String::new(), true);
        loop {
            line.clear();
            if from.by_ref().take(MAX_ACTION_BYTES).read_line(&mut line).ok()? == 0 {
                return (!is_empty).then_some(());
            }
            is_empty = false;
            let Action { add, remove, metadata } = serde_json::from_str(&line).ok()?;
            self.is_defined |= metadata.is_some();
            if let Some(Add { path, size }) = add {
                self.add(path, size)?;
            }
            if let Some(Remove { path }) = remove {
                self.files.remove(&path)?;
            }
        }
    }

    fn add(&mut self, path: String, bytes: u64) -> Option<()> {
        let is_new = self.files.insert(path, bytes).is_none();
        (is_new && self.files.len() as u64 <= self.max).then_some(())
    }

    /// Returns the files by name, with their lengths. `None`: no version says what the columns of the table are.
    pub fn into_files(self) -> Option<BTreeMap<String, u64>> {
        self.is_defined.then_some(self.files)
    }
}
