//! What a server costs over one connection of HTTP/2, and what its frames say of the connection.
//!
//! The crate `h2` bounds what one frame, one header block or one stream can cost, but answers PING, SETTINGS and the like for
//! ever, and ends a connection if too much comes for streams that it has forgotten, although we gave these up ourselves. Here
//! the head of each frame is looked at: a frame that carries nothing, or comes for a stream that nobody waits for, costs a
//! credit; answers and data earn some, and so do time and the streams that we give up. A server that has used up its credit
//! is one that floods us.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Instant;

use crate::http::h2::frames::{ACK, DATA, END_STREAM, Frame, GO_AWAY, HEADERS, SETTINGS, WINDOW_UPDATE};
use crate::model::error::Failure;

/// Frames that carry nothing which a server may send at once, and has at the most to its credit.
const MAX_CREDIT: i64 = 4096;
/// Such frames that each answer makes up for.
const ANSWER_CREDIT: i64 = 16;
/// Bytes of bodies that make up for one.
const BYTES_FOR_ONE: usize = 4096;
/// The smallest steps in which a server is expected to give back what we send. It does so for the stream and for the connection,
/// so that at this size its frames are about as many bytes as ours.
const GIVEN_BACK_BYTES: usize = 32;
/// The most of such frames that may be to come.
const MAX_GIVEN_BACK: usize = 1 << 20;
/// Such frames that are let pass in a second.
const CREDIT_EACH_SECOND: f64 = 50.0;
/// The smallest pieces that the body of a stream is expected in which was given up: how many frames may be under way.
const STRAY_BYTES: u32 = 32;
/// The most of such frames that may be to come: for each, `h2` may have to keep an answer until it can be sent.
const MAX_STRAYS: i64 = 1 << 16;

/// What a connection and its driver know of what came.
#[derive(Debug)]
pub(super) struct FrameMeter {
    /// Streams whose end has not come and is waited for; no more than requests at once.
    awaited: RefCell<HashSet<u32>>,
    /// Frames that may still come for streams that were given up.
    strays: Cell<i64>,
    /// How many may come for one of them.
    strays_of_one: i64,
    max_strays: i64,
    /// Bytes we sent whose windows the server may still give back.
    sent: Cell<usize>,
    credit: Cell<i64>,
    refilled: Cell<Instant>,
    /// Something came since that was asked last.
    heard: Cell<bool>,
    /// How often something came.
    reads: Cell<u32>,
    /// The server has told its settings, at least once.
    settled: Cell<bool>,
    /// It has since that was asked last.
    has_settings: Cell<bool>,
    /// It takes no more requests.
    leaving: Cell<bool>,
    end: RefCell<Option<End>>,
}

/// Why a connection ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// The server closed it.
    Closed,
    Failed(Failure),
}

impl FrameMeter {
    pub(super) fn new(max_streams: usize, window_bytes: u32) -> Self {
        let strays_of_one = ANSWER_CREDIT + i64::from(window_bytes / STRAY_BYTES);
        Self {
            awaited: RefCell::default(),
            strays: Cell::new(0),
            strays_of_one,
            max_strays: MAX_STRAYS.min(strays_of_one * max_streams as i64),
            sent: Cell::new(0),
            credit: Cell::new(MAX_CREDIT),
            refilled: Cell::new(Instant::now()),
            heard: Cell::new(true),
            reads: Cell::new(0),
            settled: Cell::new(false),
            has_settings: Cell::new(false),
            leaving: Cell::new(false),
            end: RefCell::new(None),
        }
    }

    /// Something has come.
    pub(super) fn hear(&self) {
        self.heard.set(true);
        self.reads.update(|reads| reads.wrapping_add(1));
    }

    pub(super) fn take_heard(&self) -> bool {
        self.heard.take()
    }

    pub(super) fn reads(&self) -> u32 {
        self.reads.get()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled.get()
    }

    pub(super) fn take_settings(&self) -> bool {
        self.has_settings.take()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    pub(super) fn leave(&self) {
        self.leaving.set(true);
    }

    pub(super) fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    /// The first reason counts.
    pub(super) fn set_end(&self, end: End) {
        self.end.borrow_mut().get_or_insert(end);
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.sent.set((self.sent.get() + bytes).min(MAX_GIVEN_BACK * GIVEN_BACK_BYTES));
    }

    fn earn(&self, credit: i64) {
        self.credit.set((self.credit.get() + credit).min(MAX_CREDIT));
    }

    /// Whether a server has sent too much that carries nothing.
    pub(super) fn is_flooded(&self, now: impl FnOnce() -> Instant) -> bool {
        if self.credit.get() >= 0 {
            return false;
        }
        let now = now();
        let passed = now.saturating_duration_since(self.refilled.replace(now));
        self.earn((passed.as_secs_f64() * CREDIT_EACH_SECOND) as i64);
        self.credit.get() < 0
    }

    /// A request was sent on this stream.
    pub(super) fn await_stream(self: &Rc<Self>, stream: u32) -> Awaited {
        self.awaited.borrow_mut().insert(stream);
        Awaited { meter: self.clone(), stream }
    }

    /// Whether somebody waits for what comes on this stream; nobody does after its end.
    fn is_awaited(&self, stream: u32, ends_stream: bool) -> bool {
        let mut awaited = self.awaited.borrow_mut();
        if ends_stream { awaited.remove(&stream) } else { awaited.contains(&stream) }
    }

    /// Takes note of a frame. Whether it says anything: `h2` counts empty pieces of bodies over the whole life of a connection,
    /// and takes a hundred for an attack.
    pub(super) fn take_frame(&self, frame: Frame) -> bool {
        self.count(frame);
        (frame.kind, frame.length, frame.flags) != (DATA, 0, 0) || frame.stream == 0
    }

    fn count(&self, frame: Frame) {
        let ends_stream = frame.flags & END_STREAM != 0;
        match frame.kind {
            DATA | HEADERS if !self.is_awaited(frame.stream, ends_stream) => {
                let account = if self.strays.get() > 0 { &self.strays } else { &self.credit };
                account.update(|left| left - 1);
            }
            DATA | HEADERS if ends_stream => self.earn(ANSWER_CREDIT),
            WINDOW_UPDATE if self.sent.get() >= GIVEN_BACK_BYTES => self.sent.update(|sent| sent - GIVEN_BACK_BYTES),
            DATA if frame.length > 0 => self.earn((frame.length / BYTES_FOR_ONE) as i64),
            kind => {
                self.credit.set(self.credit.get() - 1);
                match kind {
                    SETTINGS if frame.flags & ACK == 0 => {
                        self.settled.set(true);
                        self.has_settings.set(true);
                    }
                    GO_AWAY => self.leave(),
                    _ => {}
                }
            }
        }
    }
}

/// A stream whose response somebody waits for. Dropping it before its end gives it up.
#[derive(Debug)]
pub(super) struct Awaited {
    meter: Rc<FrameMeter>,
    stream: u32,
}

impl Awaited {
    /// Whether the response has come to its end.
    pub(super) fn has_ended(&self) -> bool {
        !self.meter.awaited.borrow().contains(&self.stream)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let meter = &self.meter;
        if meter.awaited.borrow_mut().remove(&self.stream) {
            meter.strays.set((meter.strays.get() + meter.strays_of_one).min(meter.max_strays));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_sends_nothing_but_pings_has_used_up_its_credit_and_time_gives_some_back() {
        let meter = Rc::new(FrameMeter::new(10, 1 << 16));
        let start = meter.refilled.get();
        let ping = Frame { length: 8, kind: 6, flags: 0, stream: 0 };
        for _ in 0..MAX_CREDIT {
            meter.take_frame(ping);
            assert!(!meter.is_flooded(|| start));
        }
        meter.take_frame(ping);
        assert!(meter.is_flooded(|| start));
        assert!(!meter.is_flooded(|| start + Duration::from_secs(1)));
        for _ in 0..50 {
            meter.take_frame(ping);
        }
        assert!(meter.is_flooded(|| start + Duration::from_secs(1)));
    }

    #[test]
    fn who_answers_may_send_other_frames_with_each_answer_for_ever() {
        let meter = Rc::new(FrameMeter::new(10, 1 << 16));
        let start = meter.refilled.get();
        for _ in 0..10 * MAX_CREDIT {
            let _awaited = meter.await_stream(1);
            for kind in [HEADERS, 3, 6, 8, 8, SETTINGS] {
                meter.take_frame(Frame { length: 8, kind, flags: 0, stream: 1 });
            }
            meter.take_frame(Frame { length: 0, kind: DATA, flags: END_STREAM, stream: 1 });
            assert!(!meter.is_flooded(|| start));
        }
        assert!(meter.awaited.borrow().is_empty() && meter.strays.get() == 0);
        assert!(meter.is_settled() && meter.take_settings() && !meter.take_settings() && !meter.is_leaving());
        meter.take_frame(Frame { length: 8, kind: GO_AWAY, flags: 0, stream: 0 });
        assert!(meter.is_leaving());
    }

    #[test]
    fn windows_may_be_given_back_in_small_pieces_for_what_was_sent() {
        let meter = FrameMeter::new(10, 1 << 16);
        let start = meter.refilled.get();
        let update = Frame { length: 4, kind: WINDOW_UPDATE, flags: 0, stream: 1 };
        for _ in 0..10 {
            meter.sent(1 << 20);
            for _ in 0..(1 << 20) / GIVEN_BACK_BYTES {
                meter.take_frame(update);
                assert!(!meter.is_flooded(|| start));
            }
        }
        assert_eq!(MAX_CREDIT, meter.credit.get());
        for _ in 0..=MAX_CREDIT {
            meter.take_frame(update);
        }
        assert!(meter.is_flooded(|| start));
    }

    #[test]
    fn what_was_under_way_for_a_stream_that_was_given_up_may_come_but_not_for_ever() {
        let meter = Rc::new(FrameMeter::new(10, 1 << 16));
        let start = meter.refilled.get();
        let stray = Frame { length: 1024, kind: DATA, flags: 0, stream: 1 };
        for _ in 0..100 {
            drop(meter.await_stream(1));
            for _ in 0..(1 << 16) / STRAY_BYTES {
                meter.take_frame(stray);
            }
            assert!(!meter.is_flooded(|| start));
        }
        assert_eq!(MAX_CREDIT, meter.credit.get());
        assert!(meter.strays.get() <= meter.max_strays, "{:?}", meter.strays);
        let unasked = Frame { flags: END_STREAM, ..stray };
        let mut frames = 0;
        while !meter.is_flooded(|| start) {
            meter.take_frame(if frames % 2 == 0 { stray } else { unasked });
            frames += 1;
        }
        assert!(frames <= MAX_CREDIT + meter.max_strays + 1, "{frames}");
    }
}
