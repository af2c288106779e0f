//! The socket that the `h2` crate reads and writes; a fault can detach it.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::socket::Socket;
use crate::worker::ServerWorker;

#[derive(Debug, Clone)]
pub(super) struct Wire {
    socket: Rc<RefCell<Option<Socket>>>,
    /// Bytes that were read before the protocol was known to be HTTP/2.
    read: BytesMut,
    worker: Rc<ServerWorker>,
}

impl Wire {
    pub(super) fn new(socket: Socket, read: BytesMut, worker: Rc<ServerWorker>) -> Self {
        Self { socket: Rc::new(RefCell::new(Some(socket))), read, worker }
    }

    /// Detaches the socket, and returns it. Later reads and writes fail as on a closed connection.
    pub(super) fn take(&self) -> Option<Socket> {
        self.socket.borrow_mut().take()
    }

    fn with<T>(&self, use_it: impl FnOnce(Pin<&mut Socket>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &mut *self.socket.borrow_mut() {
            Some(socket) => use_it(Pin::new(socket)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.read.is_empty() {
            let before = buffer.filled().len();
            ready!(wire.with(|socket| socket.poll_read(context, buffer)))?;
            wire.worker.counters().read(buffer.filled().len() - before);
        } else {
            let bytes = wire.read.len().min(buffer.remaining());
            buffer.put_slice(&wire.read[..bytes]);
            wire.read.advance(bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(self.with(|socket| socket.poll_write(context, bytes)))?;
        self.worker.counters().wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.with(|socket| socket.poll_write_vectored(context, pieces)))?;
        self.worker.counters().wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.borrow().as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_shutdown(context))
    }
}
