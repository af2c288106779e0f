//! Row groups of one Parquet file into another as they are stored. To decode and encode them anew costs fifty times as much,
//! and only small ones gain by it.

use std::fs::File;

use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::writer::SerializedFileWriter;

use super::checksum::Checksummed;
use super::parquet::MAX_GROUP_ROWS;

/// With this share of the rows of a full one, a row group is worth keeping; so it is with so many bytes.
const LARGE_SHARE: i64 = 4;
const LARGE_BYTES: i64 = 4 * 1024 * 1024;

pub(super) fn row_groups(file: &File) -> Result<ParquetMetaData, String> {
    let reader = ParquetMetaDataReader::new().with_offset_index_policy(PageIndexPolicy::Optional);
    reader.parse_and_finish(file).map_err(|error| error.to_string())
}

/// Whether its row groups are, taken together, such that readers like them as they are.
pub(super) fn are_large(part: &ParquetMetaData) -> bool {
    let groups = part.row_groups();
    let sum = |of: fn(&RowGroupMetaData) -> i64| groups.iter().map(of).sum::<i64>();
    let count = groups.len() as i64;
    count > 0
        && (sum(RowGroupMetaData::num_rows) >= count * (MAX_GROUP_ROWS as i64 / LARGE_SHARE)
            || sum(RowGroupMetaData::compressed_size) >= count * LARGE_BYTES)
}

/// The answer is how many rows there are.
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
