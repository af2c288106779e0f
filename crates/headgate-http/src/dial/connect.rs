//! Makes a connection to a host: DNS for the host or its proxy, TCP, the proxy's tunnel, TLS.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure, cause};
use headgate_core::message::OptionName;
use headgate_core::origin::{HostName, Origin};
use headgate_core::reason::Reason;
use headgate_core::schedule::hosts::{Host, Speaks};
use headgate_core::timer::timeout_at;
use headgate_core::virtual_clock::Working;
use tokio_socks::TargetAddr;

use crate::dial::forward::ProxyForwarding;
use crate::dial::handshake::Handshake;
use crate::dial::in_process::{self, InProcess};
use crate::dial::policy::{Guard, Remote};
use crate::dial::proxy::{Proxy, Scheme};
use crate::dial::race::{self, AttemptProgress, DialError, FailedAddress, interleave};
use crate::dial::resolve::Resolver;
use crate::dial::stream::Stream;
use crate::dial::transport::{RouteKey, TransportConfig};
use crate::dial::tunnel;

/// Tells the user why this machine can make no connection, and what helps besides fewer requests at once.
const NO_PORT_LEFT: &str =
    " (no local port is left for this address; net.ipv4.ip_local_port_range says how many there are)";

/// A connection to a host, or to a proxy that forwards requests to it.
#[derive(Debug)]
pub struct Connection {
    pub stream: Stream,
    /// The address of the host, or of the proxy.
    pub remote_addr: Arc<str>,
    /// Decides which redirects the server may send and receive.
    pub remote: Remote,
    /// HTTP/2, or else HTTP/1.1.
    pub is_http2: bool,
    /// The additions to requests if the other end is a forwarding proxy.
    pub forwarding: Option<Box<ProxyForwarding>>,
}

impl Connection {
    /// Takes the failure that a mock transport has set for the exchange.
    pub fn verdict(&self) -> Option<Failure> {
        if let Stream::InProcess(stream) = &self.stream { stream.verdict() } else { None }
    }

    /// Returns whether the connection carries one request only.
    pub fn is_single_use(&self) -> bool {
        matches!(&self.stream, Stream::InProcess(stream) if stream.is_single_use())
    }

    /// Returns the failure if this status means that the proxy refused the request; otherwise the response may be the host's.
    pub fn refusal(&self, status: u16) -> Option<Failure> {
        self.forwarding.as_ref()?.refusal(status)
    }
}

/// The deadline of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectBy {
    pub time: Instant,
    /// The option that sets the deadline.
    pub option: OptionName,
}

/// The addresses that a connection is made to.
#[derive(Debug)]
pub struct ConnectTarget<'a> {
    /// `None` for a direct connection.
    proxy: Option<&'a Proxy>,
    /// The addresses of the host or the proxy.
    addresses: Vec<SocketAddr>,
    /// The host's address behind the proxy, if we resolve it.
    target: Option<SocketAddr>,
    guard: Guard<'a>,
}

/// Makes connections; shared by all workers.
#[derive(Debug, Default)]
pub struct Connector {
    pub resolver: Resolver,
}

impl Connector {
    /// Returns the addresses for the next connection of a route. The hostname of a host behind a proxy is not resolved, except
    /// for a `socks5://` proxy. `from_outside` tells whether a server with a public address has redirected the request.
    ///
    /// # Errors
    /// `dns`, `connect`, `proxy`, `blocked_by_network_policy`.
    ///
    /// Cancelling it cancels the lookup.
    pub async fn find<'a>(
        &self,
        route: &'a RouteKey,
        from_outside: bool,
        by: Instant,
    ) -> Result<ConnectTarget<'a>, Failure> {
        let transport = &*route.transport;
        let guard = Guard::Host { policy: &transport.policy, from_outside };
        if transport.mock_transport.is_some() {
            return Ok(ConnectTarget { proxy: None, addresses: Vec::new(), target: None, guard });
        }
        // Checked before the lookup: no query is sent for a port that is not allowed.
        transport.policy.port_objection(route.origin.port).map_or(Ok(()), Err)?;
        let Some(proxy) = transport.proxies.take_next(&route.origin) else {
            let addresses = self.addresses(transport, &route.origin, guard, by).await?;
            return Ok(ConnectTarget { proxy: None, addresses, target: None, guard });
        };
        if let Some(objection) = literal_address(&route.origin).and_then(|target| guard.objection(target)) {
            return Err(objection);
        }
        let addresses = self.addresses(transport, &proxy.origin, Guard::Proxy, by).await;
        let addresses = addresses.map_err(|failure| proxy_unreachable(&failure, proxy, transport))?;
        let target = match proxy.scheme {
            Scheme::Socks5 => self.addresses(transport, &route.origin, guard, by).await?.first().copied(),
            Scheme::Http | Scheme::Https | Scheme::Socks5h => None,
        };
        Ok(ConnectTarget { proxy: Some(proxy), addresses, target, guard: Guard::Proxy })
    }

    /// Returns the preferred address of a host if it is resolved until `by`; `None` for hosts behind a proxy.
    pub async fn address_of(&self, route: &RouteKey, by: Instant) -> Option<IpAddr> {
        if route.transport.mock_transport.is_some() || route.transport.proxies.has_proxy_for(&route.origin) {
            return None;
        }
        let guard = Guard::Host { policy: &route.transport.policy, from_outside: false };
        let found = self.addresses(&route.transport, &route.origin, guard, by).await;
        found.ok().and_then(|addresses| addresses.first().map(SocketAddr::ip))
    }

    async fn addresses(
        &self,
        transport: &TransportConfig,
        host: &Origin,
        guard: Guard<'_>,
        by: Instant,
    ) -> Result<Vec<SocketAddr>, Failure> {
        let addresses = match transport.override_for(host) {
            Some(addresses) => addresses,
            None => self.resolver.resolve(host, by).await?,
        };
        guard.permitted(transport.reachable(addresses)?)
    }

    /// Connects to the target; `host` is the state of the route's host.
    ///
    /// # Errors
    /// `connect`, `connect_timeout`, `tls`, `proxy`, with the address as detail.
    ///
    /// Cancelling it closes what was opened so far.
    pub async fn connect(
        &self,
        route: &RouteKey,
        host: &Host,
        target: ConnectTarget<'_>,
        by: ConnectBy,
    ) -> Result<Connection, Failure> {
        let transport = &*route.transport;
        if let Some(mock_transport) = &transport.mock_transport {
            let stream = Stream::InProcess(Box::new(InProcess::connect(mock_transport, &route.origin)?));
            return Ok(Connection {
                stream,
                remote_addr: in_process::ADDRESS.into(),
                remote: Remote::MOCK,
                is_http2: false,
                forwarding: None,
            });
        }
        let _working = Working::begin();
        let ConnectTarget { proxy, addresses, target, guard } = target;
        let mut addresses = interleave(addresses);
        let tls = route.origin.https.then(|| Handshake::with_host(transport, &route.origin, host)).transpose()?;
        let mut forwarding = None;
        let (stream, address) = if let Some(proxy) = proxy {
            let is_forwarding = proxy.is_http() && !route.origin.https && !transport.has_http2_prior_knowledge();
            forwarding = is_forwarding
                .then(|| Box::new(ProxyForwarding::new(proxy, &route.origin, !transport.proxies.has_several())));
            // Boxed, since ten thousand connections are made at once and most need no proxy.
            Box::pin(connect_through(route, proxy, (&addresses, target), tls.as_ref(), is_forwarding, by)).await?
        } else {
            let preferred = addresses.first().copied();
            move_to_front(&mut addresses, host.address(clock::now()));
            let connected = dial(transport, &addresses, guard, tls.as_ref(), by).await?;
            host.connected_to(connected.1.ip(), Some(connected.1) == preferred, clock::now());
            connected
        };
        let wants_http1 = host.speaks(clock::now()) == Some(Speaks::OnlyHttp1);
        let is_http2 = transport.has_http2_prior_knowledge() && !wants_http1 || stream.has_negotiated_http2();
        let host_address =
            if proxy.is_some() { target.or_else(|| literal_address(&route.origin)) } else { Some(address) };
        let remote = host_address.map_or(Remote::UNKNOWN, |address| transport.policy.remote(address));
        Ok(Connection { stream, remote_addr: address.to_string().into(), remote, is_http2, forwarding })
    }
}

/// Connects to a proxy and, unless it forwards single requests, opens a tunnel to the host.
async fn connect_through(
    route: &RouteKey,
    proxy: &Proxy,
    (addresses, target): (&[SocketAddr], Option<SocketAddr>),
    tls: Option<&Handshake>,
    is_forwarding: bool,
    by: ConnectBy,
) -> Result<(Stream, SocketAddr), Failure> {
    let (stream, address) = dial_proxy(&route.transport, proxy, addresses, by).await?;
    if is_forwarding {
        return Ok((stream, address));
    }
    let tunnel = open_tunnel(stream, proxy, &route.origin, target);
    let tunnel = within(tunnel, by, "the proxy did not respond in time").await.map_err(|mut failure| {
        // Another proxy may succeed.
        failure.is_lasting &= !route.transport.proxies.has_several();
        failure.at(proxy)
    })?;
    let stream = match tls {
        Some(tls) => {
            within(tls.over(tunnel), by, Handshake::TIMED_OUT).await.map_err(|failure| tls.at(proxy, failure))?
        }
        None => tunnel,
    };
    Ok((stream, address))
}

async fn dial_proxy(
    transport: &TransportConfig,
    proxy: &Proxy,
    addresses: &[SocketAddr],
    by: ConnectBy,
) -> Result<(Stream, SocketAddr), Failure> {
    let connected = match Handshake::with_proxy(transport, &proxy.origin) {
        Ok(tls) => dial(transport, addresses, Guard::Proxy, tls.as_ref(), by).await,
        Err(failure) => Err(failure),
    };
    connected.map_err(|failure| proxy_unreachable(&failure, proxy, transport))
}

/// Makes the proxy connect to the host.
async fn open_tunnel(
    mut stream: Stream,
    proxy: &Proxy,
    origin: &Origin,
    target: Option<SocketAddr>,
) -> Result<Stream, Failure> {
    if proxy.is_http() {
        tunnel::connect(&mut stream, proxy, origin).await?;
        return Ok(stream);
    }
    let target = match (&origin.name, target) {
        (_, Some(address)) => TargetAddr::Ip(address),
        (HostName::V4(address), None) => TargetAddr::Ip(SocketAddr::new((*address).into(), origin.port)),
        (HostName::V6(address), None) => TargetAddr::Ip(SocketAddr::new((*address).into(), origin.port)),
        (HostName::Domain(name), None) => TargetAddr::Domain(Cow::Borrowed(name), origin.port),
    };
    tunnel::socks(stream, proxy, target).await
}

/// Returns the first established connection, with TLS if `tls` is given.
async fn dial(
    transport: &TransportConfig,
    addresses: &[SocketAddr],
    guard: Guard<'_>,
    tls: Option<&Handshake>,
    by: ConnectBy,
) -> Result<(Stream, SocketAddr), Failure> {
    let has_tcp = Cell::new(false);
    let attempt = async |address: SocketAddr, progress: &AttemptProgress<'_>| {
        let stream = Stream::Plain(transport.local.connect(address, guard).await?);
        let Some(tls) = tls else { return Ok(stream) };
        progress.connected();
        Box::pin(tls.attempt(stream, address)).await
    };
    let connected = timeout_at(by.time, race::connect_first(addresses, &has_tcp, &attempt)).await;
    connected.map_or_else(
        |_| {
            let what = if has_tcp.get() { Handshake::TIMED_OUT } else { "no TCP connection in time" };
            Err(timed_out(what, by).with_detail(join(addresses)))
        },
        |connected| connected.map_err(all_failed),
    )
}

async fn within<T>(
    work: impl Future<Output = Result<T, Failure>>,
    by: ConnectBy,
    timeout_message: &'static str,
) -> Result<T, Failure> {
    timeout_at(by.time, work).await.unwrap_or_else(|_| Err(timed_out(timeout_message, by)))
}

/// Returns the failure of a connection that was not made by its deadline.
pub(crate) fn timed_out(message: &'static str, by: ConnectBy) -> Failure {
    let is_total = by.option == OptionName::TotalTimeout;
    let kind = if is_total { ErrorKind::TotalTimeout } else { ErrorKind::ConnectTimeout };
    Failure::new(kind, message).with_option(by.option)
}

/// Turns a failure to connect to a proxy into one of kind `proxy`, since it is no fault of the host.
fn proxy_unreachable(failure: &Failure, proxy: &Proxy, transport: &TransportConfig) -> Failure {
    let Failure { reason, is_lasting, option, .. } = failure;
    let mut converted = tunnel::failure(Reason {
        message: format!("the proxy can't be reached: {}", reason.message).into(),
        detail: reason.detail.clone(),
    });
    // Another proxy may be reachable.
    converted.is_lasting = *is_lasting && !transport.proxies.has_several();
    converted.option = option.or(converted.option);
    converted.at(proxy)
}

/// Returns the address of a host that the URL gives as an address.
fn literal_address(host: &Origin) -> Option<SocketAddr> {
    host.name.address().map(|address| SocketAddr::new(address, host.port))
}

/// Moves the address of the last successful connection to the front: those before it would cost time to fail again.
fn move_to_front(addresses: &mut [SocketAddr], last: Option<IpAddr>) {
    if let Some(index) = last.and_then(|last| addresses.iter().position(|address| address.ip() == last)) {
        addresses[..=index].rotate_right(1);
    }
}

/// Returns the failure of a connection for which all addresses failed. Failures of a TLS handshake take precedence.
fn all_failed(failed: Vec<FailedAddress>) -> Failure {
    let (mut no_tcp, mut no_tls) = (Vec::new(), Vec::new());
    for FailedAddress { address, error } in failed {
        match error {
            DialError::Tcp(error) => no_tcp.push((address, error)),
            DialError::Handshake(failure) => no_tls.push((true, address, failure)),
            DialError::Final(failure) => no_tls.push((false, address, failure)),
        }
    }
    let first = no_tls.into_iter().min_by_key(|(may_pass, address, _)| (*may_pass, *address));
    first.map_or_else(|| no_tcp_connection(no_tcp), |(_, _, failure)| failure)
}

/// Returns the failure of addresses without a TCP connection. It has each cause once and sorted, so that the messages of many
/// hosts are the same.
fn no_tcp_connection(mut failed: Vec<(SocketAddr, io::Error)>) -> Failure {
    failed.sort_by_key(|(address, _)| *address);
    let causes: BTreeSet<String> = failed.iter().map(|(_, error)| cause(error)).collect();
    let details: Vec<String> = match causes.len() {
        0 => return Failure::new(ErrorKind::Dns, "the hostname has no address"),
        1 => failed.iter().map(|(address, _)| address.to_string()).collect(),
        _ => failed.iter().map(|(address, error)| format!("{address}: {}", cause(error))).collect(),
    };
    let is = |kind: io::ErrorKind| move |(_, error): &(SocketAddr, io::Error)| error.kind() == kind;
    let have_all_timed_out = failed.iter().all(is(io::ErrorKind::TimedOut));
    let kind = if have_all_timed_out { ErrorKind::ConnectTimeout } else { ErrorKind::Connect };
    let message = Vec::from_iter(causes).join("; ");
    let no_port_left = failed.iter().any(is(io::ErrorKind::AddrNotAvailable));
    let message = if no_port_left { format!("{message}{NO_PORT_LEFT}") } else { message };
    let is_refused = failed.iter().any(is(io::ErrorKind::ConnectionRefused));
    let failure = Failure::new(kind, message).with_detail(details.join(", ")).refused(is_refused);
    if no_port_left { failure.with_option(OptionName::Concurrency) } else { failure }
}

fn join(addresses: &[impl Display]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Duration;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// Returns an address whose port is closed.
    fn closed() -> SocketAddr {
        listener().local_addr().expect("a bound address")
    }

    fn listener() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")
    }

    fn by() -> ConnectBy {
        ConnectBy { time: Instant::now() + Duration::from_mins(1), option: OptionName::Timeout }
    }

    #[tokio::test]
    async fn when_all_addresses_refuse_the_failure_has_the_cause_once_and_all_addresses() {
        let mut addresses = [closed(), closed()];
        let dialled = dial(&TransportConfig::for_tests(), &addresses, Guard::Proxy, None, by()).await;
        addresses.sort();
        let detail = format!("{}, {}", addresses[0], addresses[1]);
        let expected = Failure::new(ErrorKind::Connect, "connection refused").with_detail(detail).refused(true);
        assert_eq!(expected, dialled.expect_err("the ports are closed"));
    }

    #[test]
    fn several_causes_are_the_same_message_in_any_order() {
        let of = |text: &str, error: io::ErrorKind| (address(text), error.into());
        let (refuses, hangs) =
            (of("1.1.1.1:1", io::ErrorKind::ConnectionRefused), of("[::1]:1", io::ErrorKind::TimedOut));
        let expected = Failure::new(ErrorKind::Connect, "connection refused; timed out")
            .with_detail("1.1.1.1:1: connection refused, [::1]:1: timed out")
            .refused(true);
        assert_eq!(expected, no_tcp_connection(vec![hangs, refuses]));
    }

    #[test]
    fn a_timeout_of_the_kernel_is_a_connect_timeout() {
        assert_eq!(
            ErrorKind::ConnectTimeout,
            no_tcp_connection(vec![(address("1.1.1.1:1"), io::ErrorKind::TimedOut.into())]).kind
        );
    }

    #[test]
    fn a_final_failure_of_the_handshake_takes_precedence() {
        let tls = |message: &'static str| Failure::new(ErrorKind::Tls, message);
        let of = |text: &str, error| FailedAddress { address: address(text), error };
        let all = vec![
            of("1.1.1.1:1", DialError::Tcp(io::ErrorKind::ConnectionRefused.into())),
            of("1.1.1.2:1", DialError::Handshake(tls("closed"))),
            of("1.1.1.3:1", DialError::Final(tls("expired"))),
        ];
        assert_eq!(tls("expired"), all_failed(all));
    }

    #[tokio::test]
    async fn the_address_of_the_last_connection_is_tried_first() {
        let listener = listener();
        let good = listener.local_addr().expect("a bound address");
        let refused = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), good.port());
        let name = HostName::Domain("two.example".into());
        let origin = Origin { https: false, name, port: good.port() };
        let route = RouteKey { origin, transport: TransportConfig::for_tests() };
        let (connector, host) = (Connector::default(), Host::new(Instant::now()));
        let guard = Guard::Proxy;
        let found = |addresses: [SocketAddr; 2]| ConnectTarget {
            proxy: None,
            addresses: addresses.into(),
            target: None,
            guard,
        };
        connector.connect(&route, &host, found([refused, good]), by()).await.expect("the second is good");
        assert_eq!(Some(good.ip()), host.address(Instant::now()));
        let mut addresses = vec![refused, good];
        move_to_front(&mut addresses, host.address(Instant::now()));
        assert_eq!(vec![good, refused], addresses);
        // After a connection to the address that the resolver prefers, its order applies again.
        connector.connect(&route, &host, found([good, refused]), by()).await.expect("the first is good");
        assert_eq!(None, host.address(Instant::now()));
    }

    #[tokio::test]
    async fn a_host_without_addresses_fails_with_resolve() {
        let dialled = dial(&TransportConfig::for_tests(), &[], Guard::Proxy, None, by()).await;
        assert_eq!(ErrorKind::Dns, dialled.expect_err("nothing to connect to").kind);
    }
}
