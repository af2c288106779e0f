//! One connection: its socket, its buffer, and the few things that are done with them. Every byte is counted here.
//!
//! An error of these functions means that the client has gone, or the socket with it: it ends the connection, and there
//! is no client to tell.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::socket::{self, Socket};
use crate::statistics::WorkerCounters;

/// Room for a usual request; all that an idle connection costs beside its socket.
const BUFFER_BYTES: usize = 2 * 1024;
/// How long a client may take to read the end of an answer and close, once we have closed our half.
const LINGER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Connection<'worker> {
    socket: Socket,
    /// What was read and not consumed yet; bounded by the callers.
    pub buffer: BytesMut,
    counters: &'worker WorkerCounters,
}

impl<'worker> Connection<'worker> {
    pub fn new(socket: Socket, counters: &'worker WorkerCounters) -> Self {
        Self { socket, buffer: BytesMut::with_capacity(BUFFER_BYTES), counters }
    }

    pub fn is_secure(&self) -> bool {
        socket::is_secure(&self.socket)
    }

    /// The socket, and what was read from it and not consumed.
    pub fn into_parts(self) -> (Socket, BytesMut) {
        (self.socket, self.buffer)
    }

    /// Reads what has come, at least one byte. The end of the stream is an error.
    pub async fn fill(&mut self) -> io::Result<()> {
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

    /// Writes all of `bytes`; pieces in a chain go out together.
    pub async fn send(&mut self, mut bytes: impl Buf) -> io::Result<()> {
        while bytes.has_remaining() {
            let written = self.socket.write_buf(&mut bytes).await?;
            self.counters.wrote(written);
        }
        // TLS may have taken more than the socket.
        self.socket.flush().await
    }

    /// Waits, unless the client goes away meanwhile.
    pub async fn pause(&mut self, duration: Duration) -> io::Result<()> {
        self.while_there(sleep(duration)).await
    }

    /// Waits for something, unless the client goes away meanwhile. One that has closed only its sending half counts as
    /// gone, too.
    pub async fn while_there<T>(&mut self, something: impl Future<Output = T>) -> io::Result<T> {
        let (mut something, mut seen) = (pin!(something), [0]);
        tokio::select! {
            biased;
            done = &mut something => Ok(done),
            peeked = socket::tcp(&mut self.socket).peek(&mut seen) => match peeked {
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                // The next request is already here; behind it, nothing shows whether the client stays.
                Ok(_) => Ok(something.await),
                Err(error) => Err(error),
            },
        }
    }

    /// Waits for at least one byte of the next request, and takes it.
    pub async fn await_next(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() { self.fill().await } else { Ok(()) }
    }

    /// Reads and forgets until the client goes away: always an error.
    pub async fn hang(&mut self) -> io::Result<()> {
        loop {
            self.buffer.clear();
            self.fill().await?;
        }
    }

    /// Says the end, and reads on for a moment: closed at once with bytes unread, the kernel would reset the connection,
    /// and the client might lose the end of the answer.
    pub async fn close(&mut self) -> io::Result<()> {
        self.socket.shutdown().await?;
        // Both ways out are the end: the client has closed, or it had its time.
        let _ = timeout(LINGER, self.hang()).await;
        Ok(())
    }

    /// Closes as [`close`](Self::close) does, without the word of TLS that this is the end.
    pub async fn cut(&mut self) -> io::Result<()> {
        socket::tcp(&mut self.socket).shutdown().await?;
        // As above.
        let _ = timeout(LINGER, self.hang()).await;
        Ok(())
    }

    /// Makes the coming drop a reset.
    pub fn reset(&mut self) -> io::Result<()> {
        socket::tcp(&mut self.socket).set_zero_linger()
    }
}

/// A future on the heap: rare and large ones, so that a connection is small while it does nothing but the usual.
pub(crate) fn rare<'a, T>(future: impl Future<Output = T> + 'a) -> std::pin::Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(future)
}
