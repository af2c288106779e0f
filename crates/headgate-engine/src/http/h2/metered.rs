//! The bytes under HTTP/2, with an eye on what a server sends.
//!
//! The crate `h2` bounds what one frame, one header block or one stream can cost, but answers PING, SETTINGS and the like for
//! ever. Here the nine bytes at the head of each frame are looked at: a frame that carries nothing costs a credit, answers
//! and data earn some, and so does time. A server that has used up its credit is one that floods us.
//!
//! A write that fails because the server has gone is put off, for `h2` would not read on: what the server said last tells which
//! requests it has left alone.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::dial::stream::Stream;
use crate::http::h1::transfer::{io_failure, poll_read};
use crate::model::error::{ErrorKind, Failure};

/// Frames that carry nothing which a server may send at once, and has at the most to its credit.
const MAX_CREDIT: i64 = 4096;
/// Such frames that each answer makes up for.
const ANSWER_CREDIT: i64 = 16;
/// Bytes of bodies, in either direction, that make up for one.
const BYTES_FOR_ONE: usize = 4096;
/// Such frames that are let pass in a second.
const CREDIT_EACH_SECOND: f64 = 50.0;

/// What a connection and its driver know of what came.
#[derive(Debug)]
pub(super) struct Meter {
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

impl Meter {
    fn new() -> Self {
        Self {
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

    fn earn(&self, credit: i64) {
        self.credit.set((self.credit.get() + credit).min(MAX_CREDIT));
    }

    /// Whether a server has sent too much that carries nothing.
    fn is_flooded(&self, now: impl FnOnce() -> Instant) -> bool {
        if self.credit.get() >= 0 {
            return false;
        }
        let now = now();
        let passed = now.saturating_duration_since(self.refilled.replace(now));
        self.earn((passed.as_secs_f64() * CREDIT_EACH_SECOND) as i64);
        self.credit.get() < 0
    }

    fn take_frame(&self, frame: Frame) {
        let ends_stream = frame.flags & END_STREAM != 0;
        match frame.kind {
            DATA | HEADERS if ends_stream => self.earn(ANSWER_CREDIT),
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

/// What the head of a frame says (RFC 9113 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    length: usize,
    kind: u8,
    flags: u8,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;

const HEAD_BYTES: usize = 9;

/// Finds the heads of frames in bytes that come in pieces.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; HEAD_BYTES],
    head_length: usize,
    /// Bytes to come of the frame whose head was found last.
    left: usize,
}

impl Frames {
    fn feed(&mut self, mut data: &[u8], mut found: impl FnMut(Frame)) {
        while !data.is_empty() {
            let skipped = self.left.min(data.len());
            self.left -= skipped;
            data = &data[skipped..];
            let taken = (HEAD_BYTES - self.head_length).min(data.len());
            self.head[self.head_length..self.head_length + taken].copy_from_slice(&data[..taken]);
            self.head_length += taken;
            data = &data[taken..];
            if self.head_length == HEAD_BYTES {
                let [high, middle, low, kind, flags, ..] = self.head;
                self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
                self.head_length = 0;
                found(Frame { length: self.left, kind, flags });
            }
        }
    }
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Metered {
    stream: Stream,
    frames: Frames,
    meter: Rc<Meter>,
    /// Bytes written that have not made up for a frame yet.
    written: usize,
    /// Nothing can be written any more: the end is for who reads to find.
    is_cut: bool,
}

impl Metered {
    pub(super) fn new(stream: Stream) -> (Self, Rc<Meter>) {
        let meter = Rc::new(Meter::new());
        (Self { stream, frames: Frames::default(), meter: meter.clone(), written: 0, is_cut: false }, meter)
    }
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, frames, meter, .. } = self.get_mut();
        let into = buffer.initialize_unfilled();
        let length = match ready!(poll_read(stream, into, cx)) {
            Ok(0) => {
                meter.set_end(End::Closed);
                return Poll::Ready(Ok(()));
            }
            Ok(length) => length,
            Err(error) => {
                meter.set_end(End::Failed(io_failure(&error)));
                return Poll::Ready(Err(error));
            }
        };
        meter.heard.set(true);
        meter.reads.update(|reads| reads.wrapping_add(1));
        frames.feed(&into[..length], |frame| meter.take_frame(frame));
        buffer.advance(length);
        if meter.is_flooded(Instant::now) {
            let message = "the server floods the HTTP/2 connection with frames that carry nothing";
            meter.set_end(End::Failed(Failure::new(ErrorKind::Protocol, message)));
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().write(cx, |stream, cx| stream.poll_write(cx, data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(cx, |stream, cx| stream.poll_write_vectored(cx, data))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().unless_cut(cx, Stream::poll_flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl Metered {
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut Stream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let bytes = ready!(self.unless_cut(cx, write))?;
        self.written += bytes;
        self.meter.earn((self.written / BYTES_FOR_ONE) as i64);
        self.written %= BYTES_FOR_ONE;
        Poll::Ready(Ok(bytes))
    }

    /// Goes on writing; has the connection read to its end instead, which is there, once the server has gone.
    fn unless_cut<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut Stream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.is_cut {
            return Poll::Pending;
        }
        match ready!(write(Pin::new(&mut self.stream), cx)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                self.is_cut = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => {
                self.meter.set_end(End::Failed(io_failure(&error)));
                Poll::Ready(Err(error))
            }
            written => Poll::Ready(written),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).expect("short").to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        bytes.resize(HEAD_BYTES + payload, 0xAA);
        bytes
    }

    #[test]
    fn who_sends_nothing_but_pings_has_used_up_its_credit_and_time_gives_some_back() {
        let meter = Meter::new();
        let start = meter.refilled.get();
        let ping = Frame { length: 8, kind: 6, flags: 0 };
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
        let meter = Meter::new();
        let start = meter.refilled.get();
        for _ in 0..10 * MAX_CREDIT {
            for kind in [HEADERS, 3, 6, 8, 8, SETTINGS] {
                meter.take_frame(Frame { length: 8, kind, flags: 0 });
            }
            meter.take_frame(Frame { length: 0, kind: DATA, flags: END_STREAM });
            assert!(!meter.is_flooded(|| start));
        }
        assert!(meter.is_settled() && meter.take_settings() && !meter.take_settings() && !meter.is_leaving());
        meter.take_frame(Frame { length: 8, kind: GO_AWAY, flags: 0 });
        assert!(meter.is_leaving());
    }

    #[tokio::test]
    async fn what_a_server_said_last_is_read_though_nothing_can_be_written_to_it() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let stream = Stream::Plain(TcpStream::connect(address).await.expect("somebody listens"));
        let (mut peer, _) = listener.accept().await.expect("a connection");
        let (mut metered, meter) = Metered::new(stream);
        metered.write_all(b"what nobody reads").await.expect("it is open");
        peer.readable().await.expect("it is open");
        let last = frame(GO_AWAY, 0, 8);
        peer.write_all(&last).await.expect("it is open");
        drop(peer);
        while poll_fn(|cx| Poll::Ready(Pin::new(&mut metered).poll_write(cx, b"more"))).await.is_ready() {}
        assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut metered).poll_flush(cx))).await.is_pending());
        let mut came = vec![0; last.len()];
        metered.read_exact(&mut came).await.expect("it was sent before");
        assert_eq!((last, true), (came, meter.is_leaving()));
        assert!(metered.read(&mut [0; 9]).await.map_or(true, |length| length == 0) && meter.end().is_some());
    }

    proptest! {
        #[test]
        fn frames_are_found_however_the_bytes_are_cut(
            frames in proptest::collection::vec((any::<u8>(), any::<u8>(), 0..40_usize), 0..20),
            pieces in proptest::collection::vec(1..30_usize, 1..5),
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(|(kind, flags, length)| frame(*kind, *flags, *length)).collect();
            let (mut finder, mut found) = (Frames::default(), Vec::new());
            let mut rest = &bytes[..];
            let mut lengths = pieces.iter().cycle();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(*lengths.next().expect("cycled")));
                finder.feed(piece, |frame| found.push((frame.kind, frame.flags, frame.length)));
                rest = after;
            }
            prop_assert_eq!(frames, found);
        }
    }
}
