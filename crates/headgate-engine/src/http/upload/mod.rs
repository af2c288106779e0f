//! A body with files on its way: read in stretches as the server takes them, never whole.
//!
//! A read may take long, where the disk is slow or far away, and so it is never done by a worker's event loop but by one of
//! its few blocking threads (`engine/worker.rs`). Those of `decode/` would not do: there are as many as there are cores, as
//! they compute, and a disk that stands still would keep bodies from being decoded.
//!
//! No stretch is read before the one before it was written to the connection. For a long one, memory is set aside, as long as
//! uploads and responses together have no more than a quarter of the budget; otherwise it is a short one, for which nobody is
//! asked. So an upload never waits for memory: a server may answer while it reads, and what waits for the answer's memory must
//! not be what the server waits for.

mod contents;

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

use self::contents::{Contents, Position};
pub use self::contents::{joined, length_now, lengths};
use crate::http::deadline::{Deadline, OwnWait};
use crate::model::error::{ErrorKind, Failure};
use crate::model::memory::{MemoryBudget, Reservation};
use crate::model::row::BodyPiece;

/// What is read at a time.
const LONG_BYTES: u64 = 64 * 1024;
/// The same where there is no memory to be had.
const SHORT_BYTES: u64 = 4 * 1024;

/// A body whose files have been looked at, and what of it is still to be sent.
#[derive(Debug)]
pub struct Upload {
    contents: Contents,
    length: u64,
    /// How much was not read yet.
    left: u64,
    at: Position,
    memory: MemoryBudget,
    state: State,
    /// Time that was not the server's.
    waited: Duration,
}

#[derive(Debug)]
enum State {
    /// All that was read was written.
    Ready,
    Reading {
        read: JoinHandle<Result<Stretch, Failure>>,
        begun: Instant,
    },
    Writing(Written),
}

/// What was read.
#[derive(Debug)]
struct Stretch {
    bytes: Bytes,
    /// How far it goes.
    end: Position,
    written: Written,
}

/// Ends without a word when a stretch was written.
type Written = oneshot::Receiver<Infallible>;

/// Bytes in memory, with what was set aside for them.
struct Held {
    bytes: Vec<u8>,
    _reservation: Reservation,
    _unwritten: oneshot::Sender<Infallible>,
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
        let (at, state, waited) = (Position::default(), State::Ready, Duration::ZERO);
        Ok(Box::new(Self { contents, length, left: length, at, memory, state, waited }))
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
        matches!(self.state, State::Reading { .. })
    }

    /// The next stretch of it, which is never empty, when the one before it was written. Must not be asked when all was read.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        loop {
            match &mut self.state {
                State::Ready => self.state = State::Reading { read: self.read(), begun: Instant::now() },
                State::Reading { read, begun } => {
                    let read = done(ready!(Pin::new(read).poll(cx)));
                    self.waited += begun.elapsed();
                    self.state = State::Ready;
                    let Stretch { bytes, end, written } = read?;
                    self.state = State::Writing(written);
                    self.at = end;
                    self.left -= bytes.len() as u64;
                    return Poll::Ready(Ok(bytes));
                }
                State::Writing(written) => {
                    let _ = ready!(Pin::new(written).poll(cx));
                    self.state = State::Ready;
                }
            }
        }
    }

    /// Has a stretch read.
    fn read(&self) -> JoinHandle<Result<Stretch, Failure>> {
        let mut reservation = self.memory.reservation();
        let long = self.left.min(LONG_BYTES);
        let has_memory = reservation.leaves_three_quarters(long) && reservation.try_grow_within(long);
        let length = if has_memory { long } else { long.min(SHORT_BYTES) };
        let (contents, at) = (self.contents.clone(), self.at);
        spawn_blocking(move || {
            let (unwritten, written) = oneshot::channel();
            let mut bytes = vec![0; length as usize];
            let (length, end) = contents.read(at, &mut bytes)?;
            bytes.truncate(length);
            let held = Held { bytes, _reservation: reservation, _unwritten: unwritten };
            Ok(Stretch { bytes: Bytes::from_owner(held), end, written })
        })
    }

    /// Moves the deadline on by the time in which nothing was sent because nothing was read.
    pub fn excuse(&mut self, deadline: &mut Deadline) {
        if !self.waited.is_zero() {
            deadline.excuse(OwnWait::Files, std::mem::take(&mut self.waited));
        }
    }
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
