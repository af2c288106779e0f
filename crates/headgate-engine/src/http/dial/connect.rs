//! A connection to a host: its addresses or those of a proxy, TCP, the proxy's consent, TLS.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use tokio::time::timeout_at;
use tokio_socks::TargetAddr;

use crate::http::dial::ask_proxy::AskProxy;
use crate::http::dial::handshake::Handshake;
use crate::http::dial::in_process::{self, InProcess};
use crate::http::dial::policy::{Guard, Remote};
use crate::http::dial::proxy::{Proxy, Scheme};
use crate::http::dial::race::{self, Progress, Refusal, Refused, interleaved};
use crate::http::dial::resolve::Resolver;
use crate::http::dial::stream::Stream;
use crate::http::dial::transport::RouteKey;
use crate::http::dial::transport::TransportConfig;
use crate::http::dial::tunnel;
use crate::model::error::{ErrorKind, Failure, cause};
use crate::model::message::OptionName;
use crate::model::origin::{HostName, Origin};
use crate::model::reason::Reason;
use crate::schedule::hosts::{Host, Speaks};

/// Why no connection can be made from this machine, and what helps besides fewer requests at once.
const NO_PORT_LEFT: &str =
    " (no local port is left for this address; net.ipv4.ip_local_port_range says how many there are)";

/// A connection to a host, or to a proxy that asks it.
#[derive(Debug)]
pub struct Connection {
    pub stream: Stream,
    /// Of a connection through a proxy, that of the proxy.
    pub remote_addr: Arc<str>,
    /// What its other end means for redirects.
    pub remote: Remote,
    /// It speaks HTTP/2, and HTTP/1.1 otherwise.
    pub is_http2: bool,
    /// A proxy at its end, which is asked for each request.
    pub ask_proxy: Option<Box<AskProxy>>,
}

impl Connection {
    /// What an exchange has failed of, where who answers is in this process and has said so.
    pub fn verdict(&self) -> Option<Failure> {
        if let Stream::InProcess(stream) = &self.stream { stream.verdict() } else { None }
    }

    /// Why an answer with this status is none of the host; `None`: it may be the host's.
    pub fn refusal(&self, status: u16) -> Option<Failure> {
        self.ask_proxy.as_ref()?.refusal(status)
    }
}

/// Until when a connection must stand.
#[derive(Debug, Clone, Copy)]
pub struct ConnectBy {
    pub time: Instant,
    /// The option that says so.
    pub option: OptionName,
}

/// What a connection is made to.
#[derive(Debug)]
pub struct Found<'a> {
    /// `None`: to the host itself.
    proxy: Option<&'a Proxy>,
    /// Of the host or the proxy.
    addresses: Vec<SocketAddr>,
    /// The host's, where we look it up for the proxy.
    target: Option<SocketAddr>,
    guard: Guard<'a>,
}

/// Makes connections; shared by all workers.
#[derive(Debug, Default)]
pub struct Connector {
    pub resolver: Resolver,
}

impl Connector {
    /// What the next connection of a route is made to. The name of a host behind a proxy is not looked up, unless the proxy is
    /// one of `socks5://`. `from_outside`: a server outside has redirected the request.
    ///
    /// # Errors
    /// `resolve`, `connect`, `proxy`, `blocked_by_network_policy`.
    ///
    /// Cancelling it gives up the look-up.
    pub async fn find<'a>(&self, route: &'a RouteKey, from_outside: bool, by: Instant) -> Result<Found<'a>, Failure> {
        let transport = &*route.transport;
        let guard = Guard::Host { policy: &transport.policy, from_outside };
        if transport.mock_transport.is_some() {
            return Ok(Found { proxy: None, addresses: Vec::new(), target: None, guard });
        }
        // Its name is not looked up, either.
        transport.policy.port_objection(route.origin.port).map_or(Ok(()), Err)?;
        let Some(proxy) = transport.proxies.next(&route.origin) else {
            let addresses = self.addresses(transport, &route.origin, guard, by).await?;
            return Ok(Found { proxy: None, addresses, target: None, guard });
        };
        if let Some(objection) = known(&route.origin).and_then(|target| guard.objection(target)) {
            return Err(objection);
        }
        let addresses = self.addresses(transport, &proxy.origin, Guard::Proxy, by).await;
        let addresses = addresses.map_err(|failure| unreachable(&failure, proxy, transport))?;
        let target = match proxy.scheme {
            Scheme::Socks5 => self.addresses(transport, &route.origin, guard, by).await?.first().copied(),
            Scheme::Http | Scheme::Https | Scheme::Socks5h => None,
        };
        Ok(Found { proxy: Some(proxy), addresses, target, guard: Guard::Proxy })
    }

    /// The address that is preferred for a host, if one is found until `by`. Of those behind a proxy none is looked for.
    pub async fn address_of(&self, route: &RouteKey, by: Instant) -> Option<IpAddr> {
        if route.transport.mock_transport.is_some() || route.transport.proxies.are_for(&route.origin) {
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
        let addresses = match transport.given_addresses(host) {
            Some(given) => given,
            None => self.resolver.resolve(host, by).await?,
        };
        guard.permitted(transport.reachable(addresses)?)
    }

    /// Connects to what was found; `host` is what is known of the route's.
    ///
    /// # Errors
    /// `connect`, `connect_timeout`, `tls`, `proxy`, with where it was as its detail.
    ///
    /// Cancelling it closes what was opened so far.
    pub async fn connect(
        &self,
        route: &RouteKey,
        host: &Host,
        found: Found<'_>,
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
                ask_proxy: None,
            });
        }
        let Found { proxy, addresses, target, guard } = found;
        let mut addresses = interleaved(addresses);
        let tls = route.origin.https.then(|| Handshake::with_host(transport, &route.origin, host)).transpose()?;
        let mut ask_proxy = None;
        let (stream, address) = if let Some(proxy) = proxy {
            let asks = proxy.is_http() && !route.origin.https && !transport.takes_http2_for_granted();
            ask_proxy = asks.then(|| Box::new(AskProxy::new(proxy, &route.origin, !transport.proxies.are_several())));
            // Boxed, as all is that most connections do without: ten thousand are made at once.
            Box::pin(by_proxy(route, proxy, (&addresses, target), tls.as_ref(), asks, by)).await?
        } else {
            let preferred = addresses.first().copied();
            put_first(&mut addresses, host.address(Instant::now()));
            let connected = dial(transport, &addresses, guard, tls.as_ref(), by).await?;
            host.connected_to(connected.1.ip(), Some(connected.1) == preferred, Instant::now());
            connected
        };
        let wants_http1 = host.speaks(Instant::now()) == Some(Speaks::OnlyHttp1);
        let is_http2 = transport.takes_http2_for_granted() && !wants_http1 || stream.has_agreed_on_http2();
        let known = if proxy.is_some() { target.or_else(|| known(&route.origin)) } else { Some(address) };
        let remote = known.map_or(Remote::UNKNOWN, |known| transport.policy.remote(known));
        Ok(Connection { stream, remote_addr: address.to_string().into(), remote, is_http2, ask_proxy })
    }
}

/// Connects by way of a proxy; `asks`: it is asked for each request, and for no connection of its own.
async fn by_proxy(
    route: &RouteKey,
    proxy: &Proxy,
    (addresses, target): (&[SocketAddr], Option<SocketAddr>),
    tls: Option<&Handshake>,
    asks: bool,
    by: ConnectBy,
) -> Result<(Stream, SocketAddr), Failure> {
    let (stream, address) = to_proxy(&route.transport, proxy, addresses, by).await?;
    if asks {
        return Ok((stream, address));
    }
    let made = through(stream, proxy, &route.origin, target);
    let made = in_time(made, by, "the proxy did not answer in time").await.map_err(|mut failure| {
        // Another proxy may do better.
        failure.is_lasting &= !route.transport.proxies.are_several();
        failure.at(proxy)
    })?;
    let stream = match tls {
        Some(tls) => {
            in_time(tls.over(made), by, Handshake::TOO_LATE).await.map_err(|failure| tls.at(proxy, failure))?
        }
        None => made,
    };
    Ok((stream, address))
}

async fn to_proxy(
    transport: &TransportConfig,
    proxy: &Proxy,
    addresses: &[SocketAddr],
    by: ConnectBy,
) -> Result<(Stream, SocketAddr), Failure> {
    let connected = match Handshake::with_proxy(transport, &proxy.origin) {
        Ok(tls) => dial(transport, addresses, Guard::Proxy, tls.as_ref(), by).await,
        Err(failure) => Err(failure),
    };
    connected.map_err(|failure| unreachable(&failure, proxy, transport))
}

/// Has the proxy connect to the host.
async fn through(
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

/// The first connection to stand, with TLS if that is asked for.
async fn dial(
    transport: &TransportConfig,
    addresses: &[SocketAddr],
    guard: Guard<'_>,
    tls: Option<&Handshake>,
    by: ConnectBy,
) -> Result<(Stream, SocketAddr), Failure> {
    let has_tcp = Cell::new(false);
    let attempt = async |address: SocketAddr, progress: &Progress<'_>| {
        let stream = Stream::Plain(transport.local.connect(address, guard).await?);
        let Some(tls) = tls else { return Ok(stream) };
        progress.connected();
        Box::pin(tls.attempt(stream, address)).await
    };
    let connected = timeout_at(by.time.into(), race::first(addresses, &has_tcp, &attempt)).await;
    connected.map_or_else(
        |_| {
            let what = if has_tcp.get() { Handshake::TOO_LATE } else { "no TCP connection in time" };
            Err(too_late(what, by).with_detail(listed(addresses)))
        },
        |connected| connected.map_err(refused),
    )
}

async fn in_time<T>(
    work: impl Future<Output = Result<T, Failure>>,
    by: ConnectBy,
    otherwise: &'static str,
) -> Result<T, Failure> {
    timeout_at(by.time.into(), work).await.unwrap_or_else(|_| Err(too_late(otherwise, by)))
}

/// What did not come about in time.
fn too_late(message: &'static str, by: ConnectBy) -> Failure {
    Failure::new(ErrorKind::ConnectTimeout, message).with_option(by.option)
}

/// What kept us from a proxy is no fault of the host.
fn unreachable(failure: &Failure, proxy: &Proxy, transport: &TransportConfig) -> Failure {
    let Failure { reason, is_lasting, option, .. } = failure;
    let mut told = tunnel::failure(Reason {
        message: format!("the proxy can't be reached: {}", reason.message).into(),
        detail: reason.detail.clone(),
    });
    // Another proxy may do better.
    told.is_lasting = *is_lasting && !transport.proxies.are_several();
    told.option = option.or(told.option);
    told.at(proxy)
}

/// The address of a host whose name is one.
fn known(host: &Origin) -> Option<SocketAddr> {
    host.name.address().map(|address| SocketAddr::new(address, host.port))
}

/// Moves the address that worked the last time to the front: those before it would only take their time to fail again.
fn put_first(addresses: &mut [SocketAddr], known: Option<IpAddr>) {
    if let Some(index) = known.and_then(|known| addresses.iter().position(|address| address.ip() == known)) {
        addresses[..=index].rotate_right(1);
    }
}

/// Why no address could be connected to: each cause once and in order, so that those of many hosts are the same. What came
/// of a TLS handshake counts before what came of none.
fn refused(refused: Vec<Refused>) -> Failure {
    let (mut no_tcp, mut no_tls) = (Vec::new(), Vec::new());
    for Refused { address, why } in refused {
        match why {
            Refusal::Tcp(error) => no_tcp.push((address, error)),
            Refusal::Handshake(failure) => no_tls.push((true, address, failure)),
            Refusal::Final(failure) => no_tls.push((false, address, failure)),
        }
    }
    let told = no_tls.into_iter().min_by_key(|(may_pass, address, _)| (*may_pass, *address));
    told.map_or_else(|| unconnected(no_tcp), |(_, _, failure)| failure)
}

fn unconnected(mut refused: Vec<(SocketAddr, io::Error)>) -> Failure {
    refused.sort_by_key(|(address, _)| *address);
    let causes: BTreeSet<String> = refused.iter().map(|(_, error)| cause(error)).collect();
    let details: Vec<String> = match causes.len() {
        0 => return Failure::new(ErrorKind::Resolve, "the name has no address"),
        1 => refused.iter().map(|(address, _)| address.to_string()).collect(),
        _ => refused.iter().map(|(address, error)| format!("{address}: {}", cause(error))).collect(),
    };
    let is = |kind: io::ErrorKind| move |(_, error): &(SocketAddr, io::Error)| error.kind() == kind;
    let all_too_late = refused.iter().all(is(io::ErrorKind::TimedOut));
    let kind = if all_too_late { ErrorKind::ConnectTimeout } else { ErrorKind::Connect };
    let message = Vec::from_iter(causes).join("; ");
    let no_port_left = refused.iter().any(is(io::ErrorKind::AddrNotAvailable));
    let message = if no_port_left { format!("{message}{NO_PORT_LEFT}") } else { message };
    let is_refused = refused.iter().any(is(io::ErrorKind::ConnectionRefused));
    let failure = Failure::new(kind, message).with_detail(details.join(", ")).refused(is_refused);
    if no_port_left { failure.with_option(OptionName::Concurrency) } else { failure }
}

fn listed(addresses: &[impl Display]) -> String {
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

    /// An address where nobody listens.
    fn closed() -> SocketAddr {
        listener().local_addr().expect("a bound address")
    }

    fn listener() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")
    }

    fn by() -> ConnectBy {
        ConnectBy { time: Instant::now() + Duration::from_mins(1), option: OptionName::TimeoutS }
    }

    #[tokio::test]
    async fn when_all_addresses_refuse_the_failure_says_so_once_and_names_each() {
        let mut addresses = [closed(), closed()];
        let dialled = dial(&TransportConfig::for_tests(), &addresses, Guard::Proxy, None, by()).await;
        addresses.sort();
        let detail = format!("{}, {}", addresses[0], addresses[1]);
        let expected = Failure::new(ErrorKind::Connect, "connection refused").with_detail(detail).refused(true);
        assert_eq!(expected, dialled.expect_err("nobody listens"));
    }

    #[test]
    fn several_causes_are_the_same_message_whichever_came_first() {
        let of = |text: &str, error: io::ErrorKind| (address(text), error.into());
        let (refuses, hangs) =
            (of("1.1.1.1:1", io::ErrorKind::ConnectionRefused), of("[::1]:1", io::ErrorKind::TimedOut));
        let expected = Failure::new(ErrorKind::Connect, "connection refused; timed out")
            .with_detail("1.1.1.1:1: connection refused, [::1]:1: timed out")
            .refused(true);
        assert_eq!(expected, unconnected(vec![hangs, refuses]));
    }

    #[test]
    fn an_address_that_the_kernel_waited_for_in_vain_is_a_connection_that_came_too_late() {
        assert_eq!(
            ErrorKind::ConnectTimeout,
            unconnected(vec![(address("1.1.1.1:1"), io::ErrorKind::TimedOut.into())]).kind
        );
    }

    #[test]
    fn what_a_server_says_in_the_handshake_is_told_before_what_others_do_not_say() {
        let tls = |message: &'static str| Failure::new(ErrorKind::Tls, message);
        let of = |text: &str, why| Refused { address: address(text), why };
        let all = vec![
            of("1.1.1.1:1", Refusal::Tcp(io::ErrorKind::ConnectionRefused.into())),
            of("1.1.1.2:1", Refusal::Handshake(tls("closed"))),
            of("1.1.1.3:1", Refusal::Final(tls("expired"))),
        ];
        assert_eq!(tls("expired"), refused(all));
    }

    #[tokio::test]
    async fn the_address_that_worked_is_tried_first_the_next_time() {
        let listener = listener();
        let good = listener.local_addr().expect("a bound address");
        let refused = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), good.port());
        let name = HostName::Domain("two.example".into());
        let origin = Origin { https: false, name, port: good.port() };
        let route = RouteKey { origin, transport: TransportConfig::for_tests() };
        let (connector, host) = (Connector::default(), Host::new(Instant::now()));
        let guard = Guard::Proxy;
        let found =
            |addresses: [SocketAddr; 2]| Found { proxy: None, addresses: addresses.into(), target: None, guard };
        connector.connect(&route, &host, found([refused, good]), by()).await.expect("the second is good");
        assert_eq!(Some(good.ip()), host.address(Instant::now()));
        let mut addresses = vec![refused, good];
        put_first(&mut addresses, host.address(Instant::now()));
        assert_eq!(vec![good, refused], addresses);
        // What the resolver prefers is preferred again, once it answers.
        connector.connect(&route, &host, found([good, refused]), by()).await.expect("the first is good");
        assert_eq!(None, host.address(Instant::now()));
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_resolve() {
        let dialled = dial(&TransportConfig::for_tests(), &[], Guard::Proxy, None, by()).await;
        assert_eq!(ErrorKind::Resolve, dialled.expect_err("nothing to connect to").kind);
    }
}
