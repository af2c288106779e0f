use std::fs;
use std::os::unix::fs::FileExt as _;

use arrow_schema::Field;
use headgate_core::error::JobErrorKind;

use super::*;
use crate::parts::read::{PartRows, part_schema};

/// Returns the error of reading the part, and the number of rows that were read before it.
fn failure(path: &Path, schema: &SchemaRef) -> (JobError, usize) {
    let mut rows = 0;
    for batch in PartRows::new(vec![path.to_owned().into()], schema.clone()) {
        match batch {
            Ok(batch) => rows += batch.num_rows(),
            Err(error) => return (error, rows),
        }
    }
    panic!("{rows} rows were read of {}", path.display())
}

fn assert_damaged(path: &Path, error: &JobError) {
    assert_eq!(JobErrorKind::Damage, error.kind);
    assert!(error.to_string().starts_with(&format!("{}: damaged: ", path.display())), "{}", error.to_string());
    assert!(
        error.to_string().ends_with(
            "; restore it from a copy; or headgate verify --repair marks its rows as not done, and the same headgate fetch fetches them"
        ),
        "{}",
        error.to_string()
    );
    assert!(error.to_string().len() < 1000 && !error.to_string().contains(char::is_control), "{}", error.to_string());
}

#[test]
fn a_part_that_cannot_be_read_is_not_damaged() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["part.parquet", "part.ndjson"] {
        // A directory can be opened, and can't be read.
        let (path, file) = (directory.path().join(name), fs::File::open(directory.path()).unwrap());
        let batches = crate::parts::read::batches(file, &path, &succeeded([]).schema());
        let error = batches.and_then(|mut batches| batches.next().unwrap()).err().unwrap();
        assert!(error.to_string().contains("can't read") && error.kind != JobErrorKind::Damage, "{error}");
    }
}

#[test]
fn a_truncated_part_is_damaged() {
    let records = succeeded((0..100).map(|row| vec![row as u8; 50]));
    let directory = tempfile::tempdir().unwrap();
    for path in paths(directory.path()) {
        write(&path, &records);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() - 20).unwrap();

        assert_damaged(&path, &failure(&path, records.schema_ref()).0);
    }
}

#[test]
fn rows_before_the_damage_are_read_first() {
    let records = succeeded((0..3000).map(|_| b"Hello".to_vec()));
    let directory = tempfile::tempdir().unwrap();
    let path = &paths(directory.path())[1];
    write(path, &records);
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, text.replacen("\"row\":2500,", "\"row\":25x0,", 1)).unwrap();

    let (error, rows) = failure(path, records.schema_ref());

    assert_eq!(2048, rows);
    assert_damaged(path, &error);
    assert!(error.to_string().contains(": damaged: after 2048 rows: "), "{}", error.to_string());
}

#[test]
fn lines_in_another_format_are_damaged() {
    let records = succeeded([b"\xff".to_vec()]);
    let directory = tempfile::tempdir().unwrap();
    let path = &paths(directory.path())[1];
    write(path, &records);
    let line = fs::read_to_string(path).unwrap();
    let cases = [
        ("another column", line.replacen("\"url\"", "\"uri\"", 1)),
        ("bytes twice", line.replacen("\"body_base64\"", "\"body\":\"x\",\"body_base64\"", 1)),
        ("no base64", line.replacen("/w==", "/w=", 1)),
        ("no row", line.replacen("\"row\":0", "\"row\":null", 1)),
        ("no time", line.replacen("1970-", &format!("{}\\u0000", "9".repeat(1000)), 1)),
        ("no object", format!("7\n{line}")),
        ("no text", line.replacen("GET", "G\u{0}T\\ud800", 1)),
    ];
    for (what, changed) in cases {
        assert_ne!(line, changed, "{what}");
        fs::write(path, changed).unwrap();
        assert_damaged(path, &failure(path, records.schema_ref()).0);
    }
}

#[test]
fn reading_a_part_with_any_byte_changed_does_not_panic() {
    let records = succeeded([b"\xff".to_vec(), b"Hello, World!".to_vec()]);
    let directory = tempfile::tempdir().unwrap();
    for path in paths(directory.path()) {
        write(&path, &records);
        let bytes = fs::read(&path).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            file.write_all_at(&[byte ^ (1 << (at % 8))], at as u64).unwrap();
            if let Err(error) = batches(&path, records.schema_ref()) {
                assert_damaged(&path, &error);
            }
            file.write_all_at(&[*byte], at as u64).unwrap();
        }
    }
}

#[test]
fn a_part_with_other_columns_is_damaged() {
    let records = succeeded([b"Hello".to_vec()]);
    let other = schema(&vec![Field::new("id", DataType::Int64, true)].into());
    let directory = tempfile::tempdir().unwrap();
    let path = &paths(directory.path())[0];
    write(path, &records);

    let (error, _) = failure(path, &other);

    assert_damaged(path, &error);
    assert!(error.to_string().contains(": damaged: it has other columns than the job: "), "{}", error.to_string());
}

#[test]
fn a_missing_part_is_named_and_ends_the_rows() {
    let directory = tempfile::tempdir().unwrap();
    let [parquet, ndjson] = paths(directory.path());
    let records = succeeded([b"Hello".to_vec()]);
    write(&ndjson, &records);
    let message = format!("can't read {}: no such file or directory", parquet.display());

    let mut rows = PartRows::new(vec![parquet.clone().into(), ndjson.into()], records.schema());

    assert_eq!(Some(Err(JobError::output(message.clone()))), rows.next());
    assert_eq!(None, rows.next());
    assert_eq!(Err(JobError::output(message)), part_schema(&parquet));
}
