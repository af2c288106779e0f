//! The socket of a connection, plain or with TLS.

use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// TLS is on the heap, so that a plain connection is small.
pub(crate) type Socket = Either<TcpStream, Box<TlsStream<TcpStream>>>;

pub(crate) fn is_secure(socket: &Socket) -> bool {
    matches!(socket, Socket::Right(_))
}

/// Returns the TCP stream below TLS.
pub(crate) fn tcp(socket: &mut Socket) -> &mut TcpStream {
    match socket {
        Socket::Left(tcp) => tcp,
        Socket::Right(tls) => tls.get_mut().0,
    }
}
