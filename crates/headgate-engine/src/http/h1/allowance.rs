//! What a worker has set aside for the next reads of a run, so that asking the budget of all workers is not for each read.
//!
//! What a read brings may have to be kept, and once it was read it is too late to ask whether there is room. So it is set
//! aside before, here, and given to the body whose it is when that is known.

use std::cell::RefCell;

use crate::model::memory::{MemoryBudget, Reservation};

/// What one read takes in at the most.
pub const READ_BYTES: usize = 128 * 1024;
/// Set aside at a time at the most, and so the largest read that is covered.
const MAX_BYTES: usize = 2 * READ_BYTES;

/// A worker's for one run.
#[derive(Debug)]
pub struct Allowance {
    reservation: RefCell<Reservation>,
}

impl Allowance {
    pub fn new(budget: &MemoryBudget) -> Self {
        Self { reservation: RefCell::new(budget.reservation()) }
    }

    /// Whether a read that may take so much memory is covered, if need be by what the budget has left: half of that is for
    /// bodies that have more to come. It holds for a read in the same poll: another lane may use it up.
    pub fn covers(&self, bytes: usize) -> bool {
        let mut reservation = self.reservation.borrow_mut();
        if bytes as u64 <= reservation.bytes() {
            return true;
        }
        let missing = (MAX_BYTES as u64).saturating_sub(reservation.bytes());
        bytes <= MAX_BYTES && reservation.leaves_half(missing) && reservation.try_grow_within(missing)
    }

    /// Gives to a body what it takes of a read that was covered.
    pub fn give(&self, to: &mut Reservation, bytes: u64) {
        self.reservation.borrow_mut().transfer(to, bytes);
    }

    /// Gives back what is left.
    pub fn release(&self) {
        self.reservation.borrow_mut().shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_covered_is_set_aside_and_half_of_the_budget_is_left() {
        let limit = 4 * MAX_BYTES as u64;
        let budget = MemoryBudget::new(limit);
        let allowances: [Allowance; 3] = std::array::from_fn(|_| Allowance::new(&budget));
        let [first, second, third] = &allowances;
        assert!(first.covers(READ_BYTES) && second.covers(READ_BYTES));
        assert_eq!(limit / 2, budget.used());
        assert!(!third.covers(1) && !first.covers(MAX_BYTES + 1));

        let mut body = budget.reservation();
        first.give(&mut body, READ_BYTES as u64 + 1);
        assert!(first.covers(READ_BYTES - 1));
        assert!(!first.covers(READ_BYTES), "it has less, and no more is to be had");
        first.release();
        assert_eq!(MAX_BYTES as u64 + READ_BYTES as u64 + 1, budget.used());
        drop(body);
        assert!(third.covers(MAX_BYTES));
        drop(allowances);
        assert_eq!(0, budget.used());
    }
}
