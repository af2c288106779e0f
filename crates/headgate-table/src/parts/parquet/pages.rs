//! Adds a checksum to each page of a Parquet file, so that other readers can detect damage, too.
//!
//! The header of a page has a field for the CRC-32 of the stored data without the header (parquet.thrift,
//! `PageHeader.crc`). The parquet crate checks it, but does not write it. The crate lets its user store the pages of a row
//! group until they are written, so this module adds the checksum to each header then. The header becomes some bytes longer,
//! so the offsets of the pages of a column are computed again.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, PageKey, PageStore, PageStoreArgs, PageStoreFactory};
use parquet::basic::Encoding;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::SerializedRowGroupWriter;

use crate::parts::checksum::Checksummed;

/// The pages of the columns of one row group, in the order of the columns.
#[derive(Debug, Default)]
pub(super) struct PageKeeper {
    columns: Mutex<Vec<Arc<Mutex<PartPages>>>>,
}

#[derive(Debug, Default)]
struct PartPages {
    /// The header of the page whose data comes next.
    header: Option<Bytes>,
    pages: Vec<PartPage>,
}

#[derive(Debug)]
pub(super) struct PartPage {
    header: Bytes,
    data: Bytes,
    is_dictionary: bool,
    /// The number of bytes that the checksum added to the header.
    added: usize,
}

impl PartPage {
    /// Returns a data page of version 1 with `values` plain values, which were compressed from `plain_bytes` bytes.
    pub(super) fn of_data(data: Vec<u8>, plain_bytes: usize, values: usize) -> Self {
        let mut header = vec![NEXT_FIELD | INT32, DATA_PAGE];
        let crc32 = crc32fast::hash(&data) as i32;
        for number in [plain_bytes as i32, data.len() as i32, crc32] {
            header.push(NEXT_FIELD | INT32);
            push_number(&mut header, zigzag(number));
        }
        header.push(NEXT_FIELD | STRUCT);
        for number in [values as i32, Encoding::PLAIN as i32, Encoding::RLE as i32, Encoding::RLE as i32] {
            header.push(NEXT_FIELD | INT32);
            push_number(&mut header, zigzag(number));
        }
        header.extend([END, END]);
        Self { header: header.into(), data: data.into(), is_dictionary: false, added: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.header.len() + self.data.len()
    }

    pub(super) fn len_of_header(&self) -> usize {
        self.header.len()
    }
}

impl PageKeeper {
    /// Writes the column with this index and its pages.
    pub(super) fn write(
        &self,
        column: ArrowColumnWriter,
        group: &mut SerializedRowGroupWriter<'_, Checksummed>,
        index: usize,
    ) -> Result<()> {
        let close = column.close()?.close().clone();
        let kept = held(&self.columns).get(index).cloned();
        let pages = kept.ok_or_else(|| ParquetError::General("a column has no pages".into()))?;
        let mut pages = std::mem::take(&mut held(&pages).pages);
        // The dictionary page is completed last, but must be the first one in the file.
        pages.sort_by_key(|page| !page.is_dictionary);
        write(pages, close, group)
    }

    /// Drops the pages of a row group, which were written.
    pub(super) fn clear(&self) {
        held(&self.columns).clear();
    }
}

/// Writes a column that has these pages.
pub(super) fn write(
    pages: Vec<PartPage>,
    close: ColumnCloseResult,
    group: &mut SerializedRowGroupWriter<'_, Checksummed>,
) -> Result<()> {
    let close = located(close, &pages)?;
    group.append_column(&ChunkFile(pages.into_iter().flat_map(|page| [page.header, page.data]).collect()), close)
}

impl PageStoreFactory for PageKeeper {
    fn create(&self, _args: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        let pages = Arc::<Mutex<PartPages>>::default();
        held(&self.columns).push(pages.clone());
        Ok(Box::new(ColumnPages { pages, bytes: 0 }))
    }
}

struct ColumnPages {
    pages: Arc<Mutex<PartPages>>,
    bytes: usize,
}

impl PageStore for ColumnPages {
    /// Stores the header of a page, and its data at the next call.
    fn put(&mut self, value: Bytes) -> Result<PageKey> {
        self.bytes += value.len();
        let mut pages = held(&self.pages);
        match pages.header.take() {
            None => pages.header = Some(value),
            Some(plain) => {
                let with_crc = with_crc(&plain, crc32fast::hash(&value))
                    .ok_or_else(|| ParquetError::General("the header of a page has an unknown form".into()))?;
                let page = PartPage {
                    is_dictionary: plain.get(1) == Some(&DICTIONARY_PAGE),
                    added: with_crc.len() - plain.len(),
                    header: with_crc.into(),
                    data: value,
                };
                pages.pages.push(page);
            }
        }
        Ok(PageKey::new(pages.pages.len() as u64))
    }

    fn take(&mut self, _key: PageKey) -> Result<Bytes> {
        Err(ParquetError::General("pages are written by `PageKeeper`".into()))
    }

    fn memory_size(&self) -> usize {
        self.bytes
    }
}

/// Returns the metadata of a column with the sizes and offsets of these pages, relative to the start of the column.
fn located(mut close: ColumnCloseResult, pages: &[PartPage]) -> Result<ColumnCloseResult> {
    let length = |page: &PartPage| page.len() as i64;
    let added: usize = pages.iter().map(|page| page.added).sum();
    let dictionary = pages.first().filter(|page| page.is_dictionary).map(length);
    let mut offset = dictionary.unwrap_or_default();
    let (compressed, uncompressed) = (close.metadata.compressed_size(), close.metadata.uncompressed_size());
    close.bytes_written += added as u64;
    close.metadata = close
        .metadata
        .into_builder()
        .set_dictionary_page_offset(dictionary.map(|_| 0))
        .set_data_page_offset(offset)
        .set_total_compressed_size(compressed + added as i64)
        .set_total_uncompressed_size(uncompressed + added as i64)
        .build()?;
    let locations = close.offset_index.iter_mut().flat_map(|index| &mut index.page_locations);
    for (location, page) in locations.zip(pages.iter().filter(|page| !page.is_dictionary)) {
        location.offset = offset;
        location.compressed_page_size = length(page) as i32;
        offset += length(page);
    }
    Ok(close)
}

/// The types of pages, as numbers of Thrift's compact protocol.
const DATA_PAGE: u8 = zigzag(0) as u8;
const DICTIONARY_PAGE: u8 = zigzag(2) as u8;
/// The header of a field: the distance to the number of the field before it, and its type.
const NEXT_FIELD: u8 = 0x10;
const INT32: u8 = 5;
const STRUCT: u8 = 12;
const END: u8 = 0;

/// Returns the header of a page with the checksum as field 4, after type and sizes (1 to 3). `None`: its form is unknown.
fn with_crc(header: &[u8], crc32: u32) -> Option<Vec<u8>> {
    let mut at = 0;
    for _ in 1..=3 {
        if *header.get(at)? != NEXT_FIELD | INT32 {
            return None;
        }
        at += 1 + header[at + 1..].iter().position(|byte| byte & 0x80 == 0)? + 1;
    }
    let (start, rest) = header.split_at(at);
    let (next, rest) = rest.split_first()?;
    // The next field stores its distance from the field before it, which is now the checksum.
    if next & 0x0F != STRUCT || *next < 2 * NEXT_FIELD {
        return None;
    }
    let mut bytes = Vec::with_capacity(header.len() + 6);
    bytes.extend(start);
    bytes.push(NEXT_FIELD | INT32);
    push_number(&mut bytes, zigzag(crc32 as i32));
    bytes.push(next - NEXT_FIELD);
    bytes.extend(rest);
    Some(bytes)
}

/// Appends a number with seven bits in each byte, the lowest first.
pub(super) fn push_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

const fn zigzag(number: i32) -> u32 {
    ((number << 1) ^ (number >> 31)) as u32
}

/// The pages of a column as one file.
struct ChunkFile(Vec<Bytes>);

impl Length for ChunkFile {
    fn len(&self) -> u64 {
        self.0.iter().map(|bytes| bytes.len() as u64).sum()
    }
}

impl ChunkReader for ChunkFile {
    type T = PageReader;

    fn get_read(&self, start: u64) -> Result<PageReader> {
        let mut pages = self.0.clone().into_iter();
        let current = pages.next().unwrap_or_default();
        if start == 0 { Ok(PageReader { current, pages }) } else { Err(read_from_start()) }
    }

    fn get_bytes(&self, _start: u64, _length: usize) -> Result<Bytes> {
        Err(read_from_start())
    }
}

fn read_from_start() -> ParquetError {
    ParquetError::General("the pages of a column are read from their start".into())
}

struct PageReader {
    current: Bytes,
    pages: std::vec::IntoIter<Bytes>,
}

impl Read for PageReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pages.next() {
                Some(next) => self.current = next,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.current.len());
        buffer[..length].copy_from_slice(&self.current.split_to(length));
        Ok(length)
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_becomes_the_fourth_field_of_the_header_of_a_page() {
        // This data page has 300 bytes, 20 of them when stored. Field 5 is the header of the data page.
        let plain = [0x15, 0x00, 0x15, 0xD8, 0x04, 0x15, 0x28, 0x2C, 0x15, 0x0C, 0x00, 0x00];
        let with = [0x15, 0x00, 0x15, 0xD8, 0x04, 0x15, 0x28, 0x15, 0x80, 0x01, 0x1C, 0x15, 0x0C, 0x00, 0x00];
        assert_eq!(Some(with.to_vec()), with_crc(&plain, 64));
        // -1 in zigzag is 1.
        assert_eq!(Some(0x01), with_crc(&plain, u32::MAX).map(|bytes| bytes[8]));
    }

    #[test]
    fn a_header_of_another_form_gets_no_checksum() {
        let has_one = [0x15, 0x00, 0x15, 0x02, 0x15, 0x02, 0x15, 0x02, 0x1C, 0x00, 0x00];
        for header in [&has_one[..], &[0x15], &[0x15, 0x80], &[0x25, 0x00], &[]] {
            assert_eq!(None, with_crc(header, 1), "{header:?}");
        }
    }
}
