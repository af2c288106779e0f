//! The rows of a preview, as short text.

/// The first rows of a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preview {
    pub columns: Vec<String>,
    /// One value for each column; `None` is null.
    pub rows: Vec<Vec<Option<String>>>,
    /// The number of rows in the result, if the files store it: Parquet does, NDJSON does not.
    pub total_rows: Option<u64>,
}

impl Preview {
    /// Returns the index of the column with this name, and adds the column if it is new. All files of a result have the same
    /// columns, but lines may omit some.
    pub(super) fn column(&mut self, name: &str) -> usize {
        self.columns.iter().position(|known| known == name).unwrap_or_else(|| {
            self.columns.push(name.to_owned());
            self.columns.len() - 1
        })
    }

    /// Sets a value of the last row.
    pub(super) fn set(&mut self, column: usize, value: Option<String>) {
        if let Some(row) = self.rows.last_mut() {
            if row.len() <= column {
                row.resize(column + 1, None);
            }
            row[column] = value;
        }
    }
}
