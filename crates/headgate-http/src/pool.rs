//! The connection pool of one worker: idle connections, with one bound for all routes together.
//!
//! Connections in use are bounded by the lanes, and idle ones by [`IdleLimits`]: by their number and by the bytes that they
//! hold. Beyond that, the connection that has been idle the longest is closed first; surplus connections, beside the
//! first one of a route, are closed sooner. A route uses its youngest connection first, so that unneeded ones grow old and are
//! closed. A few connections of a host are kept for long, and others only for a few seconds.
//!
//! Connections belong to the worker and not to a run, so that the next run can use them. A [`Route`] has its idle
//! connections, so no look-up is needed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::origin::Origin;
use headgate_core::schedule::hosts::{Host, Speaks};

use crate::dial::connect::Connection;
use crate::dial::transport::RouteKey;
use crate::h2::connection::Http2Connection;
use crate::h2::streams::Streams;
use crate::idle_limits::IdleLimits;
use crate::keep_alive::KeepAlive;
use crate::open::{OpenConnections, OpenPermit};

/// The longest time that a connection may be idle. Servers commonly close it after 60 to 75 s; the pool does so first.
const MAX_IDLE: Duration = Duration::from_secs(50);
/// The number of idle connections of a route that are kept for [`MAX_IDLE`], as many as browsers have for a host.
const KEPT_FOR_LONG: usize = 6;
/// The factor by which a surplus connection counts as older than it is: more requests need the first connection of a route than
/// the second.
const SURPLUS_AGES: u32 = 4;
/// The longest time that all other connections of a route may be idle. It covers the next burst of requests, but keeps the
/// server from running out of connections.
const MAX_IDLE_OF_CROWDED: Duration = Duration::from_secs(5);
/// The bytes that an idle connection holds beside its stream: its entries in the pool, and its share of the route.
const IDLE_BYTES: usize = 1024;
/// The number of routes beyond twice those in use at which unused ones are dropped.
const SPARE_ROUTES: usize = 64;

/// A host with a transport configuration, and its connections.
#[derive(Debug)]
pub struct Route {
    pub key: RouteKey,
    /// The state of the host, which all runs of the engine share.
    pub host: Arc<Host>,
    /// The observed keep-alive behaviour of the host.
    pub keep_alive: KeepAlive,
    /// The version of HTTP that the host speaks, if known.
    speaks: Cell<Option<Speaks>>,
    /// Its HTTP/2 connections, and the requests that wait for them.
    pub streams: Rc<Streams>,
    /// Its idle connections with their keys in the pool's order, the youngest last.
    idle: RefCell<VecDeque<(IdleKey, Box<PooledConnection>)>>,
    /// The address of the last new connection. Most connections share it, so that the text is in the cache.
    last_address: RefCell<Arc<str>>,
}

impl Route {
    fn new(key: RouteKey, host: Arc<Host>) -> Self {
        let streams = Streams::new(key.transport.http2_streams());
        let known = host.speaks(clock::now());
        // The host's own requirement has priority over the transport configuration.
        let speaks = known.filter(|known| *known == Speaks::OnlyHttp1).or(key.transport.speaks(&key.origin)).or(known);
        Self {
            key,
            host,
            keep_alive: KeepAlive::default(),
            speaks: Cell::new(speaks),
            streams,
            idle: RefCell::default(),
            last_address: RefCell::default(),
        }
    }

    /// Returns the version of HTTP that the host speaks, if known.
    pub fn speaks(&self) -> Option<Speaks> {
        self.speaks.get()
    }

    pub fn is_http2(&self) -> bool {
        self.speaks.get() == Some(Speaks::Http2)
    }

    /// Records which version of HTTP the host speaks.
    pub(crate) fn record_version(&self, speaks: Speaks) {
        if self.speaks.replace(Some(speaks)) != Some(speaks) {
            self.host.spoke(speaks, clock::now());
        }
    }

    fn shared(&self, address: Arc<str>) -> Arc<str> {
        let mut last = self.last_address.borrow_mut();
        if *last != address {
            *last = address;
        }
        last.clone()
    }
}

/// The exclusive use of a connection for one exchange after another. Dropping it closes the connection.
#[derive(Debug)]
pub struct Lease {
    pub route: Rc<Route>,
    open: Box<PooledConnection>,
}

impl Lease {
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.open.connection
    }

    /// Returns whether the connection carries one request only.
    pub(crate) fn is_single_use(&self) -> bool {
        self.open.connection.is_single_use()
    }

    /// Cedes the connection to a lane that waits for one of its host. Returns whether there is such a lane: then the caller
    /// closes the connection.
    pub(crate) fn try_cede(&self) -> bool {
        self.open.permit.try_cede()
    }

    /// Returns when its last exchange ended; `None`: it had none.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.open.idle_since
    }

    /// Records that an exchange has ended and left the connection open.
    pub(crate) fn set_idle_since(&mut self, now: Instant) {
        self.open.idle_since = Some(now);
    }

    pub fn remote_addr(&self) -> &Arc<str> {
        &self.open.connection.remote_addr
    }
}

#[derive(Debug)]
struct PooledConnection {
    connection: Connection,
    idle_since: Option<Instant>,
    permit: OpenPermit,
}

#[derive(Debug)]
pub struct Pool {
    open: Rc<OpenConnections>,
    /// The most connections in use.
    max_in_use: usize,
    idle_limits: IdleLimits,
    /// HTTP/2 connections in no particular order, some of them closed.
    http2: VecDeque<Rc<Http2Connection>>,
    routes: HashMap<RouteKey, Rc<Route>>,
    /// The number of routes that were left when unused ones were last dropped.
    routes_in_use: usize,
    /// Idle connections, the oldest first, but surplus ones after all others.
    idle: BTreeMap<IdleKey, Idle>,
    /// The number of times that a connection became idle.
    put: u64,
    /// When a connection last became idle: ages are measured at this time.
    put_last: Instant,
}

#[derive(Debug)]
struct Idle {
    since: Instant,
    route: Rc<Route>,
}

/// The position of an idle connection in the pool's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct IdleKey {
    /// The connection became idle beside another one of its route.
    is_surplus: bool,
    number: u64,
}

impl Pool {
    pub fn new(idle_limits: IdleLimits) -> Self {
        Self {
            open: Rc::default(),
            max_in_use: 0,
            idle_limits,
            http2: VecDeque::new(),
            routes: HashMap::new(),
            routes_in_use: 0,
            idle: BTreeMap::new(),
            put: 0,
            put_last: clock::now(),
        }
    }

    /// Raises the bound of connections in use to `in_use`, if that is more than before.
    pub fn allow(&mut self, in_use: usize) {
        self.max_in_use = self.max_in_use.max(in_use);
        self.evict_idle();
    }

    /// Raises the bound of connections in use by `more`.
    pub fn allow_more(&mut self, more: usize) {
        self.max_in_use += more;
        self.evict_idle();
    }

    /// Returns the only route with this key; a new one gets its host from `host`.
    pub fn route(&mut self, key: RouteKey, host: impl FnOnce(&Origin) -> Arc<Host>) -> Rc<Route> {
        if let Some(route) = self.routes.get(&key) {
            return route.clone();
        }
        self.evict_routes();
        let route = Rc::new(Route::new(key.clone(), host(&key.origin)));
        self.routes.insert(key, route.clone());
        route
    }

    /// Removes the youngest idle connection of a route and returns it. The server may have closed it: see
    /// [`Connection::is_alive`].
    pub fn pop(&mut self, route: &Rc<Route>) -> Option<Lease> {
        let (key, open) = route.idle.borrow_mut().pop_back()?;
        open.permit.set_idle(false);
        self.idle.remove(&key);
        Some(Lease { route: route.clone(), open })
    }

    /// Puts back a connection for the next request that needs it, unless it is ceded.
    pub fn put(&mut self, lease: Lease, now: Instant) {
        let Lease { route, open } = lease;
        if open.permit.try_cede() {
            return;
        }
        open.permit.set_idle(true);
        (self.put, self.put_last) = (self.put + 1, now);
        let mut idle = route.idle.borrow_mut();
        let key = IdleKey { is_surplus: !idle.is_empty(), number: self.put };
        self.idle.insert(key, Idle { since: now, route: route.clone() });
        idle.push_back((key, open));
        drop(idle);
        self.evict_idle();
    }

    /// Closes idle connections of this route, the oldest first, one for each lane that waits for a connection of its host.
    pub fn cede(&mut self, key: &RouteKey) {
        let Some(route) = self.routes.get(key).cloned() else { return };
        while let Some((key, _)) = route.idle.borrow_mut().pop_front_if(|(_, open)| open.permit.try_cede()) {
            self.idle.remove(&key);
        }
    }

    /// Counts a connection that is about to be made.
    pub fn permit(&mut self) -> OpenPermit {
        let permit = self.open.permit();
        // The pool is not notified when HTTP/2 connections become idle.
        self.evict_idle();
        permit
    }

    /// Returns whether one more connection may be in use.
    pub(crate) fn has_capacity(&self) -> bool {
        self.open.in_use() < self.max_in_use
    }

    /// Adds an HTTP/2 connection, which [`Pool::sweep`] checks.
    pub(crate) fn add_http2(&mut self, connection: Rc<Http2Connection>) {
        self.http2.push_back(connection);
    }

    /// Returns the lease of a new connection.
    pub(crate) fn lease(route: Rc<Route>, mut connection: Connection, permit: OpenPermit) -> Lease {
        connection.remote_addr = route.shared(connection.remote_addr);
        permit.set_bytes(IDLE_BYTES + connection.stream.held_bytes());
        Lease { route, open: Box::new(PooledConnection { connection, idle_since: None, permit }) }
    }

    /// Closes connections that were idle for too long while the machine was suspended, and could not notice that a server
    /// closed them.
    pub fn close_suspended(&mut self, suspended: Duration, now: Instant) {
        if suspended > MAX_IDLE {
            while self.try_close_idle_http2() {}
        }
        self.sweep(now + suspended);
    }

    /// Closes connections that have been idle for too long, and dead ones. The worker calls it once a second.
    pub fn sweep(&mut self, now: Instant) {
        self.http2.retain(|connection| {
            connection.tick(MAX_IDLE.as_secs() as u32);
            !connection.is_closed()
        });
        let age = |idle: &Idle| now.saturating_duration_since(idle.since);
        let ages = self.idle.iter().map(|(key, idle)| (*key, age(idle)));
        let old: Vec<_> = ages.filter(|(_, age)| *age > MAX_IDLE_OF_CROWDED).collect();
        for (key, age) in old {
            let is_crowded = self.idle[&key].route.idle.borrow().len() > KEPT_FOR_LONG;
            if is_crowded || age > MAX_IDLE {
                self.close(key);
            }
        }
        self.evict_idle();
    }

    pub fn has_idle(&self) -> bool {
        self.open.idle() > 0
    }

    /// Closes idle connections, the oldest first, until they are within their limits.
    fn evict_idle(&mut self) {
        let max_idle = self.idle_limits.connections(self.max_in_use);
        while (self.open.idle() > max_idle || self.open.idle_bytes() > self.idle_limits.bytes)
            && (self.try_close_least_needed() || self.try_close_idle_http2())
        {}
    }

    /// Closes an idle HTTP/2 connection, and returns whether there was one. The search resumes where the last one ended, so
    /// that it checks few connections.
    fn try_close_idle_http2(&mut self) -> bool {
        while self.open.idle() > self.idle.len()
            && let Some(next) = self.http2.pop_front()
        {
            if next.is_closed() {
                continue;
            }
            if next.is_idle() {
                next.close();
                return true;
            }
            self.http2.push_back(next);
        }
        false
    }

    /// Closes the connection that has been idle the longest, where a surplus one counts as older than it is; returns whether
    /// there was one.
    fn try_close_least_needed(&mut self) -> bool {
        let first = self.idle.first_key_value();
        let surplus = self.idle.range(IdleKey { is_surplus: true, number: 0 }..).next();
        let age = |idle: &Idle| self.put_last.saturating_duration_since(idle.since);
        let key = match (first, surplus) {
            (Some((_, first)), Some((key, surplus))) if age(surplus) * SURPLUS_AGES >= age(first) => Some(*key),
            (first, _) => first.map(|(key, _)| *key),
        };
        key.inspect(|key| self.close(*key)).is_some()
    }

    fn close(&mut self, key: IdleKey) {
        let Some(Idle { route, .. }) = self.idle.remove(&key) else { return };
        // It is one of the first two: only the oldest of a route is no surplus.
        route.idle.borrow_mut().retain(|(other, _)| *other != key);
    }

    /// Drops unused routes once there are too many: the number of known routes is proportional to those in use.
    fn evict_routes(&mut self) {
        if self.routes.len() > 2 * self.routes_in_use + SPARE_ROUTES {
            self.routes.retain(|_, route| Rc::strong_count(route) > 1 || route.streams.has_connections());
            self.routes_in_use = self.routes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::{Ipv4Addr, TcpListener as Listener};
    use std::pin::pin;
    use std::task::Poll;

    use headgate_core::message::OptionName;
    use headgate_core::origin::HostName;

    use super::*;
    use crate::dial::connect::{ConnectBy, Connector};
    use crate::dial::transport::{TransportConfig, TransportConfigs};

    fn key(port: u16) -> RouteKey {
        let origin = Origin { https: false, name: HostName::V4(Ipv4Addr::LOCALHOST), port };
        RouteKey { origin, transport: TransportConfig::for_tests() }
    }

    fn limits(connections: Option<usize>, bytes: usize) -> IdleLimits {
        IdleLimits { connections, fitting: Arc::new(usize::MAX.into()), bytes }
    }

    /// A pool, and real listeners for real connections.
    struct TestPool {
        pool: Pool,
        listeners: Vec<Listener>,
    }

    impl TestPool {
        fn new(max_idle: usize, hosts: usize) -> Self {
            let listener = || Listener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            let listeners = std::iter::repeat_with(listener).take(hosts).collect();
            Self { pool: Pool::new(limits(Some(max_idle), 1 << 30)), listeners }
        }

        fn route(&mut self, host: usize) -> Rc<Route> {
            let port = self.listeners[host].local_addr().expect("a bound address").port();
            self.pool.route(key(port), |_| Arc::new(Host::new(Instant::now())))
        }

        async fn open(&mut self, host: usize) -> Lease {
            let route = self.route(host);
            let permit = self.pool.permit();
            let by = ConnectBy { time: Instant::now() + Duration::from_mins(1), option: OptionName::Timeout };
            let connector = Connector::default();
            let found = connector.find(&route.key, false, by.time).await.expect("it is an address");
            let connected = connector.connect(&route.key, &route.host, found, by).await;
            Pool::lease(route, connected.expect("the host listens"), permit)
        }

        fn idle(&mut self) -> Vec<usize> {
            (0..self.listeners.len()).map(|host| self.route(host).idle.borrow().len()).collect()
        }
    }

    #[tokio::test]
    async fn beyond_the_limit_the_connection_idle_the_longest_is_closed_and_none_in_use() {
        let mut test_pool = TestPool::new(3, 4);
        let now = Instant::now();
        let (first, second, third) = (test_pool.open(0).await, test_pool.open(1).await, test_pool.open(2).await);
        let fourth = test_pool.open(3).await;
        for lease in [first, second, third] {
            test_pool.pool.put(lease, now);
        }
        // The first is used once more: now it is the youngest, and the second is the oldest.
        let route = test_pool.route(0);
        let lease = test_pool.pool.pop(&route).expect("it is idle");
        test_pool.pool.put(lease, now);
        assert_eq!((vec![1, 1, 1, 0], 1), (test_pool.idle(), test_pool.pool.open.in_use()));
        test_pool.pool.put(fourth, now);
        assert_eq!(vec![1, 0, 1, 1], test_pool.idle());
        test_pool.pool.sweep(now + MAX_IDLE);
        assert_eq!((vec![1, 0, 1, 1], true), (test_pool.idle(), test_pool.pool.has_idle()));
        test_pool.pool.sweep(now + MAX_IDLE * 2);
        assert_eq!((vec![0, 0, 0, 0], false), (test_pool.idle(), test_pool.pool.has_idle()));
    }

    #[tokio::test]
    async fn without_an_option_ten_are_kept_for_each_in_use_within_the_limits_of_files_and_bytes() {
        let kept = async |limits: IdleLimits| {
            let mut test_pool = TestPool { pool: Pool::new(limits), ..TestPool::new(0, 1) };
            test_pool.pool.allow(1);
            let mut leases = Vec::new();
            for _ in 0..12 {
                leases.push(test_pool.open(0).await);
            }
            for lease in leases {
                test_pool.pool.put(lease, Instant::now());
            }
            test_pool.pool.open.idle()
        };
        assert_eq!(10, kept(limits(None, 1 << 30)).await);
        assert_eq!(7, kept(limits(None, 7 * IDLE_BYTES + 1)).await);
        assert_eq!(5, kept(IdleLimits { fitting: Arc::new(5.into()), ..limits(None, 1 << 30) }).await);
        assert_eq!(0, kept(limits(Some(0), 1 << 30)).await);
    }

    #[tokio::test]
    async fn a_surplus_connection_is_closed_before_the_only_one_of_another_host_unless_it_is_much_younger() {
        for (age_s, expected) in [(3, vec![1, 1, 1]), (1, vec![2, 0, 1])] {
            let mut test_pool = TestPool::new(3, 3);
            let start = Instant::now();
            let at = |seconds| start + Duration::from_secs(seconds);
            let (first, second) = (test_pool.open(0).await, test_pool.open(0).await);
            let (only, last) = (test_pool.open(1).await, test_pool.open(2).await);
            test_pool.pool.put(only, at(0));
            test_pool.pool.put(first, at(8 - age_s));
            test_pool.pool.put(second, at(8 - age_s));
            test_pool.pool.put(last, at(8));
            assert_eq!(expected, test_pool.idle(), "{age_s} s");
        }
    }

    #[tokio::test]
    async fn for_each_lane_that_waits_one_idle_connection_of_its_host_is_closed() {
        let mut test_pool = TestPool::new(10, 1);
        let route = test_pool.route(0);
        let connections = route.host.connections.clone();
        let mut leases = Vec::new();
        for _ in 0..4 {
            let lease = test_pool.open(0).await;
            lease.open.permit.set_of_host(connections.try_open(4));
            leases.push(lease);
        }
        let busy = leases.pop().expect("there are four");
        for lease in leases {
            test_pool.pool.put(lease, Instant::now());
        }
        let mut one = pin!(connections.open(4, || ()));
        assert!(poll_fn(|cx| Poll::Ready(one.as_mut().poll(cx).is_pending())).await);
        test_pool.pool.cede(&route.key);
        test_pool.pool.cede(&route.key);
        assert_eq!(vec![2], test_pool.idle());
        let mut other = pin!(connections.open(4, || ()));
        assert!(poll_fn(|cx| Poll::Ready(other.as_mut().poll(cx).is_pending())).await);
        test_pool.pool.put(busy, Instant::now());
        test_pool.pool.cede(&route.key);
        assert_eq!(vec![2], test_pool.idle(), "the one that became idle was closed for it");
        let _both = (one.await, other.await);
    }

    #[tokio::test]
    async fn at_most_six_connections_of_a_host_are_kept_for_longer_than_five_seconds() {
        let mut test_pool = TestPool::new(100, 2);
        let now = Instant::now();
        let mut leases = vec![test_pool.open(1).await];
        for _ in 0..9 {
            leases.push(test_pool.open(0).await);
        }
        for mut lease in leases {
            lease.set_idle_since(now);
            test_pool.pool.put(lease, now);
        }
        test_pool.pool.sweep(now + MAX_IDLE_OF_CROWDED);
        assert_eq!(vec![9, 1], test_pool.idle());
        test_pool.pool.sweep(now + MAX_IDLE_OF_CROWDED + Duration::from_millis(1));
        assert_eq!((vec![6, 1], 7), (test_pool.idle(), test_pool.pool.open.idle()));
        test_pool.pool.sweep(now + MAX_IDLE);
        assert_eq!(vec![6, 1], test_pool.idle());
    }

    #[tokio::test]
    async fn the_number_of_known_routes_is_proportional_to_those_in_use() {
        let mut test_pool = TestPool::new(2, 2);
        for _ in 0..1000 {
            let lease = match test_pool.route(0) {
                route if route.idle.borrow().is_empty() => test_pool.open(0).await,
                route => test_pool.pool.pop(&route).expect("it is idle"),
            };
            test_pool.pool.put(lease, Instant::now());
        }
        assert_eq!(1, test_pool.pool.idle.len());
        for port in 1..10_000 {
            test_pool.pool.route(key(port), |_| Arc::new(Host::new(Instant::now())));
        }
        assert!(test_pool.pool.routes.len() <= 2 * 2 + 2 * SPARE_ROUTES, "{}", test_pool.pool.routes.len());
        assert_eq!(vec![1, 0], test_pool.idle());
    }

    #[test]
    fn there_is_one_route_for_each_host_and_transport_configuration() {
        let mut pool = Pool::new(IdleLimits::default());
        let configs = TransportConfigs::default();
        let mut route = |insecure| {
            let options = headgate_core::options::RequestOptions { insecure, ..Default::default() };
            let transport = configs.get(&options).expect("nothing is read");
            pool.route(RouteKey { transport, ..key(443) }, |_| Arc::new(Host::new(Instant::now())))
        };
        let (trusting, strict) = (route(true), route(false));
        assert!(!Rc::ptr_eq(&trusting, &strict), "an unverified connection must not serve a run that verifies");
        assert!(Rc::ptr_eq(&strict, &route(false)));
    }
}
