//! A response body that is streamed to the caller while it arrives, through a buffer of a fixed size.
//!
//! The lane reads from its connection only while the buffer has room, so that a slow caller slows the server down: over
//! HTTP/1.1 by its socket, over HTTP/2 by the window of the stream. Pieces that were not taken yet are joined, so that bodies
//! in tiny pieces take no more room than other bodies. One stream holds at most [`ROOM_BYTES`] and one piece in memory. They
//! are reserved within the limit of the memory budget, or not at all: if a stream held the permit to overdraw, a caller that
//! does not read would keep it from all other rows.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::error::{ErrorKind, Failure};
use crate::model::memory::Reservation;

/// While so much waits to be taken, nothing is read.
pub const ROOM_BYTES: usize = 128 * 1024;

/// The result of an attempt to take bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Bytes(Vec<u8>),
    /// Nothing has come; it rings when something does.
    Nothing,
    /// There is no more: the body is whole, or this is why it isn't.
    End(Option<Failure>),
}

/// As much of a body as has come.
#[derive(Debug, Default)]
pub struct BodyChunk {
    pub bytes: Vec<u8>,
    /// What was set aside for it.
    pub reservation: Reservation,
}

/// The buffer between the lane that receives a body and the caller.
pub struct BodyStream {
    state: Mutex<State>,
    /// For the lane: something was taken, or decided.
    changed: Notify,
    /// Wakes the waiting caller. It does not block, and no wake-up is lost.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// The reservation for `bytes`: taken bytes leave it.
    reservation: Reservation,
    /// Bytes of the body that came over the connection.
    received: u64,
    /// The caller wants the content encodings kept; `None`: not known yet.
    raw: Option<bool>,
    /// `None`: there is more to come.
    end: Option<Result<(), Failure>>,
    is_closed: bool,
    /// A caller waits, and was not woken yet.
    is_awaited: bool,
}

impl BodyStream {
    pub fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), wake }
    }

    /// From now on it is taken: with its content codings undone, or as it came.
    pub fn begin(&self, raw: bool) {
        self.state().raw.get_or_insert(raw);
        self.changed.notify_one();
    }

    /// Takes all that has come.
    pub fn take(&self) -> Taken {
        let mut state = self.state();
        if !state.bytes.is_empty() {
            let (bytes, reservation) = (std::mem::take(&mut state.bytes), std::mem::take(&mut state.reservation));
            drop(state);
            drop(reservation);
            self.changed.notify_one();
            return Taken::Bytes(bytes);
        }
        if let Some(end) = &state.end {
            return Taken::End(end.clone().err());
        }
        state.is_awaited = true;
        Taken::Nothing
    }

    /// Why the body isn't whole, when that is known.
    pub fn failure(&self) -> Option<Failure> {
        self.state().end.clone()?.err()
    }

    /// Bytes of the body that came over the connection so far, before content codings were undone.
    pub fn received(&self) -> u64 {
        self.state().received
    }

    /// Abandons the rest of the body: the exchange ends, and buffered bytes are dropped.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let dropped = (std::mem::take(&mut state.bytes), std::mem::take(&mut state.reservation));
        drop(state);
        drop(dropped);
        self.changed.notify_one();
    }

    /// Waits until it is said whether content codings are left; `None`: it was closed before.
    pub async fn raw(&self) -> Option<bool> {
        self.when(|state| if state.is_closed { Some(None) } else { state.raw.map(Some) }).await
    }

    /// Waits for room. Whether the rest is wanted.
    pub async fn room(&self) -> bool {
        self.when(|state| (state.is_closed || state.bytes.len() < ROOM_BYTES).then_some(!state.is_closed)).await
    }

    /// Waits until it is closed.
    pub async fn closed(&self) {
        self.when(|state| state.is_closed.then_some(())).await;
    }

    /// Something has come over the connection.
    pub fn count(&self, bytes: usize) {
        self.state().received += bytes as u64;
    }

    /// Gives out a piece.
    pub fn push(&self, piece: BodyChunk) {
        let BodyChunk { bytes, mut reservation } = piece;
        reservation.end_overdrawing();
        let mut state = self.state();
        if state.is_closed || bytes.is_empty() {
            return;
        }
        if state.bytes.is_empty() {
            state.bytes = bytes;
        } else {
            state.bytes.extend_from_slice(&bytes);
        }
        state.reservation.absorb(reservation);
        self.wake_if_awaited(state);
    }

    /// There is no more. What is told first holds.
    pub fn end(&self, failure: Option<Failure>) {
        let mut state = self.state();
        state.end.get_or_insert(failure.map_or(Ok(()), Err));
        self.wake_if_awaited(state);
    }

    fn wake_if_awaited(&self, mut state: MutexGuard<'_, State>) {
        if std::mem::take(&mut state.is_awaited) {
            drop(state);
            (self.wake)();
        }
    }

    /// Of one waiter at a time: the lane.
    async fn when<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        loop {
            if let Some(found) = look(&self.state()) {
                return found;
            }
            self.changed.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a stream, whatever becomes of the lane that has it.
#[derive(Debug)]
pub struct EndOnDrop<'a>(pub &'a BodyStream);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end(Some(Failure::new(ErrorKind::Cancelled, "it was cancelled before its body was complete")));
    }
}

impl fmt::Debug for BodyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyStream").field("received", &self.received()).finish_non_exhaustive()
    }
}

impl PartialEq for BodyStream {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for BodyStream {}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};

    use super::*;
    use crate::model::memory::MemoryBudget;

    fn stream() -> (BodyStream, Arc<AtomicUsize>) {
        let rung = Arc::<AtomicUsize>::default();
        let counted = rung.clone();
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        (BodyStream::new(Box::new(count)), rung)
    }

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn what_nobody_has_taken_is_put_together_until_there_is_no_room() {
        let (stream, rung) = stream();
        assert_eq!(Taken::Nothing, stream.take());
        for _ in 0..ROOM_BYTES {
            assert_eq!(Some(true), now(stream.room()));
            stream.push(BodyChunk { bytes: vec![7], ..BodyChunk::default() });
        }
        assert_eq!((None, 1), (now(stream.room()), rung.load(Ordering::Relaxed)), "it has rung once");
        assert_eq!(Taken::Bytes(vec![7; ROOM_BYTES]), stream.take());
        assert_eq!(Some(true), now(stream.room()));
        stream.end(None);
        assert_eq!([Taken::End(None), Taken::End(None)], [stream.take(), stream.take()]);
    }

    #[test]
    fn memory_is_given_back_with_what_is_taken_and_with_what_nobody_takes() {
        let (budget, (stream, _)) = (MemoryBudget::new(1000), stream());
        let push = || {
            let mut reservation = budget.reservation();
            assert!(reservation.try_grow(100));
            stream.push(BodyChunk { bytes: vec![0; 100], reservation });
        };
        push();
        push();
        assert_eq!(200, budget.used());
        stream.take();
        assert_eq!(0, budget.used());
        push();
        stream.close();
        assert_eq!(0, budget.used());
        push();
        assert_eq!((0, Some(false)), (budget.used(), now(stream.room())));
    }

    #[test]
    fn one_that_nobody_takes_keeps_no_other_from_overdrawing() {
        let (budget, (stream, _)) = (MemoryBudget::new(100), stream());
        for _ in 0..3 {
            let mut reservation = budget.reservation();
            assert!(reservation.try_grow(80), "within the limit at first, and then with the permit");
            reservation.settle();
            stream.push(BodyChunk { bytes: vec![0; 80], reservation });
            assert_eq!(80, budget.used());
        }
        assert_eq!(Taken::Bytes(vec![0; 240]), stream.take());
        assert_eq!(0, budget.used());
    }

    #[test]
    fn how_it_is_taken_is_said_once_and_a_lane_that_ends_ends_it() {
        let (stream, rung) = stream();
        assert_eq!((None, None), (now(stream.raw()), now(stream.closed())));
        stream.begin(true);
        stream.begin(false);
        assert_eq!(Some(Some(true)), now(stream.raw()));
        assert_eq!(Taken::Nothing, stream.take());
        drop(EndOnDrop(&stream));
        assert_eq!(1, rung.load(Ordering::Relaxed));
        let Taken::End(Some(failure)) = stream.take() else { panic!("it has ended") };
        assert_eq!(ErrorKind::Cancelled, failure.kind);
        stream.close();
        assert_eq!((Some(None), Some(())), (now(stream.raw()), now(stream.closed())));
    }
}
