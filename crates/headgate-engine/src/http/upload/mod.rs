//! A body with files on its way: read in stretches as the server takes them, never whole.
//!
//! A read may take long, where the disk is slow or far away, and so it is never done by a worker's event loop but by one of
//! its few blocking threads (`engine/worker.rs`). Those of `decode/` would not do: there are as many as there are cores, as
//! they compute, and a disk that stands still would keep bodies from being decoded. No stretch is read before memory was
//! set aside for it, which is given back when the stretch was written to the connection, wherever it lies until then.

mod contents;

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::{JoinError, spawn_blocking};

use self::contents::{Contents, Position};
pub use self::contents::{joined, length_now, lengths};
use crate::http::deadline::{Deadline, OwnWait};
use crate::model::error::{ErrorKind, Failure};
use crate::model::memory::{MemoryBudget, Reservation};
use crate::model::row::BodyPiece;

/// What is read at a time.
const STRETCH_BYTES: u64 = 64 * 1024;

/// A body whose files have been looked at, and what of it is still to be sent.
pub struct Upload {
    contents: Contents,
    length: u64,
    /// How much was not read yet.
    left: u64,
    at: Position,
    memory: MemoryBudget,
    reading: Option<Reading>,
    waited: Waited,
}

type Reading = Pin<Box<dyn Future<Output = (Waited, Result<Stretch, Failure>)>>>;

/// What was read, and how far that is.
struct Stretch {
    bytes: Bytes,
    at: Position,
}

/// Time that was not the server's.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    for_memory: Duration,
    for_files: Duration,
}

/// Bytes in memory, with what was set aside for them.
struct Held {
    bytes: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Upload {
    /// Looks at the files of a body, which is to be read with this memory.
    ///
    /// # Errors
    /// `invalid_request`: a file is not there, can't be read, or is no regular file.
    pub async fn begin(pieces: Arc<[BodyPiece]>, memory: MemoryBudget) -> Result<Box<Self>, Failure> {
        let contents = done(spawn_blocking(|| Contents::look_at(pieces)).await)?;
        let length = contents.length();
        let (at, waited) = (Position::default(), Waited::default());
        Ok(Box::new(Self { contents, length, left: length, at, memory, reading: None, waited }))
    }

    /// Of the whole body.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// What was not read yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether all of it was read.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Whether we keep the server waiting.
    pub fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// The next stretch of it, which is never empty. Must not be asked when all was read.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        let reading = self.reading.get_or_insert_with(|| {
            Box::pin(read(self.contents.clone(), self.at, self.left.min(STRETCH_BYTES), self.memory.reservation()))
        });
        let (waited, read) = ready!(reading.as_mut().poll(cx));
        self.reading = None;
        self.waited.for_memory += waited.for_memory;
        self.waited.for_files += waited.for_files;
        Poll::Ready(read.map(|Stretch { bytes, at }| {
            self.at = at;
            self.left -= bytes.len() as u64;
            bytes
        }))
    }

    /// Moves the deadline on by the time in which nothing was sent because we had nothing to send.
    pub fn excuse(&mut self, deadline: &mut Deadline) {
        let Waited { for_memory, for_files } = std::mem::take(&mut self.waited);
        for (wait, time) in [(OwnWait::Memory, for_memory), (OwnWait::Files, for_files)] {
            if !time.is_zero() {
                deadline.excuse(wait, time);
            }
        }
    }
}

/// Reads so many bytes.
async fn read(
    contents: Contents,
    at: Position,
    bytes: u64,
    mut reservation: Reservation,
) -> (Waited, Result<Stretch, Failure>) {
    let begun = Instant::now();
    reservation.grow(bytes).await;
    reservation.settle();
    let for_memory = begun.elapsed();
    let begun = Instant::now();
    let read = spawn_blocking(move || {
        let mut room = vec![0; bytes as usize];
        let (length, at) = contents.read(at, &mut room)?;
        room.truncate(length);
        Ok(Stretch { bytes: Bytes::from_owner(Held { bytes: room, _reservation: reservation }), at })
    });
    let read = done(read.await);
    (Waited { for_memory, for_files: begun.elapsed() }, read)
}

/// What a blocking thread came to.
fn done<T>(joined: Result<Result<T, Failure>, JoinError>) -> Result<T, Failure> {
    match joined.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        // As if the lane itself had panicked: that ends the run.
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => Err(Failure::new(ErrorKind::Cancelled, "the engine ends")),
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { length, left, .. } = self;
        formatter.debug_struct("Upload").field("length", length).field("left", left).finish_non_exhaustive()
    }
}
