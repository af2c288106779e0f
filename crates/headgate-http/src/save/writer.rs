//! Writes a body to a file, in a thread that may block.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::digest::{Context, SHA256};
use headgate_core::error::{ErrorKind, Failure, JobError};
use headgate_core::file_name::hex;
use headgate_core::reason::Reason;
use headgate_core::saved::{Checksum, SaveAs};

use super::claim::Claim;
use super::errors::{SaveError, cannot_read};
use super::paths::SavePaths;
use crate::decode::reader::{DecodeError, DecodingReader};
use crate::decode::{ContentEncodings, DecodeOptions};

/// The size of reads from a file.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes one body.
#[derive(Debug)]
pub(super) struct BodyWriter {
    paths: Arc<SavePaths>,
    ordinal: u64,
    /// `None` until the first chunk.
    received: Option<HashedFile>,
}

/// The facts that are known once the body was received.
#[derive(Debug)]
pub(super) struct FinishOptions {
    pub(super) save_as: Arc<SaveAs>,
    pub(super) extension: String,
    /// The encodings to decode.
    pub(super) encodings: Option<(ContentEncodings, DecodeOptions)>,
}

impl BodyWriter {
    pub(super) fn new(paths: Arc<SavePaths>, ordinal: u64) -> Self {
        Self { paths, ordinal, received: None }
    }

    /// Writes a chunk, and closes the file until the next one. So however many bodies are received, no more files are open than
    /// threads write.
    ///
    /// # Errors
    /// The file can't be written.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), JobError> {
        self.append(bytes)?;
        self.received.iter_mut().for_each(HashedFile::close);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), JobError> {
        let file = match &mut self.received {
            Some(file) => file,
            none => none.insert(HashedFile::create(&self.paths, self.paths.received(self.ordinal))?),
        };
        file.write(bytes).map_err(|error| file.cannot_write(&error))
    }

    /// Writes the rest of the body, compares the checksum and claims the name. Also returns whether decoding truncated the body.
    pub(super) fn finish(
        mut self,
        rest: &[u8],
        options: &FinishOptions,
        while_wanted: (Instant, &dyn Fn() -> bool),
    ) -> Result<(Claim, bool), SaveError> {
        let (file, is_truncated) = match &options.encodings {
            None => {
                self.append(rest)?;
                (self.received.take(), false)
            }
            Some((encodings, decode_options)) => {
                let (file, is_truncated) = self.decode(rest, encodings, *decode_options, while_wanted)?;
                (Some(file), is_truncated)
            }
        };
        let Some(file) = file else { return Err(JobError::internal("a body was not written").into()) };
        let checksum = file.checksum();
        if let Some(expected) = options.save_as.checksum.filter(|expected| *expected != checksum) {
            let reason = Reason::new("the body does not have the checksum of its row");
            let detail = format!("{}, not {}", hex(&checksum), hex(&expected));
            return Err(SaveError::Failed(Failure::new(ErrorKind::ChecksumMismatch, reason.with(detail))));
        }
        let (name, extension, hash) = (&options.save_as.name, &options.extension, hex(&checksum));
        let is_member = self.paths.are_in_archives();
        let path = if is_member { Ok(name.member(extension, &hash)) } else { name.path(extension, &hash) };
        let path =
            path.map_err(|reason| SaveError::Failed(Failure::new(ErrorKind::InvalidRequest, reason).lasting()))?;
        let claim = Claim::new(&self.paths, &file.path, path, checksum)?;
        file.mark_moved();
        Ok((claim, is_truncated))
    }

    /// Decodes a body into a new file, from memory or, if chunks of it were written, from their file.
    fn decode(
        &mut self,
        rest: &[u8],
        encodings: &ContentEncodings,
        options: DecodeOptions,
        while_wanted: (Instant, &dyn Fn() -> bool),
    ) -> Result<(HashedFile, bool), SaveError> {
        let mut decoded = HashedFile::create(&self.paths, self.paths.decoded(self.ordinal))?;
        let path = self.paths.received(self.ordinal);
        if self.received.is_some() {
            self.append(rest)?;
        }
        let encoded: Box<dyn Read> = match &mut self.received {
            None => Box::new(rest),
            Some(received) => {
                let file = received.rewind().map_err(|error| cannot_read(&path, &error))?;
                Box::new(BufReader::with_capacity(BUFFER_BYTES, file))
            }
        };
        let mut reader = DecodingReader::new(encodings, encoded, options, while_wanted).map_err(SaveError::Failed)?;
        loop {
            let chunk = reader.next_chunk().map_err(|error| match error {
                DecodeError::Failed(failure) => SaveError::Failed(failure),
                DecodeError::Unreadable(error) => cannot_read(&path, &error),
            })?;
            if chunk.is_empty() {
                break;
            }
            decoded.write(chunk).map_err(|error| decoded.cannot_write(&error))?;
        }
        let is_truncated = reader.is_truncated();
        drop(reader);
        // The encoded file is removed first: then the disk needs space for one of them.
        self.received = None;
        Ok((decoded, is_truncated))
    }
}

/// A file with the checksum of its contents. Dropping it removes the file, unless it was moved.
struct HashedFile {
    paths: Arc<SavePaths>,
    path: PathBuf,
    /// `None` while the file is closed.
    file: Option<File>,
    sum: Context,
    is_moved: bool,
}

impl HashedFile {
    fn create(paths: &Arc<SavePaths>, path: PathBuf) -> Result<Self, JobError> {
        match paths.create(&path) {
            Ok(file) => {
                Ok(Self { paths: paths.clone(), path, file: Some(file), sum: Context::new(&SHA256), is_moved: false })
            }
            Err(error) => Err(JobError::of_file("can't write", path.display(), &error)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.open()?.write_all(bytes)
    }

    /// Opens the file to append to it.
    fn open(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.paths.storage().append(&self.path)?,
        };
        Ok(self.file.insert(file))
    }

    /// Opens the file to read it from its beginning.
    fn rewind(&mut self) -> io::Result<&mut File> {
        let file = self.open()?;
        file.rewind()?;
        Ok(file)
    }

    fn close(&mut self) {
        self.file = None;
    }

    fn checksum(&self) -> Checksum {
        let mut checksum = Checksum::default();
        checksum.copy_from_slice(self.sum.clone().finish().as_ref());
        checksum
    }

    /// Records that the file was moved.
    fn mark_moved(mut self) {
        self.is_moved = true;
    }

    fn cannot_write(&self, error: &io::Error) -> JobError {
        JobError::of_file("can't write", self.path.display(), error)
    }
}

impl std::fmt::Debug for HashedFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HashedFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for HashedFile {
    fn drop(&mut self) {
        if !self.is_moved {
            // If this fails, the next run of the job removes the file when it opens the directory.
            let _ = self.paths.storage().remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use headgate_core::file_name::{FileName, NamePiece};
    use headgate_core::files::Directory;

    use super::*;

    #[test]
    fn between_chunks_no_file_is_open() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let directory = Directory::open(root.path()).expect("a directory");
        let paths = Arc::new(SavePaths::new(Arc::new(directory), root.path().to_owned(), root.path().join("names")));
        let mut writer = BodyWriter::new(paths.clone(), 7);
        for chunk in [&b"ab"[..], b"cd"] {
            writer.write(chunk).expect("it is written");
            assert!(writer.received.as_ref().is_some_and(|received| received.file.is_none()));
        }
        let name = FileName::new([NamePiece::Literal("a")]).expect("a name");
        let save_as = Arc::new(SaveAs { name, checksum: None });
        let options = FinishOptions { save_as, extension: String::new(), encodings: None };
        let finished = writer.finish(b"e", &options, (Instant::now(), &|| true));
        let saved = finished.expect("it is saved").0.keep().expect("a file");
        assert_eq!(b"abcde", &fs::read(paths.claimed(&saved.path)).expect("a file")[..]);
        let sum = "36bbe50ed96841d10443bcb670d6554f0a34b761be67ec9c4a8ad2c0c44ca42c";
        assert_eq!(sum, hex(&saved.checksum));
    }
}
