//! Reads from a connection and writes to it without waiting.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use headgate_core::error::{ErrorKind, Failure, cause};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::unconstrained;

use crate::deadline::Deadline;
use crate::dial::connect::Connection;
use crate::dial::stream::Stream;
use crate::dial::tls_errors;
use crate::upload::Upload;

/// A chunk of at most this size is written at once with its length.
const JOINED_CHUNK_BYTES: usize = 16 * 1024;

impl Connection {
    /// Returns whether an idle connection can take a request: the server has neither closed it nor sent unrequested bytes.
    pub(crate) fn is_alive(&mut self, cx: &mut Context<'_>) -> bool {
        let mut byte = [0];
        match &mut self.stream {
            Stream::Plain(stream) => {
                stream.try_read(&mut byte).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            }
            // Unconstrained: a task without poll budget would consider any connection alive.
            stream => {
                let mut buffer = ReadBuf::new(&mut byte);
                let read = poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut buffer));
                pin!(unconstrained(read)).poll(cx).is_pending() && stream.broken().is_none()
            }
        }
    }

    /// Writes as much of a request as the socket accepts, which is mostly all. The request consists of `wire`, `body` and
    /// `upload`, in this order.
    pub fn send(
        &mut self,
        wire: &[u8],
        body: Bytes,
        upload: Option<Box<Upload>>,
        cx: &mut Context<'_>,
    ) -> UnsentRequest {
        let mut outgoing = UnsentRequest { unflushed: true, ..UnsentRequest::default() };
        let wire = match &self.forwarding {
            None => Cow::Borrowed(wire),
            Some(forwarding) => forwarding.rewrite(wire).into(),
        };
        let written = match Pin::new(&mut self.stream).poll_write(cx, &wire) {
            Poll::Ready(Ok(written)) => written,
            Poll::Pending => 0,
            Poll::Ready(Err(error)) => {
                outgoing.failure = Some(io_failure(&error));
                return outgoing;
            }
        };
        outgoing.begun = written > 0;
        if written < wire.len() {
            outgoing.head = Bytes::copy_from_slice(&wire[written..]);
        }
        outgoing.body = body;
        outgoing.upload = upload;
        outgoing.poll(self, cx);
        outgoing
    }

    /// Returns whether there is something to read; if not, the task of `cx` is woken when there is.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_readable(cx)
    }

    /// Reads once and returns the number of bytes, which is 0 at the end of the connection.
    pub(crate) fn poll_read(&mut self, into: &mut [u8], cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        poll_read(&mut self.stream, into, cx).map_err(|error| io_failure(&error))
    }
}

/// Reads once and returns the number of bytes, which is 0 at the end of the stream.
pub(crate) fn poll_read(stream: &mut Stream, into: &mut [u8], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(into);
    match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
        // Complete records before a broken one are delivered first, even if one read brought them all.
        Poll::Ready(Err(error)) => match stream.read_decrypted(into) {
            0 => Poll::Ready(Err(error)),
            length => Poll::Ready(Ok(length)),
        },
        Poll::Pending => stream.broken().map_or(Poll::Pending, |error| Poll::Ready(Err(error))),
        Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
    }
}

/// The part of a request that is not written yet.
#[derive(Debug, Default)]
pub struct UnsentRequest {
    begun: bool,
    /// Why writing failed; it is not retried.
    failure: Option<Failure>,
    head: Bytes,
    body: Bytes,
    /// The part of the body that is read after `body` is written.
    upload: Option<Box<Upload>>,
    /// What follows `body`: the end of a chunk.
    tail: Bytes,
    unflushed: bool,
}

impl UnsentRequest {
    /// Returns the state of a request that was written completely.
    pub fn done() -> Self {
        Self { begun: true, ..Self::default() }
    }

    pub fn is_done(&self) -> bool {
        self.failure.is_none() && !self.is_pending()
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.failure.is_none()
            && (self.unflushed
                || !self.head.is_empty()
                || !self.body.is_empty()
                || !self.tail.is_empty()
                || self.has_unread())
    }

    /// Returns whether the server waits until more of a file is read.
    pub(crate) fn is_reading(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| upload.is_reading())
    }

    /// Returns whether the server waits for the caller of the body.
    pub(crate) fn is_awaiting_caller(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| upload.is_awaiting_caller())
    }

    fn has_unread(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| !upload.is_done())
    }

    /// Writes as much as the connection accepts. Returns whether that was anything.
    pub fn poll(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> bool {
        let read = |outgoing: &Self| outgoing.upload.as_ref().map_or(0, |upload| upload.read_bytes());
        let left = |outgoing: &Self| {
            (outgoing.head.len(), outgoing.body.len(), outgoing.tail.len(), read(outgoing), outgoing.unflushed)
        };
        let before = left(self);
        if let Err(failure) = self.try_poll(&mut connection.stream, cx) {
            self.failure = Some(failure);
        }
        left(self) != before
    }

    fn try_poll(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Result<(), Failure> {
        loop {
            for part in [&mut self.head, &mut self.body, &mut self.tail] {
                while !part.is_empty() {
                    match Pin::new(&mut *stream).poll_write(cx, part).map_err(|error| io_failure(&error))? {
                        Poll::Ready(0) => return Err(io_failure(&io::ErrorKind::WriteZero.into())),
                        Poll::Ready(written) => {
                            self.begun = true;
                            part.advance(written);
                        }
                        Poll::Pending => return Ok(()),
                    }
                }
                // This frees its memory before the next piece of a file, or the response, needs memory.
                *part = Bytes::new();
            }
            let Some(upload) = self.upload.as_mut().filter(|upload| !upload.is_done()) else { break };
            // The caller of a stream may wait for a reaction to what was sent before it sends more.
            let Poll::Ready(read) = upload.poll_next(cx)? else { break };
            self.unflushed = true;
            let piece = read.unwrap_or_default();
            (self.head, self.body, self.tail) = if upload.length().is_some() {
                (Bytes::new(), piece, Bytes::new())
            } else if piece.len() <= JOINED_CHUNK_BYTES {
                (joined_chunk(&piece), Bytes::new(), Bytes::new())
            } else {
                (format!("{:x}\r\n", piece.len()).into(), piece, Bytes::from_static(b"\r\n"))
            };
        }
        if self.unflushed {
            self.unflushed = Pin::new(stream).poll_flush(cx).map_err(|error| io_failure(&error))?.is_pending();
        }
        Ok(())
    }

    /// Extends the deadline by the time that the server has waited for files.
    pub fn excuse(&mut self, deadline: &mut Deadline) {
        if let Some(upload) = &mut self.upload {
            upload.excuse(deadline);
        }
    }

    /// Returns whether some of the request was written.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns why no response will come. A server may respond and close before it has read the whole request (413, say): that
    /// response is still read. But if the rest of the request can't be read, the server would wait for it forever.
    pub fn unsent(&self) -> Option<Failure> {
        let is_local = |failure: &Failure| failure.kind == ErrorKind::InvalidRequest;
        self.failure.as_ref().filter(|failure| !self.begun || is_local(failure)).cloned()
    }
}

/// Returns a chunk of this body; an empty one ends the body (RFC 9112 section 7.1).
fn joined_chunk(body: &[u8]) -> Bytes {
    let mut chunk = format!("{:x}\r\n", body.len()).into_bytes();
    chunk.extend_from_slice(body);
    chunk.extend_from_slice(b"\r\n");
    chunk.into()
}

pub(crate) fn io_failure(error: &io::Error) -> Failure {
    if let Some(error) = tls_errors::tls_error(error) {
        return Failure::new(ErrorKind::Tls, tls_errors::reason(error));
    }
    if error.kind() == io::ErrorKind::UnexpectedEof {
        // Only TLS connections have an end marker that can be missing.
        let message =
            "the server closed the connection without saying so in TLS (close_notify): the response may be cut off";
        return Failure::new(ErrorKind::ConnectionClosed, message);
    }
    let kind = if error.kind() == io::ErrorKind::TimedOut { ErrorKind::Timeout } else { ErrorKind::ConnectionClosed };
    Failure::new(kind, format!("the connection failed: {}", cause(error)))
}
