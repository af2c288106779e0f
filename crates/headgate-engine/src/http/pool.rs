//! Idle connections of one worker, with one bound for all hosts together.
//!
//! A worker that takes connections from many hosts would keep one open for each, until the process has no file left. Here
//! idle and busy connections together never exceed the worker's lanes: to open one more, the one idle the longest
//! is closed. The youngest is reused first, so that those not needed grow old and go.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::http::dial::connect::Connection;
use crate::http::target::Origin;

/// Servers commonly close an idle connection after 60 to 75 s; we do it first.
const MAX_IDLE: Duration = Duration::from_secs(50);

/// A connection that is open, whether busy or idle. Dropping it closes it and makes room.
#[derive(Debug)]
pub struct Pooled {
    pub origin: Rc<Origin>,
    pub connection: Connection,
    _permit: OpenPermit,
}

/// Counts one connection as open for as long as it lives.
#[derive(Debug)]
pub struct OpenPermit(#[expect(dead_code, reason = "held, never read")] Rc<()>);

#[derive(Debug)]
pub struct Pool {
    max_open: usize,
    /// One clone for each connection that is open or being made: counts them.
    open: Rc<()>,
    /// By age: the number given when it became idle.
    idle: BTreeMap<u64, (Instant, Box<Pooled>)>,
    /// The ages of each origin's idle connections, oldest first.
    by_origin: HashMap<Rc<Origin>, VecDeque<u64>>,
    next: u64,
}

impl Pool {
    pub fn new(max_open: usize) -> Self {
        Self { max_open, open: Rc::new(()), idle: BTreeMap::new(), by_origin: HashMap::new(), next: 0 }
    }

    /// Takes the youngest idle connection to `origin`. It may have died: ask it.
    pub fn take(&mut self, origin: &Origin) -> Option<Box<Pooled>> {
        let ages = self.by_origin.get_mut(origin)?;
        let age = ages.pop_back();
        if ages.is_empty() {
            self.by_origin.remove(origin);
        }
        self.idle.remove(&age?).map(|(_, pooled)| pooled)
    }

    /// Keeps a connection for whoever needs it next.
    pub fn put(&mut self, pooled: Box<Pooled>, now: Instant) {
        self.by_origin.entry(pooled.origin.clone()).or_default().push_back(self.next);
        self.idle.insert(self.next, (now, pooled));
        self.next += 1;
    }

    /// Makes room for one more connection, by closing an idle one if need be.
    pub fn make_room(&mut self) -> OpenPermit {
        while Rc::strong_count(&self.open) > self.max_open && self.close_oldest() {}
        OpenPermit(self.open.clone())
    }

    /// A new connection, in the room that was made for it.
    pub fn adopt(origin: Rc<Origin>, connection: Connection, permit: OpenPermit) -> Box<Pooled> {
        Box::new(Pooled { origin, connection, _permit: permit })
    }

    /// Closes what has been idle for too long.
    pub fn sweep(&mut self, now: Instant) {
        while self
            .idle
            .first_key_value()
            .is_some_and(|(_, (since, _))| now.saturating_duration_since(*since) > MAX_IDLE)
        {
            self.close_oldest();
        }
    }

    fn close_oldest(&mut self) -> bool {
        let Some((age, (_, pooled))) = self.idle.pop_first() else { return false };
        if let Some(ages) = self.by_origin.get_mut(&pooled.origin) {
            let oldest = ages.pop_front();
            debug_assert_eq!(Some(age), oldest, "ages ascend");
            if ages.is_empty() {
                self.by_origin.remove(&pooled.origin);
            }
        }
        true
    }
}
