use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headgate_core::options::{Format, SinkOptions};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::outcomes::{batch, interrupt, names, open, open_with, options, plain_schema, succeeded, write};

/// Returns bytes that do not compress, a different sequence for each seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(length).collect()
}

fn metadata(path: &Path) -> Arc<ParquetMetaData> {
    ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().metadata().clone()
}

#[test]
fn a_part_ends_when_it_is_large_enough() {
    let directory = tempfile::tempdir().unwrap();
    let options = SinkOptions { part_size: 100_000, ..options(directory.path(), Format::Parquet) };
    write(&options, (0..5).map(|ordinal| batch([succeeded(ordinal, &noise(ordinal, 60_000))])));

    let parts = ["part-00000001.parquet", "part-00000002.parquet", "part-00000003.parquet"];
    assert_eq!(parts, names(directory.path())[1..]);
    let rows = parts.map(|part| metadata(&directory.path().join(part)).file_metadata().num_rows());
    assert_eq!([2, 2, 1], rows);
}

#[test]
fn a_part_ends_when_it_is_old_enough_even_without_further_rows() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        SinkOptions { commit_interval: Some(Duration::from_secs(2)), ..options(directory.path(), Format::Parquet) };
    let (start, passed) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let clock = passed.clone();
    let clock = Box::new(move || start + Duration::from_secs(clock.load(Ordering::Relaxed)));
    let mut sink = open_with(&options, &plain_schema(), clock).unwrap();

    passed.store(1000, Ordering::Relaxed);
    sink.tick().unwrap();
    assert_eq!(["_headgate"], names(directory.path()).as_slice(), "a part without rows is not begun");

    // The first part is a second old and the next one two, and no part exceeds `commit_every`.
    let mut expected = vec!["_headgate".to_owned()];
    for (row, (written, published)) in [(1000, 1001), (1001, 1003), (1003, 1005)].into_iter().enumerate() {
        passed.store(written, Ordering::Relaxed);
        let _ = sink.write(batch([succeeded(row as u64, b"")])).unwrap();
        passed.store(published - 1, Ordering::Relaxed);
        sink.tick().unwrap();
        assert_eq!(expected, names(directory.path()), "the part that was begun after {written} s");
        passed.store(published, Ordering::Relaxed);
        sink.tick().unwrap();
        expected.push(format!("part-{:08}.parquet", row + 1));
        assert_eq!(expected, names(directory.path()), "the part that was begun after {written} s");
    }
    interrupt(sink.as_mut()).unwrap();
    assert_eq!(expected, names(directory.path()), "there was nothing left to publish");
}

#[test]
fn a_part_is_not_visible_before_it_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let mut sink = open(&options(directory.path(), Format::Parquet)).unwrap();
    let _ = sink.write(batch([succeeded(0, b"")])).unwrap();

    assert_eq!(["_headgate"], names(directory.path()).as_slice());
    assert_eq!(["part-00000001.parquet.tmp"], names(&directory.path().join("_headgate/tmp")).as_slice());
    drop(sink);
    assert_eq!(["_headgate"], names(directory.path()).as_slice(), "a job that broke off leaves no half file");
}

#[test]
fn row_groups_are_bounded_in_bytes_as_written_and_as_read() {
    let mib = 1024 * 1024;
    for (what, body, most) in [("encoded", noise(1, mib), 17 * mib), ("plain", vec![b'x'; mib], 66 * mib)] {
        let directory = tempfile::tempdir().unwrap();
        write(&options(directory.path(), Format::Parquet), (0..100).map(|ordinal| batch([succeeded(ordinal, &body)])));

        let metadata = metadata(&directory.path().join("part-00000001.parquet"));
        assert_eq!(100, metadata.file_metadata().num_rows());
        let largest = metadata.row_groups().iter().map(RowGroupMetaData::total_byte_size).max().unwrap() as usize;
        assert!(largest <= most, "{what}: {largest}");
        assert!(metadata.num_row_groups() > 1, "{what}");
        assert!(largest > most / 2, "{what}: smaller than it need be: {largest}");
    }
}

#[test]
fn row_groups_are_bounded_in_rows() {
    let directory = tempfile::tempdir().unwrap();
    let rows = 140_000;
    write(
        &options(directory.path(), Format::Parquet),
        (0..rows / 1000).map(|thousand| batch((0..1000).map(|row| succeeded(thousand * 1000 + row, b"")))),
    );

    let metadata = metadata(&directory.path().join("part-00000001.parquet"));
    let groups: Vec<_> = metadata.row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    assert_eq!(vec![131_072, 140_000 - 131_072], groups);
}

#[test]
fn columns_are_compressed_and_have_statistics_where_these_are_useful() {
    let directory = tempfile::tempdir().unwrap();
    write(&options(directory.path(), Format::Parquet), [batch([succeeded(0, b"Hello")])]);

    let metadata = metadata(&directory.path().join("part-00000001.parquet"));
    let free_text = ["body", "error_detail", "headers.list.item.value"];
    let mut without_statistics = BTreeSet::new();
    for column in metadata.row_group(0).columns() {
        let path = column.column_path().string();
        assert!(matches!(column.compression(), Compression::ZSTD(_)), "{path}");
        if free_text.contains(&path.as_str()) {
            assert_eq!(None, column.dictionary_page_offset(), "{path}");
        }
        if column.statistics().is_none() {
            without_statistics.insert(path);
        }
    }
    let little_text = ["error_message", "headers.list.item.name", "http_version", "method", "remote_addr"];
    let expected = free_text.into_iter().chain(little_text).map(str::to_owned);
    assert_eq!(expected.collect::<BTreeSet<_>>(), without_statistics);
}
