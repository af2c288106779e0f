//! Compares saved bodies with the checksums that the rows of results have.

use std::io::{self, BufRead as _, BufReader};

use arrow_array::cast::AsArray as _;
use arrow_array::{Array as _, RecordBatch};
use aws_lc_rs::digest::{Context, SHA256};
use headgate_core::error::{JobError, cause};
use headgate_core::file_name::hex;
use headgate_core::files::storage::Storage;
use headgate_core::grouped::grouped;
use headgate_core::options::SaveFormat;
use rustix::fs::FileType;

use super::records::rows;

pub(super) const SAVED_COLUMNS: [&str; 2] = ["path", "sha256"];
const BUFFER_BYTES: usize = 256 * 1024;
/// After how many buffers an interrupt is looked for.
const CHECK_BUFFERS: u32 = 16;

/// The saved bodies of a job.
pub(super) struct SavedBodies<'a> {
    storage: &'a dyn Storage,
    format: SaveFormat,
    /// The archive that was found last.
    archive: String,
}

impl<'a> SavedBodies<'a> {
    pub(super) fn new(storage: &'a dyn Storage, format: SaveFormat) -> Self {
        Self { storage, format, archive: String::new() }
    }

    /// Calls `report` with each problem of a body of these rows. Of an archive, only its existence is checked.
    ///
    /// # Errors
    /// A body can't be read, which may be intact.
    pub(super) fn check(&mut self, records: &RecordBatch, mut report: impl FnMut(String)) -> Result<(), JobError> {
        let column = |name| records.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
        let [Some(paths), Some(checksums)] = SAVED_COLUMNS.map(column) else { return Ok(()) };
        for (at, row) in rows(records)?.into_iter().enumerate().filter(|(at, _)| paths.is_valid(*at)) {
            let (path, row) = (paths.value(at), grouped(row as u64));
            let place = self.storage.path().join(path);
            let found = match self.format {
                SaveFormat::Files => self.is_intact(path, checksums.value(at)),
                SaveFormat::Tar => self.has_archive(path),
            };
            match found {
                Ok(true) => {}
                Ok(false) => report(format!("{} is damaged: it is not the body of row {row}", place.display())),
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
                        let why = if error.kind() == io::ErrorKind::InvalidInput {
                            cause(&error)
                        } else {
                            "is missing".into()
                        };
                        report(format!("the body of row {row}, {}: {why}", place.display()));
                    }
                    _ => return Err(JobError::of_file("can't read", place.display(), &error)),
                },
            }
        }
        Ok(())
    }

    fn is_intact(&self, path: &str, checksum: &str) -> io::Result<bool> {
        let mut file = BufReader::with_capacity(BUFFER_BYTES, self.storage.read(&self.storage.path().join(path))?);
        let mut digest = Context::new(&SHA256);
        for buffers in 0_u32.. {
            if buffers.is_multiple_of(CHECK_BUFFERS) {
                self.storage.check_interrupt()?;
            }
            let bytes = file.fill_buf()?;
            if bytes.is_empty() {
                break;
            }
            digest.update(bytes);
            let length = bytes.len();
            file.consume(length);
        }
        Ok(hex(digest.finish().as_ref()) == checksum)
    }

    fn has_archive(&mut self, path: &str) -> io::Result<bool> {
        let name = path.split('/').next().unwrap_or_default();
        if self.archive != name {
            if self.storage.metadata(&self.storage.path().join(name))?.kind != FileType::RegularFile {
                return Ok(false);
            }
            name.clone_into(&mut self.archive);
        }
        Ok(true)
    }
}
