//! The end of a Parquet file, where it says what it holds.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::encrypted::{ENCRYPTED, ENCRYPTED_MAGIC, has_encryption};
use super::opened::Opened;
use crate::model::error::JobError;

const MAGIC: &[u8; 4] = b"PAR1";

/// What it holds, as it says itself, and how many bytes it has.
///
/// # Errors
/// `Input`: it is no Parquet file, is encrypted, or is not whole.
pub(super) fn read(name: &str, opened: &Opened) -> Result<(ArrowReaderMetadata, u64), JobError> {
    let error = |trouble: String| JobError::input(format!("{name}: {trouble}"));
    let file = opened.file();
    let cannot_be_opened = |cause| error(format!("can't be opened: {cause}"));
    let bytes = opened.bytes().map_or_else(|| Ok(file.metadata()?.len()), Ok).map_err(cannot_be_opened)?;
    match read_magic(file).map_err(cannot_be_opened)? {
        Some(magic) if magic == *MAGIC => {}
        Some(magic) if magic == *ENCRYPTED_MAGIC => return Err(error(ENCRYPTED.into())),
        _ => return Err(error("not a Parquet file: it does not begin with PAR1".into())),
    }
    let loaded = ArrowReaderMetadata::load(file, ArrowReaderOptions::new());
    let as_stored = loaded.map_err(|cause| error(damaged(file, bytes, &cause)))?;
    if !lies_within(as_stored.metadata(), bytes) {
        return Err(error("damaged: its footer describes columns outside the file; get an intact copy".into()));
    }
    Ok((as_stored, bytes))
}

/// Why it can't be read.
pub(super) fn damaged(file: &File, bytes: u64, cause: &ParquetError) -> String {
    if has_encryption(file, bytes) { ENCRYPTED.into() } else { format!("not a complete Parquet file: {cause}") }
}

/// Whether all column chunks lie within a file of so many bytes: the reader panics where a place is negative.
fn lies_within(metadata: &ParquetMetaData, file_bytes: u64) -> bool {
    let mut columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    columns.all(|column| {
        let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        match (u64::try_from(start), u64::try_from(column.compressed_size())) {
            (Ok(start), Ok(length)) => start.checked_add(length).is_some_and(|end| end <= file_bytes),
            _ => false,
        }
    })
}

/// `None`: the file is shorter.
fn read_magic(file: &File) -> io::Result<Option<[u8; MAGIC.len()]>> {
    let mut magic = [0; MAGIC.len()];
    match file.read_exact_at(&mut magic, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(|()| Some(magic)),
    }
}
