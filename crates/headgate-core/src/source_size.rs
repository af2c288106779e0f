//! The length of an input.

/// The length of an input, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceSize {
    /// The number of rows: known for ranges and Parquet.
    pub rows: Option<u64>,
    /// The size of the file as it is stored, if there is a file that will be read to its end.
    pub bytes: Option<u64>,
    /// The number of these bytes that have been read.
    pub bytes_read: u64,
}

impl SourceSize {
    /// Returns the size of the first `max_rows` rows. Their bytes are unknown, and those of the whole file would mislead.
    #[must_use]
    pub fn of_first(self, max_rows: Option<u64>) -> Self {
        let Some(max_rows) = max_rows.filter(|max_rows| self.rows.is_none_or(|rows| rows > *max_rows)) else {
            return self;
        };
        Self { rows: self.rows.map(|_| max_rows), bytes: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rows_are_not_of_the_size_of_the_file() {
        let of = |rows, bytes| SourceSize { rows, bytes, bytes_read: 1 };
        for (expected, whole, max_rows) in [
            (of(Some(3), Some(9)), of(Some(3), Some(9)), None),
            (of(Some(3), Some(9)), of(Some(3), Some(9)), Some(3)),
            (of(Some(2), None), of(Some(3), Some(9)), Some(2)),
            (of(None, None), of(None, Some(9)), Some(2)),
        ] {
            assert_eq!(expected, whole.of_first(max_rows), "{max_rows:?}");
        }
    }
}
