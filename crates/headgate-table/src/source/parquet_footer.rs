//! The footer of a Parquet file, with its metadata.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use headgate_core::error::JobError;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{FooterTail, ParquetMetaData, RowGroupMetaData};

use super::opened::Opened;
use super::thrift::Compact;

const MAGIC: &[u8; 4] = b"PAR1";
/// The first bytes of a file whose footer is encrypted.
const ENCRYPTED_MAGIC: &[u8; 4] = b"PARE";
pub(super) const ENCRYPTED: &str = "encrypted Parquet, which headgate can't decrypt: write it without encryption";
/// `FileMetaData.encryption_algorithm`
const ENCRYPTION_ALGORITHM: i64 = 8;

/// Reads the metadata, and returns it with the file's size in bytes.
///
/// # Errors
/// `Input`: the file is not a Parquet file, is encrypted, or is incomplete.
pub(super) fn read(name: &str, opened: &Opened) -> Result<(ArrowReaderMetadata, u64), JobError> {
    let error = |reason: String| JobError::input(format!("{name}: {reason}"));
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

/// Returns why the file can't be read.
pub(super) fn damaged(file: &File, bytes: u64, cause: &ParquetError) -> String {
    if has_encryption(file, bytes) { ENCRYPTED.into() } else { format!("not a complete Parquet file: {cause}") }
}

/// Returns whether the footer of a file of this size states an encryption; `false` if the footer can't be read.
///
/// A file whose footer is not encrypted looks like any other. A field that our reader ignores states how its columns are
/// encrypted (parquet.thrift, `FileMetaData`). So the footer's outermost fields are read once more, only if the file can't
/// be read.
pub(super) fn has_encryption(file: &File, bytes: u64) -> bool {
    let footer = || -> io::Result<Vec<u8>> {
        let end = bytes.checked_sub(FOOTER_SIZE as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut tail = [0; FOOTER_SIZE];
        file.read_exact_at(&mut tail, end)?;
        let length = FooterTail::try_new(&tail).map_err(io::Error::other)?.metadata_length();
        let start = end.checked_sub(length as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut footer = vec![0; length];
        file.read_exact_at(&mut footer, start)?;
        Ok(footer)
    };
    footer().is_ok_and(|footer| {
        let mut is_found = false;
        let read = Compact::new(&footer[..], u64::MAX).structure(0, &mut |_, field| {
            is_found |= field.id == ENCRYPTION_ALGORITHM;
            Ok(false)
        });
        read.is_ok() && is_found
    })
}

/// Returns whether all column chunks lie within a file of this size: the reader panics where an offset is negative.
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

/// Returns the last bytes, or `None` if the file is shorter.
fn read_magic(file: &File) -> io::Result<Option<[u8; MAGIC.len()]>> {
    let mut magic = [0; MAGIC.len()];
    match file.read_exact_at(&mut magic, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(|()| Some(magic)),
    }
}
