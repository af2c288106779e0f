//! The pages of a Parquet file, within bounds.
//!
//! The header of a page states its decompressed size, and a few kilobytes of zeros can state 2 GiB. The crate `parquet`
//! trusts it, and its gzip, brotli and LZ4 decoders continue to the end of the data. So headers are checked here before
//! `parquet` reads a page: one that states too much is refused. Where a codec would not stop at that size, the data is
//! decompressed once to count it.
//!
//! Text and bytes are read as views, which keep their page alive as long as their batch. So the pages of a batch have a
//! bound, too. A batch that needs more is read once more with half as many rows; a single row that needs more is refused.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::opened::OpenedFile;
use super::parquet_delta::{self, DELTA_BYTE_ARRAY, Stated};
use super::thrift::{Compact, FALSE, I16, I64, STRUCT, TRUE, broken};

/// The pages of a batch may have as many bytes as this number of the largest pages.
const MAX_LARGEST_PAGES: u64 = 4;
/// The longest header of a page: it may hold the minimum and the maximum value of the page.
const MAX_HEADER_BYTES: u64 = 16 * 1024 * 1024;
/// The memory of a value of a list, and its levels.
const LIST_VALUE_BYTES: u64 = 16;
/// The maximum memory of a value whose length precedes all bytes.
const DELTA_VALUE_BYTES: u64 = 8;
/// The memory of the view of a value of a dictionary.
const DICTIONARY_VALUE_BYTES: u64 = 16;
/// Kinds of pages (`PageType`).
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;

/// A file whose pages are within bounds.
#[derive(Clone)]
pub(super) struct BoundedFile {
    file: OpenedFile,
    pages: Arc<RowGroupPages>,
}

/// The pages of one row group, as far as they were read.
pub(super) struct RowGroupPages {
    max_page_size: u64,
    chunks: Vec<ColumnChunk>,
    reading: Mutex<PageReading>,
}

struct ColumnChunk {
    name: String,
    start: u64,
    end: u64,
    codec: Compression,
    is_list: bool,
    is_nullable: bool,
}

#[derive(Default)]
struct PageReading {
    columns: Vec<PageColumn>,
    /// Rows of a batch.
    batch_rows: u64,
    /// Pages that the batch has finished, which it may keep alive.
    done_bytes: u64,
    refusal: Option<Refusal>,
}

/// The part of a column that is in memory, and the pages whose headers were read.
#[derive(Default)]
struct PageColumn {
    has_begun: bool,
    dictionary: Option<CachedPage>,
    next: Option<CachedPage>,
    dictionary_bytes: u64,
    page_bytes: u64,
}

#[derive(Clone, Copy)]
struct CachedPage {
    data_start: u64,
    header: PageHeader,
}

/// Why pages are not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A page is larger than allowed.
    Page { column: String, bytes: u64, max_bytes: u64 },
    /// The pages of a batch exceed their bound together.
    Batch { max_bytes: u64 },
}

impl Refusal {
    pub(super) fn message(&self, name: &str, group: usize) -> Message {
        let raise = OptionName::MaxPageSize;
        let (Self::Page { max_bytes, .. } | Self::Batch { max_bytes }) = self;
        let max = grouped(*max_bytes);
        let reason = match self {
            Self::Page { column, bytes, .. } => {
                let bytes = grouped(*bytes);
                format!("a page of {bytes} bytes, decompressed, in the column {column:?}, where {max} are allowed")
            }
            Self::Batch { .. } => format!("a row for which more than {max} bytes of pages must be in memory at once"),
        };
        message!("{name}: row group {group} has {reason}; if you trust the file, allow more with ", raise)
    }
}

impl RowGroupPages {
    pub(super) fn new(group: &RowGroupMetaData, max_page_size: u64) -> Arc<Self> {
        let chunks = group.columns().iter().map(|column| {
            let (start, length) = column.byte_range();
            let descriptor = column.column_descr();
            ColumnChunk {
                name: descriptor.path().string(),
                start,
                end: start + length,
                codec: column.compression(),
                is_list: descriptor.max_rep_level() > 0,
                is_nullable: descriptor.max_def_level() > 0,
            }
        });
        let mut chunks: Vec<_> = chunks.collect();
        chunks.sort_by_key(|chunk| chunk.start);
        let mut columns = Vec::new();
        columns.resize_with(chunks.len(), PageColumn::default);
        let reading = Mutex::new(PageReading { columns, ..PageReading::default() });
        Arc::new(Self { max_page_size, chunks, reading })
    }

    pub(super) fn of(self: &Arc<Self>, file: OpenedFile) -> BoundedFile {
        BoundedFile { file, pages: self.clone() }
    }

    /// Begins a batch of `rows` rows: the pages of the batch before live on only in its rows.
    pub(super) fn begin_batch(&self, rows: usize) {
        let mut reading = self.reading();
        reading.batch_rows = rows as u64;
        reading.done_bytes = 0;
    }

    /// Takes the reason for which a page was not read, if there is one.
    pub(super) fn take_refusal(&self) -> Option<Refusal> {
        self.reading().refusal.take()
    }

    fn reading(&self) -> std::sync::MutexGuard<'_, PageReading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn column_at(&self, offset: u64) -> ParquetResult<usize> {
        let column = self.chunks.partition_point(|chunk| chunk.start <= offset).checked_sub(1);
        column
            .filter(|column| offset <= self.chunks[*column].end)
            .ok_or_else(|| ParquetError::General("a page lies outside of all columns".into()))
    }

    fn max_batch_bytes(&self) -> u64 {
        self.max_page_size.saturating_mul(MAX_LARGEST_PAGES)
    }

    /// Returns whether a header begins at `start`, and not the data of a page whose header is known. Where a page has no
    /// data, the next header begins at the same offset, which may be that of the next column.
    fn may_be_header(&self, column: usize, start: u64) -> bool {
        let reading = self.reading();
        let known = reading.columns.iter().flat_map(|column| column.next.iter().chain(&column.dictionary));
        let mut here = known.filter(|page| page.data_start == start).map(|page| page.header.compressed);
        let ColumnChunk { start: first, end, .. } = self.chunks[column];
        match (here.next(), here.next()) {
            (None, _) => true,
            (Some(0), None | Some(0)) => start != end && !(start == first && reading.columns[column].has_begun),
            _ => false,
        }
    }

    /// Records a header.
    fn add_header(&self, column: usize, page: CachedPage) -> ParquetResult<()> {
        let mut reading = self.reading();
        let PageHeader { kind, decompressed, compressed, values, encoding, .. } = page.header;
        let chunk = &self.chunks[column];
        let list_bytes = if chunk.is_list { values.saturating_mul(LIST_VALUE_BYTES) } else { 0 };
        let has_lengths = kind != DICTIONARY_PAGE && parquet_delta::trusts_counts(encoding);
        let value_bytes = match kind {
            DICTIONARY_PAGE => DICTIONARY_VALUE_BYTES,
            _ if has_lengths => DELTA_VALUE_BYTES,
            _ => 0,
        };
        let bytes = decompressed.max(compressed).max(list_bytes).max(values.saturating_mul(value_bytes));
        if bytes > self.max_page_size {
            let refusal = Refusal::Page { column: chunk.name.clone(), bytes, max_bytes: self.max_page_size };
            return Err(refused(&mut reading, refusal));
        }
        let column = &mut reading.columns[column];
        column.has_begun = true;
        *(if kind == DICTIONARY_PAGE { &mut column.dictionary } else { &mut column.next }) = Some(page);
        Ok(())
    }

    /// Finds the page whose data begins at `data_start` and counts it as loaded. Returns it with its column.
    fn load_page(&self, data_start: u64, length: usize) -> ParquetResult<(CachedPage, &ColumnChunk)> {
        let mut reading = self.reading();
        let PageReading { columns, batch_rows, done_bytes, .. } = &mut *reading;
        let is_it = |page: &CachedPage| page.data_start == data_start && page.header.compressed == length as u64;
        // Where a page has no data, the next column begins at the same offset.
        let found = columns.iter_mut().enumerate().find_map(|(index, column)| {
            let (next, dictionary) = (column.next.filter(is_it), column.dictionary.filter(is_it));
            Some((index, column, next, next.or(dictionary)?))
        });
        let Some((index, column, next, page)) = found else {
            return Err(ParquetError::General("a page was read before its header".into()));
        };
        if next.is_some() {
            let PageHeader { decompressed, encoding, values, .. } = page.header;
            let lengths =
                if parquet_delta::trusts_counts(encoding) { values.saturating_mul(DELTA_VALUE_BYTES) } else { 0 };
            // Values that share prefixes are written out one by one.
            let copies = if encoding == DELTA_BYTE_ARRAY { (*batch_rows).max(1) } else { 1 };
            *done_bytes +=
                std::mem::replace(&mut column.page_bytes, decompressed.saturating_mul(copies).saturating_add(lengths));
        } else {
            column.dictionary_bytes = page.header.decompressed;
        }
        let loaded = reading.columns.iter().map(|column| column.page_bytes.saturating_add(column.dictionary_bytes));
        let alive = loaded.fold(reading.done_bytes, u64::saturating_add);
        if alive > self.max_batch_bytes() {
            let refusal = Refusal::Batch { max_bytes: self.max_batch_bytes() };
            return Err(refused(&mut reading, refusal));
        }
        Ok((page, &self.chunks[index]))
    }
}

/// Stores the reason of a refusal, and returns an error with which `parquet` ends.
fn refused(reading: &mut PageReading, refusal: Refusal) -> ParquetError {
    reading.refusal = Some(refusal);
    ParquetError::General("a page is larger than it may be".into())
}

impl Length for BoundedFile {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for BoundedFile {
    type T = <OpenedFile as ChunkReader>::T;

    /// Reads a page's header at `start`, or its data.
    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let column = self.pages.column_at(start)?;
        if self.pages.may_be_header(column, start) {
            let mut reader = Compact::new(self.file.get_read(start)?, MAX_HEADER_BYTES);
            let header = PageHeader::read(&mut reader)?;
            self.pages.add_header(column, CachedPage { data_start: start + reader.read(), header })?;
        }
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let (page, column) = self.pages.load_page(start, length)?;
        let bytes = self.file.get_bytes(start, length)?;
        check_length(column.codec, &page.header, &bytes)?;
        check_values(column, &page.header, &bytes)?;
        Ok(bytes)
    }
}

/// Checks that a page decompresses to no more than its header states, for codecs that do not check this.
fn check_length(codec: Compression, header: &PageHeader, bytes: &Bytes) -> ParquetResult<()> {
    let levels = header.level_bytes.min(bytes.len() as u64);
    let data = &bytes[levels as usize..];
    if !header.is_compressed || data.is_empty() {
        return Ok(());
    }
    let expected = header.decompressed.saturating_sub(levels);
    let decoder: Box<dyn Read + '_> = match codec {
        Compression::GZIP(_) => Box::new(MultiGzDecoder::new(data)),
        Compression::BROTLI(_) => Box::new(brotli::Decompressor::new(data, 4096)),
        // Old writers wrote frames where blocks were meant.
        Compression::LZ4 => Box::new(lz4_flex::frame::FrameDecoder::new(data)),
        _ => return Ok(()),
    };
    // `parquet` reports data that its codec can't read.
    let counted = io::copy(&mut decoder.take(expected + 1), &mut io::sink()).unwrap_or_default();
    if counted > expected {
        return Err(ParquetError::General(format!("a page has more than the {expected} bytes that its header states")));
    }
    Ok(())
}

/// Checks the counts in the data, where `parquet` would trust them.
fn check_values(column: &ColumnChunk, header: &PageHeader, bytes: &Bytes) -> ParquetResult<()> {
    if header.kind == DICTIONARY_PAGE || !parquet_delta::trusts_counts(header.encoding) {
        return Ok(());
    }
    let levels = header.level_bytes.min(bytes.len() as u64);
    let is_within = header.kind == DATA_PAGE;
    let [of_definition, of_repetition] = header.level_encodings;
    let page = Stated {
        encoding: header.encoding,
        values: header.values,
        decompressed: header.decompressed.saturating_sub(levels),
        levels_within: [(is_within && column.is_list, of_repetition), (is_within && column.is_nullable, of_definition)],
    };
    parquet_delta::check(&bytes[levels as usize..], header.is_compressed.then_some(column.codec), page)
        .map_err(|reason| ParquetError::General(format!("a page of the column {:?} is broken: {reason}", column.name)))
}

/// The header of a page (`parquet.thrift`, `PageHeader`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PageHeader {
    kind: i64,
    decompressed: u64,
    compressed: u64,
    values: u64,
    encoding: i64,
    /// The encodings of the definition and the repetition levels of a first-version page.
    level_encodings: [i64; 2],
    /// Bytes before the data that are never compressed.
    level_bytes: u64,
    is_compressed: bool,
}

impl PageHeader {
    fn read<R: Read>(reader: &mut Compact<R>) -> io::Result<Self> {
        let mut header = Self { is_compressed: true, ..Self::default() };
        // As in `parquet`, the kind of the page determines which of the structures counts.
        let mut of_kinds = [(DATA_PAGE, header), (DICTIONARY_PAGE, header), (DATA_PAGE_V2, header)];
        reader.structure(0, &mut |reader, field| {
            let [(_, of_data), (_, of_dictionary), (_, of_data_v2)] = &mut of_kinds;
            match (field.id, field.kind) {
                (1, I16..=I64) => header.kind = reader.small_number()?,
                (2, I16..=I64) => header.decompressed = reader.length()?,
                (3, I16..=I64) => header.compressed = reader.length()?,
                (id @ (5 | 7), STRUCT) => {
                    let found = if id == 5 { of_data } else { of_dictionary };
                    reader.structure(1, &mut |reader, field| {
                        match (field.id, field.kind) {
                            (1, I16..=I64) => found.values = reader.length()?,
                            (2, I16..=I64) => found.encoding = reader.small_number()?,
                            (3, I16..=I64) => found.level_encodings[0] = reader.small_number()?,
                            (4, I16..=I64) => found.level_encodings[1] = reader.small_number()?,
                            (1 | 2, _) => return Err(broken()),
                            _ => return Ok(false),
                        }
                        Ok(true)
                    })?;
                }
                (8, STRUCT) => reader.structure(1, &mut |reader, field| {
                    match (field.id, field.kind) {
                        (1, I16..=I64) => of_data_v2.values = reader.length()?,
                        (4, I16..=I64) => of_data_v2.encoding = reader.small_number()?,
                        (5 | 6, I16..=I64) => of_data_v2.level_bytes += reader.length()?,
                        (7, kind @ (TRUE | FALSE)) => of_data_v2.is_compressed = kind == TRUE,
                        (1 | 4..=7, _) => return Err(broken()),
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?,
                (1..=3 | 5 | 7 | 8, _) => return Err(broken()),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let found = of_kinds.into_iter().find_map(|(kind, found)| (kind == header.kind).then_some(found));
        let Self { kind, decompressed, compressed, .. } = header;
        Ok(Self { kind, decompressed, compressed, ..found.unwrap_or(header) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &[u8]) -> io::Result<PageHeader> {
        PageHeader::read(&mut Compact::new(header, MAX_HEADER_BYTES))
    }

    #[test]
    fn a_header_is_read_whatever_other_fields_it_has() {
        // type 0, 300 and 100 bytes, crc 1, then a data page of 7 values in encoding 8 with statistics of a string.
        let header = [
            0x15, 0, 0x15, 0xd8, 0x04, 0x15, 0xc8, 0x01, 0x15, 2, 0x1c, 0x15, 14, 0x15, 16, 0x15, 6, 0x15, 8, 0x1c,
            0x18, 2, b'a', b'b', 0, 0, 0, 99,
        ];
        let mut reader = Compact::new(&header[..], MAX_HEADER_BYTES);
        let expected = PageHeader {
            decompressed: 300,
            compressed: 100,
            values: 7,
            encoding: 8,
            level_encodings: [3, 4],
            ..PageHeader::default()
        };
        assert_eq!(PageHeader { is_compressed: true, ..expected }, PageHeader::read(&mut reader).expect("whole"));
        assert_eq!(header.len() as u64 - 1, reader.read());
        for length in 0..header.len() - 1 {
            assert!(read(&header[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_header_that_readers_would_parse_differently_is_broken() {
        // As above, without statistics: the kind, two sizes, a data page of 7 values in encoding 6.
        let good = [0x15, 0, 0x15, 100, 0x15, 100, 0x2c, 0x15, 14, 0x15, 12, 0x15, 6, 0x15, 6, 0, 0];
        assert_eq!(6, read(&good).expect("whole").encoding);
        for (what, at, with) in [
            ("the encoding as a byte", 9, &[0x13][..]),
            ("the encoding as a truth value", 9, &[0x11]),
            ("the page as a list", 6, &[0x29]),
            ("a size as a double", 2, &[0x17]),
            ("an encoding of more than 32 bits", 10, &[0x8c, 0x80, 0x80, 0x80, 0x20]),
            ("a field that comes again", 9, &[0x05, 2]),
        ] {
            let header = [&good[..at], with, &good[at + 1..]].concat();
            assert!(read(&header).is_err(), "{what}");
        }
    }

    /// The class of CVE-2025-66471 of urllib3: data that does not end where its header states.
    #[test]
    fn data_beyond_the_stated_size_is_refused() {
        use std::io::Write as _;

        let zeros = vec![0; 100_000];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&zeros).expect("in memory");
        let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 18);
        brotli.write_all(&zeros).expect("in memory");
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&zeros).expect("in memory");
        for (codec, data) in [
            (Compression::GZIP(parquet::basic::GzipLevel::default()), gzip.finish().expect("in memory")),
            (Compression::BROTLI(parquet::basic::BrotliLevel::default()), brotli.into_inner()),
            (Compression::LZ4, lz4.finish().expect("in memory")),
        ] {
            for (levels, decompressed, is_fine) in
                [(0, 100_000, true), (0, 99_999, false), (3, 100_003, true), (3, 9, false)]
            {
                let bytes = Bytes::from([&[0; 3][..levels], &data].concat());
                let header = PageHeader {
                    decompressed,
                    level_bytes: levels as u64,
                    is_compressed: true,
                    ..PageHeader::default()
                };
                assert_eq!(is_fine, check_length(codec, &header, &bytes).is_ok(), "{codec:?} {levels} {decompressed}");
                let header = PageHeader { is_compressed: false, ..header };
                assert!(check_length(codec, &header, &bytes).is_ok(), "{codec:?}");
            }
        }
    }

    #[test]
    fn an_endlessly_nested_header_is_refused() {
        let nested = [vec![0x9c_u8], vec![0x1c; 100_000]].concat();
        assert!(read(&nested).is_err());
    }
}
