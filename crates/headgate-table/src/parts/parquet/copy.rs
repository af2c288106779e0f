//! Copies row groups of one Parquet file into another as they are stored. Decoding and encoding them costs fifty times as
//! much, and only small row groups gain by it.

use std::fs::File;

use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::writer::SerializedFileWriter;

use crate::parts::checksum::Checksummed;

pub(super) fn row_groups(file: &File) -> Result<ParquetMetaData, String> {
    let reader = ParquetMetaDataReader::new().with_offset_index_policy(PageIndexPolicy::Optional);
    reader.parse_and_finish(file).map_err(|error| error.to_string())
}

/// Copies all row groups of a part, and returns the number of rows.
pub(super) fn copy(
    file: &File,
    part: &ParquetMetaData,
    writer: &mut SerializedFileWriter<Checksummed>,
) -> Result<u64, ParquetError> {
    let mut rows = 0;
    for (index, group) in part.row_groups().iter().enumerate() {
        let group_rows = u64::try_from(group.num_rows()).unwrap_or_default();
        let pages = part.page_index_for_row_group(index);
        let mut copy = writer.next_row_group()?;
        for (column, metadata) in group.columns().iter().enumerate() {
            let close = ColumnCloseResult {
                bytes_written: u64::try_from(metadata.compressed_size()).unwrap_or_default(),
                rows_written: group_rows,
                metadata: metadata.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: pages.offset_index(column).cloned(),
            };
            copy.append_column(file, close)?;
        }
        copy.close()?;
        rows += group_rows;
    }
    Ok(rows)
}
