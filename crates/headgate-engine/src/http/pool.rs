//! Idle connections of one worker, with one bound for all routes together.
//!
//! A worker that takes connections from many hosts would keep one open for each, until the process has no file left. Here
//! idle and busy connections together never exceed what the worker may have open: to open one more, the one idle the longest
//! is closed. The youngest of a route is used first, so that those not needed grow old and go.
//!
//! Connections belong to the worker and not to a run, so that the next run finds them. Whoever has a [`Route`] reaches
//! its idle connections without a look-up.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::http::dial::connect::Connection;
use crate::http::dial::route::RouteKey;
use crate::http::h2::connection::Connection as Http2Connection;
use crate::http::h2::streams::Streams;
use crate::http::keeping::Keeping;
use crate::http::open::{Open, OpenPermit};
use crate::model::origin::Origin;
use crate::schedule::hosts::{Host, Speaks};

/// Servers commonly close an idle connection after 60 to 75 s; we do it first.
const MAX_IDLE: Duration = Duration::from_secs(50);
/// Routes that may be known beyond twice those in use before the others are forgotten.
const SPARE_ROUTES: usize = 64;

/// One way to a host, and the idle connections that lead there.
#[derive(Debug)]
pub struct Route {
    pub key: RouteKey,
    /// What all runs know of the host.
    pub host: Arc<Host>,
    /// How long it keeps what is idle.
    pub keeping: Keeping,
    /// What the host speaks, as far as that is known.
    speaks: Cell<Option<Speaks>>,
    /// Its connections that speak HTTP/2, and who waits for them.
    pub streams: Rc<Streams>,
    /// By the age at which each became idle, ascending.
    idle: RefCell<VecDeque<(u64, Box<OpenConnection>)>>,
    /// Where the connection made last leads. Most lead there: then all of them have this text in common, which is in the cache.
    last_address: RefCell<Arc<str>>,
}

impl Route {
    fn new(key: RouteKey, host: Arc<Host>) -> Self {
        let streams = Streams::new(key.way.http2_streams());
        let told = host.speaks(Instant::now());
        // What it wants itself counts for more than what was said of it.
        let speaks = told.filter(|told| *told == Speaks::OnlyHttp1).or(key.way.speaks(&key.origin)).or(told);
        let (speaks, idle, last_address) = (Cell::new(speaks), RefCell::default(), RefCell::default());
        Self { key, host, keeping: Keeping::default(), speaks, streams, idle, last_address }
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
    _permit: OpenPermit,
}

#[derive(Debug)]
pub struct Pool {
    open: Rc<Open>,
    /// Connections that speak HTTP/2, in an order that says nothing, and some that are closed.
    http2: VecDeque<Rc<Http2Connection>>,
    routes: HashMap<RouteKey, Rc<Route>>,
    /// How many routes there were when those were forgotten that nobody uses.
    routes_in_use: usize,
    /// What became idle, by age: the oldest first.
    idle: VecDeque<Idle>,
    idle_count: usize,
    next_age: u64,
}

#[derive(Debug)]
struct Idle {
    age: u64,
    since: Instant,
    /// `None`: the connection has been taken since. What is in the route itself need not be looked at: that memory is cold.
    route: Option<Rc<Route>>,
}

impl Pool {
    /// Of up to `max_open` connections, idle ones included.
    pub fn new(max_open: usize) -> Self {
        Self {
            open: Open::new(max_open),
            http2: VecDeque::new(),
            routes: HashMap::new(),
            routes_in_use: 0,
            idle: VecDeque::new(),
            idle_count: 0,
            next_age: 0,
        }
    }

    /// From now on so many may be open, if that is more than before.
    pub fn allow(&mut self, max_open: usize) {
        self.open.set_max(self.open.max().max(max_open));
    }

    /// So many more may be open than before.
    pub fn allow_more(&mut self, more: usize) {
        self.open.set_max(self.open.max() + more);
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
        let (age, open) = route.idle.borrow_mut().pop_back()?;
        if let Ok(index) = self.idle.binary_search_by_key(&age, |idle| idle.age) {
            self.idle[index].route = None;
        }
        self.idle_count -= 1;
        Some(Lease { route: route.clone(), open })
    }

    /// Keeps a connection for whoever needs it next.
    pub fn put(&mut self, lease: Lease, now: Instant) {
        let Lease { route, open } = lease;
        route.idle.borrow_mut().push_back((self.next_age, open));
        if self.idle.len() > 2 * self.idle_count + SPARE_ROUTES {
            self.idle.retain(|idle| idle.route.is_some());
        }
        self.idle.push_back(Idle { age: self.next_age, since: now, route: Some(route) });
        self.idle_count += 1;
        self.next_age += 1;
    }

    /// Makes room for one more connection, by closing an idle one if need be.
    pub fn make_room(&mut self) -> OpenPermit {
        while !self.open.has_room() && (self.close_oldest() || self.close_idle_http2()) {}
        self.open.permit()
    }

    /// Whether one more connection may be opened.
    pub fn has_room(&self) -> bool {
        self.open.has_room() || self.has_idle()
    }

    /// Keeps an eye on a connection that speaks HTTP/2.
    pub fn watch(&mut self, connection: Rc<Http2Connection>) {
        self.http2.push_back(connection);
    }

    /// A new connection, in the room that was made for it.
    pub fn lease(route: Rc<Route>, mut connection: Connection, permit: OpenPermit) -> Lease {
        connection.remote_addr = route.shared(connection.remote_addr);
        Lease { route, open: Box::new(OpenConnection { connection, idle_since: None, _permit: permit }) }
    }

    /// Closes what has been idle for too long, and gives up what is dead. To be called once a second.
    pub fn sweep(&mut self, now: Instant) {
        self.http2.retain(|connection| {
            connection.tick(MAX_IDLE.as_secs() as u32);
            !connection.is_closed()
        });
        while self.idle.front().is_some_and(|idle| now.saturating_duration_since(idle.since) > MAX_IDLE) {
            self.close_oldest();
        }
    }

    pub fn has_idle(&self) -> bool {
        self.idle_count > 0 || self.open.idle_http2() > 0
    }

    /// Closes a connection that speaks HTTP/2 and that nobody uses. Whether there was one: the next one in turn, so that few
    /// are looked at.
    fn close_idle_http2(&mut self) -> bool {
        while self.open.idle_http2() > 0
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

    /// Whether there was one to close.
    fn close_oldest(&mut self) -> bool {
        while let Some(oldest) = self.idle.pop_front() {
            if let Some(route) = oldest.route {
                // Ages ascend: it is the route's first.
                route.idle.borrow_mut().pop_front();
                self.idle_count -= 1;
                return true;
            }
        }
        false
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
    use std::net::{Ipv4Addr, TcpListener as Listener};

    use super::*;
    use crate::http::dial::connect::{ConnectBy, Connector};
    use crate::http::dial::way::{Way, Ways};
    use crate::model::message::OptionName;
    use crate::model::origin::HostName;

    fn key(port: u16) -> RouteKey {
        let origin = Origin { https: false, name: HostName::V4(Ipv4Addr::LOCALHOST), port };
        RouteKey { origin, way: Way::for_tests() }
    }

    /// Leases of real connections to real listeners.
    struct Bench {
        pool: Pool,
        listeners: Vec<Listener>,
    }

    impl Bench {
        fn new(max_open: usize, hosts: usize) -> Self {
            let listener = || Listener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            Self { pool: Pool::new(max_open), listeners: std::iter::repeat_with(listener).take(hosts).collect() }
        }

        fn route(&mut self, host: usize) -> Rc<Route> {
            let port = self.listeners[host].local_addr().expect("a bound address").port();
            self.pool.route(key(port), |_| Arc::default())
        }

        async fn open(&mut self, host: usize) -> Lease {
            let route = self.route(host);
            let permit = self.pool.make_room();
            let by = ConnectBy { time: Instant::now() + Duration::from_mins(1), option: OptionName::TimeoutS };
            let connector = Connector::default();
            let found = connector.find(&route.key, by.time).await.expect("it is an address");
            let connected = connector.connect(&route.key, &route.host, found, by).await;
            Pool::lease(route, connected.expect("somebody listens"), permit)
        }

        fn idle(&mut self) -> Vec<usize> {
            (0..self.listeners.len()).map(|host| self.route(host).idle.borrow().len()).collect()
        }
    }

    #[tokio::test]
    async fn room_is_made_by_closing_what_is_idle_the_longest_whichever_was_used_in_between() {
        let mut bench = Bench::new(3, 4);
        let now = Instant::now();
        let (first, second, third) = (bench.open(0).await, bench.open(1).await, bench.open(2).await);
        for lease in [first, second, third] {
            bench.pool.put(lease, now);
        }
        // Used again: now it is the youngest, and the second is the oldest.
        let route = bench.route(0);
        let lease = bench.pool.take(&route).expect("it is idle");
        bench.pool.put(lease, now);
        let fourth = bench.open(3).await;
        assert_eq!(vec![1, 0, 1, 0], bench.idle());
        bench.pool.put(fourth, now);
        bench.pool.sweep(now + MAX_IDLE);
        assert_eq!((vec![1, 0, 1, 1], true), (bench.idle(), bench.pool.has_idle()));
        bench.pool.sweep(now + MAX_IDLE * 2);
        assert_eq!((vec![0, 0, 0, 0], false), (bench.idle(), bench.pool.has_idle()));
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
        assert!(bench.pool.idle.len() <= 2 + SPARE_ROUTES, "{}", bench.pool.idle.len());
        for port in 1..10_000 {
            bench.pool.route(key(port), |_| Arc::default());
        }
        assert!(bench.pool.routes.len() <= 2 * 2 + 2 * SPARE_ROUTES, "{}", bench.pool.routes.len());
        assert_eq!(vec![1, 0], bench.idle());
    }

    #[test]
    fn a_route_is_one_for_each_host_and_way_to_it() {
        let mut pool = Pool::new(1);
        let ways = Ways::default();
        let mut route = |insecure| {
            let options = crate::model::options::RequestOptions { insecure, ..Default::default() };
            let way = ways.get(&options).expect("nothing is read");
            pool.route(RouteKey { way, ..key(443) }, |_| Arc::default())
        };
        let (trusting, strict) = (route(true), route(false));
        assert!(!Rc::ptr_eq(&trusting, &strict), "no connection that nobody verified serves a run that does");
        assert!(Rc::ptr_eq(&strict, &route(false)));
    }
}
