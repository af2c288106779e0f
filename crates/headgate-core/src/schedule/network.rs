//! Detects whether the network works at all. A dead network is not a dead host: if it is down, the run pauses as a whole,
//! and no row fails for it. After a while the run stops with its rows not done.
//!
//! Evidence: response headers show that the network works. Only failures to look up a hostname or to connect make it
//! doubtful: [`DOUBT_FAILURES`] in a row within [`DOUBT_SOON`], or any for [`DOUBT_AFTER`]. Then the engine connects to
//! hosts that have responded before in this job ([`NetworkAction::Check`]). If one of them accepts, the network works and the
//! failures are those of the other hosts. If none does, nothing starts until one does.
//!
//! If no host has responded in this run, those of earlier runs may be gone, or there are none. Then few requests start
//! beside the checks, so that a run without a network loses few rows before it stops. More signs show that the network
//! works: an authoritative response that a hostname does not exist, and a refused connection in a run of several hosts.
//!
//! Pure: times are passed in. Bounded: a few numbers.

use std::time::{Duration, Instant};

use crate::error::NetworkEvidence;
use crate::limits::{NetworkDownAfter, Retrying};

/// Failures in a row that make the network doubtful after [`DOUBT_SOON`].
const DOUBT_FAILURES: u32 = 20;
const DOUBT_SOON: Duration = Duration::from_millis(250);
/// Any failures without a response in between make the network doubtful after this time.
const DOUBT_AFTER: Duration = Duration::from_secs(10);
/// After a check that found the network working, it is not doubted for this time.
const TRUSTED_FOR: Duration = Duration::from_secs(10);
const FIRST_CHECK: Duration = Duration::from_secs(1);
const LONGEST_CHECK: Duration = Duration::from_secs(5);
/// While no host has responded in this run and the network is doubtful, at most this many requests start before the run
/// stops.
const CAUTIOUS_STARTS: u32 = 300;
/// The bounds of the interval between two of them.
const CAUTIOUS_INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Hosts that are connected to in one check.
pub const CHECKED_HOSTS: usize = 3;
/// The timeout of one check.
pub const CHECK_TIME: Duration = Duration::from_secs(3);

/// The result of connecting to hosts that have responded before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    Reached,
    Unreachable,
    /// As `Unreachable`, or there was no host to connect to; no host has responded in this run.
    NoHost,
}

/// The effect of evidence on the state of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkChange {
    None,
    /// The network was down, and works again.
    Recovered,
}

/// The next action of the engine regarding the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkAction {
    /// Connect to hosts that have responded before, and report the result.
    Check,
    /// The network was down for this time: the run stops.
    Stop(Duration),
    Wait,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NetworkPhase {
    Working,
    Checking {
        since: Instant,
    },
    /// A check has failed.
    Down {
        check_at: Instant,
        interval: Duration,
        /// When the next request may start, if no host has responded in this run; `None`: none starts.
        start_at: Option<Instant>,
    },
}

#[derive(Debug)]
pub struct NetworkState {
    down_after: NetworkDownAfter,
    state: NetworkPhase,
    /// A host has responded in an earlier run of the job.
    responded_earlier: bool,
    /// A host has responded in this run.
    has_responded: bool,
    /// Whether something else has shown that the network works, while no host has responded.
    is_proven: bool,
    /// Failures since the last sign that the network works.
    failures: u32,
    /// When the first of them came.
    failing_since: Option<Instant>,
    trusted_until: Option<Instant>,
    /// When something last showed that the network works.
    works_at: Option<Instant>,
}

/// The state of the whole run that matters for a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) rules: &'a Retrying,
    pub(super) network: &'a NetworkState,
}

impl NetworkState {
    pub fn new(down_after: NetworkDownAfter) -> Self {
        Self {
            down_after,
            state: NetworkPhase::Working,
            responded_earlier: false,
            has_responded: false,
            is_proven: false,
            failures: 0,
            failing_since: None,
            trusted_until: None,
            works_at: None,
        }
    }

    pub fn set(&mut self, down_after: NetworkDownAfter) {
        self.down_after = down_after;
    }

    /// Records that hosts have responded in an earlier run of the job.
    pub fn resume(&mut self) {
        self.responded_earlier = true;
    }

    /// Records that some host has responded before.
    pub(crate) fn note_earlier_response(&mut self) {
        self.has_responded = true;
    }

    /// Records the evidence of an attempt; `several_hosts`: the run has more than one.
    pub fn note(&mut self, evidence: NetworkEvidence, several_hosts: bool, now: Instant) -> NetworkChange {
        match evidence {
            NetworkEvidence::Response => {
                self.has_responded = true;
                self.works_at = Some(now);
                return self.set_working();
            }
            NetworkEvidence::Works => self.is_proven = true,
            NetworkEvidence::Refused if several_hosts => self.is_proven = true,
            NetworkEvidence::Refused | NetworkEvidence::Unreachable => {}
            NetworkEvidence::Nothing => return NetworkChange::None,
        }
        if self.is_proven && !self.has_responded {
            self.works_at = Some(now);
            return self.set_working();
        }
        if evidence != NetworkEvidence::Works {
            self.failures = self.failures.saturating_add(1);
            self.failing_since.get_or_insert(now);
        }
        NetworkChange::None
    }

    fn set_working(&mut self) -> NetworkChange {
        let change = if self.is_down() { NetworkChange::Recovered } else { NetworkChange::None };
        (self.state, self.failures, self.failing_since) = (NetworkPhase::Working, 0, None);
        change
    }

    /// Begins anew, after a time in which the run did nothing.
    pub fn restart(&mut self) {
        self.set_working();
    }

    /// Returns the next action. The engine calls it several times a second, and follows [`NetworkAction::Check`] by a call of
    /// [`NetworkState::checked`].
    pub fn step(&mut self, now: Instant) -> NetworkAction {
        let Some(since) = self.failing_since.filter(|_| self.down_after != NetworkDownAfter::Never) else {
            return NetworkAction::Wait;
        };
        let limit = self.limit();
        let is_over = now >= since + limit;
        match self.state {
            NetworkPhase::Working => {
                let doubt = if self.failures >= DOUBT_FAILURES { DOUBT_SOON } else { DOUBT_AFTER };
                if now < since + doubt || self.trusted_until.is_some_and(|until| now < until) {
                    return NetworkAction::Wait;
                }
            }
            // The worker that began it may have ended.
            NetworkPhase::Checking { since } if now < since + CHECK_TIME * 2 => return NetworkAction::Wait,
            NetworkPhase::Checking { .. } => {}
            NetworkPhase::Down { .. } if is_over => return NetworkAction::Stop(limit),
            NetworkPhase::Down { check_at, interval, start_at } if now >= check_at => {
                self.state = NetworkPhase::Down { check_at: now + CHECK_TIME * 2, interval, start_at };
                return NetworkAction::Check;
            }
            NetworkPhase::Down { .. } => return NetworkAction::Wait,
        }
        self.state = NetworkPhase::Checking { since: now };
        NetworkAction::Check
    }

    /// Records the result of a check.
    pub fn checked(&mut self, checked: Checked, now: Instant) -> NetworkChange {
        // Attempts may have shown meanwhile that the network works.
        if !matches!(self.state, NetworkPhase::Checking { .. } | NetworkPhase::Down { .. }) {
            return NetworkChange::None;
        }
        if checked == Checked::Reached {
            self.trusted_until = Some(now + TRUSTED_FOR);
            self.works_at = Some(now);
            self.has_responded = true;
            return self.set_working();
        }
        self.has_responded |= checked == Checked::Unreachable;
        let (interval, start_at) = match self.state {
            NetworkPhase::Down { interval, start_at, .. } => ((interval * 2).min(LONGEST_CHECK), start_at),
            _ => (FIRST_CHECK, None),
        };
        let start_at = if self.has_responded { None } else { start_at.or(Some(now)) };
        self.state = NetworkPhase::Down { check_at: now + interval, interval, start_at };
        NetworkChange::None
    }

    /// Returns how long the network may be down before the run stops.
    fn limit(&self) -> Duration {
        self.down_after.time(self.has_responded || self.responded_earlier)
    }

    /// Returns whether each end of an attempt must be recorded, as the last one was a failure.
    pub(crate) fn is_watched(&self) -> bool {
        self.failing_since.is_some() && self.down_after != NetworkDownAfter::Never
    }

    /// Returns whether the run is paused because the network is down.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.state, NetworkPhase::Down { start_at: None, .. })
    }

    /// Returns whether the silence of a host since `time` is the host's own. That is so if the network is not judged, or if
    /// something has shown since then that it works. It is also so without a sign against the network, as connections are
    /// accepted.
    pub(crate) fn works_since(&self, time: Instant, now: Instant) -> bool {
        // When the network has just gone down, only the connections that follow show it.
        let accepts = self.failing_since.is_none() && now >= time + DOUBT_SOON;
        self.down_after == NetworkDownAfter::Never || accepts || self.works_at.is_some_and(|at| at >= time)
    }

    /// Returns the state that matters for a host.
    pub(super) fn view<'a>(&'a self, rules: &'a Retrying) -> View<'a> {
        View { rules, network: self }
    }

    pub fn has_responded(&self) -> bool {
        self.has_responded
    }

    /// Returns until when nothing starts, if the network throttles rows; `Some(None)`: until a check has ended.
    pub fn throttled(&self, now: Instant) -> Option<Option<Instant>> {
        match self.state {
            NetworkPhase::Working => None,
            NetworkPhase::Checking { .. } | NetworkPhase::Down { start_at: None, .. } => Some(None),
            NetworkPhase::Down { start_at: Some(start_at), .. } => (now < start_at).then_some(Some(start_at)),
        }
    }

    /// Records the start of a request.
    pub fn started(&mut self, now: Instant) {
        let (shortest, longest) = CAUTIOUS_INTERVAL;
        let interval = (self.limit() / CAUTIOUS_STARTS).clamp(shortest, longest);
        if let NetworkPhase::Down { start_at: Some(start_at), .. } = &mut self.state {
            *start_at = now + interval;
        }
    }

    /// Returns for how long no host could be reached, while that throttles the run.
    pub(crate) fn down_for(&self, now: Instant) -> Option<Duration> {
        let since = self.failing_since.filter(|_| matches!(self.state, NetworkPhase::Down { .. }));
        since.map(|since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::DEFAULT_NETWORK_DOWN_AFTER;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn failing(network: &mut NetworkState, count: u32, now: Instant) {
        (0..count).for_each(|_| assert_eq!(NetworkChange::None, network.note(NetworkEvidence::Unreachable, true, now)));
    }

    #[test]
    fn one_dead_host_of_several_is_not_a_dead_network() {
        let start = Instant::now();
        let mut network = NetworkState::new(NetworkDownAfter::Default);
        failing(&mut network, 1000, start);
        network.note(NetworkEvidence::Response, true, start + s(0.5));
        assert_eq!((NetworkAction::Wait, false), (network.step(start + s(100.0)), network.is_watched()));
        // All rows are done except those of the dead host.
        failing(&mut network, 1, start + s(200.0));
        assert_eq!(NetworkAction::Wait, network.step(start + s(209.9)));
        assert_eq!(NetworkAction::Check, network.step(start + s(210.0)));
        assert_eq!(NetworkChange::None, network.checked(Checked::Reached, start + s(210.1)));
        assert!(network.works_since(start + s(200.0), start + s(210.1)));
        failing(&mut network, 100, start + s(211.0));
        assert_eq!(NetworkAction::Wait, network.step(start + s(220.0)), "it was just found to work");
        assert_eq!(NetworkAction::Check, network.step(start + s(220.2)));
    }

    #[test]
    fn a_dead_network_pauses_the_run_until_a_host_accepts_again_or_the_run_stops() {
        for recovers in [true, false] {
            let start = Instant::now();
            let mut network = NetworkState::new(NetworkDownAfter::Default);
            network.note(NetworkEvidence::Response, true, start);
            failing(&mut network, 20, start);
            assert_eq!(NetworkAction::Check, network.step(start + s(1.0)));
            assert_eq!(Some(None), network.throttled(start + s(1.0)));
            assert_eq!(NetworkChange::None, network.checked(Checked::Unreachable, start + s(2.0)));
            assert!(network.is_down() && !network.works_since(start + s(0.1), start + s(2.0)));
            let mut now = start + s(2.0);
            let mut checks = 0;
            let limit = loop {
                match network.step(now) {
                    NetworkAction::Wait => now += s(0.1),
                    NetworkAction::Check if recovers && checks == 5 => {
                        assert_eq!(NetworkChange::Recovered, network.checked(Checked::Reached, now));
                        break None;
                    }
                    NetworkAction::Check => {
                        checks += 1;
                        assert_eq!(NetworkChange::None, network.checked(Checked::Unreachable, now));
                    }
                    NetworkAction::Stop(limit) => break Some(limit),
                }
            };
            let expected = if recovers { None } else { Some(DEFAULT_NETWORK_DOWN_AFTER) };
            assert_eq!((expected, recovers), (limit, network.throttled(now).is_none()));
            let stopped_in_time = now >= start + s(300.0) && now < start + s(300.2);
            assert!(recovers || stopped_in_time && (55..65).contains(&checks), "{checks} {:?}", now - start);
        }
    }

    #[test]
    fn a_run_that_never_reaches_anything_starts_few_requests_and_stops_after_30_s() {
        let start = Instant::now();
        let mut network = NetworkState::new(NetworkDownAfter::Default);
        failing(&mut network, 100, start);
        assert_eq!(NetworkAction::Check, network.step(start + s(1.0)));
        network.checked(Checked::NoHost, start + s(1.0));
        let (mut now, mut starts) = (start + s(1.0), 0);
        while !matches!(network.step(now), NetworkAction::Stop(_)) {
            if let Some(until) = network.throttled(now) {
                now = until.expect("a time");
                continue;
            }
            network.started(now);
            starts += 1;
            failing(&mut network, 1, now);
        }
        assert!((285..=291).contains(&starts), "{starts}");
        assert!(now >= start + s(30.0) && now <= start + s(30.2), "{:?}", now - start);
    }

    #[test]
    fn a_run_whose_earlier_responders_are_gone_continues_with_few_requests_and_waits_longer() {
        let start = Instant::now();
        let mut network = NetworkState::new(NetworkDownAfter::Default);
        network.resume();
        failing(&mut network, 100, start);
        assert_eq!(NetworkAction::Check, network.step(start + s(1.0)));
        network.checked(Checked::NoHost, start + s(1.0));
        let (mut now, mut starts, mut checks) = (start + s(1.0), 0, 0);
        loop {
            match network.step(now) {
                NetworkAction::Stop(limit) => break assert_eq!(DEFAULT_NETWORK_DOWN_AFTER, limit),
                NetworkAction::Check => {
                    checks += 1;
                    network.checked(Checked::NoHost, now);
                }
                NetworkAction::Wait => {}
            }
            if network.throttled(now).is_none() {
                network.started(now);
                starts += 1;
                failing(&mut network, 1, now);
            }
            now += s(0.1);
        }
        assert!((270..=300).contains(&starts) && (55..65).contains(&checks), "{starts} {checks}");
        // A host that accepts again shows that the failures are those of the other hosts.
        assert_eq!(NetworkAction::Check, {
            network.restart();
            failing(&mut network, 20, now);
            network.step(now + s(1.0))
        });
        network.checked(Checked::Reached, now + s(1.0));
        assert!(network.works_since(now, now + s(1.0)));
    }

    #[test]
    fn a_silent_host_that_accepts_connections_is_no_evidence_against_the_network() {
        let start = Instant::now();
        let mut network = NetworkState::new(NetworkDownAfter::Default);
        network.note(NetworkEvidence::Response, true, start);
        network.note(NetworkEvidence::Nothing, true, start + s(1.0));
        assert!(!network.works_since(start + s(1.0), start + s(1.1)), "connections may have broken with the network");
        assert!(network.works_since(start + s(1.0), start + s(31.0)));
        failing(&mut network, 1, start + s(31.0));
        assert!(!network.works_since(start + s(1.0), start + s(32.0)));
    }

    #[test]
    fn a_hostname_that_does_not_exist_and_a_refusal_by_one_of_several_hosts_show_that_the_network_works() {
        for (expected, sign, several) in [
            (true, NetworkEvidence::Works, false),
            (true, NetworkEvidence::Refused, true),
            (false, NetworkEvidence::Refused, false),
            (false, NetworkEvidence::Unreachable, true),
        ] {
            let start = Instant::now();
            let mut network = NetworkState::new(NetworkDownAfter::Default);
            failing(&mut network, 30, start);
            assert!(!network.works_since(start, start + s(1.0)));
            network.note(sign, several, start);
            assert_eq!(expected, network.works_since(start, start), "{sign:?} {several}");
            assert_eq!(expected, network.step(start + s(60.0)) == NetworkAction::Wait);
        }
    }

    #[test]
    fn an_explicit_time_applies_in_both_cases_and_waiting_callers_have_none() {
        let start = Instant::now();
        for (responded, checked) in [(true, Checked::Unreachable), (false, Checked::NoHost)] {
            let mut network = NetworkState::new(NetworkDownAfter::After(s(60.0)));
            if responded {
                network.note(NetworkEvidence::Response, true, start);
            }
            failing(&mut network, 30, start);
            assert_eq!(NetworkAction::Check, network.step(start + s(2.0)));
            network.checked(checked, start + s(2.0));
            assert!(!matches!(network.step(start + s(59.9)), NetworkAction::Stop(_)));
            assert_eq!(NetworkAction::Stop(s(60.0)), network.step(start + s(60.0)));
        }
        let mut network = NetworkState::new(NetworkDownAfter::Never);
        failing(&mut network, 30, start);
        assert_eq!(
            (NetworkAction::Wait, false, true),
            (network.step(start + s(99.0)), network.is_watched(), network.works_since(start, start))
        );
    }
}
