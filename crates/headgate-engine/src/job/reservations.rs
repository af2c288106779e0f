//! What the commits of a job reserve of its budgets. A crash costs at most what was reserved and not used: it counts as used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headgate_core::schedule::budget::{Budget, Budgets};
use serde::{Deserialize, Serialize};

/// A reservation is enough for so many rows, if that is no more than its share of what is left.
const FIRST_ROWS: u64 = 1000;
/// A reservation is enough for at least so many rows.
const LEAST_ROWS: u64 = 20;
/// A reservation is enough for so many intervals between commits, at the rate since the last commit.
const INTERVALS: u32 = 2;
/// A reservation is at most so many times as large as the one before: the first requests of a run come all at once.
const MAX_GROWTH: u64 = 4;
/// A reservation has at most this share of what is left of its budget, because a crash may cost all of it.
const LEFT_SHARE: u64 = 10;
/// A reservation of which less than this share is left is replaced.
const LOW_SHARE: u64 = 4;
/// The rate is not measured over less time.
const SHORTEST: Duration = Duration::from_millis(100);

/// How much a job has used of a budget, in all of its runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUse {
    pub used: u64,
    /// What counts as used if no other commit follows: as much as `used`, or more while a run continues.
    pub reserved: u64,
    /// The maximum; `None`: there is none.
    pub max: Option<u64>,
}

/// Reserves budgets at the rate at which a run uses them.
#[derive(Debug)]
pub(super) struct Reservations {
    pub(super) budgets: Arc<Budgets>,
    requests: Last,
    cost: Last,
}

/// A budget at the time of the last commit.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: Instant,
    used: u64,
    /// How much was left to be used.
    size: u64,
}

impl Reservations {
    /// Begins with what the last commit of the job has.
    pub(super) fn new(requests: &BudgetUse, cost: &BudgetUse, now: Instant) -> Self {
        let [requests, cost] = [requests, cost].map(|budget| budget.reserved);
        let budgets = Budgets { requests: Budget::resumed(requests), cost: Budget::resumed(cost) };
        let last = |used| Last { at: now, used, size: 0 };
        Self { budgets: Arc::new(budgets), requests: last(requests), cost: last(cost) }
    }

    /// Returns whether rows wait for the next reservation, or soon will.
    pub(super) fn are_due(&self) -> bool {
        let Budgets { requests, cost } = &*self.budgets;
        self.budgets.are_short() || self.requests.is_low(requests) || self.cost.is_low(cost)
    }

    /// Returns what the next commit has to say of the budgets of requests and costs. `interval`: the time to the commit after it;
    /// `None`: the run has ended, and nothing remains reserved.
    pub(super) fn next(&self, interval: Option<Duration>, now: Instant) -> [BudgetUse; 2] {
        let Budgets { requests, cost } = &*self.budgets;
        [self.requests.next(requests, interval, now), self.cost.next(cost, interval, now)]
    }

    /// Lets what a commit has reserved be used.
    pub(super) fn apply(&mut self, [requests, cost]: [BudgetUse; 2], now: Instant) {
        for (budget, committed, last) in
            [(&self.budgets.requests, requests, &mut self.requests), (&self.budgets.cost, cost, &mut self.cost)]
        {
            budget.reserve(committed.reserved);
            *last = Last { at: now, used: committed.used, size: committed.reserved - committed.used };
        }
    }

    /// Returns whether the run has used something since this commit, or the commit holds a reservation.
    pub(super) fn differ_from(&self, requests: &BudgetUse, cost: &BudgetUse) -> bool {
        self.budgets.requests.used() != requests.reserved || self.budgets.cost.used() != cost.reserved
    }
}

impl Last {
    fn is_low(&self, budget: &Budget) -> bool {
        let (Some(max), Some(reserved)) = (budget.max(), budget.reserved()) else { return false };
        // Before the first row, nothing is reserved: its input may not be the one of the job.
        self.size > 0 && reserved < max && reserved.saturating_sub(budget.used()) < self.size / LOW_SHARE
    }

    fn next(&self, budget: &Budget, interval: Option<Duration>, now: Instant) -> BudgetUse {
        let (used, max) = (budget.used(), budget.max());
        let (Some(max), Some(reserved), Some(interval)) = (max, budget.reserved(), interval) else {
            return BudgetUse { used, reserved: used, max };
        };
        let elapsed = now.saturating_duration_since(self.at).max(SHORTEST);
        let rate = used.saturating_sub(self.used) as f64 / elapsed.as_secs_f64();
        let size = (rate * (interval * INTERVALS).as_secs_f64()) as u64;
        let [first, least] = [FIRST_ROWS, LEAST_ROWS].map(|rows| budget.largest().saturating_mul(rows));
        let size = size.min(self.size.saturating_mul(MAX_GROWTH)).max(first);
        let size = size.min(max.saturating_sub(used) / LEFT_SHARE).max(least);
        BudgetUse { used, reserved: used.saturating_add(size).min(max).max(reserved).max(used), max: Some(max) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns reservations of a job that has used 50 of `max` requests.
    fn of_requests(max: u64) -> (Reservations, Instant) {
        let now = Instant::now();
        let used = BudgetUse { used: 40, reserved: 50, max: None };
        let reservations = Reservations::new(&used, &BudgetUse::default(), now);
        reservations.budgets.requests.set_max(Some(max));
        (reservations, now)
    }

    fn commit(reservations: &mut Reservations, interval: Option<Duration>, now: Instant) -> BudgetUse {
        let next = reservations.next(interval, now);
        reservations.apply(next, now);
        next[0]
    }

    #[test]
    fn what_was_reserved_before_a_crash_counts_as_used_and_an_orderly_end_releases_the_rest() {
        let (mut reservations, now) = of_requests(20_000);
        let max = Some(20_000);
        assert_eq!(BudgetUse { used: 50, reserved: 1050, max }, commit(&mut reservations, Some(SECOND), now));
        reservations.budgets.requests.spend(7);
        assert_eq!(BudgetUse { used: 57, reserved: 57, max }, commit(&mut reservations, None, now));
    }

    #[test]
    fn a_reservation_lasts_for_two_intervals_and_grows_slowly() {
        let (mut reservations, mut now) = of_requests(10_000_000);
        for (expected, spent, seconds) in
            [(1050, 0, 0), (5050, 1000, 1), (21_050, 4000, 1), (29_050, 8000, 2), (93_050, 16_000, 0)]
        {
            reservations.budgets.requests.spend(spent);
            now += SECOND * seconds;
            assert_eq!(expected, commit(&mut reservations, Some(2 * SECOND), now).reserved, "{spent} in {seconds} s");
        }
    }

    #[test]
    fn a_reservation_is_a_tenth_of_what_is_left_and_never_exceeds_the_maximum() {
        let (mut reservations, mut now) = of_requests(20_050);
        for (expected, spent) in [(1050, 0), (1050 + 1900, 1000), (17_350, 16_000), (19_600, 2500), (20_050, 495)] {
            reservations.budgets.requests.spend(spent);
            now += SECOND;
            assert_eq!(expected, commit(&mut reservations, Some(SECOND), now).reserved, "{spent}");
        }
    }

    #[test]
    fn the_next_reservation_is_due_when_little_is_left_of_the_last_one() {
        let (mut reservations, now) = of_requests(20_000);
        assert!(!reservations.are_due(), "no row has come");
        commit(&mut reservations, Some(SECOND), now);
        reservations.budgets.requests.spend(750);
        assert!(!reservations.are_due());
        reservations.budgets.requests.spend(1);
        assert!(reservations.are_due());
    }

    #[test]
    fn nothing_is_reserved_without_a_maximum() {
        let (mut reservations, now) = of_requests(10_000);
        reservations.budgets.requests.set_max(None);
        reservations.budgets.requests.spend(9);
        assert!(!reservations.are_due());
        assert_eq!(BudgetUse { used: 59, reserved: 59, max: None }, commit(&mut reservations, Some(SECOND), now));
    }
}
