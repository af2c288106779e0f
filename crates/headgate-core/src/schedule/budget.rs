//! The budgets of a job: how many requests it may send and what they may cost, over all of its runs.
//!
//! A run uses only what a commit of the job has reserved before. After a crash, all of that counts as used, so that a budget is
//! never exceeded. A run that ends in order releases what it has not used.
//!
//! While nothing is limited, workers count requests without the lock of the scheduler. Hence the figures are atomic.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::limits::Limits;

/// No budget, and no need to reserve anything.
const UNLIMITED: u64 = u64::MAX;

/// The budgets of a job.
#[derive(Debug, Default)]
pub struct Budgets {
    pub requests: Budget,
    /// What rows cost, in the unit of their costs.
    pub cost: Budget,
}

/// One budget of a job.
#[derive(Debug)]
pub struct Budget {
    max: AtomicU64,
    /// In all runs of the job, with the estimates of what is in flight.
    used: AtomicU64,
    /// How much may be used, as far as commits have reserved it.
    reserved: AtomicU64,
    /// The most that a single row has needed.
    largest: AtomicU64,
    /// A row waits for the next reservation.
    is_short: AtomicBool,
}

/// Whether a row may use a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowance {
    Allowed,
    /// Not before a commit has reserved more.
    NotReserved,
    UsedUp,
}

/// A budget that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedUp {
    Requests {
        max: u64,
    },
    Cost {
        max: u64,
        left: u64,
        /// The cost of the next row, if that is known.
        next: Option<u64>,
    },
}

impl Default for Budget {
    /// Returns a budget of which nothing was used and that nothing has to be reserved of.
    fn default() -> Self {
        Self::new(0, UNLIMITED)
    }
}

impl Budget {
    fn new(used: u64, reserved: u64) -> Self {
        Self {
            max: AtomicU64::new(UNLIMITED),
            used: AtomicU64::new(used),
            reserved: AtomicU64::new(reserved),
            largest: AtomicU64::new(1),
            is_short: AtomicBool::new(false),
        }
    }

    /// Returns the budget of a job whose earlier runs have used `used`: a commit must reserve what else is used.
    pub fn resumed(used: u64) -> Self {
        Self::new(used, used)
    }

    /// Returns the maximum; `None`: there is none.
    pub fn max(&self) -> Option<u64> {
        Some(self.max.load(Ordering::Relaxed)).filter(|max| *max != UNLIMITED)
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns how much is reserved; `None`: nothing has to be.
    pub fn reserved(&self) -> Option<u64> {
        Some(self.reserved.load(Ordering::Relaxed)).filter(|reserved| *reserved != UNLIMITED)
    }

    /// Returns the most that a single row has needed, and at least 1.
    pub fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }

    /// Returns whether a row waits for the next reservation.
    pub fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Allows everything up to `reserved`, which a commit has stored.
    pub fn reserve(&self, reserved: u64) {
        self.reserved.fetch_max(reserved, Ordering::Relaxed);
        self.is_short.store(false, Ordering::Relaxed);
    }

    pub fn spend(&self, amount: u64) {
        self.change(|used| used.saturating_add(amount));
    }

    /// Takes back what turned out not to be used.
    pub fn refund(&self, amount: u64) {
        self.change(|used| used.saturating_sub(amount));
    }

    fn change(&self, change: impl Fn(u64) -> u64) {
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(change(used)));
    }

    /// Sets the maximum; `None`: there is none.
    pub fn set_max(&self, max: Option<u64>) {
        self.max.store(max.unwrap_or(UNLIMITED), Ordering::Relaxed);
    }

    fn is_used_up(&self) -> bool {
        self.max().is_some_and(|max| self.used() >= max)
    }

    /// Returns whether `amount` may be used now.
    fn allowance(&self, amount: u64) -> Allowance {
        let Some(max) = self.max() else { return Allowance::Allowed };
        let used = self.used();
        if used >= max || amount > max - used {
            return Allowance::UsedUp;
        }
        self.largest.fetch_max(amount, Ordering::Relaxed);
        let reserved = self.reserved.load(Ordering::Relaxed);
        if used >= reserved || amount > reserved - used {
            self.is_short.store(true, Ordering::Relaxed);
            return Allowance::NotReserved;
        }
        Allowance::Allowed
    }
}

impl Budgets {
    /// Returns whether there is a budget of requests or of costs.
    pub fn are_set(&self) -> bool {
        self.requests.max().is_some() || self.cost.max().is_some()
    }

    /// Applies the maxima of these limits.
    pub fn set(&self, limits: &Limits) {
        self.requests.set_max(limits.max_requests);
        self.cost.set_max(limits.max_cost);
    }

    /// Lets everything be used up to the maxima: no later run has to know what was reserved.
    pub fn reserve_all(&self) {
        self.requests.reserve(UNLIMITED);
        self.cost.reserve(UNLIMITED);
    }

    /// Returns whether a row waits for the next reservation.
    pub fn are_short(&self) -> bool {
        self.requests.is_short() || self.cost.is_short()
    }

    /// Returns whether a row of this cost may start now.
    pub(crate) fn allowance(&self, cost: u64) -> Allowance {
        match self.requests.allowance(1) {
            Allowance::Allowed => self.cost.allowance(cost),
            refused => refused,
        }
    }

    /// Spends one more request, if that may be used now.
    pub(crate) fn try_spend_request(&self) -> Allowance {
        let allowance = self.requests.allowance(1);
        if allowance == Allowance::Allowed {
            self.requests.spend(1);
        }
        allowance
    }

    /// Returns the budget that is used up, if one is: for every row, or for one with the cost `next`.
    pub(crate) fn used_up(&self, next: Option<u64>) -> Option<UsedUp> {
        let is_too_little = || next.is_some_and(|cost| self.cost.allowance(cost) == Allowance::UsedUp);
        if self.requests.is_used_up() {
            Some(UsedUp::Requests { max: self.requests.max()? })
        } else if self.cost.is_used_up() || is_too_little() {
            let max = self.cost.max()?;
            Some(UsedUp::Cost { max, left: max.saturating_sub(self.cost.used()), next })
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(max: u64, used: u64) -> Budget {
        let budget = Budget::resumed(used);
        budget.set_max(Some(max));
        budget
    }

    #[test]
    fn only_what_is_reserved_may_be_used_and_never_more_than_the_maximum() {
        let budget = limited(10, 4);
        assert_eq!(Allowance::NotReserved, budget.allowance(1));
        assert!(budget.is_short());
        budget.reserve(7);
        assert!(!budget.is_short());
        budget.spend(3);
        assert_eq!(Allowance::NotReserved, budget.allowance(1));
        budget.reserve(99);
        assert_eq!((Allowance::Allowed, Allowance::UsedUp), (budget.allowance(3), budget.allowance(4)));
        budget.spend(3);
        assert_eq!(Allowance::UsedUp, budget.allowance(1));
        budget.refund(1);
        assert_eq!(Allowance::Allowed, budget.allowance(1));
    }

    #[test]
    fn without_a_maximum_nothing_has_to_be_reserved() {
        let budget = Budget::resumed(5);
        assert_eq!((Allowance::Allowed, false), (budget.allowance(u64::MAX), budget.is_short()));
        budget.set_max(Some(9));
        assert_eq!(Allowance::NotReserved, budget.allowance(1));
        let in_memory = Budget::default();
        in_memory.set_max(Some(1));
        assert_eq!((Allowance::Allowed, None), (in_memory.allowance(1), in_memory.reserved()));
    }

    #[test]
    fn a_row_that_costs_more_than_what_is_left_finds_the_budget_used_up() {
        let budgets = Budgets { requests: Budget::default(), cost: limited(10, 8) };
        assert_eq!((None, None), (budgets.used_up(None), budgets.used_up(Some(2))));
        assert_eq!(Some(UsedUp::Cost { max: 10, left: 2, next: Some(3) }), budgets.used_up(Some(3)));
        budgets.requests.set_max(Some(0));
        assert_eq!(Some(UsedUp::Requests { max: 0 }), budgets.used_up(Some(3)));
    }
}
