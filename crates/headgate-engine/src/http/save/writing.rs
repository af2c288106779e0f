//! A body on its way into a file, in the thread that writes it.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::digest::{Context, SHA256};

use super::claim::Claim;
use super::errors::{NotSaved, cannot_read};
use super::places::SavePlaces;
use crate::http::decode::streamed::{NotDecoded, Streamed};
use crate::http::decode::{ContentEncodings, Undo};
use crate::model::error::{ErrorKind, Failure, JobError, cause};
use crate::model::file_name::hex;
use crate::model::reason::Reason;
use crate::model::saved::{Checksum, SaveAs};

/// What is read of a file at a time, and written to one.
const BUFFER_BYTES: usize = 256 * 1024;

/// A body, as far as it was written.
#[derive(Debug)]
pub(super) struct Writing {
    places: Arc<SavePlaces>,
    ordinal: u64,
    /// `None`: nothing came yet.
    received: Option<Summed>,
}

/// What is known of it when it has come.
#[derive(Debug)]
pub(super) struct End {
    pub(super) save_as: Arc<SaveAs>,
    pub(super) extension: String,
    /// Those to undo.
    pub(super) encodings: Option<(ContentEncodings, Undo)>,
}

impl Writing {
    pub(super) fn new(places: Arc<SavePlaces>, ordinal: u64) -> Self {
        Self { places, ordinal, received: None }
    }

    /// Writes a piece, and closes the file until the next one comes: of all bodies that are on their way, no more files are open
    /// than threads write.
    ///
    /// # Errors
    /// The disk does not take it.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), JobError> {
        self.append(bytes)?;
        self.received.iter_mut().for_each(Summed::close);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), JobError> {
        let file = match &mut self.received {
            Some(file) => file,
            none => none.insert(Summed::create(&self.places, self.places.received(self.ordinal))?),
        };
        file.write(bytes).map_err(|error| file.cannot_write(&error))
    }

    /// Writes the end of it, compares the checksum and claims the name. Whether it was cut off when it was decoded.
    pub(super) fn finish(
        mut self,
        rest: &[u8],
        end: &End,
        while_wanted: (Instant, &dyn Fn() -> bool),
    ) -> Result<(Claim, bool), NotSaved> {
        let (file, is_cut) = match &end.encodings {
            None => {
                self.append(rest)?;
                (self.received.take(), false)
            }
            Some((encodings, undo)) => {
                let (file, is_cut) = self.decoded(rest, encodings, *undo, while_wanted)?;
                (Some(file), is_cut)
            }
        };
        let Some(file) = file else { return Err(JobError::internal("a body was not written").into()) };
        let checksum = file.checksum();
        if let Some(expected) = end.save_as.checksum.filter(|expected| *expected != checksum) {
            let reason = Reason::new("the body does not have the checksum of its row");
            let detail = format!("{}, not {}", hex(&checksum), hex(&expected));
            return Err(NotSaved::Failed(Failure::new(ErrorKind::ChecksumMismatch, reason.with(detail))));
        }
        let (name, hash) = (&end.save_as.name, hex(&checksum));
        let is_member = self.places.are_in_archives();
        let path = if is_member { Ok(name.member(&end.extension, &hash)) } else { name.path(&end.extension, &hash) };
        let path =
            path.map_err(|reason| NotSaved::Failed(Failure::new(ErrorKind::InvalidRequest, reason).lasting()))?;
        let claim = Claim::new(&self.places, &file.path, path, checksum)?;
        file.leave();
        Ok((claim, is_cut))
    }

    /// Decodes a body that is all in memory from there, and a longer one from its file.
    fn decoded(
        &mut self,
        rest: &[u8],
        encodings: &ContentEncodings,
        undo: Undo,
        while_wanted: (Instant, &dyn Fn() -> bool),
    ) -> Result<(Summed, bool), NotSaved> {
        let mut decoded = Summed::create(&self.places, self.places.decoded(self.ordinal))?;
        let path = self.places.received(self.ordinal);
        if self.received.is_some() {
            self.append(rest)?;
        }
        let encoded: Box<dyn Read> = match &mut self.received {
            None => Box::new(rest),
            Some(received) => {
                let file = received.rewound().map_err(|error| cannot_read(&path, &error))?;
                Box::new(BufReader::with_capacity(BUFFER_BYTES, file))
            }
        };
        let mut streamed = Streamed::new(encodings, encoded, undo, while_wanted).map_err(NotSaved::Failed)?;
        loop {
            let piece = streamed.next_piece().map_err(|why| match why {
                NotDecoded::Failed(failure) => NotSaved::Failed(failure),
                NotDecoded::Unreadable(error) => cannot_read(&path, &error),
            })?;
            if piece.is_empty() {
                break;
            }
            decoded.write(piece).map_err(|error| decoded.cannot_write(&error))?;
        }
        let is_cut = streamed.is_cut();
        drop(streamed);
        // Before the other claims its name: there need be room for one.
        self.received = None;
        Ok((decoded, is_cut))
    }
}

/// A file with the checksum of what was written to it. It is removed unless it is left.
struct Summed {
    places: Arc<SavePlaces>,
    path: PathBuf,
    /// `None`: it is closed.
    file: Option<File>,
    sum: Context,
    is_left: bool,
}

impl Summed {
    fn create(places: &Arc<SavePlaces>, path: PathBuf) -> Result<Self, JobError> {
        match places.create(&path) {
            Ok(file) => {
                Ok(Self { places: places.clone(), path, file: Some(file), sum: Context::new(&SHA256), is_left: false })
            }
            Err(error) => Err(JobError::output(format!("can't write {}: {}", path.display(), cause(&error)))),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.open()?.write_all(bytes)
    }

    /// To be written on at its end.
    fn open(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.places.directory().file_to_append(&self.path)?,
        };
        Ok(self.file.insert(file))
    }

    /// To be read from its beginning.
    fn rewound(&mut self) -> io::Result<&mut File> {
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

    /// It was moved.
    fn leave(mut self) {
        self.is_left = true;
    }

    fn cannot_write(&self, error: &io::Error) -> JobError {
        JobError::output(format!("can't write {}: {}", self.path.display(), cause(error)))
    }
}

impl std::fmt::Debug for Summed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Summed").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Summed {
    fn drop(&mut self) {
        if !self.is_left {
            // What stays behind is swept when the job is opened again.
            let _ = self.places.directory().remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::Directory;
    use crate::model::file_name::{FileName, NamePiece};

    #[test]
    fn between_pieces_no_file_is_open() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let directory = Directory::open(root.path()).expect("a directory");
        let places = Arc::new(SavePlaces::new(directory, root.path().to_owned(), root.path().join("names")));
        let mut writing = Writing::new(places.clone(), 7);
        for piece in [&b"ab"[..], b"cd"] {
            writing.write(piece).expect("it is written");
            assert!(writing.received.as_ref().is_some_and(|received| received.file.is_none()));
        }
        let name = FileName::new([NamePiece::Literal("a")]).expect("a name");
        let end = End { save_as: Arc::new(SaveAs { name, checksum: None }), extension: String::new(), encodings: None };
        let finished = writing.finish(b"e", &end, (Instant::now(), &|| true));
        let saved = finished.expect("it is saved").0.keep().expect("a file");
        assert_eq!(b"abcde", &fs::read(places.claimed(&saved.path)).expect("a file")[..]);
        let sum = "36bbe50ed96841d10443bcb670d6554f0a34b761be67ec9c4a8ad2c0c44ca42c";
        assert_eq!(sum, hex(&saved.checksum));
    }
}
