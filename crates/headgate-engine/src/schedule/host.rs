//! One host as the gate sees it: the rows that wait for it, what is in flight there, and what limits both.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::adaptive::Adaptive;
use super::breaker::{Allowed, Breaker};
use super::budget::{Budget, Load};
use super::network::View;
use super::pace::Pace;
use super::waits::Hold;
use crate::model::limits::{HostConcurrency, Limits};
use crate::model::row::Row;

/// Responses in a row after which rows start in their order again. Half of them are to the oldest rows.
const MIXED_RESPONSES: u32 = 40;

/// The weight of the last attempt in the mean time of a host's attempts.
const MEAN_WEIGHT: f32 = 0.1;

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
    /// `None`: the host is well.
    pub(super) breaker: Option<Box<Breaker>>,
    /// When a response head came last, as far as that was noted.
    pub(super) responded_at: Option<Instant>,
    /// It has responded in an earlier run of the job.
    pub(super) responded_earlier: bool,
    pub(super) budget: Budget,
    pub(super) standing: Standing,
    /// As many of its rows as count as waiting for what it waits for.
    pub(super) counted: u64,
    pub(super) is_hungry: bool,
    /// See [`Host::note_response`] and [`MIXED_RESPONSES`]; 0: rows start in their order.
    mixed: u32,
    took_newest: bool,
    /// How long its attempts take: a moving average, in seconds.
    mean_s: Option<f32>,
}

impl Host {
    pub(super) fn new(name: &str, limits: &Limits, most: u32, now: Instant) -> Self {
        let burst = limits.burst.map(Into::into);
        let most = limits.most_of(name).map_or(most, |most_of_host| most_of_host.min(most));
        Self {
            name: name.into(),
            parked: VecDeque::new(),
            hops: VecDeque::new(),
            retries: BTreeMap::new(),
            passed_over: 0,
            in_flight: 0,
            concurrency: Concurrency::new(limits.concurrency_of(name), most, now),
            pace: limits.rate_per_host.of(name).map(|rate| Pace::new(rate, burst, now)),
            breaker: None,
            responded_at: None,
            responded_earlier: false,
            budget: Budget::new(now),
            standing: Standing::Idle,
            counted: 0,
            is_hungry: false,
            mixed: 0,
            took_newest: false,
            mean_s: None,
        }
    }

    pub(super) fn waiting(&self) -> u64 {
        (self.parked.len() + self.hops.len() + self.retries.len()) as u64
    }

    /// Other limits hold from now on; what is known of the host stays.
    pub(super) fn set(&mut self, limits: &Limits, most: u32, now: Instant) {
        let burst = limits.burst.map(Into::into);
        self.pace = Pace::changed(self.pace.take(), limits.rate_per_host.of(&self.name), burst, now);
        let most = limits.most_of(&self.name).map_or(most, |most_of_host| most_of_host.min(most));
        match (limits.concurrency_of(&self.name), &mut self.concurrency) {
            (Some(HostConcurrency::Auto), Concurrency::Adaptive(adaptive)) => adaptive.set_max(most),
            (limit, concurrency) => *concurrency = Concurrency::new(limit, most, now),
        }
    }

    /// Notes that the host has responded. If its breaker is open, rows fail that stand together, and not the host: then rows
    /// start from both ends in turn, so that the others show that it is well.
    pub(super) fn note_response(&mut self, breaker_is_open: bool, now: Instant) {
        self.responded_at = Some(now);
        self.mixed = if breaker_is_open { MIXED_RESPONSES } else { self.mixed.saturating_sub(1) };
    }

    /// Notes that the host has failed to respond.
    pub(super) fn note_silence(&mut self) {
        if self.mixed > 0 {
            self.mixed = MIXED_RESPONSES;
        }
    }

    /// An attempt has ended that took so long.
    pub(super) fn note_time(&mut self, took: Duration) {
        let took_s = took.as_secs_f32();
        self.mean_s = Some(self.mean_s.map_or(took_s, |mean_s| mean_s + (took_s - mean_s) * MEAN_WEIGHT));
    }

    /// How long its rows take at least, as far as its limits and the times of its attempts tell; `None`: none wait, or the
    /// host does not respond.
    pub(super) fn time_left(&self, now: Instant) -> Option<Duration> {
        let waiting = self.waiting() + self.passed_over;
        if waiting == 0 || self.breaker.as_ref().is_some_and(|breaker| breaker.is_open()) {
            return None;
        }
        let by_rate = self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.starts.time_for(waiting));
        let by_concurrency = match (self.concurrency.limit(), self.mean_s) {
            (u32::MAX, _) | (_, None) => Duration::ZERO,
            (limit, Some(mean_s)) => {
                let rounds = (waiting + u64::from(self.in_flight)) as f64 / f64::from(limit);
                Duration::try_from_secs_f64(rounds * f64::from(mean_s)).unwrap_or(Duration::MAX)
            }
        };
        let until = if let Standing::Until(until, _) = self.standing { until } else { now };
        Some(by_rate.max(by_concurrency).saturating_add(until.saturating_duration_since(now)))
    }

    /// Whether nothing but rows that have failed before waits here or is still to be read.
    pub(super) fn has_only_retries(&self) -> bool {
        self.parked.is_empty() && self.hops.is_empty() && self.passed_over == 0
    }

    pub(super) fn responded_since(&self, time: Duration, now: Instant) -> bool {
        self.responded_at.is_some_and(|at| now.saturating_duration_since(at) < time)
    }

    /// How long it may send no response before its rows fail.
    pub(super) fn down_after(&self, view: View<'_>) -> Duration {
        let rules = view.rules;
        // A host that never responded may be down for the same reason as all others, until one of them responds.
        let has_responded = self.responded_at.is_some() || self.responded_earlier;
        rules.host_down_after(has_responded || !view.network.has_responded())
    }

    /// Whether its rows fail without a request: it sent no response for too long, or asked for too long a pause.
    pub(super) fn is_down(&self, view: View<'_>, now: Instant) -> bool {
        let asked_for_too_much = self.breaker.as_ref().is_some_and(|breaker| breaker.asked_for_too_much(now));
        let silent_since = self.breaker.as_ref().and_then(|breaker| breaker.silent_for(self.down_after(view)));
        asked_for_too_much || silent_since.is_some_and(|since| view.network.works_since(since, now))
    }

    /// Where it stands now, and which row is next if one may start.
    pub(super) fn look(&mut self, now: Instant) -> (Standing, Option<Head>) {
        if self.waiting() == 0 {
            return (Standing::Idle, None);
        }
        let mut most = self.concurrency.limit();
        let mut hold = Hold::HostConcurrency;
        let mut is_probe = false;
        // Where only rows are left that have failed before, their backoff is enough.
        let has_only_retries = self.has_only_retries();
        if let Some(breaker) = &self.breaker {
            match breaker.allowed(now) {
                Allowed::Pause(until) => return (Standing::Until(until, Hold::Pause), None),
                _ if has_only_retries && breaker.is_open() => {}
                Allowed::Probe(until) => return (Standing::Until(until, Hold::Refusing), None),
                Allowed::InFlight(allowed) => {
                    is_probe = allowed == 1;
                    if allowed < most {
                        (most, hold) = (allowed, Hold::Refusing);
                    }
                }
            }
        }
        if self.in_flight >= most {
            return (Standing::Blocked(hold), None);
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
        // Rows that failed, and those beside them, may fail though the host is well: others show whether it is.
        let is_open = self.breaker.as_ref().is_some_and(|breaker| breaker.is_open());
        if let Some(parked) = self.parked.back().filter(|_| is_open) {
            return Ok(Head::Newest(parked.turn));
        }
        let mut wait = None;
        if let Some(((due, turn), _)) = self.retries.first_key_value() {
            let only_retries = Load::OnlyRetries { host_is_well: !is_open };
            let load = if self.has_only_retries() { only_retries } else { Load::NewRows };
            let allowed = if is_probe { now } else { self.budget.when(load, now) };
            if *due > now {
                wait = Some((*due, Hold::Backoff));
            } else if allowed > now {
                wait = Some((allowed, Hold::Budget));
            } else {
                return Ok(Head::Retry(*due, *turn));
            }
        }
        match (self.parked.front(), wait) {
            (Some(parked), _) => Ok(match self.parked.back().filter(|_| self.mixed > 0 && !self.took_newest) {
                Some(newest) => Head::Newest(newest.turn),
                None => Head::Parked(parked.turn),
            }),
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
            Head::Parked(_) => {
                self.took_newest = false;
                self.parked.pop_front().map(|parked| parked.row)
            }
            Head::Newest(_) => {
                self.took_newest = true;
                self.parked.pop_back().map(|parked| parked.row)
            }
        }
    }

    /// Whether nobody would miss it much: a host that was forgotten begins anew.
    pub(super) fn may_be_forgotten(&self, now: Instant) -> bool {
        self.waiting() == 0
            && self.in_flight == 0
            && self.passed_over == 0
            && self.breaker.as_ref().is_none_or(|breaker| breaker.may_be_asked(now))
            && self.pace.as_ref().is_none_or(|pace| pace.is_as_new(now))
    }
}
