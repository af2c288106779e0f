//! How long an input is.

/// What is known of the length of an input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceSize {
    /// Rows in all: known for ranges and Parquet.
    pub rows: Option<u64>,
    /// Bytes of the file as stored (compressed ones, if it is), where there is a file that will be read whole.
    pub bytes: Option<u64>,
    /// How many of these bytes have been read.
    pub bytes_read: u64,
}
