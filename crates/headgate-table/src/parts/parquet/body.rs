//! Encodes the column of bodies, in place of the parquet crate.
//!
//! The parquet crate holds four copies of a value while it writes it: in the array, in the page, in the page with its levels,
//! and compressed. A body may be as large as all other memory. So this module copies a body once, into the open page. It does
//! not copy a large body: that is a page of its own, compressed from the array. The format is the one that the crate writes:
//! data pages of version 1, plain values, zstd (parquet.thrift; the levels as in Encodings.md, "RLE = 3").

use std::io::{self, Write as _};
use std::mem;

use arrow_array::{Array as _, BinaryArray};
use parquet::basic::{Compression, Encoding, EncodingMask, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder};
use parquet::schema::types::ColumnDescPtr;
use zstd::stream::write::Encoder;

use super::pages::PartPage;

/// Bytes and rows after which a page ends, as in the parquet crate.
const PAGE_BYTES: usize = 1024 * 1024;
const PAGE_ROWS: usize = 20_000;

/// A nullable column of bytes.
pub(super) struct BodyColumn {
    column: ColumnDescPtr,
    zstd: ZstdLevel,
    /// The values of the open page, each after its length.
    values: Vec<u8>,
    levels: Levels,
    pages: Vec<PartPage>,
    index: OffsetIndexBuilder,
    rows: usize,
    bytes: usize,
    plain_bytes: usize,
}

/// The definition levels of a page, as runs: whether each row has a value.
#[derive(Default)]
struct Levels {
    bytes: Vec<u8>,
    present: bool,
    /// The length of the current run.
    run: usize,
    rows: usize,
}

impl BodyColumn {
    pub(super) fn new(column: ColumnDescPtr, zstd: ZstdLevel) -> Self {
        Self {
            column,
            zstd,
            values: Vec::new(),
            levels: Levels::default(),
            pages: Vec::new(),
            index: OffsetIndexBuilder::new(),
            rows: 0,
            bytes: 0,
            plain_bytes: 0,
        }
    }

    pub(super) fn write(&mut self, bodies: &BinaryArray) -> Result<()> {
        for row in 0..bodies.len() {
            let body = bodies.is_valid(row).then(|| bodies.value(row));
            let length = body.map(|body| (body.len() as u32).to_le_bytes()).unwrap_or_default();
            match body {
                Some(body) if body.len() >= PAGE_BYTES => {
                    self.end_page()?;
                    self.levels.push(true);
                    self.add_page(&[&length, body])?;
                    continue;
                }
                Some(body) => {
                    self.values.extend_from_slice(&length);
                    self.values.extend_from_slice(body);
                }
                None => {}
            }
            self.levels.push(body.is_some());
            if self.values.len() >= PAGE_BYTES || self.levels.rows >= PAGE_ROWS {
                self.end_page()?;
            }
        }
        Ok(())
    }

    /// Returns the approximate number of bytes in the file.
    pub(super) fn encoded_bytes(&self) -> usize {
        self.bytes + self.values.len()
    }

    pub(super) fn close(mut self) -> Result<(Vec<PartPage>, ColumnCloseResult)> {
        self.end_page()?;
        let metadata = ColumnChunkMetaData::builder(self.column)
            .set_compression(Compression::ZSTD(self.zstd))
            .set_encodings_mask(EncodingMask::new_from_encodings([Encoding::PLAIN, Encoding::RLE].iter()))
            .set_num_values(self.rows as i64)
            .set_total_compressed_size(self.bytes as i64)
            .set_total_uncompressed_size(self.plain_bytes as i64)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: self.bytes as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: Some(self.index.build()),
        };
        Ok((self.pages, close))
    }

    fn end_page(&mut self) -> Result<()> {
        if self.levels.rows == 0 {
            return Ok(());
        }
        let mut values = mem::take(&mut self.values);
        self.add_page(&[&values])?;
        values.clear();
        self.values = values;
        Ok(())
    }

    /// Adds a page of these values.
    fn add_page(&mut self, values: &[&[u8]]) -> Result<()> {
        let Levels { bytes: levels, rows, .. } = mem::take(&mut self.levels).ended();
        let length = (levels.len() as u32).to_le_bytes();
        let parts = || [&length[..], &levels].into_iter().chain(values.iter().copied());
        let plain: usize = parts().map(<[u8]>::len).sum();
        let data = compressed(parts(), plain, self.zstd).map_err(|error| ParquetError::External(Box::new(error)))?;
        let page = PartPage::of_data(data, plain, rows);
        self.index.append_row_count(rows as i64);
        // The offset and size are set once all pages are complete.
        self.index.append_offset_and_size(0, 0);
        self.rows += rows;
        self.bytes += page.len();
        self.plain_bytes += page.len_of_header() + plain;
        self.pages.push(page);
        Ok(())
    }
}

fn compressed<'a>(parts: impl Iterator<Item = &'a [u8]>, bytes: usize, level: ZstdLevel) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(Vec::new(), level.compression_level())?;
    encoder.set_pledged_src_size(Some(bytes as u64))?;
    for part in parts {
        encoder.write_all(part)?;
    }
    let mut data = encoder.finish()?;
    data.shrink_to_fit();
    Ok(data)
}

impl Levels {
    fn push(&mut self, present: bool) {
        if present != self.present {
            self.end_run();
            self.present = present;
        }
        self.run += 1;
        self.rows += 1;
    }

    fn ended(mut self) -> Self {
        self.end_run();
        self
    }

    /// Writes the current run: twice its length as a number of seven bits per byte, then the level that repeats.
    fn end_run(&mut self) {
        let run = mem::take(&mut self.run);
        if run > 0 {
            super::pages::push_number(&mut self.bytes, (run as u32) << 1);
            self.bytes.push(u8::from(self.present));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use arrow_array::RecordBatch;
    use arrow_array::cast::AsArray as _;
    use headgate_core::memory::MemoryBudget;
    use headgate_core::row::Outcome;
    use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection};
    use parquet::file::metadata::PageIndexPolicy;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::columns::builder::OutcomeBuilder;
    use crate::parts::parquet::write::ParquetPart;
    use crate::parts::writer::PartWriter as _;

    fn outcome(ordinal: usize, body: Option<Vec<u8>>) -> Outcome {
        Outcome::for_tests(ordinal as u64, 200, body)
    }

    /// Returns a part with these bodies.
    fn part(bodies: &[Option<Vec<u8>>]) -> File {
        let mut builder = OutcomeBuilder::new(&crate::columns::result::ResultColumns::default(), MemoryBudget::new(0))
            .expect("nothing is kept");
        let file = tempfile::tempfile().expect("a file");
        let schema = crate::columns::schema::schema(&arrow_schema::Fields::empty());
        let mut part = ParquetPart::new(file.try_clone().expect("the same file"), &schema).expect("a part");
        for (ordinal, body) in bodies.iter().enumerate() {
            builder.push_owned(outcome(ordinal, body.clone()), false);
            if builder.is_full() || ordinal + 1 == bodies.len() {
                part.write(&builder.finish_batch().expect("columns").records).expect("room on the disk");
            }
        }
        Box::new(part).finish().expect("room on the disk");
        file
    }

    fn bodies(reader: ParquetRecordBatchReader) -> Vec<Option<Vec<u8>>> {
        let of = |batch: RecordBatch| {
            let bodies = batch.column_by_name("body").expect("bodies").as_binary::<i32>().clone();
            bodies.iter().map(|body| body.map(<[u8]>::to_vec)).collect::<Vec<_>>()
        };
        reader.flat_map(|batch| of(batch.expect("it can be read"))).collect()
    }

    fn open(file: &File) -> ParquetRecordBatchReaderBuilder<File> {
        let options =
            parquet::arrow::arrow_reader::ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let file = file.try_clone().expect("the same file");
        ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).expect("a part")
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

        #[test]
        fn bodies_are_read_back_at_once_and_one_by_one(
            runs in vec((option::of((any::<u8>(), prop_oneof![0..30_usize, PAGE_BYTES - 2..PAGE_BYTES + 2])), 1..4_usize), 1..6),
        ) {
            let expected: Vec<_> = runs
                .iter()
                .flat_map(|(body, rows)| {
                    std::iter::repeat_n(body.map(|(byte, length)| vec![byte; length]), *rows)
                })
                .collect();
            let file = part(&expected);
            prop_assert!(expected == bodies(open(&file).build().expect("a reader")));
            // This reads the last row by the page index.
            let last = expected.len() - 1;
            let only_last = RowSelection::from_consecutive_ranges(std::iter::once(last..last + 1), expected.len());
            let read = bodies(open(&file).with_row_selection(only_last).build().expect("a reader"));
            prop_assert!(expected[last..] == read);
        }
    }

    #[test]
    fn a_page_has_at_most_the_recommended_number_of_rows() {
        let expected: Vec<_> = (0..PAGE_ROWS + 5).map(|row| (row % 3 > 0).then(|| b"x".to_vec())).collect();
        let file = part(&expected);
        assert_eq!(expected, bodies(open(&file).build().expect("a reader")));
        let metadata = open(&file).metadata().clone();
        let index = metadata.page_index_for_row_group(0);
        let pages = index.offset_index(14).expect("the pages of the bodies").page_locations();
        assert_eq!(vec![0, PAGE_ROWS as i64], pages.iter().map(|page| page.first_row_index).collect::<Vec<_>>());
    }
}
