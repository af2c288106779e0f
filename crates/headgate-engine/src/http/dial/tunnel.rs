//! A way through a proxy to a host, before anything is said to the host itself: CONNECT (RFC 9110 section 9.3.6), SOCKS
//! (RFC 1928).
//!
//! Nothing is read beyond the proxy's answer: what comes after it is the host's, which speaks only when it was asked.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_socks::tcp::Socks5Stream;
use tokio_socks::{Error as Socks, TargetAddr};

use crate::http::dial::proxy::{Credentials, Proxy, host_and_port};
use crate::model::error::{ErrorKind, Failure, cause};
use crate::model::message::OptionName;
use crate::model::origin::Origin;
use crate::model::reason::{Reason, shown};

/// The longest answer of a proxy before its tunnel; some send pages of reasons with a refusal, which are not read.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Headers that a proxy may send with it.
const MAX_HEADERS: usize = 64;

const NOT_ALLOWED: &str = "the proxy does not allow connections to this host";
const NOT_CONNECTED: &str = "the proxy could not connect to the host";

/// Asks an HTTP proxy for a tunnel.
///
/// # Errors
/// `proxy`.
pub(super) async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    proxy: &Proxy,
    origin: &Origin,
) -> Result<(), Failure> {
    let request = request(proxy, origin);
    let spoken = async {
        stream.write_all(&request).await?;
        stream.flush().await?;
        read_head(stream).await
    };
    let head = spoken.await.map_err(|error| ended(&error))?;
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    match (answer.parse(&head), answer.code) {
        (Ok(httparse::Status::Complete(_)), Some(status)) => match refusal(status, proxy.credentials.is_some()) {
            None => Ok(()),
            Some(failure) => Err(failure),
        },
        _ => Err(failure(Reason::new("what the proxy answered is not HTTP, or too long").with(shown(&head)))),
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

/// The bytes of a head, up to its end or to the most that is read of one.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let is_whole = |head: &[u8]| head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n");
    while !is_whole(&head) && head.len() < MAX_HEAD_BYTES {
        // One by one: what comes behind it is not ours to read.
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            // What is no HTTP is shown.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !head.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

/// What a status of the proxy says; `None`: it is no refusal.
fn refusal(status: u16, has_credentials: bool) -> Option<Failure> {
    let (why, is_lasting) = match status {
        200..=299 => return None,
        // 401 is a server's; some proxies send it all the same.
        401 | 407 => return Some(wants_credentials(status, has_credentials)),
        403 => (NOT_ALLOWED, true),
        405 | 501 => ("the proxy makes no tunnels (CONNECT), which it takes to reach this host", true),
        429 => ("the proxy asks for fewer connections", false),
        502..=504 => (NOT_CONNECTED, false),
        _ => ("the proxy refused to connect to the host", false),
    };
    let failure = failure(format!("{why} ({status})").into());
    Some(if is_lasting { failure.lasting() } else { failure })
}

/// What a proxy says that wants other credentials, whatever it was asked for.
pub(super) fn wants_credentials(status: u16, has_credentials: bool) -> Failure {
    let why = if has_credentials { "does not accept these credentials" } else { "requires credentials" };
    failure(format!("the proxy {why} ({status})").into()).lasting()
}

/// Asks a SOCKS proxy for a way to `target`.
///
/// # Errors
/// `proxy`.
pub(super) async fn socks<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    proxy: &Proxy,
    target: TargetAddr<'_>,
) -> Result<S, Failure> {
    let made = match &proxy.credentials {
        Some(Credentials { user, password, .. }) => {
            Socks5Stream::connect_with_password_and_socket(stream, target, user, password).await
        }
        None => Socks5Stream::connect_with_socket(stream, target).await,
    };
    made.map(Socks5Stream::into_inner).map_err(|error| socks_failure(&error))
}

fn socks_failure(error: &Socks) -> Failure {
    let (why, is_lasting) = match error {
        Socks::Io(error) => return ended(error),
        Socks::NoAcceptableAuthMethods | Socks::AuthorizationRequired => {
            ("the proxy accepts none of our ways to log in", true)
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
        _ => ("what the proxy answered is not SOCKS5", false),
    };
    let failure = failure(why.into());
    if is_lasting { failure.lasting() } else { failure }
}

/// The proxy's connection failed before there was a tunnel.
fn ended(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => failure("the proxy closed the connection without an answer".into()),
        _ => failure(Reason::new(format!("the connection to the proxy failed: {}", cause(error)))),
    }
}

pub(super) fn failure(reason: Reason) -> Failure {
    Failure::new(ErrorKind::Proxy, reason).with_option(OptionName::Proxy)
}
