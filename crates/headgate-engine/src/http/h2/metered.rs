//! The bytes under HTTP/2, with an eye on what a server sends.
//!
//! Where a write fails because the server has gone, that and all others count as done, for `h2` would not read on: what the
//! server said last tells which requests it has left alone, and behind that is the end.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::dial::stream::Stream;
use crate::http::h1::transfer::{io_failure, poll_read};
use crate::http::h2::frames::Frames;
use crate::http::h2::meter::{End, FrameMeter};
use crate::model::error::{ErrorKind, Failure};

/// Empty pieces of bodies that `h2` may see of one connection, before no other request goes there: twice as many end it.
const MAX_LET_THROUGH: u32 = 50;

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Metered {
    stream: Stream,
    frames: Frames,
    meter: Rc<FrameMeter>,
    /// Nothing can be written any more.
    is_cut: bool,
}

impl Metered {
    /// `max_streams`: requests at once; `window_bytes`: what may come for each of them before it was taken.
    pub(super) fn new(stream: Stream, max_streams: usize, window_bytes: u32) -> (Self, Rc<FrameMeter>) {
        let meter = Rc::new(FrameMeter::new(max_streams, window_bytes));
        (Self { stream, frames: Frames::default(), meter: meter.clone(), is_cut: false }, meter)
    }
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, frames, meter, .. } = self.get_mut();
        let into = buffer.initialize_unfilled();
        loop {
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
            meter.hear();
            let kept = frames.feed(&mut into[..length], |frame| meter.take_frame(frame));
            if meter.is_flooded(Instant::now) {
                let message = "the server floods the HTTP/2 connection with frames that nobody needs";
                meter.set_end(End::Failed(Failure::new(ErrorKind::Protocol, message)));
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            if frames.let_through > MAX_LET_THROUGH {
                meter.leave();
            }
            // Nothing would be taken for the end.
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
        self.meter.sent(bytes);
        Poll::Ready(Ok(bytes))
    }

    /// Goes on writing; once the server has gone, it is all done.
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
                self.meter.leave();
                Poll::Ready(Ok(done))
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
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::http::h2::frames::GO_AWAY;

    #[tokio::test]
    async fn what_a_server_said_last_is_read_though_nothing_can_be_written_to_it() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let stream = Stream::Plain(TcpStream::connect(address).await.expect("somebody listens"));
        let (mut peer, _) = listener.accept().await.expect("a connection");
        let (mut metered, meter) = Metered::new(stream, 10, 1 << 16);
        metered.write_all(b"what nobody reads").await.expect("it is open");
        peer.readable().await.expect("it is open");
        let last = [0, 0, 8, GO_AWAY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        peer.write_all(&last).await.expect("it is open");
        drop(peer);
        while !metered.is_cut {
            metered.write_all(b"more").await.expect("it counts as done");
        }
        metered.write_all(b"more").await.expect("so does all else");
        metered.flush().await.expect("so does all else");
        let mut came = [0; 17];
        metered.read_exact(&mut came).await.expect("it was sent before");
        assert_eq!((last, true), (came, meter.is_leaving()));
        assert!(metered.read(&mut [0; 9]).await.map_or(true, |length| length == 0) && meter.end().is_some());
    }
}
