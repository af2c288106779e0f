//! Opens a tunnel through a proxy to a host: CONNECT (RFC 9110 section 9.3.6), SOCKS (RFC 1928).
//!
//! Nothing is read beyond the proxy's response, since the bytes after it come from the host.

use std::io;

use headgate_core::error::{ErrorKind, Failure, cause};
use headgate_core::message::OptionName;
use headgate_core::origin::Origin;
use headgate_core::reason::{Reason, shown};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_socks::tcp::Socks5Stream;
use tokio_socks::{Error as Socks, TargetAddr};

use crate::dial::proxy::{Credentials, Proxy, host_and_port};

/// The bound of a proxy's status line and headers. The body of a refusal is not read.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// The bound of the number of headers in a proxy's response.
const MAX_HEADERS: usize = 64;

const NOT_ALLOWED: &str = "the proxy does not allow connections to this host";
const NOT_CONNECTED: &str = "the proxy could not connect to the host";

/// Requests a tunnel from an HTTP proxy.
///
/// # Errors
/// `proxy`.
pub(super) async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    proxy: &Proxy,
    origin: &Origin,
) -> Result<(), Failure> {
    let request = request(proxy, origin);
    let exchange = async {
        stream.write_all(&request).await?;
        stream.flush().await?;
        read_headers(stream).await
    };
    let received = exchange.await.map_err(|error| connection_failure(&error))?;
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match (response.parse(&received), response.code) {
        (Ok(httparse::Status::Complete(_)), Some(status)) => match refusal(status, proxy.credentials.is_some()) {
            None => Ok(()),
            Some(failure) => Err(failure),
        },
        _ => Err(failure(Reason::new("the proxy's response is not HTTP, or is too long").with(shown(&received)))),
    }
}

fn request(proxy: &Proxy, origin: &Origin) -> Vec<u8> {
    let host = host_and_port(origin);
    let mut request = format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n").into_bytes();
    if let Some(credentials) = &proxy.credentials {
        request.extend_from_slice(b"proxy-authorization: ");
        request.extend_from_slice(credentials.basic.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request
}

/// Reads a status line and headers, up to the empty line or to [`MAX_HEADER_BYTES`].
async fn read_headers(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    let is_complete = |received: &[u8]| received.ends_with(b"\n\r\n") || received.ends_with(b"\n\n");
    while !is_complete(&received) && received.len() < MAX_HEADER_BYTES {
        // Byte by byte, since the bytes after the empty line belong to the host.
        match stream.read_u8().await {
            Ok(byte) => received.push(byte),
            // The message shows bytes that are not HTTP.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !received.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(received)
}

/// Returns the failure for a status with which the proxy refuses the tunnel.
fn refusal(status: u16, has_credentials: bool) -> Option<Failure> {
    let (why, is_lasting) = match status {
        200..=299 => return None,
        // 401 is a status of servers, but some proxies send it.
        401 | 407 => return Some(credentials_failure(status, has_credentials)),
        403 => (NOT_ALLOWED, true),
        405 | 501 => ("the proxy opens no tunnels (CONNECT), which are needed to reach this host", true),
        429 => ("the proxy requests fewer connections", false),
        502..=504 => (NOT_CONNECTED, false),
        _ => ("the proxy refused to connect to the host", false),
    };
    let failure = failure(format!("{why} ({status})").into());
    Some(if is_lasting { failure.lasting() } else { failure })
}

/// Returns the failure of a proxy that requires credentials or does not accept ours.
pub(super) fn credentials_failure(status: u16, has_credentials: bool) -> Failure {
    let why = if has_credentials { "does not accept these credentials" } else { "requires credentials" };
    failure(format!("the proxy {why} ({status})").into()).lasting()
}

/// Requests from a SOCKS proxy a connection to `target`.
///
/// # Errors
/// `proxy`.
pub(super) async fn socks<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    proxy: &Proxy,
    target: TargetAddr<'_>,
) -> Result<S, Failure> {
    let connected = match &proxy.credentials {
        Some(Credentials { user, password, .. }) => {
            Socks5Stream::connect_with_password_and_socket(stream, target, user, password).await
        }
        None => Socks5Stream::connect_with_socket(stream, target).await,
    };
    connected.map(Socks5Stream::into_inner).map_err(|error| socks_failure(&error))
}

fn socks_failure(error: &Socks) -> Failure {
    let (why, is_lasting) = match error {
        Socks::Io(error) => return connection_failure(error),
        Socks::NoAcceptableAuthMethods | Socks::AuthorizationRequired => {
            ("the proxy accepts none of headgate's authentication methods", true)
        }
        Socks::PasswordAuthFailure(_) => ("the proxy does not accept these credentials", true),
        Socks::GeneralSocksServerFailure => (NOT_CONNECTED, false),
        Socks::ConnectionNotAllowedByRuleset => (NOT_ALLOWED, true),
        Socks::NetworkUnreachable => ("the proxy can't reach the host's network", false),
        Socks::HostUnreachable => ("the proxy can't reach the host", false),
        Socks::ConnectionRefused => ("the host refused the proxy's connection", false),
        Socks::TtlExpired => ("the TTL of the proxy's connection to the host expired", false),
        Socks::CommandNotSupported => ("the proxy makes no connections", true),
        Socks::AddressTypeNotSupported => ("the proxy can't connect to an address of this kind", true),
        Socks::InvalidTargetAddress(_) => ("the host's name is too long for SOCKS", true),
        _ => ("the proxy's response is not SOCKS5", false),
    };
    let failure = failure(why.into());
    if is_lasting { failure.lasting() } else { failure }
}

/// Returns the failure of a connection to a proxy that ended before the tunnel was open.
fn connection_failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => failure("the proxy closed the connection without a response".into()),
        _ => failure(Reason::new(format!("the connection to the proxy failed: {}", cause(error)))),
    }
}

pub(super) fn failure(reason: Reason) -> Failure {
    Failure::new(ErrorKind::Proxy, reason).with_option(OptionName::Proxy)
}
