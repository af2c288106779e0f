//! Whole jobs on a virtual clock, compared with an oracle that knows the future: how long a job takes, and how many requests
//! go to hosts that are dead. Each case is one line of [`CASES`].
//!
//! The oracle knows when hosts and the network are up and which rows are hopeless. It obeys the rules that are promised to
//! a user: it makes every attempt that a row has, and waits as long as the options say before a dead host's rows fail.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::{attempt, silent};
use crate::defaults::{DEFAULT_HOST_DOWN_AFTER, DEFAULT_HOST_NEVER_UP_AFTER};
use crate::error::{ErrorKind, Failure};
use crate::limits::{Limits, Retrying};
use crate::random::Rng;
use crate::row::Row;
use crate::schedule::decision::Decision;
use crate::schedule::network::{Checked, NetworkAction};
use crate::schedule::retry::{AttemptEnd, FinishedAttempt, RetryDecision};
use crate::schedule::scheduler::{HostIndex, Rules, Scheduler};

const LANES: usize = 100;
const LATENCY_S: f64 = 0.1;
/// How long a refusal takes, and a connect timeout.
const REFUSED_S: f64 = 0.001;
const CONNECT_TIMEOUT_S: f64 = 10.0;
/// The sum of each row's backoffs, at their longest.
const BACKOFFS_S: f64 = 0.5 + 1.0 + 2.0;
const ATTEMPTS: f64 = 4.0;
const PROBE_INTERVAL_S: f64 = 30.0 * 1.25;
const FIRST_PROBE_S: f64 = 2.0 * 1.25;
const PAUSE_S: f64 = 2.0;
const MOST_RATIO: f64 = 1.15;
/// Requests that one outage of one host costs: those in flight and their successors, and probes.
const MOST_TO_DEAD: u64 = 2 * LANES as u64 + 60;
const FOREVER_S: f64 = 1e6;
const STEP: Duration = Duration::from_millis(100);

/// The result of requests of a hopeless row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hopeless {
    /// The body is incomplete after successful headers.
    Body,
    /// The connection closes before the headers.
    Close,
    Status(u16),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Random,
    /// Hopeless rows come first.
    First,
    /// Hopeless rows come last.
    Last,
}

#[derive(Debug, Clone)]
struct Case {
    name: &'static str,
    rows: u64,
    hosts: usize,
    /// How many of the hosts have outages: the first ones.
    sick_hosts: usize,
    /// The beginnings and ends of outages.
    outages: Vec<(f64, f64)>,
    /// Whether a host that is down drops packets, instead of refusing.
    is_silent: bool,
    slow_hosts: usize,
    network_outage: Option<(f64, f64)>,
    /// The share of hopeless rows.
    hopeless: f64,
    kind: Hopeless,
    order: Order,
    /// A server requests a pause of 2 s with each status 429, which it sends once for each so many of its rows.
    rows_per_pause: Option<u64>,
}

impl Case {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            rows: 5000,
            hosts: 1,
            sick_hosts: 0,
            outages: Vec::new(),
            is_silent: false,
            slow_hosts: 0,
            network_outage: None,
            hopeless: 0.0,
            kind: Hopeless::Body,
            order: Order::Random,
            rows_per_pause: None,
        }
    }

    fn host_of(&self, row: u64) -> usize {
        (row as usize).wrapping_mul(7919) % self.hosts
    }

    fn latency_s(&self, host: usize) -> f64 {
        if host >= self.hosts - self.slow_hosts { 2.0 } else { LATENCY_S }
    }

    fn is_hopeless(&self, row: u64) -> bool {
        let hopeless = (self.hopeless * self.rows as f64) as u64;
        match self.order {
            Order::Random => {
                self.hopeless > (row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / f64::from(1 << 24)
            }
            Order::First => row < hopeless,
            Order::Last => row >= self.rows - hopeless,
        }
    }

    /// Returns whether the first attempt at a row is refused with a pause, at a different time at each host.
    fn is_refused(&self, row: u64) -> bool {
        let of_host = row / self.hosts as u64 + self.host_of(row) as u64 * 97;
        self.rows_per_pause.is_some_and(|rows| of_host % rows == rows / 2)
    }

    fn outage_at(&self, host: usize, at_s: f64) -> Option<(f64, f64)> {
        if host >= self.sick_hosts {
            return None;
        }
        self.outages.iter().find(|(from, to)| (*from..*to).contains(&at_s)).copied()
    }

    fn network_is_down(&self, at_s: f64) -> bool {
        self.network_outage.is_some_and(|(from, to)| (from..to).contains(&at_s))
    }

    /// Returns the time at which a job could end that knows all outages, and starts its rows in their order.
    fn oracle_s(&self) -> f64 {
        let (mut turn, mut end) = (0.0, 0.0_f64);
        for row in 0..self.rows {
            let host = self.host_of(row);
            let outage = self.outage_at(host, turn);
            let starts = outage.map_or(turn, |(from, to)| {
                let limit = if from == 0.0 { DEFAULT_HOST_NEVER_UP_AFTER } else { DEFAULT_HOST_DOWN_AFTER };
                to.min(from + limit.as_secs_f64())
            });
            let takes = self.latency_s(host);
            end = end.max(starts + takes);
            turn += if self.is_hopeless(row) { ATTEMPTS * takes } else { takes } / LANES as f64;
            if let Some((from, to)) = self.network_outage.filter(|(from, to)| (*from..*to).contains(&turn)) {
                turn += to - from;
            }
        }
        end.max(turn)
    }

    fn allowed_s(&self) -> f64 {
        let outages = self.outages.len() + usize::from(self.network_outage.is_some());
        let hopeless = if self.hopeless > 0.0 || outages > 0 { BACKOFFS_S } else { 0.0 };
        // Intervals between probes double, so that the last one is about as long as all before it.
        let outages_s = self.outages.iter().chain(&self.network_outage).map(|(from, to)| to - from);
        let probes: f64 = outages_s.map(|outage_s| PROBE_INTERVAL_S.min(0.75 * outage_s + FIRST_PROBE_S)).sum();
        let pauses_of_host =
            self.rows_per_pause.map_or(0.0, |rows| (self.rows as f64 / (self.hosts as u64 * rows) as f64).ceil());
        let paused = pauses_of_host * PAUSE_S * 1.05;
        // Many closed connections in a row look like an outage, until the first probe.
        let suspected = if self.kind == Hopeless::Close && self.order == Order::First { FIRST_PROBE_S } else { 0.0 };
        suspected + MOST_RATIO * (self.oracle_s() + paused) + hopeless + probes
    }
}

#[derive(Debug, Default)]
struct Ran {
    took_s: f64,
    succeeded: u64,
    failed: BTreeMap<ErrorKind, u64>,
    /// Requests that went to a host while it was down.
    to_dead: u64,
    /// The time at which the job stopped by itself, if it did.
    stopped_s: Option<f64>,
}

/// An attempt whose end is known.
struct Attempt {
    row: Row,
    host: Option<HostIndex>,
    started: Instant,
    end: AttemptEnd,
}

/// A job, its servers and its network.
struct Simulation<'a> {
    case: &'a Case,
    scheduler: Scheduler,
    rng: Rng,
    start: Instant,
    now: Instant,
    next_row: u64,
    next_step: Instant,
    /// Attempts by the time of their end, and a number.
    in_flight: BTreeMap<(Instant, u64), Attempt>,
    attempts: u64,
    /// The time of the last response of each host.
    responded: Vec<Option<Instant>>,
    paused_until: Vec<Instant>,
    ended: BTreeSet<u64>,
    ran: Ran,
}

fn run(case: &Case) -> Ran {
    let start = Instant::now();
    let rules =
        Rules { limits: Limits::default(), retrying: Retrying::default(), concurrency: LANES as u32, body_bytes: 0 };
    let mut simulation = Simulation {
        case,
        scheduler: Scheduler::new(rules, true, 7, start),
        rng: Rng::with_seed(3),
        start,
        now: start,
        next_row: 0,
        next_step: start,
        in_flight: BTreeMap::new(),
        attempts: 0,
        responded: vec![None; case.hosts],
        paused_until: vec![start; case.hosts],
        ended: BTreeSet::new(),
        ran: Ran::default(),
    };
    while simulation.ended.len() < case.rows as usize && simulation.ran.stopped_s.is_none() {
        let until = simulation.start_rows();
        let next_end = simulation.in_flight.first_key_value().map(|((time, _), _)| *time);
        let next = next_end.into_iter().chain(until).chain([simulation.next_step]).min().expect("a time");
        simulation.now = next.max(simulation.now);
        simulation.watch_network();
        simulation.end_attempts();
        assert!(simulation.now_s() < 40_000.0, "{}: {} of {} rows", case.name, simulation.ended.len(), case.rows);
    }
    simulation.ran.took_s = simulation.now_s();
    simulation.ran
}

impl Simulation<'_> {
    fn now_s(&self) -> f64 {
        self.now.saturating_duration_since(self.start).as_secs_f64()
    }

    /// Starts as many rows as may start. Returns the time of the next try, if that depends on time.
    fn start_rows(&mut self) -> Option<Instant> {
        while self.in_flight.len() < LANES {
            match self.scheduler.next(self.now) {
                Decision::Start(row, host) => self.start(row, host),
                Decision::Fail(row, failure) => self.end(row.ordinal, Some(failure.kind)),
                _ if self.next_row < self.case.rows && self.scheduler.wants_rows() => {
                    let name = format!("h{}", self.case.host_of(self.next_row));
                    let row = Row::new(self.next_row, format!("http://{name}/{}", self.next_row));
                    self.scheduler.offer(row, Some(&name), self.now);
                    self.next_row += 1;
                }
                Decision::WaitUntil(until) => return Some(until),
                Decision::Wait | Decision::UsedUp(_) | Decision::Ended => return None,
            }
        }
        None
    }

    fn start(&mut self, row: Row, host: Option<HostIndex>) {
        let case = self.case;
        let (number, began) = (case.host_of(row.ordinal), self.now_s());
        assert!(
            self.now >= self.paused_until[number],
            "{}: a request before the time that the server requested",
            case.name
        );
        let outage = case.outage_at(number, began);
        self.ran.to_dead += u64::from(outage.is_some());
        let latency_s = case.latency_s(number);
        let (takes_s, end) = if case.network_is_down(began) {
            (REFUSED_S, silent(ErrorKind::Connect))
        } else if outage.is_some() && case.is_silent {
            (CONNECT_TIMEOUT_S, silent(ErrorKind::ConnectTimeout))
        } else if outage.is_some() {
            (REFUSED_S, AttemptEnd { is_refused: true, ..silent(ErrorKind::Connect) })
        } else if case.is_hopeless(row.ordinal) {
            let end = match case.kind {
                Hopeless::Body => AttemptEnd::failed(Some(200), &Failure::new(ErrorKind::ConnectionClosed, "")),
                Hopeless::Close => silent(ErrorKind::ConnectionClosed),
                Hopeless::Status(status) => AttemptEnd::responded(status),
            };
            (latency_s, end)
        } else {
            (
                latency_s,
                AttemptEnd::responded(if row.before().is_none() && case.is_refused(row.ordinal) { 429 } else { 200 }),
            )
        };
        self.attempts += 1;
        // Attempts vary in length by a fifth.
        let ends = self.now + Duration::from_secs_f64(takes_s * (0.8 + 0.4 * self.rng.f64()));
        self.in_flight.insert((ends, self.attempts), Attempt { row, host, started: self.now, end });
    }

    fn watch_network(&mut self) {
        if self.now < self.next_step {
            return;
        }
        self.next_step = self.now + STEP;
        match self.scheduler.network_step(self.now) {
            NetworkAction::Wait => {}
            NetworkAction::Stop(_) => self.ran.stopped_s = Some(self.now_s()),
            NetworkAction::Check => {
                let (case, at) = (self.case, self.now_s());
                let mut known = (0..case.hosts).filter(|host| self.responded[*host].is_some()).peekable();
                let checked = if known.peek().is_none() {
                    Checked::NoHost
                } else if known.any(|host| !case.network_is_down(at) && case.outage_at(host, at).is_none()) {
                    Checked::Reached
                } else {
                    Checked::Unreachable
                };
                self.scheduler.network_checked(checked, self.now);
            }
        }
    }

    fn end_attempts(&mut self) {
        while let Some(first) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let Attempt { row, host, started, end } = first.remove();
            let number = self.case.host_of(row.ordinal);
            if end.status.is_some() {
                self.responded[number] = Some(self.now);
            }
            let requested_pause = (end.status == Some(429)).then_some(Duration::from_secs_f64(PAUSE_S));
            if let Some(pause) = requested_pause {
                self.paused_until[number] = self.now + pause;
            }
            let ordinal = row.ordinal;
            let attempt = FinishedAttempt {
                requested_pause,
                responded_at: self.responded[number],
                ..attempt(&row, started, end)
            };
            let name = || Some(format!("h{number}").into());
            match self.scheduler.finish_attempt(host, name, &attempt, || (row, host, name()), self.now) {
                RetryDecision::At(_) => {}
                RetryDecision::No | RetryDecision::NotIdempotent | RetryDecision::BodyConsumed => {
                    self.end(ordinal, end.error);
                }
            }
        }
    }

    fn end(&mut self, ordinal: u64, error: Option<ErrorKind>) {
        assert!(self.ended.insert(ordinal), "row {ordinal} ended twice");
        match error {
            None => self.ran.succeeded += 1,
            Some(kind) => *self.ran.failed.entry(kind).or_default() += 1,
        }
    }
}

fn cases() -> Vec<Case> {
    let case = Case::new;
    let mut cases = vec![
        case("all healthy"),
        Case { hosts: 50, slow_hosts: 2, ..case("slow hosts among others") },
        Case { hosts: 50, sick_hosts: 5, outages: vec![(0.0, FOREVER_S)], ..case("dead from the start, refusing") },
        Case {
            hosts: 50,
            sick_hosts: 5,
            outages: vec![(0.0, FOREVER_S)],
            is_silent: true,
            ..case("dead from the start, silent")
        },
        Case { hosts: 50, sick_hosts: 5, outages: vec![(2.0, FOREVER_S)], ..case("dying in the middle") },
        Case { hosts: 50, sick_hosts: 5, outages: vec![(4.9, FOREVER_S)], ..case("dying in the tail") },
        Case { hosts: 50, sick_hosts: 5, outages: vec![(2.0, 32.0)], ..case("an outage of 30 s") },
        Case {
            rows: 200_000,
            hosts: 50,
            sick_hosts: 5,
            outages: (0..8).map(|i| (f64::from(i) * 20.0 + 5.0, f64::from(i) * 20.0 + 15.0)).collect(),
            ..case("flapping")
        },
        Case { rows: 20_000, outages: vec![(5.0, 65.0)], sick_hosts: 1, ..case("the only host is down for a minute") },
        Case { hosts: 500, sick_hosts: 500, outages: vec![(2.0, 22.0)], ..case("all hosts refuse for 20 s") },
        Case { hosts: 50, network_outage: Some((2.0, 62.0)), ..case("a local outage of a minute") },
        Case { hosts: 50, network_outage: Some((2.0, 5.0)), ..case("a local outage of 3 s") },
        Case { hosts: 5, rows_per_pause: Some(500), ..case("pauses") },
    ];
    for kind in [Hopeless::Body, Hopeless::Status(500), Hopeless::Close] {
        for order in [Order::Random, Order::First, Order::Last] {
            for hopeless in [0.03, 0.3, 0.6, 1.0] {
                // A host that closes all its connections from here on can't be distinguished from a dead one.
                let looks_dead = order == Order::Last || hopeless > if order == Order::First { 0.3 } else { 0.6 };
                if kind != Hopeless::Close || !looks_dead {
                    cases.push(Case { hopeless, kind, order, ..case("hopeless rows") });
                }
            }
        }
    }
    cases
}

#[test]
fn a_job_takes_little_longer_than_one_that_knows_the_future() {
    let mut slow = Vec::new();
    for case in cases() {
        let ran = run(&case);
        let (oracle, allowed) = (case.oracle_s(), case.allowed_s());
        let line = format!(
            "{:38} {:>5.0} % {:?} {:?}: {:.1} s, oracle {oracle:.1} s, allowed {allowed:.1} s, {} to dead hosts, {} ok, {:?}{}",
            case.name,
            case.hopeless * 100.0,
            case.kind,
            case.order,
            ran.took_s,
            ran.to_dead,
            ran.succeeded,
            ran.failed,
            ran.stopped_s.map_or_else(String::new, |at| format!(", stopped at {at:.0} s")),
        );
        let most_to_dead = (case.sick_hosts.min(5) * case.outages.len()) as u64 * MOST_TO_DEAD;
        assert!(
            case.sick_hosts == case.hosts && case.hosts > 1 || ran.to_dead <= most_to_dead,
            "more than {most_to_dead} requests to dead hosts: {line}"
        );
        let down = ran.failed.get(&ErrorKind::HostDown).copied().unwrap_or_default();
        assert!(down == 0 || case.sick_hosts > 0, "no host was down: {line}");
        let failed: u64 = ran.failed.values().sum();
        let is_everywhere = case.sick_hosts == case.hosts || case.network_outage.is_some();
        assert!(!is_everywhere || failed < LANES as u64, "rows failed because nothing could be reached: {line}");
        if ran.took_s > allowed || ran.stopped_s.is_some() {
            slow.push(line);
        }
    }
    assert!(slow.is_empty(), "too slow:\n{}", slow.join("\n"));
}
