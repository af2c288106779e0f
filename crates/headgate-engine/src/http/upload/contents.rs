//! What a body with files consists of, and how a stretch of it is read. Blocks: for a thread that may wait for the disk.
//!
//! A file is looked at before anything is sent, as the length of the body has to be known then. It is opened anew for each
//! stretch, so that no more files are open than are being read, however many requests are on their way; by its length and
//! time it is noticed if it is no longer what was looked at. One that has only grown still is: its first bytes are sent.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::OFlags;

use crate::files::{Directory, Refused};
use crate::model::error::{ErrorKind, Failure, cause};
use crate::model::message::OptionName;
use crate::model::reason::Reason;
use crate::model::row::{BodyPiece, RowBody};

/// A body as it was when its files were looked at. Cloned, it is the same one.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    pieces: Arc<[BodyPiece]>,
    /// Of each piece.
    lengths: Arc<[Length]>,
}

/// How long a piece is.
#[derive(Debug, Clone, Copy)]
struct Length {
    bytes: u64,
    /// Of a file.
    version: Option<Version>,
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    modified: (i64, i64),
    /// Device and number.
    file: (u64, u64),
}

/// How far a body was read: so many bytes of this piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    piece: usize,
    offset: u64,
}

impl Contents {
    /// Looks at the files.
    ///
    /// # Errors
    /// `invalid_request`: one is not there, can't be read, or is no regular file.
    pub(super) fn look_at(pieces: Arc<[BodyPiece]>) -> Result<Self, Failure> {
        let lengths = pieces.iter().map(Length::of).collect::<Result<_, _>>()?;
        Ok(Self { pieces, lengths })
    }

    pub(super) fn length(&self) -> u64 {
        self.lengths.iter().fold(0, |all, length| all.saturating_add(length.bytes))
    }

    /// Reads on from there into `room`, all of it unless the body ends before: how many bytes, and how far it has come.
    ///
    /// # Errors
    /// `invalid_request`: a file can't be read any more, or is not what was looked at.
    pub(super) fn read(&self, mut at: Position, room: &mut [u8]) -> Result<(usize, Position), Failure> {
        let mut filled = 0;
        while let Some((piece, length)) = self.pieces.get(at.piece).zip(self.lengths.get(at.piece)) {
            let left = usize::try_from(length.bytes - at.offset).unwrap_or(usize::MAX);
            if left == 0 {
                at = Position { piece: at.piece + 1, offset: 0 };
                continue;
            }
            let room = &mut room[filled..];
            let taken = left.min(room.len());
            if taken == 0 {
                break;
            }
            let into = &mut room[..taken];
            match piece {
                BodyPiece::Bytes(bytes) => into.copy_from_slice(&bytes[at.offset as usize..][..taken]),
                BodyPiece::File(path) => length.read(None, path, at.offset, into)?,
                BodyPiece::FileBelow(below, path) => length.read(Some(below), path, at.offset, into)?,
            }
            filled += taken;
            at.offset += taken as u64;
        }
        Ok((filled, at))
    }
}

impl Length {
    fn of(piece: &BodyPiece) -> Result<Self, Failure> {
        let (_, metadata) = match piece {
            BodyPiece::Bytes(bytes) => return Ok(Self { bytes: bytes.len() as u64, version: None }),
            BodyPiece::File(path) => open(None, path)?,
            BodyPiece::FileBelow(root, path) => open(Some(root), path)?,
        };
        Ok(Self { bytes: metadata.len(), version: Some(Version::of(&metadata)) })
    }

    /// Whether a file is as it was, or is that and more.
    fn holds_of(&self, metadata: &Metadata) -> bool {
        let (then, now) = (self.version, Version::of(metadata));
        match metadata.len() {
            length if length == self.bytes => then.is_some_and(|then| then.modified == now.modified),
            length => length > self.bytes && then.is_some_and(|then| then.file == now.file),
        }
    }

    fn read(&self, root: Option<&Path>, path: &Path, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let (file, metadata) = open(root, path)?;
        if !self.holds_of(&metadata) {
            return Err(changed(path));
        }
        file.read_exact_at(into, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed(path),
            _ => unreadable(path, &error),
        })
    }
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        Self { modified: (metadata.mtime(), metadata.mtime_nsec()), file: (metadata.dev(), metadata.ino()) }
    }
}

/// Opens a regular file, below `root` if there is one.
fn open(root: Option<&Path>, path: &Path) -> Result<(File, Metadata), Failure> {
    if let Some(root) = root {
        return open_below(root, path).map_err(|error| match error.downcast::<Refused>() {
            Ok(Refused::Outside) => outside(path, &format!("it is not below {}", root.display())),
            Ok(link @ Refused::Link) => outside(path, &link.to_string()),
            Ok(Refused::Irregular { is_directory }) => irregular(path, is_directory),
            Err(error) => unreadable(path, &error),
        });
    }
    let checked =
        |metadata: Metadata| if metadata.is_file() { Ok(metadata) } else { Err(irregular(path, metadata.is_dir())) };
    // Before it is opened: that alone can set a device going.
    checked(fs::metadata(path).map_err(|error| unreadable(path, &error))?)?;
    // Should a pipe have come in between, nobody waits for its other end.
    let opened =
        OpenOptions::new().read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed()).open(path);
    let file = opened.map_err(|error| unreadable(path, &error))?;
    let metadata = checked(file.metadata().map_err(|error| unreadable(path, &error))?)?;
    Ok((file, metadata))
}

/// Opens a regular file below `root`. An absolute path must begin with `root`, as that is written.
fn open_below(root: &Path, path: &Path) -> io::Result<(File, Metadata)> {
    let file = Directory::open(root)?.file(&root.join(path))?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// How long each piece of a body is.
///
/// # Errors
/// As [`Contents::look_at`].
pub fn lengths(pieces: Arc<[BodyPiece]>) -> Result<Vec<u64>, Failure> {
    let contents = Contents::look_at(pieces)?;
    Ok(contents.lengths.iter().map(|length| length.bytes).collect())
}

/// How long a body is, with its files as they are now; one that can't be sent counts for nothing.
pub fn length_now(body: &RowBody) -> u64 {
    let pieces = match body {
        RowBody::Bytes(bytes) => return bytes.len() as u64,
        RowBody::Pieces(pieces) => pieces,
    };
    let lengths = pieces.iter().map(|piece| match piece {
        BodyPiece::Bytes(bytes) => bytes.len() as u64,
        BodyPiece::File(path) => fs::metadata(path).ok().filter(Metadata::is_file).map_or(0, |metadata| metadata.len()),
        BodyPiece::FileBelow(root, path) => open_below(root, path).map_or(0, |(_, metadata)| metadata.len()),
    });
    lengths.fold(0, u64::saturating_add)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    failure("a file of the body can't be read", format!("{}: {}", path.display(), cause(error))).lasting()
}

fn outside(path: &Path, why: &str) -> Failure {
    let failure = failure("a file that a row names can't be sent", format!("{}: {why}", path.display()));
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

/// As one piece, where no file is among them.
pub fn joined(pieces: &[BodyPiece]) -> Option<Bytes> {
    let pieces: Option<Vec<&[u8]>> = pieces
        .iter()
        .map(|piece| match piece {
            BodyPiece::Bytes(bytes) => Some(&bytes[..]),
            BodyPiece::File(_) | BodyPiece::FileBelow(..) => None,
        })
        .collect();
    pieces.map(|pieces| pieces.concat().into())
}

#[cfg(test)]
mod tests;
