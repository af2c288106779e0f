//! Decides when deferred rows are read again: once their hosts have few rows left here, and not for most of the time.

use std::time::{Duration, Instant};

use super::Scheduler;

/// Reading deferred rows takes at most a fifth of the time while there is other work.
const PAUSES_BETWEEN_READINGS: u32 = 4;

/// The state of reading deferred rows again, with real times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rereading {
    /// Deferred rows are being read, or this was requested.
    pub active: bool,
    /// The first row that is deferred.
    pub first: Option<u64>,
    /// The source can't continue by itself: it is at the end of the input, or as far beyond rows that are not done as it may
    /// be.
    pub is_source_stalled: bool,
    /// The duration of the last rereading.
    pub last_took: Duration,
    /// The end of the last rereading.
    pub ended_at: Option<Instant>,
}

/// What follows for deferred rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RereadDecision {
    Continue,
    /// Read deferred rows from this one on.
    Begin(u64),
    /// Read no more of them, so that the source continues.
    End,
    /// Decide again at this real time.
    WaitUntil(Instant),
}

impl Scheduler {
    /// Decides whether deferred rows are read again at this real time.
    pub fn decide_rereading(&mut self, rereading: &Rereading, now: Instant) -> RereadDecision {
        let is_wanted = self.wants_deferred_rows();
        match rereading.first {
            _ if !self.wants_rows() => RereadDecision::Continue,
            _ if rereading.active => {
                if is_wanted || rereading.is_source_stalled {
                    RereadDecision::Continue
                } else {
                    RereadDecision::End
                }
            }
            Some(first) if is_wanted || self.is_empty() => {
                let pause_ends = rereading.ended_at.map(|ended| ended + rereading.last_took * PAUSES_BETWEEN_READINGS);
                if let Some(ends) = pause_ends.filter(|ends| *ends > now && !self.is_empty()) {
                    return RereadDecision::WaitUntil(ends);
                }
                self.begin_rereading();
                RereadDecision::Begin(first)
            }
            _ => RereadDecision::Continue,
        }
    }

    /// Prepares for deferred rows that are read again: each host has a share of the capacity.
    pub(super) fn begin_rereading(&mut self) {
        let hosts = self.hosts.iter().filter(|host| host.deferred > 0 || !host.new_rows.is_empty()).count();
        self.look_ahead.divide(hosts);
        self.weigh_all();
    }

    /// Returns whether a host needs deferred rows.
    pub(super) fn wants_deferred_rows(&self) -> bool {
        self.hungry_hosts > 0 && !self.starts_nothing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{HostConcurrency, Limits, PerHost};
    use crate::row::Row;
    use crate::schedule::rows_to_cancel::RowsToCancel;
    use crate::schedule::scheduler::Rules;
    use crate::schedule::scheduler::tests::rules;

    #[test]
    fn deferred_rows_are_read_again_once_they_are_needed_and_after_a_pause() {
        let concurrency_per_host = PerHost { each: Some(HostConcurrency::Fixed(1)), named: Vec::new() };
        let rules = Rules { limits: Limits { concurrency_per_host, ..Limits::default() }, ..rules() };
        let now = Instant::now();
        let mut scheduler = Scheduler::bounded(rules, true, 7, now, (4, 1 << 20, 10));
        let offer = |scheduler: &mut Scheduler, ordinal, host: &str| {
            scheduler.offer(Row::new(ordinal, format!("http://{host}/")), Some(host), now);
        };
        (0..2).for_each(|ordinal| offer(&mut scheduler, ordinal, "b"));
        scheduler.next(now);
        (2..10).for_each(|ordinal| offer(&mut scheduler, ordinal, "a"));
        let first = scheduler.drain_deferred().into_iter().min();
        assert!(first.is_some(), "there is no space for all rows");
        let idle = Rereading { first, ..Rereading::default() };
        assert_eq!(RereadDecision::Continue, scheduler.decide_rereading(&idle, now), "the host has enough rows");

        // One of each host is in flight, and one of `b` waits.
        scheduler.next(now);
        for ordinal in 2..10 {
            scheduler.cancel(Vec::new(), RowsToCancel::One(ordinal), now);
        }
        while scheduler.next_failing().is_some() {}
        let pausing = Rereading { last_took: Duration::from_secs(1), ended_at: Some(now), ..idle };
        let ends = now + Duration::from_secs(4);
        assert_eq!(RereadDecision::WaitUntil(ends), scheduler.decide_rereading(&pausing, now));
        assert_eq!(RereadDecision::Begin(first.expect("one was deferred")), scheduler.decide_rereading(&pausing, ends));
        let active = Rereading { active: true, ..idle };
        assert_eq!(RereadDecision::Continue, scheduler.decide_rereading(&active, now), "more are needed");
        assert_eq!(RereadDecision::Continue, scheduler.decide_rereading(&Rereading::default(), now), "there are none");
        scheduler.pause(true, now);
        assert_eq!(RereadDecision::Continue, scheduler.decide_rereading(&idle, now), "nothing starts");
    }
}
