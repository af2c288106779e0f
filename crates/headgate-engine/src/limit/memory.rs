//! One budget of bytes for all response bodies in memory, whichever worker holds them.
//!
//! A body asks for its bytes as they arrive and gives them back when the sink has written it. When the budget is
//! used up, bodies wait; the connection is not read meanwhile, so the server waits too. Were all bodies half read
//! and all waiting, nothing would ever be given back; therefore one body at a time may overdraw: it goes on
//! without waiting until it is whole. So the memory is bounded by the budget plus one body of the largest size
//! allowed, and there is always one that can finish.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// The budget; cloned, it is the same one.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: u64,
    used: AtomicU64,
    overdrawn: AtomicBool,
    released: Notify,
}

/// Bytes set aside from a [`MemoryBudget`]; dropping it gives them back.
#[derive(Debug, Default)]
pub struct Reservation {
    shared: Option<Arc<Shared>>,
    bytes: u64,
    overdraws: bool,
}

impl MemoryBudget {
    pub fn new(limit: u64) -> Self {
        let shared =
            Shared { limit, used: AtomicU64::new(0), overdrawn: AtomicBool::new(false), released: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// An empty reservation, to be grown.
    pub fn reservation(&self) -> Reservation {
        Reservation { shared: Some(self.shared.clone()), bytes: 0, overdraws: false }
    }

    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }
}

impl Reservation {
    /// Sets aside `bytes` more if there is room now.
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        let Some(shared) = &self.shared else { return true };
        if !self.overdraws {
            let granted = shared
                .used
                .try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                    (used + bytes <= shared.limit).then_some(used + bytes)
                })
                .is_ok();
            if granted {
                self.bytes += bytes;
                return true;
            }
            if shared.overdrawn.swap(true, Ordering::Acquire) {
                return false;
            }
            self.overdraws = true;
        }
        shared.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        true
    }

    /// Sets aside `bytes` more, waiting until there is room. Cancel safe: nothing is set aside until it returns.
    pub async fn grow(&mut self, bytes: u64) {
        let Some(shared) = self.shared.clone() else { return };
        loop {
            let released = shared.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if self.try_grow(bytes) {
                return;
            }
            released.await;
        }
    }

    /// The body is whole: it needs no more, so the next one may overdraw. Its bytes stay set aside.
    pub fn settle(&mut self) {
        if let (true, Some(shared)) = (std::mem::take(&mut self.overdraws), &self.shared) {
            shared.overdrawn.store(false, Ordering::Release);
            shared.released.notify_waiters();
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back what is set aside beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let excess = self.bytes.saturating_sub(bytes);
        if let (Some(shared), true) = (&self.shared, excess > 0) {
            self.bytes -= excess;
            shared.used.fetch_sub(excess, Ordering::Relaxed);
            shared.released.notify_waiters();
        }
    }

    /// Takes over the bytes of `other`.
    pub fn absorb(&mut self, mut other: Reservation) {
        other.settle();
        if self.shared.is_none() {
            self.shared.clone_from(&other.shared);
        }
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.settle();
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_kept_and_given_back() {
        let budget = MemoryBudget::new(100);
        let mut first = budget.reservation();
        assert!(first.try_grow(100));
        drop(first);
        assert_eq!(0, budget.used());
    }

    #[test]
    fn one_body_at_a_time_may_overdraw() {
        let budget = MemoryBudget::new(100);
        let (mut first, mut second) = (budget.reservation(), budget.reservation());
        assert!(first.try_grow(60));
        assert!(second.try_grow(60), "the first to ask beyond the budget overdraws");
        assert!(!first.try_grow(60), "the next has to wait");

        second.settle();
        assert!(first.try_grow(60), "a whole body lets the next overdraw");
        assert_eq!(180, budget.used());
    }

    #[tokio::test]
    async fn a_waiting_body_goes_on_when_another_is_written() {
        let budget = MemoryBudget::new(10);
        let (mut first, mut second, mut third) = (budget.reservation(), budget.reservation(), budget.reservation());
        assert!(first.try_grow(10));
        assert!(second.try_grow(5), "overdraws");
        let waiting = async {
            third.grow(5).await;
            third.bytes
        };
        let (granted, ()) = tokio::join!(waiting, async { drop(first) });
        assert_eq!(5, granted);
    }
}
