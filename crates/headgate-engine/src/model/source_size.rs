//! The length of an input.

/// The length of an input, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceSize {
    /// Rows in all: known for ranges and Parquet.
    pub rows: Option<u64>,
    /// Bytes of the file as stored (compressed ones, if it is), where there is a file that will be read whole.
    pub bytes: Option<u64>,
    /// The number of these bytes that have been read.
    pub bytes_read: u64,
}
