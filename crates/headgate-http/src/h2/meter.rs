//! Bounds the cost of a server's frames on one HTTP/2 connection, and tracks what the frames tell about the connection.
//!
//! The crate `h2` bounds the cost of one frame, one header block or one stream. But it acknowledges PING, SETTINGS and the like
//! forever. It also closes a connection after too many frames for streams that the client has reset. So each frame header
//! is checked here. A frame without content, or for a stream on which no request waits, costs a credit. Responses and data earn
//! credits, and so do time and streams that were reset. A server without credit is flooding the client.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Instant;

use headgate_core::clock;
use headgate_core::error::Failure;

use crate::h2::frames::{ACK, DATA, END_STREAM, Frame, GO_AWAY, HEADERS, SETTINGS, WINDOW_UPDATE};

/// The most credit of a server, and so the most frames without content that it may send at once.
const MAX_CREDIT: i64 = 4096;
/// The credit that a response earns.
const RESPONSE_CREDIT: i64 = 16;
/// The bytes of bodies that earn one credit.
const BYTES_PER_CREDIT: usize = 4096;
/// The fewest sent bytes for which a server is expected to send a `WINDOW_UPDATE`. It sends one for the stream and one for the
/// connection, so that with this size it sends about as many bytes as the client.
const WINDOW_UPDATE_BYTES: usize = 32;
/// The most `WINDOW_UPDATE` frames that are free at a time.
const MAX_WINDOW_UPDATES: usize = 1 << 20;
/// The credit that a server earns in a second.
const CREDIT_EACH_SECOND: f64 = 50.0;
/// The shortest expected DATA frames of a stream that was reset: this bounds how many may be on their way.
const STRAY_BYTES: u32 = 32;
/// The most stray frames that are free at a time: for each, `h2` may have to keep a reply until it can be sent.
const MAX_STRAYS: i64 = 1 << 16;

/// The state of a connection as its server's frames show it, and the credit of the server.
#[derive(Debug)]
pub(super) struct FrameMeter {
    /// Streams whose end has not come, and on which a request waits; no more than concurrent requests.
    awaited: RefCell<HashSet<u32>>,
    /// The number of frames that may still come for streams that were reset.
    strays: Cell<i64>,
    /// The number of frames that may come for one stream that was reset.
    strays_of_one: i64,
    max_strays: i64,
    /// The number of sent bytes for which the server may still send `WINDOW_UPDATE` frames.
    sent: Cell<usize>,
    credit: Cell<i64>,
    refilled: Cell<Instant>,
    /// A read brought bytes since the last [`FrameMeter::take_was_read`].
    was_read: Cell<bool>,
    /// The number of reads that brought bytes.
    reads: Cell<u32>,
    /// A SETTINGS frame has come.
    has_settings: Cell<bool>,
    /// A SETTINGS frame has come since the last [`FrameMeter::take_new_settings`].
    new_settings: Cell<bool>,
    /// The connection takes no more requests.
    retired: Cell<bool>,
    close_reason: RefCell<Option<CloseReason>>,
}

/// Why a connection was closed.
#[derive(Debug, Clone)]
pub(super) enum CloseReason {
    ByServer,
    Failed(Failure),
}

impl FrameMeter {
    pub(super) fn new(max_streams: usize, window_bytes: u32) -> Self {
        let strays_of_one = RESPONSE_CREDIT + i64::from(window_bytes / STRAY_BYTES);
        Self {
            awaited: RefCell::default(),
            strays: Cell::new(0),
            strays_of_one,
            max_strays: MAX_STRAYS.min(strays_of_one * max_streams as i64),
            sent: Cell::new(0),
            credit: Cell::new(MAX_CREDIT),
            refilled: Cell::new(clock::now()),
            was_read: Cell::new(true),
            reads: Cell::new(0),
            has_settings: Cell::new(false),
            new_settings: Cell::new(false),
            retired: Cell::new(false),
            close_reason: RefCell::new(None),
        }
    }

    /// Records that a read brought bytes.
    pub(super) fn record_read(&self) {
        self.was_read.set(true);
        self.reads.update(|reads| reads.wrapping_add(1));
    }

    /// Returns whether bytes came since the last call.
    pub(super) fn take_was_read(&self) -> bool {
        self.was_read.take()
    }

    pub(super) fn reads(&self) -> u32 {
        self.reads.get()
    }

    pub(super) fn has_settings(&self) -> bool {
        self.has_settings.get()
    }

    /// Returns whether a SETTINGS frame came since the last call.
    pub(super) fn take_new_settings(&self) -> bool {
        self.new_settings.take()
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.get()
    }

    /// Stops new requests on the connection.
    pub(super) fn retire(&self) {
        self.retired.set(true);
    }

    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason.borrow().clone()
    }

    /// Sets why the connection was closed, unless a reason was set before.
    pub(super) fn set_close_reason(&self, reason: CloseReason) {
        self.close_reason.borrow_mut().get_or_insert(reason);
    }

    pub(super) fn record_sent(&self, bytes: usize) {
        self.sent.set((self.sent.get() + bytes).min(MAX_WINDOW_UPDATES * WINDOW_UPDATE_BYTES));
    }

    fn earn(&self, credit: i64) {
        self.credit.set((self.credit.get() + credit).min(MAX_CREDIT));
    }

    /// Returns whether the server has no credit left, after adding what it has earned by time.
    pub(super) fn check_flood(&self, now: impl FnOnce() -> Instant) -> bool {
        if self.credit.get() >= 0 {
            return false;
        }
        let now = now();
        let passed = now.saturating_duration_since(self.refilled.replace(now));
        self.earn((passed.as_secs_f64() * CREDIT_EACH_SECOND) as i64);
        self.credit.get() < 0
    }

    /// Records that a request waits for its response on this stream.
    pub(super) fn await_stream(self: &Rc<Self>, stream: u32) -> AwaitedStream {
        self.awaited.borrow_mut().insert(stream);
        AwaitedStream { meter: self.clone(), stream }
    }

    /// Returns whether a request waits for this frame, and removes its stream if the frame ends it.
    fn take_awaited(&self, stream: u32, ends_stream: bool) -> bool {
        let mut awaited = self.awaited.borrow_mut();
        if ends_stream { awaited.remove(&stream) } else { awaited.contains(&stream) }
    }

    /// Counts a frame, and returns whether `h2` needs it. It does not need empty DATA frames: it counts them over the lifetime
    /// of a connection, and takes a hundred for an attack.
    pub(super) fn count_frame(&self, frame: Frame) -> bool {
        self.charge(frame);
        (frame.kind, frame.length, frame.flags) != (DATA, 0, 0) || frame.stream == 0
    }

    fn charge(&self, frame: Frame) {
        let ends_stream = frame.flags & END_STREAM != 0;
        match frame.kind {
            DATA | HEADERS if !self.take_awaited(frame.stream, ends_stream) => {
                let account = if self.strays.get() > 0 { &self.strays } else { &self.credit };
                account.update(|left| left - 1);
            }
            DATA | HEADERS if ends_stream => self.earn(RESPONSE_CREDIT),
            WINDOW_UPDATE if self.sent.get() >= WINDOW_UPDATE_BYTES => {
                self.sent.update(|sent| sent - WINDOW_UPDATE_BYTES);
            }
            DATA if frame.length > 0 => self.earn((frame.length / BYTES_PER_CREDIT) as i64),
            kind => {
                self.credit.set(self.credit.get() - 1);
                match kind {
                    SETTINGS if frame.flags & ACK == 0 => {
                        self.has_settings.set(true);
                        self.new_settings.set(true);
                    }
                    GO_AWAY => self.retire(),
                    _ => {}
                }
            }
        }
    }
}

/// A stream on which a request waits for its response. Dropping it before the end of the response resets the stream.
#[derive(Debug)]
pub(super) struct AwaitedStream {
    meter: Rc<FrameMeter>,
    stream: u32,
}

impl AwaitedStream {
    /// Returns whether the end of the response has come.
    pub(super) fn has_ended(&self) -> bool {
        !self.meter.awaited.borrow().contains(&self.stream)
    }
}

impl Drop for AwaitedStream {
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
    fn a_server_that_only_sends_pings_uses_up_its_credit_and_earns_some_by_time() {
        let meter = Rc::new(FrameMeter::new(10, 1 << 16));
        let start = meter.refilled.get();
        let ping = Frame { length: 8, kind: 6, flags: 0, stream: 0 };
        for _ in 0..MAX_CREDIT {
            meter.count_frame(ping);
            assert!(!meter.check_flood(|| start));
        }
        meter.count_frame(ping);
        assert!(meter.check_flood(|| start));
        assert!(!meter.check_flood(|| start + Duration::from_secs(1)));
        for _ in 0..50 {
            meter.count_frame(ping);
        }
        assert!(meter.check_flood(|| start + Duration::from_secs(1)));
    }

    #[test]
    fn a_server_that_responds_may_send_other_frames_with_each_response_forever() {
        let meter = Rc::new(FrameMeter::new(10, 1 << 16));
        let start = meter.refilled.get();
        for _ in 0..10 * MAX_CREDIT {
            let _awaited = meter.await_stream(1);
            for kind in [HEADERS, 3, 6, 8, 8, SETTINGS] {
                meter.count_frame(Frame { length: 8, kind, flags: 0, stream: 1 });
            }
            meter.count_frame(Frame { length: 0, kind: DATA, flags: END_STREAM, stream: 1 });
            assert!(!meter.check_flood(|| start));
        }
        assert!(meter.awaited.borrow().is_empty() && meter.strays.get() == 0);
        assert!(meter.has_settings() && meter.take_new_settings() && !meter.take_new_settings() && !meter.is_retired());
        meter.count_frame(Frame { length: 8, kind: GO_AWAY, flags: 0, stream: 0 });
        assert!(meter.is_retired());
    }

    #[test]
    fn a_server_may_send_small_window_updates_for_sent_bytes() {
        let meter = FrameMeter::new(10, 1 << 16);
        let start = meter.refilled.get();
        let update = Frame { length: 4, kind: WINDOW_UPDATE, flags: 0, stream: 1 };
        for _ in 0..10 {
            meter.record_sent(1 << 20);
            for _ in 0..(1 << 20) / WINDOW_UPDATE_BYTES {
                meter.count_frame(update);
                assert!(!meter.check_flood(|| start));
            }
        }
        assert_eq!(MAX_CREDIT, meter.credit.get());
        for _ in 0..=MAX_CREDIT {
            meter.count_frame(update);
        }
        assert!(meter.check_flood(|| start));
    }

    #[test]
    fn frames_on_their_way_for_a_stream_that_was_reset_are_free_but_bounded() {
        let meter = Rc::new(FrameMeter::new(10, 1 << 16));
        let start = meter.refilled.get();
        let stray = Frame { length: 1024, kind: DATA, flags: 0, stream: 1 };
        for _ in 0..100 {
            drop(meter.await_stream(1));
            for _ in 0..(1 << 16) / STRAY_BYTES {
                meter.count_frame(stray);
            }
            assert!(!meter.check_flood(|| start));
        }
        assert_eq!(MAX_CREDIT, meter.credit.get());
        assert!(meter.strays.get() <= meter.max_strays, "{:?}", meter.strays);
        let last = Frame { flags: END_STREAM, ..stray };
        let mut frames = 0;
        while !meter.check_flood(|| start) {
            meter.count_frame(if frames % 2 == 0 { stray } else { last });
            frames += 1;
        }
        assert!(frames <= MAX_CREDIT + meter.max_strays + 1, "{frames}");
    }
}
