//! Pages of zeros.

use std::fs::File;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
use bytes::Bytes;
use headgate_core::options::SourceOptions;
use headgate_table::source;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::{WriterProperties, WriterVersion};

use crate::Measure;

const PAGE_BYTES: usize = 4 << 20;
const ROWS: usize = 60;

/// CVE-2025-66471 (urllib3), applied to files: repeated pages of zeros, which the footer does not mention.
#[test]
fn pages_of_zeros_never_become_a_batch_of_gigabytes() {
    let mut measure = Measure::begin();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("urls.parquet");
    let zeros = vec![0; PAGE_BYTES];
    let urls: StringArray = (0..ROWS).map(|row| Some(format!("http://a/{row}"))).collect();
    let bodies: BinaryArray = (0..ROWS).map(|_| Some(&zeros)).collect();
    let columns: [(_, ArrayRef); 2] = [("url", Arc::new(urls)), ("body", Arc::new(bodies))];
    let records = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_write_batch_size(1)
        .set_data_page_size_limit(1)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), records.schema(), Some(properties)).unwrap();
    writer.write(&records).unwrap();
    writer.close().unwrap();
    drop(records);
    // By the sizes in the footer, all rows are one batch.
    let mut bytes = std::fs::read(&path).unwrap();
    let mut builder =
        ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(bytes.clone())).unwrap().into_builder();
    let groups = builder.take_row_groups().into_iter().map(|group| {
        let columns = group.columns().iter().cloned();
        let columns = columns.map(|column| column.into_builder().set_total_uncompressed_size(100).build().unwrap());
        let columns = columns.collect();
        group.into_builder().set_column_metadata(columns).build().unwrap()
    });
    let metadata = builder.set_row_groups(groups.collect()).build();
    ParquetMetaDataWriter::new(&mut bytes, &metadata).finish().unwrap();
    assert!(bytes.len() < PAGE_BYTES);
    std::fs::write(&path, bytes).unwrap();
    drop(zeros);

    measure.restart();
    let max_page_size = 2 * PAGE_BYTES as u64;
    let options = SourceOptions {
        input: path.display().to_string(),
        body_column: Some("body".into()),
        max_page_size,
        ..SourceOptions::default()
    };
    let mut source = source::open::open(&options).unwrap();
    let mut rows = 0;
    while let Some(batch) = source.next_batch().unwrap() {
        rows += batch.len();
    }
    assert_eq!(ROWS, rows);
    // The pages of a batch, the page that is decompressed, and the bodies of the rows.
    assert!(measure.peak() < 8 * max_page_size as usize, "{}", measure.peak());
}

/// Writes a file with URLs, a third of them null, and a body for each row.
fn encoded(encoding: Encoding, codec: Compression, version: WriterVersion) -> Vec<u8> {
    let urls: StringArray = (0..ROWS).map(|row| (row % 3 != 0).then(|| format!("http://a/{row}"))).collect();
    let bodies = BinaryArray::from_iter_values((0..ROWS).map(|row| vec![b'x'; row]));
    let columns: [(_, ArrayRef, bool); 2] = [("url", Arc::new(urls), true), ("body", Arc::new(bodies), false)];
    let records = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_dictionary_enabled(false)
        .set_encoding(encoding)
        .set_writer_version(version)
        .set_write_batch_size(7)
        .set_data_page_row_count_limit(ROWS / 2)
        .build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, records.schema(), Some(properties)).unwrap();
    writer.write(&records).unwrap();
    writer.close().unwrap();
    file
}

/// Returns the number of rows with a body, or the error.
fn read(file: &[u8]) -> Result<usize, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("urls.parquet");
    std::fs::write(&path, file).unwrap();
    let options = SourceOptions {
        input: path.display().to_string(),
        body_column: Some("body".into()),
        ..SourceOptions::default()
    };
    let mut source = source::open::open(&options).map_err(|error| error.to_string())?;
    let mut rows = 0;
    while let Some(batch) = source.next_batch().map_err(|error| error.to_string())? {
        rows += batch.len();
    }
    Ok(rows)
}

#[test]
fn delta_encodings_are_read_in_every_codec() {
    for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for codec in ["uncompressed", "snappy", "gzip(6)", "brotli(1)", "zstd(1)", "lz4_raw"] {
                let file = encoded(encoding, codec.parse().unwrap(), version);
                assert_eq!(Ok(ROWS), read(&file), "{encoding} {codec} {version:?}");
            }
        }
    }
}

/// The reader allocates as many lengths as the data states, whatever the page header states.
#[test]
fn a_page_whose_data_states_more_values_than_its_header_is_refused() {
    for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let mut file = encoded(encoding, Compression::UNCOMPRESSED, version);
            // Blocks of 128 values in four parts, followed by the number of values.
            let headers = memchr::memmem::find_iter(&file, &[0x80, 1, 4]).map(|at| at + 3).collect::<Vec<_>>();
            assert!(headers.len() >= 4, "{encoding} {version:?}: {headers:?}");
            let last = *headers.last().unwrap();
            assert!(file[last] < 127);
            file[last] = 127;
            let refused = read(&file).expect_err("it lies");
            assert!(refused.contains("its data states 127 values, and its header "), "{refused}");
        }
    }
}
