//! Bytes to a connection and from it, without waiting: what is there is read, and what can be written is.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::unconstrained;

use crate::http::deadline::Deadline;
use crate::http::dial::connect::Connection;
use crate::http::dial::stream::Stream;
use crate::http::dial::tls_errors;
use crate::http::upload::Upload;
use crate::model::error::{ErrorKind, Failure, cause};

impl Connection {
    /// Whether an idle connection can take a request: the server has not closed it, nor sent something unasked.
    pub fn is_alive(&mut self, cx: &mut Context<'_>) -> bool {
        let mut byte = [0];
        match &mut self.stream {
            Stream::Plain(stream) => {
                stream.try_read(&mut byte).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            }
            // Unconstrained: a task that has used up its share of polls would take any connection for alive.
            stream => {
                let mut buffer = ReadBuf::new(&mut byte);
                let read = poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut buffer));
                pin!(unconstrained(read)).poll(cx).is_pending() && stream.broken().is_none()
            }
        }
    }

    /// Writes as much of a request as the socket takes, mostly all. `wire` begins it, `body` is what `wire` has not, and then
    /// come files.
    pub fn send(&mut self, wire: &[u8], body: Bytes, files: Option<Box<Upload>>, cx: &mut Context<'_>) -> Outgoing {
        let mut outgoing = Outgoing { unflushed: true, ..Outgoing::default() };
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
        outgoing.files = files;
        outgoing.poll(self, cx);
        outgoing
    }

    /// Whether there is something to read; if not, the task of `cx` is woken when there is.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_readable(cx)
    }

    /// One read: how many bytes, 0 at the end of the connection.
    pub fn poll_read(&mut self, into: &mut [u8], cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        poll_read(&mut self.stream, into, cx).map_err(|error| io_failure(&error))
    }
}

/// One read: how many bytes, 0 at the end of the stream.
pub fn poll_read(stream: &mut Stream, into: &mut [u8], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(into);
    match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
        // What was whole before a record that can't be read comes first, though both came at once.
        Poll::Ready(Err(error)) => match stream.read_decrypted(into) {
            0 => Poll::Ready(Err(error)),
            length => Poll::Ready(Ok(length)),
        },
        Poll::Pending => stream.broken().map_or(Poll::Pending, |error| Poll::Ready(Err(error))),
        Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
    }
}

/// What of a request is not written yet.
#[derive(Debug, Default)]
pub struct Outgoing {
    begun: bool,
    /// Why writing failed; it is not tried again.
    failure: Option<Failure>,
    head: Bytes,
    body: Bytes,
    /// What of the body is read when `body` is written.
    files: Option<Box<Upload>>,
    unflushed: bool,
}

impl Outgoing {
    /// Of a request that was written whole.
    pub fn done() -> Self {
        Self { begun: true, ..Self::default() }
    }

    pub fn is_done(&self) -> bool {
        self.failure.is_none() && !self.is_pending()
    }

    pub fn is_pending(&self) -> bool {
        self.failure.is_none()
            && (self.unflushed || !self.head.is_empty() || !self.body.is_empty() || self.has_unread())
    }

    /// Whether nothing can be written before more of a file was read: the server waits for us.
    pub fn is_reading(&self) -> bool {
        self.files.as_ref().is_some_and(|files| files.is_reading())
    }

    fn has_unread(&self) -> bool {
        self.files.as_ref().is_some_and(|files| !files.is_done())
    }

    /// Writes on, as far as the connection takes it. Whether it took something.
    pub fn poll(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> bool {
        let unread = |outgoing: &Self| outgoing.files.as_ref().map_or(0, |files| files.unread_bytes());
        let left = |outgoing: &Self| (outgoing.head.len(), outgoing.body.len(), unread(outgoing), outgoing.unflushed);
        let before = left(self);
        if let Err(failure) = self.try_poll(&mut connection.stream, cx) {
            self.failure = Some(failure);
        }
        left(self) != before
    }

    fn try_poll(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Result<(), Failure> {
        loop {
            for part in [&mut self.head, &mut self.body] {
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
                // Its memory goes before more is asked for: for what comes next of a file, or for the answer.
                *part = Bytes::new();
            }
            let Some(files) = self.files.as_mut().filter(|files| !files.is_done()) else { break };
            let Poll::Ready(read) = files.poll_next(cx)? else { return Ok(()) };
            self.body = read;
        }
        self.unflushed = Pin::new(stream).poll_flush(cx).map_err(|error| io_failure(&error))?.is_pending();
        Ok(())
    }

    /// Moves the deadline on by what the server has waited for files.
    pub fn excuse(&mut self, deadline: &mut Deadline) {
        if let Some(files) = &mut self.files {
            files.excuse(deadline);
        }
    }

    /// Some of it was written.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Why there will be no answer. A server may answer and close before it has read all (413, say): what it answered is read
    /// all the same. If it is for us that the rest is missing, it would wait for that.
    pub fn unsent(&self) -> Option<Failure> {
        let is_ours = |failure: &Failure| failure.kind == ErrorKind::InvalidRequest;
        self.failure.as_ref().filter(|failure| !self.begun || is_ours(failure)).cloned()
    }
}

pub fn io_failure(error: &io::Error) -> Failure {
    if let Some(error) = tls_errors::tls_error(error) {
        return Failure::new(ErrorKind::Tls, tls_errors::reason(error));
    }
    if error.kind() == io::ErrorKind::UnexpectedEof {
        // Only TLS has an end that can be missing.
        let message =
            "the server closed the connection without saying so in TLS (close_notify): what came may be cut off";
        return Failure::new(ErrorKind::Closed, message);
    }
    let kind = if error.kind() == io::ErrorKind::TimedOut { ErrorKind::Timeout } else { ErrorKind::Closed };
    Failure::new(kind, format!("the connection failed: {}", cause(error)))
}
