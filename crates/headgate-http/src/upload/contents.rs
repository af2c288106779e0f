//! The contents of a body with files, read in chunks. These functions block: they are for a thread that may wait for the disk.
//!
//! Files are inspected before anything is sent, since the length of the body has to be known then. A file is opened again for
//! each chunk, so that no more files are open than are being read, however many requests are in flight. Its length and time
//! show whether it has changed since. Of a file that has only grown, the first bytes are sent.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use headgate_core::error::{ErrorKind, Failure, cause};
use headgate_core::files::open_file::OpenFile;
use headgate_core::files::{Directory, RefusedPath};
use headgate_core::message::OptionName;
use headgate_core::reason::Reason;
use headgate_core::row::{BodyPiece, RowBody};
use rustix::fs::OFlags;

/// A body whose files were inspected. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct BodyContents {
    pieces: Arc<[BodyPiece]>,
    /// The lengths of the pieces.
    lengths: Arc<[PieceLength]>,
}

/// The length of a piece.
#[derive(Debug, Clone, Copy)]
struct PieceLength {
    bytes: u64,
    /// The version of a file.
    version: Option<FileVersion>,
}

/// Identifies a version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    bytes: u64,
    modified: (i64, i64),
    /// Device and inode.
    file: (u64, u64),
}

/// The position up to which a body was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BodyPosition {
    piece: usize,
    offset: u64,
}

impl BodyContents {
    /// Inspects the files.
    ///
    /// # Errors
    /// `invalid_request`: a file does not exist, can't be read, or is no regular file.
    pub(super) fn inspect(pieces: Arc<[BodyPiece]>) -> Result<Self, Failure> {
        let lengths = pieces.iter().map(PieceLength::of).collect::<Result<_, _>>()?;
        Ok(Self { pieces, lengths })
    }

    pub(super) fn length(&self) -> u64 {
        self.lengths.iter().fold(0, |all, length| all.saturating_add(length.bytes))
    }

    /// Reads from `at` into `buffer`, and fills it unless the body ends before. Returns the number of bytes and the next position.
    ///
    /// # Errors
    /// `invalid_request`: a file can't be read any more, or has changed.
    pub(super) fn read(&self, mut at: BodyPosition, buffer: &mut [u8]) -> Result<(usize, BodyPosition), Failure> {
        let mut filled = 0;
        while let Some((piece, length)) = self.pieces.get(at.piece).zip(self.lengths.get(at.piece)) {
            let remaining = usize::try_from(length.bytes - at.offset).unwrap_or(usize::MAX);
            if remaining == 0 {
                at = BodyPosition { piece: at.piece + 1, offset: 0 };
                continue;
            }
            let free = &mut buffer[filled..];
            let count = remaining.min(free.len());
            if count == 0 {
                break;
            }
            let into = &mut free[..count];
            match piece {
                BodyPiece::Bytes(bytes) => into.copy_from_slice(&bytes[at.offset as usize..][..count]),
                BodyPiece::File(path) => length.read(None, path, at.offset, into)?,
                BodyPiece::FileBelow(below, path) => length.read(Some(below), path, at.offset, into)?,
                BodyPiece::OpenFile(open) => length.read_open(open, at.offset, into)?,
            }
            filled += count;
            at.offset += count as u64;
        }
        Ok((filled, at))
    }
}

impl PieceLength {
    fn of(piece: &BodyPiece) -> Result<Self, Failure> {
        let (_, metadata) = match piece {
            BodyPiece::Bytes(bytes) => return Ok(Self { bytes: bytes.len() as u64, version: None }),
            BodyPiece::File(path) => open(None, path)?,
            BodyPiece::FileBelow(root, path) => open(Some(root), path)?,
            BodyPiece::OpenFile(open) => return Self::of_open(open),
        };
        Ok(Self { bytes: metadata.len(), version: Some(FileVersion::of(&metadata)) })
    }

    fn of_open(open: &OpenFile) -> Result<Self, Failure> {
        let name = Path::new(&*open.name);
        let metadata = open.file.metadata().map_err(|error| unreadable(name, &error))?;
        // A file may be positioned beyond its end: nothing of it is sent.
        if open.length > 0 && metadata.len() < open.offset.saturating_add(open.length) {
            return Err(changed(name));
        }
        Ok(Self { bytes: open.length, version: Some(FileVersion::of(&metadata)) })
    }

    /// Returns whether the file is unchanged or has only grown.
    fn is_prefix_of(&self, metadata: &Metadata) -> bool {
        let now = FileVersion::of(metadata);
        self.version.is_some_and(|then| {
            then.file == now.file
                && (now.bytes > then.bytes || (then.bytes, then.modified) == (now.bytes, now.modified))
        })
    }

    fn read(&self, root: Option<&Path>, path: &Path, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let (file, metadata) = open(root, path)?;
        self.read_version(&file, &metadata, path, offset, into)
    }

    fn read_open(&self, open: &OpenFile, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let name = Path::new(&*open.name);
        let metadata = open.file.metadata().map_err(|error| unreadable(name, &error))?;
        self.read_version(&open.file, &metadata, name, open.offset.saturating_add(offset), into)
    }

    fn read_version(
        &self,
        file: &File,
        metadata: &Metadata,
        path: &Path,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), Failure> {
        if !self.is_prefix_of(metadata) {
            return Err(changed(path));
        }
        file.read_exact_at(into, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed(path),
            _ => unreadable(path, &error),
        })
    }
}

impl FileVersion {
    fn of(metadata: &Metadata) -> Self {
        Self {
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            file: (metadata.dev(), metadata.ino()),
        }
    }
}

/// Opens a regular file, below `root` if there is one.
fn open(root: Option<&Path>, path: &Path) -> Result<(File, Metadata), Failure> {
    if let Some(root) = root {
        return open_below(root, path).map_err(|error| match error.downcast::<RefusedPath>() {
            Ok(RefusedPath::Outside) => outside(path, &format!("it is not below {}", root.display())),
            Ok(link @ RefusedPath::Link) => outside(path, &link.to_string()),
            Ok(RefusedPath::Irregular { is_directory }) => irregular(path, is_directory),
            Err(error) => unreadable(path, &error),
        });
    }
    let checked =
        |metadata: Metadata| if metadata.is_file() { Ok(metadata) } else { Err(irregular(path, metadata.is_dir())) };
    // Checked before it is opened, since opening a device can have effects.
    checked(fs::metadata(path).map_err(|error| unreadable(path, &error))?)?;
    // If the path has become a pipe since, opening it does not wait for its other end.
    let opened =
        OpenOptions::new().read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed()).open(path);
    let file = opened.map_err(|error| unreadable(path, &error))?;
    let metadata = checked(file.metadata().map_err(|error| unreadable(path, &error))?)?;
    Ok((file, metadata))
}

/// Opens a regular file below `root`. An absolute path must begin with the text of `root`.
fn open_below(root: &Path, path: &Path) -> io::Result<(File, Metadata)> {
    let file = Directory::open(root)?.file(&root.join(path))?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// Returns the lengths of the pieces of a body.
///
/// # Errors
/// As [`BodyContents::inspect`].
pub fn lengths(pieces: Arc<[BodyPiece]>) -> Result<Vec<u64>, Failure> {
    let contents = BodyContents::inspect(pieces)?;
    Ok(contents.lengths.iter().map(|length| length.bytes).collect())
}

/// Returns the length of a body with its files as they are now. A file that can't be sent counts as 0.
pub fn length_now(body: &RowBody) -> u64 {
    let pieces = match body {
        RowBody::Bytes(bytes) => return bytes.len() as u64,
        RowBody::Pieces(pieces) => pieces,
        RowBody::Stream(stream) => return stream.length().unwrap_or_default(),
    };
    let lengths = pieces.iter().map(|piece| match piece {
        BodyPiece::Bytes(bytes) => bytes.len() as u64,
        BodyPiece::File(path) => fs::metadata(path).ok().filter(Metadata::is_file).map_or(0, |metadata| metadata.len()),
        BodyPiece::FileBelow(root, path) => open_below(root, path).map_or(0, |(_, metadata)| metadata.len()),
        BodyPiece::OpenFile(open) => open.length,
    });
    lengths.fold(0, u64::saturating_add)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    failure("a file of the body can't be read", format!("{}: {}", path.display(), cause(error))).lasting()
}

fn outside(path: &Path, reason: &str) -> Failure {
    let failure = failure("a file that a row names can't be sent", format!("{}: {reason}", path.display()));
    failure.with_option(OptionName::UploadRoot).lasting()
}

fn irregular(path: &Path, is_directory: bool) -> Failure {
    let what = if is_directory { "it is a directory" } else { "it is a pipe, a socket or a device" };
    failure("a file of the body can't be sent: it is not a regular file", format!("{}: {what}", path.display()))
        .lasting()
}

fn changed(path: &Path) -> Failure {
    failure("a file of the body was changed while it was sent", path.display().to_string())
}

fn failure(message: &'static str, detail: String) -> Failure {
    Failure::new(ErrorKind::InvalidRequest, Reason::new(message).with(detail))
}

/// Returns the pieces as one, unless one of them is a file.
pub fn join(pieces: &[BodyPiece]) -> Option<Bytes> {
    let pieces: Option<Vec<&[u8]>> = pieces
        .iter()
        .map(|piece| match piece {
            BodyPiece::Bytes(bytes) => Some(&bytes[..]),
            BodyPiece::File(_) | BodyPiece::FileBelow(..) | BodyPiece::OpenFile(_) => None,
        })
        .collect();
    pieces.map(|pieces| pieces.concat().into())
}

#[cfg(test)]
mod tests;
