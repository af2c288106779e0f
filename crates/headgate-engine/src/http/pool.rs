//! Idle connections of one worker, with one bound for all routes together.
//!
//! Connections in use are bounded by the lanes, and idle ones by [`IdleLimits`]: by their number and by the bytes that they
//! hold. Whatever exceeds that is closed, the one that was idle the longest first; where a route has several, those beside the
//! first one go sooner. The youngest of a route is used first, so that those not needed grow old and go. Of one host, a few are
//! kept for long, and others only for a few seconds.
//!
//! Connections belong to the worker and not to a run, so that the next run finds them. Whoever has a [`Route`] reaches
//! its idle connections without a look-up.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::http::dial::connect::Connection;
use crate::http::dial::transport::RouteKey;
use crate::http::h2::connection::Connection as Http2Connection;
use crate::http::h2::streams::Streams;
use crate::http::idle_limits::IdleLimits;
use crate::http::keep_alive::KeepAlive;
use crate::http::open::{Open, OpenPermit};
use crate::model::origin::Origin;
use crate::schedule::hosts::{Host, Speaks};

/// Servers commonly close an idle connection after 60 to 75 s; we do it first.
const MAX_IDLE: Duration = Duration::from_secs(50);
/// Idle connections of a route that are kept for so long, as many as browsers have for a host.
const KEPT_FOR_LONG: usize = 6;
/// So many times its age a connection counts as idle that is not the only one of its route: the first spares more requests
/// a new connection than the second.
const SURPLUS_AGES: u32 = 4;
/// How long others are kept: for the next burst of requests, and not until the server runs out of connections.
const MAX_IDLE_OF_CROWDED: Duration = Duration::from_secs(5);
/// What an idle connection holds beside its stream: its places in the pool, and its share of the route.
const IDLE_BYTES: usize = 1024;
/// Routes that may be known beyond twice those in use before the others are forgotten.
const SPARE_ROUTES: usize = 64;

/// One way to a host, and the idle connections that lead there.
#[derive(Debug)]
pub struct Route {
    pub key: RouteKey,
    /// What all runs know of the host.
    pub host: Arc<Host>,
    /// How long it keeps what is idle.
    pub keeping: KeepAlive,
    /// What the host speaks, as far as that is known.
    speaks: Cell<Option<Speaks>>,
    /// Its connections that speak HTTP/2, and who waits for them.
    pub streams: Rc<Streams>,
    /// With the place of each in the pool's order, the youngest last.
    idle: RefCell<VecDeque<(Place, Box<OpenConnection>)>>,
    /// Where the connection made last leads. Most lead there: then all of them have this text in common, which is in the cache.
    last_address: RefCell<Arc<str>>,
}

impl Route {
    fn new(key: RouteKey, host: Arc<Host>) -> Self {
        let streams = Streams::new(key.transport.http2_streams());
        let told = host.speaks(Instant::now());
        // What it wants itself counts for more than what was said of it.
        let speaks = told.filter(|told| *told == Speaks::OnlyHttp1).or(key.transport.speaks(&key.origin)).or(told);
        Self {
            key,
            host,
            keeping: KeepAlive::default(),
            speaks: Cell::new(speaks),
            streams,
            idle: RefCell::default(),
            last_address: RefCell::default(),
        }
    }

    /// What the host speaks, as far as that is known.
    pub fn speaks(&self) -> Option<Speaks> {
        self.speaks.get()
    }

    pub fn is_http2(&self) -> bool {
        self.speaks.get() == Some(Speaks::Http2)
    }

    /// A connection has told what the host speaks.
    pub fn learn(&self, speaks: Speaks) {
        if self.speaks.replace(Some(speaks)) != Some(speaks) {
            self.host.spoke(speaks, Instant::now());
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

/// The right to make one exchange after another over a connection. Dropping it closes the connection and makes room.
#[derive(Debug)]
pub struct Lease {
    pub route: Rc<Route>,
    open: Box<OpenConnection>,
}

impl Lease {
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.open.connection
    }

    /// Returns whether it is ceded to a lane that waits for a connection of its host: then the caller closes it.
    pub fn try_cede(&self) -> bool {
        self.open.permit.try_cede()
    }

    /// When its last exchange ended; `None`: it had none.
    pub fn idle_since(&self) -> Option<Instant> {
        self.open.idle_since
    }

    /// An exchange has ended that leaves it open.
    pub fn rests_since(&mut self, now: Instant) {
        self.open.idle_since = Some(now);
    }

    pub fn remote_addr(&self) -> &Arc<str> {
        &self.open.connection.remote_addr
    }
}

#[derive(Debug)]
struct OpenConnection {
    connection: Connection,
    idle_since: Option<Instant>,
    permit: OpenPermit,
}

#[derive(Debug)]
pub struct Pool {
    open: Rc<Open>,
    /// Connections that may be in use.
    max_in_use: usize,
    idle_limits: IdleLimits,
    /// Connections that speak HTTP/2, in an order that says nothing, and some that are closed.
    http2: VecDeque<Rc<Http2Connection>>,
    routes: HashMap<RouteKey, Rc<Route>>,
    /// How many routes there were when those were forgotten that nobody uses.
    routes_in_use: usize,
    /// What is idle, the oldest first, but that which became idle beside another one of its route behind all others.
    idle: BTreeMap<Place, Idle>,
    /// Connections that ever became idle.
    put: u64,
    /// When a connection last became idle: ages are counted from there.
    put_last: Instant,
}

#[derive(Debug)]
struct Idle {
    since: Instant,
    route: Rc<Route>,
}

/// Where an idle connection stands in the order of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// It became idle beside another one of its route.
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
            put_last: Instant::now(),
        }
    }

    /// Lets so many connections be in use, if that is more than before.
    pub fn allow(&mut self, in_use: usize) {
        self.max_in_use = self.max_in_use.max(in_use);
        self.evict_idle();
    }

    /// Lets so many more connections be in use than before.
    pub fn allow_more(&mut self, more: usize) {
        self.max_in_use += more;
        self.evict_idle();
    }

    /// The one route of this key; `host` is asked where the worker has not met it yet.
    pub fn route(&mut self, key: RouteKey, host: impl FnOnce(&Origin) -> Arc<Host>) -> Rc<Route> {
        if let Some(route) = self.routes.get(&key) {
            return route.clone();
        }
        self.forget_routes();
        let route = Rc::new(Route::new(key.clone(), host(&key.origin)));
        self.routes.insert(key, route.clone());
        route
    }

    /// Takes the youngest idle connection of a route. It may have died: ask it.
    pub fn take(&mut self, route: &Rc<Route>) -> Option<Lease> {
        let (place, open) = route.idle.borrow_mut().pop_back()?;
        open.permit.set_idle(false);
        self.idle.remove(&place);
        Some(Lease { route: route.clone(), open })
    }

    /// Keeps a connection for the next request that needs it, unless it is ceded.
    pub fn put(&mut self, lease: Lease, now: Instant) {
        let Lease { route, open } = lease;
        if open.permit.try_cede() {
            return;
        }
        open.permit.set_idle(true);
        (self.put, self.put_last) = (self.put + 1, now);
        let mut idle = route.idle.borrow_mut();
        let place = Place { is_surplus: !idle.is_empty(), number: self.put };
        self.idle.insert(place, Idle { since: now, route: route.clone() });
        idle.push_back((place, open));
        drop(idle);
        self.evict_idle();
    }

    /// Closes idle connections of this route, the oldest first, as far as lanes wait for that.
    pub fn cede(&mut self, key: &RouteKey) {
        let Some(route) = self.routes.get(key).cloned() else { return };
        while let Some((place, _)) = route.idle.borrow_mut().pop_front_if(|(_, open)| open.permit.try_cede()) {
            self.idle.remove(&place);
        }
    }

    /// Counts a connection that is about to be made.
    pub fn permit(&mut self) -> OpenPermit {
        let permit = self.open.permit();
        // HTTP/2 connections become idle without a word to the pool.
        self.evict_idle();
        permit
    }

    /// Returns whether one more connection may be in use.
    pub fn has_room(&self) -> bool {
        self.open.in_use() < self.max_in_use
    }

    /// Keeps an eye on a connection that speaks HTTP/2.
    pub fn watch(&mut self, connection: Rc<Http2Connection>) {
        self.http2.push_back(connection);
    }

    /// A new connection, in the room that was made for it.
    pub fn lease(route: Rc<Route>, mut connection: Connection, permit: OpenPermit) -> Lease {
        connection.remote_addr = route.shared(connection.remote_addr);
        permit.set_bytes(IDLE_BYTES + connection.stream.held_bytes());
        Lease { route, open: Box::new(OpenConnection { connection, idle_since: None, permit }) }
    }

    /// Closes what was idle for too long while the machine was suspended: no server could tell that it closed its end.
    pub fn close_suspended(&mut self, suspended: Duration, now: Instant) {
        if suspended > MAX_IDLE {
            while self.close_idle_http2() {}
        }
        self.sweep(now + suspended);
    }

    /// Closes what has been idle for too long, and gives up what is dead. To be called once a second.
    pub fn sweep(&mut self, now: Instant) {
        self.http2.retain(|connection| {
            connection.tick(MAX_IDLE.as_secs() as u32);
            !connection.is_closed()
        });
        let age = |idle: &Idle| now.saturating_duration_since(idle.since);
        let ages = self.idle.iter().map(|(place, idle)| (*place, age(idle)));
        let old: Vec<_> = ages.filter(|(_, age)| *age > MAX_IDLE_OF_CROWDED).collect();
        for (place, age) in old {
            let is_crowded = self.idle[&place].route.idle.borrow().len() > KEPT_FOR_LONG;
            if is_crowded || age > MAX_IDLE {
                self.close(place);
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
            && (self.close_least_needed() || self.close_idle_http2())
        {}
    }

    /// Closes a connection that speaks HTTP/2 and that nobody uses. Whether there was one: the next one in turn, so that few
    /// are looked at.
    fn close_idle_http2(&mut self) -> bool {
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
    fn close_least_needed(&mut self) -> bool {
        let first = self.idle.first_key_value();
        let surplus = self.idle.range(Place { is_surplus: true, number: 0 }..).next();
        let age = |idle: &Idle| self.put_last.saturating_duration_since(idle.since);
        let place = match (first, surplus) {
            (Some((_, first)), Some((place, surplus))) if age(surplus) * SURPLUS_AGES >= age(first) => Some(*place),
            (first, _) => first.map(|(place, _)| *place),
        };
        place.inspect(|place| self.close(*place)).is_some()
    }

    fn close(&mut self, place: Place) {
        let Some(Idle { route, .. }) = self.idle.remove(&place) else { return };
        // One of its first two: only the oldest of a route is no surplus.
        route.idle.borrow_mut().retain(|(other, _)| *other != place);
    }

    /// Forgets routes that nobody uses, now and then: what is known is in proportion to what is used.
    fn forget_routes(&mut self) {
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

    use super::*;
    use crate::http::dial::connect::{ConnectBy, Connector};
    use crate::http::dial::transport::{TransportConfig, TransportConfigs};
    use crate::model::message::OptionName;
    use crate::model::origin::HostName;

    fn key(port: u16) -> RouteKey {
        let origin = Origin { https: false, name: HostName::V4(Ipv4Addr::LOCALHOST), port };
        RouteKey { origin, transport: TransportConfig::for_tests() }
    }

    fn limits(connections: Option<usize>, bytes: usize) -> IdleLimits {
        IdleLimits { connections, fitting: Arc::new(usize::MAX.into()), bytes }
    }

    /// Leases of real connections to real listeners.
    struct Bench {
        pool: Pool,
        listeners: Vec<Listener>,
    }

    impl Bench {
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
            let by = ConnectBy { time: Instant::now() + Duration::from_mins(1), option: OptionName::TimeoutS };
            let connector = Connector::default();
            let found = connector.find(&route.key, false, by.time).await.expect("it is an address");
            let connected = connector.connect(&route.key, &route.host, found, by).await;
            Pool::lease(route, connected.expect("somebody listens"), permit)
        }

        fn idle(&mut self) -> Vec<usize> {
            (0..self.listeners.len()).map(|host| self.route(host).idle.borrow().len()).collect()
        }
    }

    #[tokio::test]
    async fn of_too_many_idle_connections_the_one_idle_the_longest_is_closed_and_none_in_use() {
        let mut bench = Bench::new(3, 4);
        let now = Instant::now();
        let (first, second, third) = (bench.open(0).await, bench.open(1).await, bench.open(2).await);
        let fourth = bench.open(3).await;
        for lease in [first, second, third] {
            bench.pool.put(lease, now);
        }
        // Used again: now it is the youngest, and the second is the oldest.
        let route = bench.route(0);
        let lease = bench.pool.take(&route).expect("it is idle");
        bench.pool.put(lease, now);
        assert_eq!((vec![1, 1, 1, 0], 1), (bench.idle(), bench.pool.open.in_use()));
        bench.pool.put(fourth, now);
        assert_eq!(vec![1, 0, 1, 1], bench.idle());
        bench.pool.sweep(now + MAX_IDLE);
        assert_eq!((vec![1, 0, 1, 1], true), (bench.idle(), bench.pool.has_idle()));
        bench.pool.sweep(now + MAX_IDLE * 2);
        assert_eq!((vec![0, 0, 0, 0], false), (bench.idle(), bench.pool.has_idle()));
    }

    #[tokio::test]
    async fn without_an_option_ten_are_kept_for_each_in_use_as_far_as_files_and_bytes_allow() {
        let kept = async |limits: IdleLimits| {
            let mut bench = Bench { pool: Pool::new(limits), ..Bench::new(0, 1) };
            bench.pool.allow(1);
            let mut leases = Vec::new();
            for _ in 0..12 {
                leases.push(bench.open(0).await);
            }
            for lease in leases {
                bench.pool.put(lease, Instant::now());
            }
            bench.pool.open.idle()
        };
        assert_eq!(10, kept(limits(None, 1 << 30)).await);
        assert_eq!(7, kept(limits(None, 7 * IDLE_BYTES + 1)).await);
        assert_eq!(5, kept(IdleLimits { fitting: Arc::new(5.into()), ..limits(None, 1 << 30) }).await);
        assert_eq!(0, kept(limits(Some(0), 1 << 30)).await);
    }

    #[tokio::test]
    async fn the_second_idle_connection_of_a_host_goes_sooner_than_the_only_one_of_another_unless_it_is_much_younger() {
        for (age_s, expected) in [(3, vec![1, 1, 1]), (1, vec![2, 0, 1])] {
            let mut bench = Bench::new(3, 3);
            let start = Instant::now();
            let at = |seconds| start + Duration::from_secs(seconds);
            let (first, second) = (bench.open(0).await, bench.open(0).await);
            let (only, last) = (bench.open(1).await, bench.open(2).await);
            bench.pool.put(only, at(0));
            bench.pool.put(first, at(8 - age_s));
            bench.pool.put(second, at(8 - age_s));
            bench.pool.put(last, at(8));
            assert_eq!(expected, bench.idle(), "{age_s} s");
        }
    }

    #[tokio::test]
    async fn for_each_lane_that_waits_one_idle_connection_of_its_host_is_closed() {
        let mut bench = Bench::new(10, 1);
        let route = bench.route(0);
        let connections = route.host.connections.clone();
        let mut leases = Vec::new();
        for _ in 0..4 {
            let lease = bench.open(0).await;
            lease.open.permit.set_of_host(connections.try_open(4));
            leases.push(lease);
        }
        let busy = leases.pop().expect("there are four");
        for lease in leases {
            bench.pool.put(lease, Instant::now());
        }
        let mut one = pin!(connections.open(4, || ()));
        assert!(poll_fn(|cx| Poll::Ready(one.as_mut().poll(cx).is_pending())).await);
        bench.pool.cede(&route.key);
        bench.pool.cede(&route.key);
        assert_eq!(vec![2], bench.idle());
        let mut other = pin!(connections.open(4, || ()));
        assert!(poll_fn(|cx| Poll::Ready(other.as_mut().poll(cx).is_pending())).await);
        bench.pool.put(busy, Instant::now());
        bench.pool.cede(&route.key);
        assert_eq!(vec![2], bench.idle(), "the one that became idle was closed for it");
        let _both = (one.await, other.await);
    }

    #[tokio::test]
    async fn of_one_host_no_more_than_six_are_kept_for_longer_than_five_seconds() {
        let mut bench = Bench::new(100, 2);
        let now = Instant::now();
        let mut leases = vec![bench.open(1).await];
        for _ in 0..9 {
            leases.push(bench.open(0).await);
        }
        for mut lease in leases {
            lease.rests_since(now);
            bench.pool.put(lease, now);
        }
        bench.pool.sweep(now + MAX_IDLE_OF_CROWDED);
        assert_eq!(vec![9, 1], bench.idle());
        bench.pool.sweep(now + MAX_IDLE_OF_CROWDED + Duration::from_millis(1));
        assert_eq!((vec![6, 1], 7), (bench.idle(), bench.pool.open.idle()));
        bench.pool.sweep(now + MAX_IDLE);
        assert_eq!(vec![6, 1], bench.idle());
    }

    #[tokio::test]
    async fn what_is_remembered_is_in_proportion_to_what_is_used() {
        let mut bench = Bench::new(2, 2);
        for _ in 0..1000 {
            let lease = match bench.route(0) {
                route if route.idle.borrow().is_empty() => bench.open(0).await,
                route => bench.pool.take(&route).expect("it is idle"),
            };
            bench.pool.put(lease, Instant::now());
        }
        assert_eq!(1, bench.pool.idle.len());
        for port in 1..10_000 {
            bench.pool.route(key(port), |_| Arc::new(Host::new(Instant::now())));
        }
        assert!(bench.pool.routes.len() <= 2 * 2 + 2 * SPARE_ROUTES, "{}", bench.pool.routes.len());
        assert_eq!(vec![1, 0], bench.idle());
    }

    #[test]
    fn a_route_is_one_for_each_host_and_way_to_it() {
        let mut pool = Pool::new(IdleLimits::default());
        let configs = TransportConfigs::default();
        let mut route = |insecure| {
            let options = crate::model::options::RequestOptions { insecure, ..Default::default() };
            let transport = configs.get(&options).expect("nothing is read");
            pool.route(RouteKey { transport, ..key(443) }, |_| Arc::new(Host::new(Instant::now())))
        };
        let (trusting, strict) = (route(true), route(false));
        assert!(!Rc::ptr_eq(&trusting, &strict), "no connection that nobody verified serves a run that does");
        assert!(Rc::ptr_eq(&strict, &route(false)));
    }
}
