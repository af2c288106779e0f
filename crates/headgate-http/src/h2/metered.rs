//! The byte stream of an HTTP/2 connection, which meters what the server sends.
//!
//! If a write fails because the server has closed the connection, this and all later writes succeed without effect. Otherwise
//! `h2` would stop reading, and miss the last frames of the server, which tell what requests it did not process.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::dial::stream::Stream;
use crate::h1::transfer::{io_failure, poll_read};
use crate::h2::frames::FrameFilter;
use crate::h2::meter::{CloseReason, FrameMeter};

/// The most empty DATA frames that `h2` may see on a connection that takes requests: after twice as many, `h2` closes it.
const MAX_LET_THROUGH: u32 = 50;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Metered {
    stream: Stream,
    filter: FrameFilter,
    meter: Rc<FrameMeter>,
    /// Writes have no effect any more.
    is_cut: bool,
}

impl Metered {
    /// Wraps a connection. `max_streams`: the most concurrent requests; `window_bytes`: the flow-control window of each.
    pub(super) fn new(stream: Stream, max_streams: usize, window_bytes: u32) -> (Self, Rc<FrameMeter>) {
        let meter = Rc::new(FrameMeter::new(max_streams, window_bytes));
        (Self { stream, filter: FrameFilter::default(), meter: meter.clone(), is_cut: false }, meter)
    }
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, filter, meter, .. } = self.get_mut();
        let into = buffer.initialize_unfilled();
        loop {
            let length = match ready!(poll_read(stream, into, cx)) {
                Ok(0) => {
                    meter.set_close_reason(CloseReason::ByServer);
                    return Poll::Ready(Ok(()));
                }
                Ok(length) => length,
                Err(error) => {
                    meter.set_close_reason(CloseReason::Failed(io_failure(&error)));
                    return Poll::Ready(Err(error));
                }
            };
            meter.record_read();
            let kept = filter.feed(&mut into[..length], |frame| meter.count_frame(frame));
            if meter.check_flood(clock::now) {
                let message = "the server floods the HTTP/2 connection with useless frames";
                meter.set_close_reason(CloseReason::Failed(Failure::new(ErrorKind::Protocol, message)));
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            if filter.let_through > MAX_LET_THROUGH {
                meter.retire();
            }
            // `h2` would take a read of 0 bytes for the end of the connection.
            if kept > 0 {
                buffer.advance(kept);
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().write(cx, data.len(), |stream, cx| stream.poll_write(cx, data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = data.iter().map(|part| part.len()).sum();
        self.get_mut().write(cx, all, |stream, cx| stream.poll_write_vectored(cx, data))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().unless_cut(cx, (), Stream::poll_flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl Metered {
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        all: usize,
        write: impl FnOnce(Pin<&mut Stream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let bytes = ready!(self.unless_cut(cx, all, write))?;
        self.meter.record_sent(bytes);
        Poll::Ready(Ok(bytes))
    }

    /// Calls `write`, or returns `done` once the server has closed the connection.
    fn unless_cut<T>(
        &mut self,
        cx: &mut Context<'_>,
        done: T,
        write: impl FnOnce(Pin<&mut Stream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.is_cut {
            return Poll::Ready(Ok(done));
        }
        match ready!(write(Pin::new(&mut self.stream), cx)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                self.is_cut = true;
                self.meter.retire();
                Poll::Ready(Ok(done))
            }
            Err(error) => {
                self.meter.set_close_reason(CloseReason::Failed(io_failure(&error)));
                Poll::Ready(Err(error))
            }
            written => Poll::Ready(written),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::h2::frames::GO_AWAY;

    #[tokio::test]
    async fn the_last_frames_of_a_server_are_read_though_writes_fail() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let stream = Stream::Plain(TcpStream::connect(address).await.expect("the server listens"));
        let (mut peer, _) = listener.accept().await.expect("a connection");
        let (mut metered, meter) = Metered::new(stream, 10, 1 << 16);
        metered.write_all(b"unread bytes").await.expect("it is open");
        peer.readable().await.expect("it is open");
        let last = [0, 0, 8, GO_AWAY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        peer.write_all(&last).await.expect("it is open");
        drop(peer);
        while !metered.is_cut {
            metered.write_all(b"more").await.expect("writes succeed without effect");
        }
        metered.write_all(b"more").await.expect("writes succeed without effect");
        metered.flush().await.expect("so does a flush");
        let mut came = [0; 17];
        metered.read_exact(&mut came).await.expect("it was sent before");
        assert_eq!((last, true), (came, meter.is_retired()));
        assert!(metered.read(&mut [0; 9]).await.map_or(true, |length| length == 0) && meter.close_reason().is_some());
    }
}
