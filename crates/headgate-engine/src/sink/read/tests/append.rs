use std::{fs, io};

use super::*;

#[test]
fn length_and_checksum_of_a_part_are_those_of_its_file() {
    let records = answered((0..300).map(|row| vec![row as u8; 2000]));
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
fn parts_put_together_have_the_rows_of_all_in_order() {
    let first = answered([b"a".to_vec(), b"\xff".to_vec()]);
    let second = answered((0..3000).map(|row| row.to_string().into_bytes()));
    let third = answered([b"at the end".to_vec()]);
    let directory = tempfile::tempdir().unwrap();
    for path in paths(directory.path()) {
        let schema = first.schema();
        let extension = path.extension().unwrap().to_str().unwrap();
        let mut together = writer(&path, &schema);
        for (number, records) in [&first, &second, &answered([])].into_iter().enumerate() {
            let small = directory.path().join(format!("small-{number}.{extension}"));
            let crc32 = write(&small, records).crc32;
            assert_eq!(records.num_rows() as u64, together.append(&small, crc32).unwrap());
        }
        together.write(&third).unwrap();
        together.finish().unwrap();

        let expected = concat_batches(&schema, [&first, &second, &third]).unwrap();
        assert_eq!(expected, read(&path, &schema), "{extension}");
    }
}

#[test]
fn of_a_part_that_is_not_the_one_committed_nothing_is_added() {
    let directory = tempfile::tempdir().unwrap();
    let good = answered([b"good".to_vec()]);
    for path in paths(directory.path()) {
        let extension = path.extension().unwrap().to_str().unwrap();
        let damaged = directory.path().join(format!("damaged.{extension}"));
        let crc32 = write(&damaged, &answered([b"bad".to_vec()])).crc32;
        let mut bytes = fs::read(&damaged).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&damaged, bytes).unwrap();
        let mut together = writer(&path, &good.schema());
        together.write(&good).unwrap();

        let error = together.append(&damaged, crc32).unwrap_err();

        assert_eq!(io::ErrorKind::InvalidData, error.kind());
        let expected = format!("{} is damaged: its checksum is not the committed one", damaged.display());
        assert_eq!(expected, error.to_string());
        together.finish().unwrap();
        assert_eq!(good, read(&path, &good.schema()));
    }
}

#[test]
fn a_part_that_is_missing_is_named() {
    let directory = tempfile::tempdir().unwrap();
    for path in paths(directory.path()) {
        let missing = path.with_file_name("missing");
        let error = writer(&path, &outcome::schema(&Fields::empty())).append(&missing, 0).unwrap_err();
        assert_eq!(io::ErrorKind::NotFound, error.kind());
        assert_eq!(format!("cannot read {}: no such file or directory", missing.display()), error.to_string());
    }
}
