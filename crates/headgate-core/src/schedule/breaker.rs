//! The circuit breaker of one host: how many requests it may get, by the evidence about the host. A healthy host has none.
//!
//! Evidence: response headers show that the host is up, whatever becomes of the body. Attempts without headers (DNS,
//! connecting, TLS, a connection that closes, a timeout) show that it is down. A status that requests less load (429, 502,
//! 503, 504) shows that it is up and overloaded. After [`TRIP`] failures in a row the breaker opens: one probe at a time is
//! sent, at intervals that grow while there are no headers, and every second while the host is overloaded. The first
//! response closes it. Each response doubles what may be in flight, so that waiting rows do not overload a host that has
//! just recovered. The same applies after a pause that the host requested (`Retry-After`).
//!
//! A host is down when it has sent no headers for [`Retrying::host_down_after`]; then its rows fail. Overload, or bodies
//! that break off, never make it down.

use std::time::{Duration, Instant};

use crate::limits::Retrying;
use crate::random::Rng;

/// Failures in a row that open the breaker.
const TRIP: u32 = 20;
const FIRST_PROBE: Duration = Duration::from_secs(1);
/// The longest interval between probes of a host that sends no headers.
const LONGEST_PROBE: Duration = Duration::from_secs(30);
/// A pause ends up to this share later than the server requested, so that clients do not return all at once.
const SPREAD: f64 = 0.05;
pub(super) const LONGEST_SPREAD: Duration = Duration::from_millis(500);
/// The upper bound of a pause, well below what a clock can represent.
const LONGEST_PAUSE: Duration = Duration::from_secs(366 * 86_400);
/// A failure is remembered for this long where the host gets no further requests.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);
/// How many attempts without headers make a host down, however long they took.
const DOWN: u32 = 4;
/// The last probe starts this much later, as attempts vary in length.
const PROBE_MARGIN: Duration = Duration::from_millis(20);
/// If this many may be in flight, the breaker no longer limits the host.
const UNLIMITED: u32 = 65_536;

/// The limit that the breaker sets now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowed {
    /// At most this many attempts in flight.
    InFlight(u32),
    /// Nothing before this time: the host requested a pause.
    Pause(Instant),
    /// Nothing before the next probe at this time.
    Probe(Instant),
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    at: Instant,
    interval: Duration,
}

/// Attempts in a row that ended without headers.
#[derive(Debug, Clone, Copy)]
struct Silence {
    attempts: u32,
    /// When the first of them ended, and the last; until the first, the host had time to respond.
    since: Instant,
    until: Instant,
}

#[derive(Debug, Clone)]
pub(super) struct Breaker {
    /// The end of the pause that the host requested.
    paused_until: Option<Instant>,
    /// That pause is longer than [`Retrying::retry_max_pause`].
    pause_is_too_long: bool,
    /// The time of the last requested pause, or of the last opening of the breaker.
    reduced_at: Option<Instant>,
    /// Failures in a row that count.
    failures: u32,
    failed_at: Instant,
    silence: Option<Silence>,
    /// In flight at most, beside attempts from before that limit.
    allowed: u32,
    /// Attempts from before that limit that are still in flight.
    earlier: u32,
    /// `Some`: the breaker is open.
    probe: Option<Probe>,
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            paused_until: None,
            pause_is_too_long: false,
            reduced_at: None,
            failures: 0,
            failed_at: now,
            silence: None,
            allowed: u32::MAX,
            earlier: 0,
            probe: None,
        }
    }

    pub(super) fn allowed(&self, now: Instant) -> Allowed {
        match (self.paused_until, self.probe) {
            (Some(until), _) if now < until => Allowed::Pause(until),
            (_, Some(probe)) if now < probe.at => Allowed::Probe(probe.at),
            _ => Allowed::InFlight(self.allowed),
        }
    }

    /// Returns the number of attempts in flight that do not count, as they are from before the current limit.
    pub(super) fn earlier(&self) -> u32 {
        self.earlier
    }

    /// Records that an attempt has ended; `started`: when it began, if that is known.
    pub(super) fn end_attempt(&mut self, started: Option<Instant>) {
        let is_earlier = |at| started.is_none_or(|started| started <= at);
        if self.reduced_at.is_some_and(is_earlier) {
            self.earlier = self.earlier.saturating_sub(1);
        }
    }

    /// Limits the host to one attempt, beside those in flight now.
    fn reduce(&mut self, in_flight: u32, now: Instant) {
        self.allowed = 1;
        self.earlier = in_flight;
        self.reduced_at = Some(now);
    }

    /// Records that the host requested a pause of this length from `now` on. It never shortens an earlier one.
    pub(super) fn pause(&mut self, time: Duration, in_flight: u32, rules: &Retrying, now: Instant, rng: &mut Rng) {
        let time = time.min(LONGEST_PAUSE);
        // A pause that is over does not affect this one.
        self.pause_is_too_long &= self.is_paused(now);
        self.pause_is_too_long |= time > rules.retry_max_pause;
        let spread = time.mul_f64(SPREAD * rng.f64()).min(LONGEST_SPREAD);
        let until = now + time + spread;
        self.paused_until = Some(self.paused_until.map_or(until, |earlier| earlier.max(until)));
        self.reduce(in_flight, now);
    }

    /// Ends the pause that the host requested this much sooner, as its clock went on during a stall.
    pub(super) fn shorten_pause(&mut self, time: Duration) {
        self.paused_until = self.paused_until.and_then(|until| until.checked_sub(time));
    }

    /// Records that an attempt that began at `started` got a response that does not request less load.
    pub(super) fn responded(&mut self, started: Instant) {
        self.failures = 0;
        self.silence = None;
        self.probe = None;
        // A request from before the pause does not show what the host can handle since.
        if self.reduced_at.is_none_or(|at| started > at) {
            self.allowed = self.allowed.saturating_mul(2);
            if self.allowed >= UNLIMITED {
                self.allowed = u32::MAX;
            }
        }
    }

    /// Records that an attempt got a response that requests less load.
    pub(super) fn overloaded(&mut self, in_flight: u32, now: Instant, rng: &mut Rng) {
        self.silence = None;
        self.fail(FIRST_PROBE, in_flight, now, rng);
    }

    /// Records that an attempt that began at `started` ended without response headers.
    pub(super) fn silent(&mut self, started: Instant, down_after: Duration, now: Instant, rng: &mut Rng) {
        let silence = self.silence.get_or_insert(Silence { attempts: 0, since: now, until: now });
        silence.until = now;
        silence.attempts = silence.attempts.saturating_add(1);
        let down_at = silence.since + down_after;
        // All attempts count: those in flight may show that it is up.
        if self.fail(LONGEST_PROBE, 0, now, rng)
            && let Some(probe) = &mut self.probe
            && let Some(last) = down_at.checked_sub(now.saturating_duration_since(started))
        {
            // The last probe ends when the host would be down: only its failure makes it so.
            if probe.at > last && now < down_at {
                probe.at = if last > now { last + PROBE_MARGIN } else { down_at };
            }
        }
    }

    /// Counts a failure. Returns whether that opened the breaker, or set the next probe.
    fn fail(&mut self, longest: Duration, in_flight: u32, now: Instant, rng: &mut Rng) -> bool {
        self.failed_at = now;
        self.failures = self.failures.saturating_add(1);
        if self.failures < TRIP {
            return false;
        }
        let interval = match self.probe {
            // Attempts that were in flight when the breaker opened show nothing new.
            Some(probe) if now < probe.at => return false,
            Some(probe) => (probe.interval * 2).min(longest),
            None => FIRST_PROBE,
        };
        self.reduce(in_flight, now);
        self.probe = Some(Probe { at: now + interval.mul_f64(0.75 + 0.5 * rng.f64()), interval });
        true
    }

    /// Forgets failures without headers, as the network was down and not the host: it starts again with one request.
    pub(super) fn forgive(&mut self) {
        self.failures = 0;
        self.silence = None;
        self.probe = None;
        self.allowed = 1;
    }

    pub(super) fn is_open(&self) -> bool {
        self.probe.is_some()
    }

    /// Returns since when the host has sent no headers, if attempts without them have continued for this time.
    pub(super) fn silent_for(&self, time: Duration) -> Option<Instant> {
        let is_long = |silence: &Silence| silence.attempts >= DOWN && silence.until >= silence.since + time;
        self.silence.filter(is_long).map(|silence| silence.since)
    }

    /// Returns whether the host is in a pause that is longer than [`Retrying::retry_max_pause`].
    pub(super) fn pause_exceeds_limit(&self, now: Instant) -> bool {
        self.pause_is_too_long && self.is_paused(now)
    }

    /// Returns whether nothing is lost if the breaker is dropped while the host gets no requests.
    pub(super) fn may_be_forgotten(&self, now: Instant) -> bool {
        self.probe.is_none() && !self.is_paused(now) && now >= self.failed_at + REMEMBERED_FOR
    }

    /// Returns whether a request may start now.
    pub(super) fn may_send(&self, now: Instant) -> bool {
        matches!(self.allowed(now), Allowed::InFlight(_))
    }

    /// Returns the end of the pause that the host has requested, if it is paused.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| now < *until)
    }

    pub(super) fn is_paused(&self, now: Instant) -> bool {
        self.paused_until(now).is_some()
    }

    /// Returns whether the breaker limits nothing and remembers no failure.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.failures == 0 && self.allowed == u32::MAX && !self.is_paused(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN_AFTER: Duration = Duration::from_secs(900);

    fn after(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_pause_lasts_as_long_as_the_longest_requested_one_and_ends_with_one_attempt() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let mut breaker = Breaker::new(start);
        let rules = Retrying::default();
        breaker.pause(Duration::from_secs(10), 0, &rules, start, &mut rng);
        breaker.pause(Duration::from_secs(1), 0, &rules, start, &mut rng);
        let Allowed::Pause(until) = breaker.allowed(after(start, 9.999)) else { panic!("it is paused") };
        assert!(until >= after(start, 10.0) && until <= after(start, 10.5), "{:?}", until - start);
        assert_eq!(Allowed::InFlight(1), breaker.allowed(until));
        breaker.responded(until);
        assert_eq!(Allowed::InFlight(2), breaker.allowed(until));
        (0..20).for_each(|_| breaker.responded(until));
        assert!(breaker.is_idle(until));
    }

    #[test]
    fn failures_between_responses_do_not_open_the_breaker() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let mut breaker = Breaker::new(start);
        for _ in 0..50 {
            breaker.silent(start, DOWN_AFTER, start, &mut rng);
            breaker.responded(start);
        }
        assert_eq!((Allowed::InFlight(u32::MAX), false), (breaker.allowed(start), breaker.is_open()));
    }

    #[test]
    fn a_host_is_down_when_an_attempt_fails_after_its_time_and_not_before() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let mut breaker = Breaker::new(start);
        (0..DOWN).for_each(|_| breaker.silent(start, DOWN_AFTER, after(start, 5.0), &mut rng));
        breaker.silent(start, DOWN_AFTER, after(start, 904.9), &mut rng);
        assert_eq!((false, None), (breaker.is_open(), breaker.silent_for(DOWN_AFTER)));
        breaker.silent(start, DOWN_AFTER, after(start, 905.0), &mut rng);
        assert_eq!(Some(after(start, 5.0)), breaker.silent_for(DOWN_AFTER));
        breaker.overloaded(0, after(start, 906.0), &mut rng);
        assert_eq!(None, breaker.silent_for(DOWN_AFTER), "any head shows that it is up");
    }

    #[test]
    fn a_pause_that_was_too_long_does_not_affect_those_after_it() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let mut breaker = Breaker::new(start);
        let rules = Retrying { retry_max_pause: Duration::from_secs(5), ..Retrying::default() };
        breaker.pause(Duration::from_secs(10), 0, &rules, start, &mut rng);
        assert!(breaker.pause_exceeds_limit(after(start, 9.0)));
        breaker.pause(Duration::from_secs(1), 0, &rules, after(start, 9.0), &mut rng);
        assert!(breaker.pause_exceeds_limit(after(start, 9.5)), "the longer one goes on");
        breaker.pause(Duration::from_secs(2), 0, &rules, after(start, 11.0), &mut rng);
        assert!(!breaker.pause_exceeds_limit(after(start, 11.1)));
    }

    #[test]
    fn a_host_without_a_response_is_probed_ever_more_rarely_until_there_is_one() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let mut breaker = Breaker::new(start);
        // A thousand simultaneous failures are one sign, not a thousand.
        (0..1000).for_each(|_| breaker.silent(start, DOWN_AFTER, start, &mut rng));
        let mut now = start;
        for expected in [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
            let Allowed::Probe(at) = breaker.allowed(now) else { panic!("it is open") };
            let pause = (at - now).as_secs_f64();
            assert!((0.7..1.3).contains(&(pause / expected)), "{pause} for {expected}");
            now = at;
            assert_eq!(Allowed::InFlight(1), breaker.allowed(now));
            breaker.silent(now, DOWN_AFTER, now, &mut rng);
        }
        breaker.responded(start);
        assert_eq!((Allowed::InFlight(1), false), (breaker.allowed(now), breaker.is_open()), "it began before");
        now = after(now, 0.001);
        breaker.responded(now);
        assert_eq!(Allowed::InFlight(2), breaker.allowed(now));
    }

    #[test]
    fn an_overloaded_host_is_probed_every_second_and_never_down() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let mut breaker = Breaker::new(start);
        (0..TRIP).for_each(|_| breaker.overloaded(0, start, &mut rng));
        let mut now = start;
        for _ in 0..2000 {
            let Allowed::Probe(at) = breaker.allowed(now) else { panic!("it is open") };
            assert!(at - now <= Duration::from_millis(1250));
            now = at;
            breaker.overloaded(0, now, &mut rng);
        }
        assert_eq!(None, breaker.silent_for(DOWN_AFTER));
    }

    #[test]
    fn the_last_probe_ends_when_the_host_is_down() {
        let (start, mut rng) = (Instant::now(), Rng::with_seed(7));
        let (down_after, takes) = (Duration::from_secs(20), Duration::from_secs(5));
        let (mut breaker, mut started) = (Breaker::new(start), start);
        let down_at = start + takes + down_after;
        while started + takes < down_at {
            (0..TRIP).for_each(|_| breaker.silent(started, down_after, started + takes, &mut rng));
            let Allowed::Probe(at) = breaker.allowed(started + takes) else { panic!("it is open") };
            assert!(at + takes <= down_at + PROBE_MARGIN || at == down_at, "{:?}", at - start);
            started = at;
        }
        breaker.silent(started, down_after, started + takes, &mut rng);
        assert!(breaker.silent_for(down_after).is_some());
    }
}
