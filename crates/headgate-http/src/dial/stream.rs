//! The byte stream below HTTP: TCP, TLS or a mock transport.

use std::io::{self, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use headgate_core::virtual_clock;
use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::dial::in_process::InProcess;

/// The measured size of a TLS session without certificates: its state, its keys, and a buffer of records.
const TLS_BYTES: usize = 8 * 1024;

/// The byte stream of a connection.
#[derive(Debug)]
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// TLS with a host through an `https://` proxy.
    TlsInTls(Box<TlsStream<TlsStream<TcpStream>>>),
    /// A mock transport.
    InProcess(Box<InProcess>),
}

impl Stream {
    /// Returns whether there is something to read; if not, the task of `cx` is woken later.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Decrypted bytes and a broken session come before the socket.
        if self.session().is_some_and(|session| !session.wants_read()) || self.broken().is_some() {
            return Poll::Ready(());
        }
        let socket = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_mut().0,
            Self::TlsInTls(stream) => {
                let (socket, session) = stream.get_mut().0.get_mut();
                if !session.wants_read() {
                    return Poll::Ready(());
                }
                socket
            }
            Self::InProcess(stream) => return stream.socket.poll_read_ready(cx).map(drop),
        };
        // The next read returns an error of the socket, if there is one.
        socket.poll_read_ready(cx).map(drop)
    }

    /// Returns why nothing more can be decrypted, if the session is broken. The check costs next to nothing.
    pub fn broken(&mut self) -> Option<io::Error> {
        let error = self.session()?.process_new_packets().err()?;
        Some(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Reads bytes that are already decrypted into `into`, and returns their number.
    pub(crate) fn read_decrypted(&mut self, into: &mut [u8]) -> usize {
        self.session().map_or(0, |session| session.reader().read(into).unwrap_or_default())
    }

    /// Returns the TLS session with the host.
    fn session(&mut self) -> Option<&mut ClientConnection> {
        match self {
            Self::Plain(_) | Self::InProcess(_) => None,
            Self::Tls(stream) => Some(stream.get_mut().1),
            Self::TlsInTls(stream) => Some(stream.get_mut().1),
        }
    }

    /// Returns roughly how many bytes of memory an idle connection uses. Over plain TCP it has no buffers.
    pub(crate) fn held_bytes(&self) -> usize {
        let session_bytes = |session: &ClientConnection| {
            let chain = session.peer_certificates().unwrap_or_default();
            TLS_BYTES + chain.iter().map(|certificate| certificate.len()).sum::<usize>()
        };
        match self {
            Self::Plain(_) | Self::InProcess(_) => 0,
            Self::Tls(stream) => session_bytes(stream.get_ref().1),
            Self::TlsInTls(stream) => {
                let (proxy, session) = stream.get_ref();
                session_bytes(session) + session_bytes(proxy.get_ref().1)
            }
        }
    }

    /// Returns whether the TLS handshake with the host negotiated HTTP/2.
    pub(super) fn has_negotiated_http2(&self) -> bool {
        let session = match self {
            Self::Plain(_) | Self::InProcess(_) => return false,
            Self::Tls(stream) => stream.get_ref().1,
            Self::TlsInTls(stream) => stream.get_ref().1,
        };
        session.alpn_protocol() == Some(b"h2")
    }
}

/// Forwards a call to the inner stream.
macro_rules! forward {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Plain(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            Stream::Tls(stream) => {
                let $stream = Pin::new(stream.as_mut());
                $call
            }
            Stream::TlsInTls(stream) => {
                let $stream = Pin::new(stream.as_mut());
                $call
            }
            Stream::InProcess(stream) => {
                virtual_clock::note_activity();
                let $stream = Pin::new(&mut stream.socket);
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        forward!(self, stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        forward!(self, stream => stream.poll_write(cx, data))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, stream => stream.poll_shutdown(cx))
    }
}
