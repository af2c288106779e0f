//! How a host is that had trouble: it asked for a pause, or refused everything. One that is well has no entry here.
//!
//! After as many failures in a row as [`TRIP`], without one success, a host is left alone but for probes: one attempt at a
//! time, after pauses that grow. The first success ends that, and each doubles what may be in flight, so that a host that
//! has just come back is not run over by all who waited. The same holds after a pause that it asked for. A host that has
//! had no success for too long is down: its rows fail, but for probes.

use std::time::{Duration, Instant};

use crate::model::limits::Retrying;
use crate::model::random::Rng;

/// Failures in a row after which a host is only probed.
const TRIP: u32 = 20;
const FIRST_PROBE: Duration = Duration::from_secs(1);
const LONGEST_PROBE: Duration = Duration::from_secs(30);
/// A pause ends a little later than asked for, by a part that differs: not all who wait come back at once.
const SPREAD: f64 = 0.05;
const LONGEST_SPREAD: Duration = Duration::from_millis(500);
/// Far from what a clock can hold.
const LONGEST_PAUSE: Duration = Duration::from_secs(366 * 86_400);
/// So long after its last failure it is known that a host has failed, where it is not asked meanwhile.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);
/// So many failures in a row, and none but these for as long as anybody wants to wait: it is down, though few were asked.
const DOWN: u32 = 4;
/// With so many in flight, a host is no longer held back.
const WELL: u32 = 65_536;

/// What a host's trouble allows now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// So many in flight.
    InFlight(u32),
    /// Nothing before: it asked for a pause.
    Pause(Instant),
    /// Nothing before: it is left alone until the next probe.
    Probe(Instant),
}

#[derive(Debug, Clone)]
pub struct Health {
    /// Nothing is sent before, by its own wish.
    paused_until: Option<Instant>,
    /// Longer than anybody wants to wait.
    pause_is_too_long: bool,
    /// When it last asked for a pause, or was left alone.
    troubled_at: Option<Instant>,
    failures: u32,
    /// When the first of these attempts began.
    failing_since: Instant,
    /// When it failed last.
    failed_at: Instant,
    /// In flight at the most.
    allowed: u32,
    /// `Some`: only probes, the next one then; and the pause after it.
    probe: Option<(Instant, Duration)>,
}

impl Health {
    pub fn new(now: Instant) -> Self {
        Self {
            paused_until: None,
            pause_is_too_long: false,
            troubled_at: None,
            failures: 0,
            failing_since: now,
            failed_at: now,
            allowed: u32::MAX,
            probe: None,
        }
    }

    pub fn allowed(&self, now: Instant) -> Allowed {
        match (self.paused_until, self.probe) {
            (Some(until), _) if now < until => Allowed::Pause(until),
            (_, Some((at, _))) if now < at => Allowed::Probe(at),
            _ => Allowed::InFlight(self.allowed),
        }
    }

    /// The host asked for a pause of so much from now on. It never shortens an earlier one.
    pub fn pause(&mut self, time: Duration, rules: &Retrying, now: Instant, rng: &mut Rng) {
        let time = time.min(LONGEST_PAUSE);
        // One that is over says nothing of this one.
        self.pause_is_too_long &= self.is_paused(now);
        self.pause_is_too_long |= time > rules.max_retry_after;
        let spread = time.mul_f64(SPREAD * rng.f64()).min(LONGEST_SPREAD);
        let until = now + time + spread;
        self.paused_until = Some(self.paused_until.map_or(until, |earlier| earlier.max(until)));
        self.allowed = 1;
        self.troubled_at = Some(now);
    }

    /// An attempt was answered that began at `started`. One from before the last pause, or before the host was left alone,
    /// says nothing of how it is since.
    pub fn succeeded(&mut self, started: Instant) {
        if self.troubled_at.is_some_and(|at| started <= at) {
            return;
        }
        self.failures = 0;
        self.probe = None;
        self.allowed = self.allowed.saturating_mul(2);
        if self.allowed >= WELL {
            self.allowed = u32::MAX;
        }
    }

    /// An attempt has failed that began at `started`; `says_something`: of the host. Where nothing is left but rows that
    /// failed before, it says more of the row.
    pub fn failed(&mut self, says_something: bool, started: Instant, now: Instant, rng: &mut Rng) {
        if self.failures == 0 {
            self.failing_since = started;
        }
        self.failed_at = now;
        self.failures = self.failures.saturating_add(u32::from(says_something).max(u32::from(self.probe.is_some())));
        if self.failures < TRIP {
            return;
        }
        let pause = match self.probe {
            // Others that were in flight when it tripped say nothing new.
            Some((at, _)) if now < at => return,
            Some((_, pause)) => (pause * 2).min(LONGEST_PROBE),
            None => FIRST_PROBE,
        };
        self.allowed = 1;
        self.troubled_at = Some(now);
        self.probe = Some((now + pause.mul_f64(0.75 + 0.5 * rng.f64()), pause));
    }

    /// Since when it has refused everything, where it is only probed.
    pub fn refuses_since(&self) -> Option<Instant> {
        self.probe.map(|_| self.failing_since)
    }

    /// When it counts as down, if it has no success until then.
    pub fn down_at(&self, rules: &Retrying) -> Option<Instant> {
        (self.failures >= DOWN).then(|| self.failing_since + rules.host_down_after)
    }

    /// Whether it asked for a longer pause than anybody wants to wait.
    pub fn asked_for_too_much(&self, now: Instant) -> bool {
        self.pause_is_too_long && self.is_paused(now)
    }

    /// Whether it had no success for too long, or asked for too long a pause.
    pub fn is_down(&self, rules: &Retrying, now: Instant) -> bool {
        self.asked_for_too_much(now) || self.down_at(rules).is_some_and(|at| now >= at)
    }

    /// Whether nothing is lost if it is forgotten, as nobody asks for the host: what it refused has to be some time ago.
    pub fn may_be_forgotten(&self, now: Instant) -> bool {
        self.probe.is_none() && !self.is_paused(now) && now >= self.failed_at + REMEMBERED_FOR
    }

    /// Whether nothing forbids to ask it now, be it that little is known of it.
    pub fn may_be_asked(&self, now: Instant) -> bool {
        matches!(self.allowed(now), Allowed::InFlight(_))
    }

    /// Until when it asked to be left alone, the last time that it did.
    pub fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    pub fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// Whether nothing of it holds any more.
    pub fn is_well(&self, now: Instant) -> bool {
        self.failures == 0 && self.allowed == u32::MAX && !self.is_paused(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_pause_holds_as_long_as_the_longest_that_was_asked_for_and_ends_with_one_attempt() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let mut health = Health::new(start);
        let rules = Retrying::default();
        health.pause(Duration::from_secs(10), &rules, start, &mut rng);
        health.pause(Duration::from_secs(1), &rules, start, &mut rng);
        let Allowed::Pause(until) = health.allowed(after(start, 9.999)) else { panic!("it is paused") };
        assert!(until >= after(start, 10.0) && until <= after(start, 10.5), "{:?}", until - start);
        assert_eq!(Allowed::InFlight(1), health.allowed(until));
        health.succeeded(until);
        assert_eq!(Allowed::InFlight(2), health.allowed(until));
        (0..20).for_each(|_| health.succeeded(until));
        assert!(health.is_well(until));
    }

    #[test]
    fn a_host_that_answers_others_meanwhile_does_not_refuse_everything() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        // A thousand in flight began together, and some of them fail.
        let mut health = Health::new(after(start, 0.1));
        for _ in 0..50 {
            health.failed(true, after(start, 0.1), after(start, 0.1), &mut rng);
            health.succeeded(start);
        }
        assert_eq!((Allowed::InFlight(u32::MAX), None), (health.allowed(after(start, 0.1)), health.refuses_since()));
    }

    #[test]
    fn a_host_that_is_asked_rarely_is_down_after_the_same_time() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let rules = Retrying { host_down_after: Duration::from_secs(20), ..Retrying::default() };
        let mut health = Health::new(after(start, 5.0));
        (0..DOWN).for_each(|_| health.failed(true, start, after(start, 5.0), &mut rng));
        assert_eq!((None, false), (health.refuses_since(), health.is_down(&rules, after(start, 19.9))));
        assert!(health.is_down(&rules, after(start, 20.0)));
        health.succeeded(after(start, 6.0));
        assert!(!health.is_down(&rules, after(start, 20.0)));
    }

    #[test]
    fn a_pause_that_was_too_long_says_nothing_of_those_after_it() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let mut health = Health::new(start);
        let rules = Retrying { max_retry_after: Duration::from_secs(5), ..Retrying::default() };
        health.pause(Duration::from_secs(10), &rules, start, &mut rng);
        assert!(health.is_down(&rules, after(start, 9.0)));
        health.pause(Duration::from_secs(1), &rules, after(start, 9.0), &mut rng);
        assert!(health.is_down(&rules, after(start, 9.5)), "the longer one goes on");
        health.pause(Duration::from_secs(2), &rules, after(start, 11.0), &mut rng);
        assert!(!health.is_down(&rules, after(start, 11.1)));
    }

    #[test]
    fn a_host_that_refuses_everything_is_probed_ever_more_rarely_until_it_answers() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let mut health = Health::new(start);
        (1..TRIP).for_each(|_| health.failed(true, start, start, &mut rng));
        assert_eq!((Allowed::InFlight(u32::MAX), None), (health.allowed(start), health.refuses_since()));
        (0..100).for_each(|_| health.failed(false, start, start, &mut rng));
        assert_eq!(None, health.refuses_since(), "rows that fail again say nothing of the host");
        // A thousand in flight at once are one sign, not a thousand.
        (0..1000).for_each(|_| health.failed(true, start, start, &mut rng));
        let mut now = start;
        for expected in [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
            let Allowed::Probe(at) = health.allowed(now) else { panic!("it is left alone") };
            let pause = (at - now).as_secs_f64();
            assert!((0.7..1.3).contains(&(pause / expected)), "{pause} for {expected}");
            now = at;
            assert_eq!(Allowed::InFlight(1), health.allowed(now));
            health.failed(false, now, now, &mut rng);
        }
        assert_eq!(Some(start), health.refuses_since());
        health.succeeded(start);
        assert!(health.refuses_since().is_some(), "it began before the last failure");
        now = after(now, 0.001);
        health.succeeded(now);
        assert_eq!((Allowed::InFlight(2), None), (health.allowed(now), health.refuses_since()));
    }
}
