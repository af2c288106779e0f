//! The effect of a stall of all workers of a run on its hosts: no time passes, except in pauses that servers requested.

use std::time::{Duration, Instant};

use super::Scheduler;
use crate::schedule::retry::FinishedAttempt;
use crate::stall::{ClockReading, Stall};

/// Attempts that fail within this time after a stall, and began before it, are excused.
const EXCUSED_FOR: Duration = Duration::from_secs(1);
/// After a stall of this length, all failures of attempts that began before it are excused.
const LONG_STALL: Duration = Duration::from_secs(3);

impl Scheduler {
    /// Records that a worker of the run is running. Returns the stall that this ends, if any.
    pub fn beat(&mut self, now: ClockReading) -> Option<Stall> {
        let stall = self.clock.beat(now);
        self.end_stall(stall, now.monotonic)
    }

    /// Returns the stall that ends now, if any. If [`Scheduler::is_late`], call it before judging anything by its time.
    pub fn observe(&mut self, now: ClockReading) -> Option<Stall> {
        let stall = self.clock.observe(now);
        self.end_stall(stall, now.monotonic)
    }

    /// Stops the beats: no worker of the run is left.
    pub fn rest(&mut self) {
        self.clock.rest();
    }

    /// Returns whether there may have been a stall that was not observed yet.
    pub fn is_late(&self, now: Instant) -> bool {
        self.clock.late_from().is_some_and(|late| late <= now)
    }

    /// Converts real time to awake time, which the scheduler expects.
    pub fn awake(&self, real: Instant) -> Instant {
        self.clock.awake(real)
    }

    /// Converts awake time to real time.
    pub fn real(&self, awake: Instant) -> Instant {
        self.clock.real(awake)
    }

    /// Ends a stall. Servers count its time: pauses that they requested end when they said.
    fn end_stall(&mut self, stall: Option<Stall>, now: Instant) -> Option<Stall> {
        let stall = stall?;
        let now = self.awake(now);
        for index in self.hosts.indices() {
            if let Some(breaker) = self.hosts.get(index).and_then(|host| host.breaker.as_mut())
                && breaker.is_paused(now)
            {
                breaker.shorten_pause(stall.total);
                self.settle(index, now);
            }
        }
        Some(stall)
    }

    /// Returns whether a failed attempt shows nothing about its host, since a stall came in between. After a long stall,
    /// connections may be dead, which only a timeout shows.
    pub(super) fn is_excused(&self, attempt: &FinishedAttempt, now: Instant) -> bool {
        let Some(stall) = self.clock.last().filter(|_| attempt.end.error.is_some()) else { return false };
        let stall_ended = self.awake(stall.ended);
        let may_kill_connections = stall.total >= LONG_STALL;
        attempt.started <= stall_ended && (may_kill_connections || now <= stall_ended + EXCUSED_FOR)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::error::ErrorKind;
    use crate::limits::{Limits, PerHost, Retrying};
    use crate::row::Row;
    use crate::schedule::decision::Decision;
    use crate::schedule::retry::{AttemptEnd, FinishedAttempt};
    use crate::schedule::scheduler::tests::{attempt, end, ms, per_second, rules, silent};
    use crate::schedule::scheduler::{HostIndex, Rules, Scheduler};
    use crate::stall::ClockReading;

    /// A scheduler that beats, and rows of one host.
    struct Scene {
        scheduler: Scheduler,
        now: ClockReading,
        next_row: u64,
    }

    impl Scene {
        fn new(rules: Rules) -> Self {
            let now = ClockReading::now();
            let mut scheduler = Scheduler::new(rules, true, 7, now.monotonic);
            scheduler.beat(now);
            Self { scheduler, now, next_row: 0 }
        }

        /// Lets time pass on both clocks while the process runs, or is stopped.
        fn pass(&mut self, time: Duration, is_stopped: bool) {
            let end = ClockReading { monotonic: self.now.monotonic + time, boot: self.now.boot + time, ..self.now };
            while !is_stopped && self.now.monotonic + ms(100) < end.monotonic {
                self.now =
                    ClockReading { monotonic: self.now.monotonic + ms(100), boot: self.now.boot + ms(100), ..self.now };
                self.scheduler.beat(self.now);
            }
            self.now = end;
            self.scheduler.beat(end);
        }

        fn suspend(&mut self, time: Duration) {
            self.now.boot += time;
            self.scheduler.beat(self.now);
        }

        fn start(&mut self) -> Option<(Row, Option<HostIndex>)> {
            let now = self.scheduler.awake(self.now.monotonic);
            self.scheduler.offer(Row::new(self.next_row, "http://a/".to_owned()), Some("a"), now);
            self.next_row += 1;
            match self.scheduler.next(now) {
                Decision::Start(row, host) => Some((row, host)),
                _ => None,
            }
        }

        fn finish(&mut self, host: Option<HostIndex>, began: Instant, end: AttemptEnd, pause: Option<Duration>) {
            let row = Row::new(self.next_row, "http://a/".to_owned());
            let attempt = FinishedAttempt { requested_pause: pause, ..attempt(&row, began, end) };
            let now = self.scheduler.awake(self.now.monotonic);
            self.scheduler.finish_attempt(host, || Some("a".into()), &attempt, || (row, host, Some("a".into())), now);
        }
    }

    #[test]
    fn attempts_that_fail_across_a_stall_are_no_evidence_against_their_host() {
        for (expected, is_stopped) in [(true, true), (false, false)] {
            let retrying = Retrying { host_down_after: Some(Duration::from_secs(3)), ..rules().retrying };
            let mut scene = Scene::new(Rules { retrying, ..rules() });
            let began = scene.now.monotonic;
            let hosts: Vec<_> = (0..50).map(|_| scene.start().expect("nothing is limited").1).collect();
            scene.pass(Duration::from_secs(6), is_stopped);
            for host in hosts {
                scene.finish(host, began, silent(ErrorKind::ConnectionClosed), None);
            }
            assert_eq!(expected, scene.start().is_some(), "stopped: {is_stopped}");
        }
    }

    #[test]
    fn a_host_does_not_go_down_while_the_process_is_stopped() {
        let mut scene = Scene::new(rules());
        let began = scene.now.monotonic;
        let hosts: Vec<_> = (0..50).map(|_| scene.start().expect("nothing is limited").1).collect();
        for host in hosts {
            scene.finish(host, began, silent(ErrorKind::Connect), None);
        }
        scene.pass(Duration::from_secs(100_000), true);
        let now = scene.scheduler.awake(scene.now.monotonic);
        assert!(!matches!(scene.scheduler.next(now), Decision::Fail(..)), "it is probed, as it was a moment ago");
    }

    #[test]
    fn a_requested_pause_ends_in_time_however_long_the_process_was_stopped_or_the_machine_suspended() {
        for suspends in [false, true] {
            let mut scene = Scene::new(rules());
            let (_, host) = scene.start().expect("nothing is limited");
            scene.finish(host, scene.now.monotonic, end(429), Some(Duration::from_secs(60)));
            if suspends {
                scene.suspend(Duration::from_secs(50));
            } else {
                scene.pass(Duration::from_secs(50), true);
            }
            assert!(scene.start().is_none(), "10 s are left");
            scene.pass(Duration::from_secs(11), false);
            assert!(scene.start().is_some(), "suspended: {suspends}");
        }
    }

    #[test]
    fn a_rate_limiter_does_not_fill_up_in_a_stall() {
        let limits =
            Limits { rate_per_host: PerHost { each: per_second(Some(10)), named: Vec::new() }, ..Limits::default() };
        let limits = Limits { burst: std::num::NonZeroU32::new(5), ..limits };
        let mut scene = Scene::new(Rules { limits, ..rules() });
        let at_once = |scene: &mut Scene| std::iter::from_fn(|| scene.start()).count();
        assert_eq!(5, at_once(&mut scene));
        scene.pass(Duration::from_secs(60), true);
        // The first beat was planned 100 ms after the last one.
        assert_eq!(1, at_once(&mut scene));
    }
}
