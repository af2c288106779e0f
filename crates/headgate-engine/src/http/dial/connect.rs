//! A connection to an origin: name, TCP by the rules of Happy Eyeballs, TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http::dial::resolve::Resolver;
use crate::http::dial::route::RouteKey;
use crate::model::error::{ErrorKind, Failure};
use crate::model::message::OptionName;
use crate::model::origin::{HostName, Origin};
use crate::schedule::hosts::Host;

/// Why no connection can be made from this machine, and what helps besides fewer requests at once.
const NO_PORT_LEFT: &str =
    " (no local port is left for this address; net.ipv4.ip_local_port_range says how many there are)";

/// How long one address may take before the next is tried beside it (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// A connection to an origin.
#[derive(Debug)]
pub struct Connection {
    pub stream: Stream,
    pub remote_addr: Arc<str>,
}

/// Makes connections; shared by all workers.
#[derive(Debug, Default)]
pub struct Connector {
    pub resolver: Resolver,
}

impl Connector {
    /// Connects to one of an origin's addresses.
    ///
    /// # Errors
    /// `connect` or `tls`, naming the address.
    ///
    /// Cancelling it closes what was opened so far.
    pub async fn connect(
        &self,
        route: &RouteKey,
        host: &Host,
        addresses: Vec<SocketAddr>,
    ) -> Result<Connection, Failure> {
        let mut addresses = interleaved(addresses);
        let preferred = addresses.first().copied();
        put_first(&mut addresses, host.address(Instant::now()));
        let (stream, address) = connect_any(&addresses).await?;
        host.connected_to(address.ip(), Some(address) == preferred, Instant::now());
        let stream = match &route.tls {
            Some(tls) => handshake(&route.origin, tls.clone(), stream).await?,
            None => Stream::Plain(stream),
        };
        Ok(Connection { stream, remote_addr: address.to_string().into() })
    }
}

async fn handshake(origin: &Origin, tls: Arc<ClientConfig>, stream: TcpStream) -> Result<Stream, Failure> {
    let failed = |message: String| Failure::new(ErrorKind::Tls, format!("{}: {message}", origin.authority()));
    let name = match &origin.name {
        HostName::Domain(name) => ServerName::try_from(name.to_string()).map_err(|error| failed(error.to_string()))?,
        HostName::V4(address) => ServerName::from(std::net::IpAddr::from(*address)),
        HostName::V6(address) => ServerName::from(std::net::IpAddr::from(*address)),
    };
    let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(|error| failed(error.to_string()))?;
    Ok(Stream::Tls(Box::new(stream)))
}

/// Moves the address that worked the last time to the front: those before it would only take their time to fail again.
fn put_first(addresses: &mut [SocketAddr], known: Option<IpAddr>) {
    if let Some(index) = known.and_then(|known| addresses.iter().position(|address| address.ip() == known)) {
        addresses[..=index].rotate_right(1);
    }
}

/// The families in turn, beginning with the one that the resolver prefers (RFC 8305 section 4).
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().map(SocketAddr::is_ipv6) else { return addresses };
    let (preferred, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == first);
    let mut other = other.into_iter();
    let mut mixed: Vec<SocketAddr> =
        preferred.into_iter().flat_map(|one| [Some(one), other.next()]).flatten().collect();
    mixed.extend(other);
    mixed
}

/// The first connection that stands; each address gets a head start of [`ATTEMPT_DELAY`] on the next.
async fn connect_any(addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), Failure> {
    let Some((first, rest)) = addresses.split_first() else {
        return Err(Failure::new(ErrorKind::Resolve, "the name has no address"));
    };
    let attempt = connect_one(*first);
    if rest.is_empty() {
        return attempt.await;
    }
    let mut attempt = std::pin::pin!(attempt);
    match timeout(ATTEMPT_DELAY, &mut attempt).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(failure)) => Box::pin(connect_any(rest)).await.map_err(|later| both(&failure, &later)),
        Err(_) => {
            let mut later = Box::pin(connect_any(rest));
            tokio::select! {
                connected = &mut attempt => match connected {
                    Ok(connected) => Ok(connected),
                    Err(failure) => later.await.map_err(|later| both(&failure, &later)),
                },
                connected = &mut later => match connected {
                    Ok(connected) => Ok(connected),
                    Err(failure) => attempt.await.map_err(|first| both(&first, &failure)),
                },
            }
        }
    }
}

fn both(first: &Failure, later: &Failure) -> Failure {
    let message = format!("{}; {}", first.message, later.message);
    Failure { kind: ErrorKind::Connect, message, option: first.option.or(later.option) }
}

async fn connect_one(address: SocketAddr) -> Result<(TcpStream, SocketAddr), Failure> {
    let failed = |error: io::Error| {
        let failure = |why| Failure::new(ErrorKind::Connect, format!("{address}: {error}{why}"));
        match error.kind() {
            io::ErrorKind::AddrNotAvailable => failure(NO_PORT_LEFT).with_option(OptionName::Concurrency),
            _ => failure(""),
        }
    };
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    // A request is one write; waiting to gather more of it (Nagle) would only add to the latency.
    stream.set_nodelay(true).map_err(failed)?;
    Ok((stream, address))
}

/// The bytes under HTTP.
#[derive(Debug)]
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Passes one call on to whichever stream it is.
macro_rules! either {
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
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, data))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// An address where nobody listens.
    fn refused() -> SocketAddr {
        listener().local_addr().expect("a bound address")
    }

    fn listener() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")
    }

    #[test]
    fn the_families_are_tried_in_turn_from_the_preferred_one_on() {
        let [six_1, six_2, six_3] = ["[::1]:1", "[::2]:1", "[::3]:1"].map(address);
        let [four_1, four_2] = ["1.1.1.1:1", "2.2.2.2:1"].map(address);
        for (expected, addresses) in [
            (vec![six_1, four_1, six_2, four_2, six_3], vec![six_1, six_2, six_3, four_1, four_2]),
            (vec![four_1, six_1, four_2, six_2], vec![four_1, four_2, six_1, six_2]),
            (vec![four_1], vec![four_1]),
            (vec![], vec![]),
        ] {
            assert_eq!(expected, interleaved(addresses));
        }
    }

    #[tokio::test]
    async fn an_address_that_refuses_gives_way_to_the_next() {
        let (refused, listener) = (refused(), listener());
        let good = listener.local_addr().expect("a bound address");
        for addresses in [vec![refused, good], vec![refused, refused, good], vec![good, refused]] {
            let (_, connected) = connect_any(&addresses).await.expect("one address is good");
            assert_eq!(good, connected, "{addresses:?}");
        }
    }

    #[tokio::test]
    async fn when_all_addresses_refuse_the_failure_names_each() {
        let addresses = [refused(), refused()];
        let failure = connect_any(&addresses).await.expect_err("nobody listens");
        assert_eq!(ErrorKind::Connect, failure.kind);
        assert!(addresses.iter().all(|address| failure.message.contains(&address.to_string())), "{failure}");
    }

    #[tokio::test]
    async fn the_address_that_worked_is_tried_first_the_next_time() {
        let listener = listener();
        let good = listener.local_addr().expect("a bound address");
        let refused = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), good.port());
        let name = HostName::Domain("two.example".into());
        let route = RouteKey { origin: Origin { https: false, name, port: good.port() }, tls: None };
        let (connector, host) = (Connector::default(), Host::default());
        connector.connect(&route, &host, vec![refused, good]).await.expect("the second is good");
        assert_eq!(Some(good.ip()), host.address(Instant::now()));
        let mut addresses = vec![refused, good];
        put_first(&mut addresses, host.address(Instant::now()));
        assert_eq!(vec![good, refused], addresses);
        // What the resolver prefers is preferred again, once it answers.
        connector.connect(&route, &host, vec![good, refused]).await.expect("the first is good");
        assert_eq!(None, host.address(Instant::now()));
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_resolve() {
        assert_eq!(ErrorKind::Resolve, connect_any(&[]).await.expect_err("nothing to connect to").kind);
    }
}
