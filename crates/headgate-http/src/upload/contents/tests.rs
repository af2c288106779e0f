use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;

use super::*;

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn file(directory: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, bytes).expect("a file in a temporary directory");
    path
}

fn contents(path: impl AsRef<Path>) -> Result<BodyContents, Failure> {
    BodyContents::inspect([BodyPiece::File(path.as_ref().into())].into())
}

/// Reads all contents, `at_a_time` bytes at a time.
fn read_all(contents: &BodyContents, at_a_time: usize) -> Result<Vec<u8>, Failure> {
    let (mut all, mut at, mut buffer) = (Vec::new(), BodyPosition::default(), vec![0; at_a_time]);
    loop {
        let (length, next) = contents.read(at, &mut buffer)?;
        all.extend_from_slice(&buffer[..length]);
        if length < at_a_time {
            return Ok(all);
        }
        at = next;
    }
}

fn parts_of(failure: Result<impl Sized, Failure>) -> (ErrorKind, String, bool) {
    let failure = failure.err().expect("a failure");
    (failure.kind, failure.reason.to_string(), failure.is_lasting)
}

proptest! {
    #[test]
    fn a_body_is_its_pieces_for_any_size_of_reads(
        pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        at_a_time in 1..60_usize,
    ) {
        let directory = directory();
        let all: Vec<u8> = pieces.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let pieces = pieces.into_iter().enumerate().map(|(index, (is_file, bytes))| {
            if is_file {
                BodyPiece::File(file(&directory, &index.to_string(), bytes).into())
            } else {
                BodyPiece::Bytes(bytes.into())
            }
        });
        let pieces: Arc<[BodyPiece]> = pieces.collect();
        prop_assert_eq!(all.len() as u64, length_now(&RowBody::Pieces(pieces.clone())));
        let contents = BodyContents::inspect(pieces).expect("files");
        prop_assert_eq!(all.len() as u64, contents.length());
        prop_assert_eq!(all, read_all(&contents, at_a_time).expect("readable"));
    }
}

#[test]
fn an_irregular_file_is_refused_without_waiting_for_it() {
    let directory = directory();
    let pipe = directory.path().join("pipe");
    mkfifoat(CWD, &pipe, Mode::RWXU).expect("a pipe");
    let missing = directory.path().join("missing");
    let irregular = "a file of the body can't be sent: it is not a regular file";
    let unreadable = "a file of the body can't be read";
    for (expected, path) in [
        (format!("{irregular} ({}: it is a directory)", directory.path().display()), directory.path()),
        (format!("{irregular} ({}: it is a pipe, a socket or a device)", pipe.display()), &pipe),
        (format!("{irregular} (/dev/null: it is a pipe, a socket or a device)"), Path::new("/dev/null")),
        (format!("{unreadable} ({}: no such file or directory)", missing.display()), &missing),
    ] {
        assert_eq!((ErrorKind::InvalidRequest, expected, true), parts_of(contents(path)));
        assert_eq!(0, length_now(&RowBody::Pieces([BodyPiece::File(path.into())].into())));
    }
}

#[test]
fn only_the_first_bytes_of_a_file_that_has_grown_are_read() {
    let directory = directory();
    let path = file(&directory, "file", "abc");
    let contents = contents(&path).expect("a file");
    fs::OpenOptions::new().append(true).open(&path).and_then(|file| file.set_len(100)).expect("longer");
    assert_eq!(b"abc".to_vec(), read_all(&contents, 2).expect("still there"));
}

#[test]
fn reading_fails_after_a_file_has_changed() {
    let directory = directory();
    let other = |name: &str, bytes: &str| {
        let path = file(&directory, name, bytes);
        let opened = fs::File::options().write(true).open(&path).expect("a file");
        opened.set_modified(SystemTime::now() + Duration::from_hours(1)).expect("another time");
        path
    };
    let shorter = |path: &Path| fs::write(path, "ab").expect("shorter");
    let rewritten = |path: &Path| fs::rename(other("rewritten", "xyz"), path).expect("another file");
    let replaced = |path: &Path| fs::rename(other("replaced", "longer"), path).expect("another file");
    for change in [&shorter as &dyn Fn(&Path), &rewritten, &replaced] {
        let path = file(&directory, "file", "abc");
        let contents = contents(&path).expect("a file");
        change(&path);
        let message = format!("a file of the body was changed while it was sent ({})", path.display());
        assert_eq!((ErrorKind::InvalidRequest, message, false), parts_of(read_all(&contents, 2)));
    }
}
