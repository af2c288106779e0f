use std::{fs, io};

use headgate_core::files::Directory;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader, RowGroupMetaData};

use super::*;

#[test]
fn length_and_checksum_of_a_part_are_those_of_its_file() {
    let records = succeeded((0..300).map(|row| vec![row as u8; 2000]));
    let directory = tempfile::tempdir().unwrap();
    for path in paths(directory.path()) {
        let part = write(&path, &records);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, part.bytes, "{}", path.display());
        assert_eq!(crc32fast::hash(&bytes), part.crc32, "{}", path.display());
        assert_eq!(bytes.len() as u64, part.file.metadata().unwrap().len());
    }
}

#[test]
fn merged_parts_have_all_rows_in_order() {
    let first = succeeded([b"a".to_vec(), b"\xff".to_vec()]);
    let second = succeeded((0..3000).map(|row| row.to_string().into_bytes()));
    let third = succeeded([b"at the end".to_vec()]);
    let directory = tempfile::tempdir().unwrap();
    let root = Directory::open(directory.path()).unwrap();
    for path in paths(directory.path()) {
        let schema = first.schema();
        let extension = path.extension().unwrap().to_str().unwrap();
        let mut together = writer(&path, &schema);
        for (number, records) in [&first, &second, &succeeded([])].into_iter().enumerate() {
            let small = directory.path().join(format!("small-{number}.{extension}"));
            let crc32 = write(&small, records).crc32;
            assert_eq!(records.num_rows() as u64, together.append(&root, &small, crc32).unwrap());
        }
        together.write(&third).unwrap();
        together.finish().unwrap();

        let expected = concat_batches(&schema, [&first, &second, &third]).unwrap();
        assert_eq!(expected, read(&path, &schema), "{extension}");
    }
}

#[test]
fn large_row_groups_are_merged_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let root = Directory::open(directory.path()).unwrap();
    let large = |first: u32| succeeded((first..first + 50_000).map(|row| row.to_string().into_bytes()));
    let parts = [succeeded([b"first".to_vec()]), large(0), large(7), succeeded([b"last".to_vec()])];
    let schema = parts[0].schema();
    let path = directory.path().join("together.parquet");
    let mut together = writer(&path, &schema);
    for (number, records) in parts.iter().enumerate() {
        let part = directory.path().join(format!("part-{number}.parquet"));
        let crc32 = write(&part, records).crc32;
        assert_eq!(records.num_rows() as u64, together.append(&root, &part, crc32).unwrap());
    }
    let size = together.bytes();
    assert!(size > 0);
    let finished = together.finish().unwrap();

    assert_eq!(fs::metadata(&path).unwrap().len(), finished.bytes);
    assert_eq!(concat_batches(&schema, &parts).unwrap(), read(&path, &schema));
    let metadata = ParquetMetaDataReader::new()
        .with_offset_index_policy(PageIndexPolicy::Required)
        .parse_and_finish(&fs::File::open(&path).unwrap())
        .unwrap();
    assert_eq!(
        vec![1, 50_000, 50_000, 1],
        metadata.row_groups().iter().map(RowGroupMetaData::num_rows).collect::<Vec<_>>()
    );
}

#[test]
fn a_part_that_differs_from_its_commit_is_not_appended() {
    let directory = tempfile::tempdir().unwrap();
    let root = Directory::open(directory.path()).unwrap();
    let good = succeeded([b"good".to_vec()]);
    for path in paths(directory.path()) {
        let extension = path.extension().unwrap().to_str().unwrap();
        let damaged = directory.path().join(format!("damaged.{extension}"));
        let crc32 = write(&damaged, &succeeded([b"bad".to_vec()])).crc32;
        let mut bytes = fs::read(&damaged).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&damaged, bytes).unwrap();
        let mut together = writer(&path, &good.schema());
        together.write(&good).unwrap();

        let error = together.append(&root, &damaged, crc32).unwrap_err();

        assert_eq!(io::ErrorKind::InvalidData, error.kind());
        let expected = format!("{} is damaged: its content is not what was committed", damaged.display());
        assert_eq!(expected, error.to_string());
        together.finish().unwrap();
        assert_eq!(good, read(&path, &good.schema()));
    }
}

#[test]
fn a_missing_part_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let root = Directory::open(directory.path()).unwrap();
    for path in paths(directory.path()) {
        let missing = path.with_file_name("missing");
        let error = writer(&path, &schema(&Fields::empty())).append(&root, &missing, 0).unwrap_err();
        assert_eq!(io::ErrorKind::NotFound, error.kind());
        assert_eq!(format!("can't read {}: no such file or directory", missing.display()), error.to_string());
    }
}
