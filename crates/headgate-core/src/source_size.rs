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
