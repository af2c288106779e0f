//! A request body that its caller sends piece by piece, through a buffer of a fixed size.
//!
//! The engine never runs the caller's code: the caller is woken while an exchange wants more of the body, and pushes pieces. So
//! nothing is read of a body whose request finds no connection. An exchange wants more while the buffer has less than
//! [`BUFFER_BYTES`], so that a slow server slows the caller down. Small pieces are joined; large ones are shared, not copied.
//! One stream holds at most [`BUFFER_BYTES`] and one piece.
//!
//! Another attempt needs the body from its beginning. Sendings are numbered: an exchange states the number of its own, and so
//! does the caller with each piece, so that a late one has no effect on the next sending. If the body can't be made a second
//! time, it is consumed once the caller has begun to make it.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::error::{ErrorKind, Failure};

/// While the buffer has this many bytes, no more are wanted.
pub const BUFFER_BYTES: usize = 256 * 1024;
/// A smaller piece is joined with its neighbours.
const SHARED_BYTES: usize = 16 * 1024;

/// The buffer between a caller that makes a body and the exchange that sends it.
pub struct UploadStream {
    length: Option<u64>,
    is_rewindable: bool,
    state: Mutex<UploadState>,
    /// Wakes the waiting caller. It does not block, and no wake-up is lost.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[expect(clippy::struct_excessive_bools, reason = "facts, each by itself")]
#[derive(Default)]
struct UploadState {
    /// The number of the current sending, from 1.
    sending: u64,
    pieces: VecDeque<Bytes>,
    /// Small pieces after `pieces`.
    joined: Vec<u8>,
    bytes: usize,
    /// Whether the exchange of the current sending wants the body.
    is_wanted: bool,
    /// Whether the caller has begun to make the body for the current sending.
    has_begun: bool,
    has_ended: bool,
    /// Whether the caller was woken since it last looked.
    was_woken: bool,
    exchange: Option<Waker>,
}

impl UploadState {
    fn has_room(&self) -> bool {
        self.is_wanted && !self.has_ended && self.bytes < BUFFER_BYTES
    }

    fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        if piece.len() < SHARED_BYTES {
            self.joined.extend_from_slice(&piece);
            return;
        }
        if !self.joined.is_empty() {
            self.pieces.push_back(mem::take(&mut self.joined).into());
        }
        self.pieces.push_back(piece);
    }

    fn pop(&mut self) -> Option<Bytes> {
        let joined = &mut self.joined;
        let piece = self.pieces.pop_front().or_else(|| (!joined.is_empty()).then(|| mem::take(joined).into()))?;
        self.bytes -= piece.len();
        Some(piece)
    }
}

impl UploadStream {
    /// Creates a stream of this length, if it is known. `is_rewindable`: the caller can make the body a second time.
    pub fn new(length: Option<u64>, is_rewindable: bool) -> Self {
        Self { length, is_rewindable, state: Mutex::default(), wake: OnceLock::new() }
    }

    /// Sets what wakes the caller. Only the first call counts.
    pub fn set_wake(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.wake.set(wake);
    }

    /// Returns the length of the whole body, if it is known.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns whether the caller can make the body a second time.
    pub(crate) fn is_rewindable(&self) -> bool {
        self.is_rewindable
    }

    /// Returns whether the body can't be sent any more: the caller has begun to make it, and can't do so twice.
    pub fn is_consumed(&self) -> bool {
        !self.is_rewindable && self.state().has_begun
    }

    /// Begins to send the body from its beginning, and returns the number of this sending. Earlier sendings get no more pieces.
    ///
    /// # Errors
    /// `invalid_request`: the caller has begun to make the body, and can't do so twice.
    pub fn begin(&self) -> Result<u64, Failure> {
        // Under one lock, because the caller may begin the body meanwhile.
        let mut state = self.state();
        if !self.is_rewindable && state.has_begun {
            return Err(Failure::new(ErrorKind::InvalidRequest, "the request was to be sent a second time").lasting());
        }
        *state = UploadState { sending: state.sending + 1, ..UploadState::default() };
        Ok(state.sending)
    }

    /// Returns the next piece, which is not empty, or `None` at the end of the body. The caller is woken if it is to push more.
    /// An earlier sending, which was abandoned, waits for ever.
    pub fn poll_next(&self, sending: u64, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.state();
        if state.sending != sending {
            return Poll::Pending;
        }
        state.is_wanted = true;
        let piece = state.pop();
        let must_wake = state.has_room() && !mem::replace(&mut state.was_woken, true);
        let polled = match piece {
            None if !state.has_ended => {
                state.exchange = Some(cx.waker().clone());
                Poll::Pending
            }
            piece => Poll::Ready(piece),
        };
        drop(state);
        if must_wake && let Some(wake) = self.wake.get() {
            wake();
        }
        polled
    }

    /// Stops sending the body: no more of it is wanted. Does nothing if a later sending has begun.
    pub fn stop(&self, sending: u64) {
        let mut state = self.state();
        if state.sending != sending {
            return;
        }
        let dropped = (mem::take(&mut state.pieces), mem::take(&mut state.joined), state.exchange.take());
        (state.is_wanted, state.bytes) = (false, 0);
        drop(state);
        drop(dropped);
    }

    /// Returns the number of the sending for which the caller is to push the next piece; `None`: it is woken once it is to push
    /// one.
    pub fn wanted_sending(&self) -> Option<u64> {
        let mut state = self.state();
        let is_wanted = state.has_room();
        state.was_woken = is_wanted;
        state.has_begun |= is_wanted;
        is_wanted.then_some(state.sending)
    }

    /// Adds a piece, or ends the body with `None`. Drops a piece for an earlier sending, and one that is not wanted any more.
    pub fn push(&self, sending: u64, piece: Option<Bytes>) {
        let mut state = self.state();
        if state.sending != sending || !state.is_wanted {
            return;
        }
        match piece {
            Some(piece) if piece.is_empty() => return,
            Some(piece) => state.push(piece),
            None => state.has_ended = true,
        }
        let exchange = state.exchange.take();
        drop(state);
        if let Some(exchange) = exchange {
            exchange.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, UploadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for UploadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadStream").field("length", &self.length).finish_non_exhaustive()
    }
}

impl PartialEq for UploadStream {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for UploadStream {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn stream(length: Option<u64>, is_rewindable: bool) -> (UploadStream, Arc<AtomicUsize>) {
        let (stream, woken) = (UploadStream::new(length, is_rewindable), Arc::<AtomicUsize>::default());
        let counted = woken.clone();
        stream.set_wake(Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        (stream, woken)
    }

    fn next(stream: &UploadStream, sending: u64) -> Poll<Option<Bytes>> {
        stream.poll_next(sending, &mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_caller_is_woken_once_an_exchange_wants_bytes_and_there_is_room() {
        let (stream, woken) = stream(None, false);
        assert_eq!(1, stream.begin().expect("it was not begun"));
        assert_eq!((None, false), (stream.wanted_sending(), stream.is_consumed()), "nothing is sent yet");
        assert_eq!(Poll::Pending, next(&stream, 1));
        assert_eq!((1, Some(1), true), (woken.load(Ordering::Relaxed), stream.wanted_sending(), stream.is_consumed()));
        let large = Bytes::from(vec![7; BUFFER_BYTES]);
        let address = large.as_ptr();
        stream.push(1, Some(large));
        assert_eq!(None, stream.wanted_sending(), "it is full");
        let Poll::Ready(Some(piece)) = next(&stream, 1) else { panic!("there is a piece") };
        assert_eq!((address, BUFFER_BYTES), (piece.as_ptr(), piece.len()), "it is shared");
        assert_eq!((2, Some(1)), (woken.load(Ordering::Relaxed), stream.wanted_sending()));
        stream.push(1, None);
        assert_eq!((Poll::Ready(None), None), (next(&stream, 1), stream.wanted_sending()));
    }

    #[test]
    fn small_pieces_are_joined_in_their_order() {
        let (stream, _) = stream(None, false);
        let sending = stream.begin().expect("it was not begun");
        let _ = next(&stream, sending);
        for piece in [vec![1; 10], Vec::new(), vec![2; 10], vec![3; SHARED_BYTES], vec![4]] {
            stream.push(sending, Some(piece.into()));
        }
        stream.push(sending, None);
        let pieces: Vec<Bytes> = std::iter::from_fn(|| match next(&stream, sending) {
            Poll::Ready(piece) => piece,
            Poll::Pending => panic!("it has ended"),
        })
        .collect();
        assert_eq!(vec![[[1; 10], [2; 10]].concat(), vec![3; SHARED_BYTES], vec![4]], pieces);
    }

    #[test]
    fn a_body_that_can_be_made_twice_begins_anew_and_another_one_only_if_nothing_was_made() {
        for is_rewindable in [true, false] {
            let (stream, _) = stream(None, is_rewindable);
            let unused = stream.begin().expect("nothing was made");
            let _ = next(&stream, unused);
            let sending = stream.begin().expect("the caller has made nothing");
            let _ = next(&stream, sending);
            stream.stop(unused);
            assert_eq!(Some(sending), stream.wanted_sending());
            stream.push(sending, Some("old".into()));
            stream.stop(sending);
            stream.push(sending, Some("late".into()));
            assert_eq!((None, !is_rewindable), (stream.wanted_sending(), stream.is_consumed()));
            let begun = stream.begin();
            assert_eq!(is_rewindable, begun.is_ok());
            if let Ok(third) = begun {
                assert_eq!((Poll::Pending, Some(third)), (next(&stream, third), stream.wanted_sending()));
                stream.push(sending, Some("late".into()));
                stream.push(third, Some("new".into()));
                assert_eq!(Poll::Ready(Some("new".into())), next(&stream, third));
            }
        }
    }

    #[test]
    fn a_late_poll_of_an_earlier_sending_neither_takes_a_piece_nor_wants_one() {
        let (stream, woken) = stream(None, true);
        let earlier = stream.begin().expect("it can be made twice");
        let sending = stream.begin().expect("it can be made twice");
        assert_eq!((Poll::Pending, None), (next(&stream, earlier), stream.wanted_sending()));
        assert_eq!((Poll::Pending, Some(sending)), (next(&stream, sending), stream.wanted_sending()));
        stream.push(sending, Some("piece".into()));
        assert_eq!((Poll::Pending, 1), (next(&stream, earlier), woken.load(Ordering::Relaxed)));
        assert_eq!(Poll::Ready(Some("piece".into())), next(&stream, sending));
    }
}
