//! Memory that a worker reserves for its next reads of a run, so that most reads need no access to the budget of all workers.
//!
//! The bytes of a read may have to be kept, and a reservation after the read would come too late. So memory is reserved here
//! before the read. It is transferred to the reservation of a body once it is known which body the bytes belong to.

use std::cell::RefCell;

use headgate_core::memory::{MemoryBudget, Reservation};

/// The most bytes that one read takes in.
pub const READ_BYTES: usize = 128 * 1024;
/// The most bytes that are reserved at a time, and so the largest read that can be reserved.
const MAX_BYTES: usize = 2 * READ_BYTES;

/// One worker's reservation for the reads of one run.
#[derive(Debug)]
pub struct ReadReservation {
    reservation: RefCell<Reservation>,
}

impl ReadReservation {
    pub fn new(budget: &MemoryBudget) -> Self {
        Self { reservation: RefCell::new(budget.reservation()) }
    }

    /// Reserves memory for a read of up to `bytes`, and returns whether it is reserved. It grows the reservation only while the
    /// budget keeps half of its free memory for bodies that have more to come. The reservation is good for a read in the
    /// same poll: another lane may use it up.
    pub fn try_reserve(&self, bytes: usize) -> bool {
        let mut reservation = self.reservation.borrow_mut();
        if bytes as u64 <= reservation.bytes() {
            return true;
        }
        let missing = (MAX_BYTES as u64).saturating_sub(reservation.bytes());
        bytes <= MAX_BYTES && reservation.leaves_half(missing) && reservation.try_grow_within(missing)
    }

    /// Transfers the bytes of a read that a body keeps to the reservation of that body.
    pub fn transfer(&self, to: &mut Reservation, bytes: u64) {
        self.reservation.borrow_mut().transfer(to, bytes);
    }

    /// Returns the unused bytes to the budget.
    pub fn release(&self) {
        self.reservation.borrow_mut().shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_reserved_in_the_budget_and_half_of_the_budget_stays_free() {
        let limit = 4 * MAX_BYTES as u64;
        let budget = MemoryBudget::new(limit);
        let reservations: [ReadReservation; 3] = std::array::from_fn(|_| ReadReservation::new(&budget));
        let [first, second, third] = &reservations;
        assert!(first.try_reserve(READ_BYTES) && second.try_reserve(READ_BYTES));
        assert_eq!(limit / 2, budget.used());
        assert!(!third.try_reserve(1) && !first.try_reserve(MAX_BYTES + 1));

        let mut body = budget.reservation();
        first.transfer(&mut body, READ_BYTES as u64 + 1);
        assert!(first.try_reserve(READ_BYTES - 1));
        assert!(!first.try_reserve(READ_BYTES), "less is reserved, and the budget has no more");
        first.release();
        assert_eq!(MAX_BYTES as u64 + READ_BYTES as u64 + 1, budget.used());
        drop(body);
        assert!(third.try_reserve(MAX_BYTES));
        drop(reservations);
        assert_eq!(0, budget.used());
    }
}
