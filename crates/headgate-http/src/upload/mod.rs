//! Uploads a body that is not in memory as a whole: files, or a stream whose pieces the caller provides while it is sent.

mod contents;
mod files;
mod stream;

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use headgate_core::error::Failure;
use headgate_core::memory::MemoryBudget;
use headgate_core::row::BodyPiece;
use headgate_core::upload_stream::UploadStream;

pub use self::contents::{join, length_now, lengths};
use self::files::FileUpload;
use self::stream::StreamUpload;
use crate::deadline::Deadline;

/// The source of a body that is read while it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadSource {
    /// Pieces of which at least one is a file.
    Files(Arc<[BodyPiece]>),
    Stream(Arc<UploadStream>),
}

/// A body that is read while it is sent, and the state of sending it.
#[derive(Debug)]
pub struct Upload {
    body: UploadBody,
    read_bytes: u64,
}

#[derive(Debug)]
enum UploadBody {
    Files(FileUpload),
    Stream(StreamUpload),
}

impl Upload {
    /// Inspects the files of a body, which is read within this memory budget.
    ///
    /// # Errors
    /// `invalid_request`: a file does not exist, can't be read, or is no regular file.
    pub async fn begin(pieces: Arc<[BodyPiece]>, memory: MemoryBudget) -> Result<Box<Self>, Failure> {
        let body = UploadBody::Files(FileUpload::begin(pieces, memory).await?);
        Ok(Box::new(Self { body, read_bytes: 0 }))
    }

    /// Begins to send a stream.
    ///
    /// # Errors
    /// `invalid_request`: it was sent before, and can't be sent a second time.
    pub fn of_stream(stream: Arc<UploadStream>) -> Result<Box<Self>, Failure> {
        let body = UploadBody::Stream(StreamUpload::begin(stream)?);
        Ok(Box::new(Self { body, read_bytes: 0 }))
    }

    /// Returns the length of the whole body, if it is known.
    pub fn length(&self) -> Option<u64> {
        match &self.body {
            UploadBody::Files(files) => Some(files.length()),
            UploadBody::Stream(stream) => stream.length(),
        }
    }

    /// Returns how many bytes were read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Returns whether the whole body was read.
    pub(crate) fn is_done(&self) -> bool {
        match &self.body {
            UploadBody::Files(files) => files.is_done(),
            UploadBody::Stream(stream) => stream.is_done(),
        }
    }

    /// Returns whether a file is being read, for which the server waits. The time that the caller of a stream takes is its own,
    /// and counts for its timeouts.
    pub(crate) fn is_reading(&self) -> bool {
        matches!(&self.body, UploadBody::Files(files) if files.is_reading())
    }

    /// Returns whether the server waits for the caller of a stream.
    pub(crate) fn is_awaiting_caller(&self) -> bool {
        matches!(&self.body, UploadBody::Stream(stream) if stream.is_awaited())
    }

    /// Returns the next piece, which is never empty, once the previous one was written. `None`: the body of a stream has ended.
    /// Must not be called after the end.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        let piece = match &mut self.body {
            UploadBody::Files(files) => ready!(files.poll_next(cx)).map(Some),
            UploadBody::Stream(stream) => ready!(stream.poll_next(cx)),
        };
        if let Ok(Some(piece)) = &piece {
            self.read_bytes += piece.len() as u64;
        }
        Poll::Ready(piece)
    }

    /// Extends the deadline by the time in which nothing was sent because no file was read.
    pub fn excuse(&mut self, deadline: &mut Deadline) {
        if let UploadBody::Files(files) = &mut self.body {
            files.excuse(deadline);
        }
    }
}
