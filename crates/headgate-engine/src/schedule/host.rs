//! One host as the gate sees it: the rows that wait for it, what is in flight there, and what limits both.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::adaptive::Adaptive;
use super::budget::Budget;
use super::health::{Allowed, Health};
use super::pace::Pace;
use super::waits::Hold;
use crate::model::limits::{HostConcurrency, Limits, Retrying};
use crate::model::row::Row;

/// A row that waits for its turn; `turn`: its place in the order in which rows came.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) turn: u64,
    pub(super) row: Row,
}

/// How many may be in flight.
#[derive(Debug)]
pub(super) enum Concurrency {
    Unlimited,
    Fixed(u32),
    Adaptive(Box<Adaptive>),
}

impl Concurrency {
    pub(super) fn new(limit: Option<HostConcurrency>, most: u32, now: Instant) -> Self {
        match limit {
            None => Self::Unlimited,
            Some(HostConcurrency::Fixed(limit)) => Self::Fixed(limit),
            Some(HostConcurrency::Auto) => Self::Adaptive(Box::new(Adaptive::new(most, now))),
        }
    }

    pub(super) fn limit(&self) -> u32 {
        match self {
            Self::Unlimited => u32::MAX,
            Self::Fixed(limit) => *limit,
            Self::Adaptive(adaptive) => adaptive.limit(),
        }
    }
}

/// Where a host stands: it is in one list of the gate at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing waits for it.
    Idle,
    /// Its next row, of this turn, may start.
    Ready(u64),
    /// Not before this time.
    Until(Instant, Hold),
    /// Not before something in flight has ended.
    Blocked(Hold),
}

impl Standing {
    pub(super) fn hold(self) -> Option<Hold> {
        match self {
            Self::Until(_, hold) | Self::Blocked(hold) => Some(hold),
            Self::Idle | Self::Ready(_) => None,
        }
    }
}

/// Which of its rows is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Hop(u64),
    Retry(Instant, u64),
    Parked(u64),
    /// The one that came last.
    Newest(u64),
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: Box<str>,
    pub(super) parked: VecDeque<Parked>,
    /// Rows that were redirected here in the middle of an attempt: they go first.
    pub(super) hops: VecDeque<Parked>,
    /// Rows that are asked again, by when.
    pub(super) retries: BTreeMap<(Instant, u64), Row>,
    /// Rows that were passed over, to be read again.
    pub(super) passed_over: u64,
    pub(super) in_flight: u32,
    pub(super) concurrency: Concurrency,
    pub(super) pace: Option<Pace>,
    pub(super) health: Option<Box<Health>>,
    pub(super) budget: Budget,
    pub(super) standing: Standing,
    /// As many of its rows as count as waiting for what it waits for.
    pub(super) counted: u64,
    pub(super) is_hungry: bool,
}

impl Host {
    pub(super) fn new(name: &str, limits: &Limits, most: u32, now: Instant) -> Self {
        let burst = limits.burst.map(Into::into);
        Self {
            name: name.into(),
            parked: VecDeque::new(),
            hops: VecDeque::new(),
            retries: BTreeMap::new(),
            passed_over: 0,
            in_flight: 0,
            concurrency: Concurrency::new(limits.concurrency_per_host.of(name), most, now),
            pace: limits.rate_per_host.of(name).map(|rate| Pace::new(rate, burst, now)),
            health: None,
            budget: Budget::new(now),
            standing: Standing::Idle,
            counted: 0,
            is_hungry: false,
        }
    }

    pub(super) fn waiting(&self) -> u64 {
        (self.parked.len() + self.hops.len() + self.retries.len()) as u64
    }

    /// Other limits hold from now on; what is known of the host stays.
    pub(super) fn set(&mut self, limits: &Limits, most: u32, now: Instant) {
        let burst = limits.burst.map(Into::into);
        self.pace = Pace::changed(self.pace.take(), limits.rate_per_host.of(&self.name), burst, now);
        match (limits.concurrency_per_host.of(&self.name), &mut self.concurrency) {
            (Some(HostConcurrency::Auto), Concurrency::Adaptive(adaptive)) => adaptive.set_max(most),
            (limit, concurrency) => *concurrency = Concurrency::new(limit, most, now),
        }
    }

    /// Whether its rows fail without being asked: it had no success for too long, or asked for too long a pause.
    pub(super) fn is_down(&self, rules: &Retrying, now: Instant) -> bool {
        self.health.as_ref().is_some_and(|health| health.is_down(rules, now))
    }

    /// Where it stands now, and which row is next if one may start.
    pub(super) fn look(&mut self, rules: &Retrying, now: Instant) -> (Standing, Option<Head>) {
        if self.waiting() == 0 {
            return (Standing::Idle, None);
        }
        let mut most = self.concurrency.limit();
        let mut hold = Hold::HostConcurrency;
        let mut is_probe = false;
        if let Some(health) = &self.health {
            match health.allowed(now) {
                Allowed::Pause(until) => return (Standing::Until(until, Hold::Pause), None),
                Allowed::Probe(until) => {
                    let until = health.down_at(rules).map_or(until, |down| until.min(down.max(now)));
                    return (Standing::Until(until, Hold::Refusing), None);
                }
                Allowed::InFlight(allowed) => {
                    is_probe = allowed == 1;
                    if allowed < most {
                        (most, hold) = (allowed, Hold::Refusing);
                    }
                }
            }
        }
        if self.in_flight >= most {
            let down_at = self.health.as_ref().and_then(|health| health.down_at(rules)).filter(|at| *at > now);
            return (down_at.map_or(Standing::Blocked(hold), |at| Standing::Until(at, hold)), None);
        }
        let head = match self.head(is_probe, now) {
            Ok(head) => head,
            Err(standing) => return (standing, None),
        };
        if let Some(pace) = &self.pace {
            let when = pace.starts.when(1, now);
            if when > now {
                return (Standing::Until(pace.starts.wake_at(when), Hold::HostRate), None);
            }
        }
        let (Head::Hop(turn) | Head::Retry(_, turn) | Head::Parked(turn) | Head::Newest(turn)) = head;
        (Standing::Ready(turn), Some(head))
    }

    /// The row that is next: a retry whose time has come, or else the one that has waited the longest.
    fn head(&mut self, is_probe: bool, now: Instant) -> Result<Head, Standing> {
        if let Some(hop) = self.hops.front() {
            return Ok(Head::Hop(hop.turn));
        }
        // Rows that failed, and those beside them, may fail though the host is well.
        let refuses = self.health.as_ref().is_some_and(|health| health.refuses_since().is_some());
        if let Some(parked) = self.parked.back().filter(|_| refuses) {
            return Ok(Head::Newest(parked.turn));
        }
        let mut wait = None;
        if let Some(((due, turn), _)) = self.retries.first_key_value() {
            let nothing_new_is_left = self.parked.is_empty() && self.passed_over == 0;
            let allowed = if is_probe { now } else { self.budget.when(nothing_new_is_left, now) };
            if *due > now {
                wait = Some((*due, Hold::Backoff));
            } else if allowed > now {
                wait = Some((allowed, Hold::Budget));
            } else {
                return Ok(Head::Retry(*due, *turn));
            }
        }
        match (self.parked.front(), wait) {
            (Some(parked), _) => Ok(Head::Parked(parked.turn)),
            (None, Some((until, hold))) => Err(Standing::Until(until, hold)),
            (None, None) => Err(Standing::Idle),
        }
    }

    pub(super) fn peek(&self, head: Head) -> Option<&Row> {
        match head {
            Head::Hop(_) => self.hops.front().map(|parked| &parked.row),
            Head::Retry(due, turn) => self.retries.get(&(due, turn)),
            Head::Parked(_) => self.parked.front().map(|parked| &parked.row),
            Head::Newest(_) => self.parked.back().map(|parked| &parked.row),
        }
    }

    /// Takes all rows that wait.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Row> + use<> {
        let parked = std::mem::take(&mut self.hops).into_iter().chain(std::mem::take(&mut self.parked));
        parked.map(|parked| parked.row).chain(std::mem::take(&mut self.retries).into_values())
    }

    pub(super) fn take(&mut self, head: Head) -> Option<Row> {
        match head {
            Head::Hop(_) => self.hops.pop_front().map(|parked| parked.row),
            Head::Retry(due, turn) => self.retries.remove(&(due, turn)),
            Head::Parked(_) => self.parked.pop_front().map(|parked| parked.row),
            Head::Newest(_) => self.parked.pop_back().map(|parked| parked.row),
        }
    }

    /// Whether nobody would miss it much: a host that was forgotten begins anew.
    pub(super) fn may_be_forgotten(&self, now: Instant) -> bool {
        self.waiting() == 0
            && self.in_flight == 0
            && self.passed_over == 0
            && self.health.as_ref().is_none_or(|health| health.may_be_asked(now))
            && self.pace.as_ref().is_none_or(|pace| pace.is_as_new(now))
    }
}
