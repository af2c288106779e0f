//! One connection: its socket, its buffer, and the operations on them. Every byte is counted here.
//!
//! An error of these functions means that the client has disconnected or the socket has failed. It ends the connection, since
//! no client is left to receive an error.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::socket::{self, Socket};
use crate::statistics::WorkerCounters;

/// The initial size of the buffer: enough for a usual request; an idle connection uses no other memory besides its socket.
const BUFFER_BYTES: usize = 2 * 1024;
/// How long a client may take to read the end of a response and close, after the server has closed its half.
const LINGER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct ServerConnection<'worker> {
    socket: Socket,
    /// Bytes that were read and not consumed yet; bounded by the callers.
    pub buffer: BytesMut,
    counters: &'worker WorkerCounters,
}

impl<'worker> ServerConnection<'worker> {
    pub(crate) fn new(socket: Socket, counters: &'worker WorkerCounters) -> Self {
        Self { socket, buffer: BytesMut::with_capacity(BUFFER_BYTES), counters }
    }

    pub(crate) fn is_secure(&self) -> bool {
        socket::is_secure(&self.socket)
    }

    /// Returns the socket, and the bytes that were read from it and not consumed.
    pub(crate) fn into_parts(self) -> (Socket, BytesMut) {
        (self.socket, self.buffer)
    }

    /// Reads the bytes that are available, at least one. The end of the stream is an error.
    pub(crate) async fn fill(&mut self) -> io::Result<()> {
        if self.buffer.capacity() - self.buffer.len() < BUFFER_BYTES / 2 {
            self.buffer.reserve(BUFFER_BYTES);
        }
        let bytes = self.socket.read_buf(&mut self.buffer).await?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.counters.read(bytes);
        Ok(())
    }

    /// Writes all of `bytes`; the pieces of a chain are sent together.
    pub(crate) async fn send(&mut self, mut bytes: impl Buf) -> io::Result<()> {
        while bytes.has_remaining() {
            let written = self.socket.write_buf(&mut bytes).await?;
            self.counters.wrote(written);
        }
        // TLS may have buffered bytes that the socket has not accepted yet.
        self.socket.flush().await
    }

    /// Waits for this time, or until the client disconnects.
    pub(crate) async fn pause(&mut self, duration: Duration) -> io::Result<()> {
        self.while_connected(sleep(duration)).await
    }

    /// Waits for a future, unless the client disconnects. A client that has closed only its sending half counts as
    /// disconnected.
    pub(crate) async fn while_connected<T>(&mut self, future: impl Future<Output = T>) -> io::Result<T> {
        let (mut future, mut seen) = (pin!(future), [0]);
        tokio::select! {
            biased;
            output = &mut future => Ok(output),
            peeked = socket::tcp(&mut self.socket).peek(&mut seen) => match peeked {
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                // The next request has arrived, and hides whether the client disconnects after it.
                Ok(_) => Ok(future.await),
                Err(error) => Err(error),
            },
        }
    }

    /// Waits for at least one byte of the next request, and reads it.
    pub(crate) async fn await_next(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() { self.fill().await } else { Ok(()) }
    }

    /// Reads and discards until the client disconnects, so that it always returns an error.
    pub(crate) async fn hang(&mut self) -> io::Result<()> {
        loop {
            self.buffer.clear();
            self.fill().await?;
        }
    }

    /// Closes the sending half, and reads for up to [`LINGER`]. If a socket with unread bytes is closed at once, the kernel
    /// resets the connection, and the client may lose the end of the response.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        self.socket.shutdown().await?;
        // Either the client has closed, or its time has passed.
        let _ = timeout(LINGER, self.hang()).await;
        Ok(())
    }

    /// Closes as [`close`](Self::close) does, but without the `close_notify` alert of TLS.
    pub(crate) async fn cut(&mut self) -> io::Result<()> {
        socket::tcp(&mut self.socket).shutdown().await?;
        // Either the client has closed, or its time has passed.
        let _ = timeout(LINGER, self.hang()).await;
        Ok(())
    }

    /// Makes the drop of this connection a reset.
    pub(crate) fn reset(&mut self) -> io::Result<()> {
        socket::tcp(&mut self.socket).set_zero_linger()
    }
}

/// Puts a rare and large future on the heap, so that the task of a usual connection stays small.
pub(crate) fn boxed<'a, T>(future: impl Future<Output = T> + 'a) -> std::pin::Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(future)
}
