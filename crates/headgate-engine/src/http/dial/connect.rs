//! A connection to an origin: name, TCP by the rules of Happy Eyeballs, TLS.

use std::collections::BTreeSet;
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
use tokio::time::{timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http::dial::resolve::Resolver;
use crate::http::dial::route::RouteKey;
use crate::http::dial::trouble::handshake_failure;
use crate::model::error::{ErrorKind, Failure, cause};
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

/// Until when a connection must stand.
#[derive(Debug, Clone, Copy)]
pub struct ConnectBy {
    pub time: Instant,
    /// The option that says so.
    pub option: OptionName,
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
    /// `connect`, `connect_timeout` or `tls`, with the addresses as its detail.
    ///
    /// Cancelling it closes what was opened so far.
    pub async fn connect(
        &self,
        route: &RouteKey,
        host: &Host,
        addresses: Vec<SocketAddr>,
        by: ConnectBy,
    ) -> Result<Connection, Failure> {
        let mut addresses = interleaved(addresses);
        let preferred = addresses.first().copied();
        put_first(&mut addresses, host.address(Instant::now()));
        let (stream, address) = match timeout_at(by.time.into(), connect_any(&addresses)).await {
            Ok(connected) => connected.map_err(refused)?,
            Err(_) => return Err(too_late("no TCP connection in time", &by).with_detail(listed(&addresses))),
        };
        host.connected_to(address.ip(), Some(address) == preferred, Instant::now());
        let stream = match &route.tls {
            Some(tls) => timeout_at(by.time.into(), handshake(&route.origin, tls.clone(), stream))
                .await
                .unwrap_or_else(|_| Err(too_late("the TLS handshake did not end in time", &by)))
                .map_err(|failure| failure.at(address))?,
            None => Stream::Plain(stream),
        };
        Ok(Connection { stream, remote_addr: address.to_string().into() })
    }
}

async fn handshake(origin: &Origin, tls: Arc<ClientConfig>, stream: TcpStream) -> Result<Stream, Failure> {
    let name = match &origin.name {
        HostName::Domain(name) => ServerName::try_from(name.to_string())
            .map_err(|error| Failure::new(ErrorKind::Tls, format!("no certificate can be for this name: {error}")))?,
        HostName::V4(address) => ServerName::from(std::net::IpAddr::from(*address)),
        HostName::V6(address) => ServerName::from(std::net::IpAddr::from(*address)),
    };
    let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(|error| handshake_failure(&error))?;
    Ok(Stream::Tls(Box::new(stream)))
}

/// What did not come about in time.
fn too_late(message: &'static str, by: &ConnectBy) -> Failure {
    Failure::new(ErrorKind::ConnectTimeout, message).with_option(by.option)
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

/// Why an address could not be connected to.
#[derive(Debug)]
struct Refused {
    address: SocketAddr,
    error: io::Error,
}

/// The first connection that stands; each address gets a head start of [`ATTEMPT_DELAY`] on the next.
async fn connect_any(addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), Vec<Refused>> {
    let Some((first, rest)) = addresses.split_first() else { return Err(Vec::new()) };
    let attempt = connect_one(*first);
    if rest.is_empty() {
        return attempt.await.map_err(|refused| vec![refused]);
    }
    let mut attempt = std::pin::pin!(attempt);
    let both = |refused: Refused, mut others: Vec<Refused>| {
        others.push(refused);
        others
    };
    match timeout(ATTEMPT_DELAY, &mut attempt).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(refused)) => Box::pin(connect_any(rest)).await.map_err(|others| both(refused, others)),
        Err(_) => {
            let mut later = Box::pin(connect_any(rest));
            tokio::select! {
                connected = &mut attempt => match connected {
                    Ok(connected) => Ok(connected),
                    Err(refused) => later.await.map_err(|others| both(refused, others)),
                },
                connected = &mut later => match connected {
                    Ok(connected) => Ok(connected),
                    Err(others) => attempt.await.map_err(|refused| both(refused, others)),
                },
            }
        }
    }
}

/// Why no address could be connected to: each cause once and in order, so that those of many hosts are the same.
fn refused(mut refused: Vec<Refused>) -> Failure {
    refused.sort_by_key(|refused| refused.address);
    let causes: BTreeSet<String> = refused.iter().map(|refused| cause(&refused.error)).collect();
    let details: Vec<String> = match causes.len() {
        0 => return Failure::new(ErrorKind::Resolve, "the name has no address"),
        1 => refused.iter().map(|refused| refused.address.to_string()).collect(),
        _ => refused.iter().map(|refused| format!("{}: {}", refused.address, cause(&refused.error))).collect(),
    };
    let is = |kind: io::ErrorKind| move |refused: &Refused| refused.error.kind() == kind;
    let all_too_late = refused.iter().all(is(io::ErrorKind::TimedOut));
    let kind = if all_too_late { ErrorKind::ConnectTimeout } else { ErrorKind::Connect };
    let message = Vec::from_iter(causes).join("; ");
    let no_port_left = refused.iter().any(is(io::ErrorKind::AddrNotAvailable));
    let message = if no_port_left { format!("{message}{NO_PORT_LEFT}") } else { message };
    let failure = Failure::new(kind, message).with_detail(details.join(", "));
    if no_port_left { failure.with_option(OptionName::Concurrency) } else { failure }
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
}

async fn connect_one(address: SocketAddr) -> Result<(TcpStream, SocketAddr), Refused> {
    let refused = |error| Refused { address, error };
    let stream = TcpStream::connect(address).await.map_err(refused)?;
    // A request is one write; waiting to gather more of it (Nagle) would only add to the latency.
    stream.set_nodelay(true).map_err(refused)?;
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
    fn closed() -> SocketAddr {
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
        let (closed, listener) = (closed(), listener());
        let good = listener.local_addr().expect("a bound address");
        for addresses in [vec![closed, good], vec![closed, closed, good], vec![good, closed]] {
            let (_, connected) = connect_any(&addresses).await.expect("one address is good");
            assert_eq!(good, connected, "{addresses:?}");
        }
    }

    #[tokio::test]
    async fn when_all_addresses_refuse_the_failure_says_so_once_and_names_each() {
        let mut addresses = [closed(), closed()];
        let failure = refused(connect_any(&addresses).await.expect_err("nobody listens"));
        addresses.sort();
        let detail = format!("{}, {}", addresses[0], addresses[1]);
        assert_eq!(Failure::new(ErrorKind::Connect, "connection refused").with_detail(detail), failure);
    }

    #[test]
    fn several_causes_are_the_same_message_whichever_came_first() {
        let of = |address: &str, error: io::ErrorKind| Refused {
            address: address.parse().expect("an address"),
            error: error.into(),
        };
        let (refuses, hangs) =
            (of("1.1.1.1:1", io::ErrorKind::ConnectionRefused), of("[::1]:1", io::ErrorKind::TimedOut));
        let expected = Failure::new(ErrorKind::Connect, "connection refused; timed out")
            .with_detail("1.1.1.1:1: connection refused, [::1]:1: timed out");
        assert_eq!(expected, refused(vec![hangs, refuses]));
    }

    #[test]
    fn an_address_that_the_kernel_waited_for_in_vain_is_a_connection_that_came_too_late() {
        let hangs = Refused { address: address("1.1.1.1:1"), error: io::ErrorKind::TimedOut.into() };
        assert_eq!(ErrorKind::ConnectTimeout, refused(vec![hangs]).kind);
    }

    #[tokio::test]
    async fn the_address_that_worked_is_tried_first_the_next_time() {
        let listener = listener();
        let good = listener.local_addr().expect("a bound address");
        let refused = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), good.port());
        let name = HostName::Domain("two.example".into());
        let route = RouteKey { origin: Origin { https: false, name, port: good.port() }, tls: None };
        let (connector, host) = (Connector::default(), Host::default());
        let by = ConnectBy { time: Instant::now() + Duration::from_mins(1), option: OptionName::TimeoutS };
        connector.connect(&route, &host, vec![refused, good], by).await.expect("the second is good");
        assert_eq!(Some(good.ip()), host.address(Instant::now()));
        let mut addresses = vec![refused, good];
        put_first(&mut addresses, host.address(Instant::now()));
        assert_eq!(vec![good, refused], addresses);
        // What the resolver prefers is preferred again, once it answers.
        connector.connect(&route, &host, vec![good, refused], by).await.expect("the first is good");
        assert_eq!(None, host.address(Instant::now()));
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_resolve() {
        assert_eq!(ErrorKind::Resolve, refused(connect_any(&[]).await.expect_err("nothing to connect to")).kind);
    }
}
