//! A body with files: it is read in chunks as the server accepts them, and is never in memory as a whole.
//!
//! A read may take long if the disk is slow or remote. So it runs on one of the worker's few blocking threads
//! (`engine/worker.rs`), never on its event loop. The threads of `decode/` are not used: there are only as many as cores, and a
//! disk that hangs would stop decoding.
//!
//! A chunk is read only after the previous one was written to the connection. Memory is reserved for a long chunk while uploads
//! and responses together have at most a quarter of the budget; otherwise the chunk is short, and nothing is reserved. So an
//! upload never waits for memory. A server may respond while it reads: if the upload waited for the memory that the response
//! holds, both would wait for each other.

use std::convert::Infallible;
use std::future::Future as _;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use super::contents::{BodyContents, BodyPosition};
use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::memory::{MemoryBudget, Reservation};
use headgate_core::row::BodyPiece;

use crate::deadline::{Deadline, OwnWait};

/// The size of a chunk for which memory is reserved.
const LONG_BYTES: u64 = 64 * 1024;
/// The size of a chunk without reserved memory.
const SHORT_BYTES: u64 = 4 * 1024;

/// A body with files, and the state of sending it.
#[derive(Debug)]
pub(super) struct FileUpload {
    contents: BodyContents,
    length: u64,
    unread_bytes: u64,
    at: BodyPosition,
    memory: MemoryBudget,
    state: FileUploadState,
    /// The time in which the server waited for the disk.
    waited: Duration,
}

#[derive(Debug)]
enum FileUploadState {
    /// The last chunk was written.
    Ready,
    Reading {
        read: JoinHandle<Result<UploadChunk, Failure>>,
        since: Instant,
    },
    Writing(Written),
}

/// A part of the body that was read.
#[derive(Debug)]
struct UploadChunk {
    bytes: Bytes,
    /// The position after it.
    end: BodyPosition,
    written: Written,
}

/// Closes when a chunk was written.
type Written = oneshot::Receiver<Infallible>;

/// The bytes of a chunk with their reservation. Dropping them marks the chunk as written.
struct ReservedBytes {
    bytes: Vec<u8>,
    _reservation: Reservation,
    _unwritten: oneshot::Sender<Infallible>,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl FileUpload {
    /// Inspects the files of a body, which is read within this memory budget.
    ///
    /// # Errors
    /// `invalid_request`: a file does not exist, can't be read, or is no regular file.
    pub(super) async fn begin(pieces: Arc<[BodyPiece]>, memory: MemoryBudget) -> Result<Self, Failure> {
        let contents = flatten(spawn_blocking(|| BodyContents::inspect(pieces)).await)?;
        let length = contents.length();
        let (at, state, waited) = (BodyPosition::default(), FileUploadState::Ready, Duration::ZERO);
        Ok(Self { contents, length, unread_bytes: length, at, memory, state, waited })
    }

    /// Returns the length of the whole body.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns whether the whole body was read.
    pub(super) fn is_done(&self) -> bool {
        self.unread_bytes == 0
    }

    /// Returns whether a read is in progress, for which the server waits.
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.state, FileUploadState::Reading { .. })
    }

    /// Returns the next chunk, which is never empty, once the previous one was written. Must not be called after the last chunk.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        loop {
            match &mut self.state {
                FileUploadState::Ready => {
                    self.state = FileUploadState::Reading { read: self.spawn_read(), since: clock::now() }
                }
                FileUploadState::Reading { read, since } => {
                    let read = flatten(ready!(Pin::new(read).poll(cx)));
                    self.waited += clock::elapsed(*since);
                    self.state = FileUploadState::Ready;
                    let UploadChunk { bytes, end, written } = read?;
                    self.state = FileUploadState::Writing(written);
                    self.at = end;
                    self.unread_bytes -= bytes.len() as u64;
                    return Poll::Ready(Ok(bytes));
                }
                FileUploadState::Writing(written) => {
                    let _ = ready!(Pin::new(written).poll(cx));
                    self.state = FileUploadState::Ready;
                }
            }
        }
    }

    /// Starts reading a chunk in a blocking thread.
    fn spawn_read(&self) -> JoinHandle<Result<UploadChunk, Failure>> {
        let mut reservation = self.memory.reservation();
        let long = self.unread_bytes.min(LONG_BYTES);
        let has_memory = reservation.leaves_three_quarters(long) && reservation.try_grow_within(long);
        let length = if has_memory { long } else { long.min(SHORT_BYTES) };
        let (contents, at) = (self.contents.clone(), self.at);
        spawn_blocking(move || {
            let (unwritten, written) = oneshot::channel();
            let mut bytes = vec![0; length as usize];
            let (length, end) = contents.read(at, &mut bytes)?;
            bytes.truncate(length);
            let owner = ReservedBytes { bytes, _reservation: reservation, _unwritten: unwritten };
            Ok(UploadChunk { bytes: Bytes::from_owner(owner), end, written })
        })
    }

    /// Extends the deadline by the time in which nothing was sent because nothing was read.
    pub(super) fn excuse(&mut self, deadline: &mut Deadline) {
        if !self.waited.is_zero() {
            deadline.excuse(OwnWait::Files, std::mem::take(&mut self.waited));
        }
    }
}

/// Returns the result of a blocking thread, and resumes its panic.
fn flatten<T>(joined: Result<Result<T, Failure>, JoinError>) -> Result<T, Failure> {
    match joined.map_err(JoinError::try_into_panic) {
        Ok(result) => result,
        // A panic ends the run, as one of the lane would.
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => Err(Failure::new(ErrorKind::Cancelled, "the engine ends")),
    }
}
