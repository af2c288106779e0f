//! A response body that is streamed to the caller while it arrives, through a buffer of a fixed size.
//!
//! The lane reads from its connection only while the buffer is not full, so that a slow caller slows the server down: over
//! HTTP/1.1 by its socket, over HTTP/2 by the window of the stream. Pieces that were not taken yet are joined, so that
//! bodies in tiny pieces need no more memory than others. One stream holds at most [`BUFFER_BYTES`] and one piece. Their
//! reservations stay within the memory budget: if a stream held the permit to overdraw, a caller that does not read would
//! keep it from all other rows.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::error::{ErrorKind, Failure};
use crate::memory::Reservation;

/// While the buffer has this many bytes, nothing is read.
pub const BUFFER_BYTES: usize = 128 * 1024;

/// The result of an attempt to read bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamRead {
    Bytes(Vec<u8>),
    /// Nothing has come; the caller is woken when something does.
    Nothing,
    /// The body has ended: completely, or with this failure.
    End(Option<Failure>),
}

/// Bytes of a body.
#[derive(Debug, Default)]
pub struct BodyChunk {
    pub bytes: Vec<u8>,
    /// The reservation for the bytes.
    pub reservation: Reservation,
}

/// The buffer between the lane that receives a body and the caller.
pub struct BodyStream {
    state: Mutex<BodyStreamState>,
    /// Wakes the lane when the caller has read, or has called `begin` or `close`.
    changed: Notify,
    /// Wakes the waiting caller. It does not block, and no wake-up is lost.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct BodyStreamState {
    bytes: Vec<u8>,
    /// The reservation for `bytes`, from which bytes that are read are released.
    reservation: Reservation,
    /// Bytes of the body that came over the connection.
    received: u64,
    /// Whether the caller wants the content encodings kept; `None`: not known yet.
    raw: Option<bool>,
    /// `None`: the body has not ended.
    end: Option<Result<(), Failure>>,
    is_closed: bool,
    /// Whether a caller waits that was not woken yet.
    is_awaited: bool,
}

impl BodyStream {
    pub fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), wake }
    }

    /// Begins the delivery of the body: as it came if `raw`, otherwise decoded.
    pub fn begin(&self, raw: bool) {
        self.state().raw.get_or_insert(raw);
        self.changed.notify_one();
    }

    /// Returns all bytes that have come, and removes them from the buffer.
    pub fn read(&self) -> StreamRead {
        let mut state = self.state();
        if !state.bytes.is_empty() {
            let (bytes, reservation) = (std::mem::take(&mut state.bytes), std::mem::take(&mut state.reservation));
            drop(state);
            drop(reservation);
            self.changed.notify_one();
            return StreamRead::Bytes(bytes);
        }
        if let Some(end) = &state.end {
            return StreamRead::End(end.clone().err());
        }
        state.is_awaited = true;
        StreamRead::Nothing
    }

    /// Returns why the body is incomplete, once that is known.
    pub fn failure(&self) -> Option<Failure> {
        self.state().end.clone()?.err()
    }

    /// Returns the bytes of the body that came over the connection so far, before they were decoded.
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

    /// Waits for [`BodyStream::begin`], and returns its `raw`, or `None` if the stream was closed before.
    pub async fn wait_for_begin(&self) -> Option<bool> {
        self.wait_until(|state| if state.is_closed { Some(None) } else { state.raw.map(Some) }).await
    }

    /// Waits until the buffer is not full, and returns whether the rest is wanted.
    pub async fn wait_for_space(&self) -> bool {
        self.wait_until(|state| (state.is_closed || state.bytes.len() < BUFFER_BYTES).then_some(!state.is_closed)).await
    }

    /// Waits until it is closed.
    pub async fn wait_closed(&self) {
        self.wait_until(|state| state.is_closed.then_some(())).await;
    }

    /// Counts bytes that came over the connection.
    pub fn count(&self, bytes: usize) {
        self.state().received += bytes as u64;
    }

    /// Adds a piece to the buffer.
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

    /// Ends the body. Only the first call counts.
    pub fn end(&self, failure: Option<Failure>) {
        let mut state = self.state();
        state.end.get_or_insert(failure.map_or(Ok(()), Err));
        self.wake_if_awaited(state);
    }

    fn wake_if_awaited(&self, mut state: MutexGuard<'_, BodyStreamState>) {
        if std::mem::take(&mut state.is_awaited) {
            drop(state);
            (self.wake)();
        }
    }

    /// Waits until `look` returns a value. Only one task may wait at a time: the lane.
    async fn wait_until<T>(&self, look: impl Fn(&BodyStreamState) -> Option<T>) -> T {
        loop {
            if let Some(found) = look(&self.state()) {
                return found;
            }
            self.changed.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, BodyStreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a stream when it is dropped, whatever becomes of the lane that has it.
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
    use crate::memory::MemoryBudget;

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
    fn unread_pieces_are_joined_until_the_buffer_is_full() {
        let (stream, rung) = stream();
        assert_eq!(StreamRead::Nothing, stream.read());
        for _ in 0..BUFFER_BYTES {
            assert_eq!(Some(true), now(stream.wait_for_space()));
            stream.push(BodyChunk { bytes: vec![7], ..BodyChunk::default() });
        }
        assert_eq!((None, 1), (now(stream.wait_for_space()), rung.load(Ordering::Relaxed)), "it has rung once");
        assert_eq!(StreamRead::Bytes(vec![7; BUFFER_BYTES]), stream.read());
        assert_eq!(Some(true), now(stream.wait_for_space()));
        stream.end(None);
        assert_eq!([StreamRead::End(None), StreamRead::End(None)], [stream.read(), stream.read()]);
    }

    #[test]
    fn memory_is_released_with_bytes_that_are_read_and_with_dropped_bytes() {
        let (budget, (stream, _)) = (MemoryBudget::new(1000), stream());
        let push = || {
            let mut reservation = budget.reservation();
            assert!(reservation.try_grow(100));
            stream.push(BodyChunk { bytes: vec![0; 100], reservation });
        };
        push();
        push();
        assert_eq!(200, budget.used());
        stream.read();
        assert_eq!(0, budget.used());
        push();
        stream.close();
        assert_eq!(0, budget.used());
        push();
        assert_eq!((0, Some(false)), (budget.used(), now(stream.wait_for_space())));
    }

    #[test]
    fn an_unread_stream_does_not_prevent_another_body_from_overdrawing() {
        let (budget, (stream, _)) = (MemoryBudget::new(100), stream());
        for _ in 0..3 {
            let mut reservation = budget.reservation();
            assert!(reservation.try_grow(80), "within the limit at first, and then with the permit");
            reservation.settle();
            stream.push(BodyChunk { bytes: vec![0; 80], reservation });
            assert_eq!(80, budget.used());
        }
        assert_eq!(StreamRead::Bytes(vec![0; 240]), stream.read());
        assert_eq!(0, budget.used());
    }

    #[test]
    fn the_first_begin_counts_and_the_end_of_a_lane_ends_the_stream() {
        let (stream, rung) = stream();
        assert_eq!((None, None), (now(stream.wait_for_begin()), now(stream.wait_closed())));
        stream.begin(true);
        stream.begin(false);
        assert_eq!(Some(Some(true)), now(stream.wait_for_begin()));
        assert_eq!(StreamRead::Nothing, stream.read());
        drop(EndOnDrop(&stream));
        assert_eq!(1, rung.load(Ordering::Relaxed));
        let StreamRead::End(Some(failure)) = stream.read() else { panic!("it has ended") };
        assert_eq!(ErrorKind::Cancelled, failure.kind);
        stream.close();
        assert_eq!((Some(None), Some(())), (now(stream.wait_for_begin()), now(stream.wait_closed())));
    }
}
