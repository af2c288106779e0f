//! One budget of bytes for all response bodies in memory, whichever worker holds them.
//!
//! A body asks for its bytes as they arrive and gives them back when the sink has written it. When the budget is
//! used up, bodies wait; the connection is not read meanwhile, so the server waits too. Were all bodies half read
//! and all waiting, nothing would ever be given back; therefore one body at a time may overdraw: it goes on
//! without waiting until it is whole. The next one may when what is set aside is within the budget again, that is, when
//! the sink has written as much as was overdrawn. So the memory is bounded by the budget plus one body of the
//! largest size allowed, and there is always one that can finish.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// In [`Shared::used`]: a body overdraws. Beside the number, so that both are decided on at once.
const OVERDRAWN: u64 = 1 << 63;

/// The budget; cloned, it is the same one.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: u64,
    /// Bytes set aside, and [`OVERDRAWN`].
    used: AtomicU64,
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
        Self { shared: Arc::new(Shared { limit, used: AtomicU64::new(0), released: Notify::new() }) }
    }

    /// An empty reservation, to be grown.
    pub fn reservation(&self) -> Reservation {
        Reservation { shared: Some(self.shared.clone()), bytes: 0, overdraws: false }
    }

    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed) & !OVERDRAWN
    }
}

impl Shared {
    /// What `used` becomes when `bytes` more are set aside, if they may be.
    fn grown(&self, used: u64, bytes: u64) -> Option<u64> {
        let is_overdrawn = used & OVERDRAWN != 0;
        let used_bytes = used & !OVERDRAWN;
        if used_bytes.saturating_add(bytes) <= self.limit {
            Some(used + bytes)
        } else if !is_overdrawn && used_bytes <= self.limit {
            Some((used + bytes) | OVERDRAWN)
        } else {
            None
        }
    }
}

impl Reservation {
    /// Sets aside `bytes` more if there is room now.
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        let Some(shared) = &self.shared else { return true };
        if self.overdraws {
            shared.used.fetch_add(bytes, Ordering::Relaxed);
        } else {
            let grow = |used| shared.grown(used, bytes);
            let Ok(before) = shared.used.try_update(Ordering::Relaxed, Ordering::Relaxed, grow) else { return false };
            self.overdraws = (before & !OVERDRAWN).saturating_add(bytes) > shared.limit;
        }
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

    /// The body is whole: it needs no more. Its bytes stay set aside.
    pub fn settle(&mut self) {
        if let (true, Some(shared)) = (std::mem::take(&mut self.overdraws), &self.shared) {
            shared.used.fetch_and(!OVERDRAWN, Ordering::Relaxed);
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
    use proptest::prelude::*;

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
        assert!(!first.try_grow(60), "a whole body is in memory all the same");
        assert_eq!(120, budget.used());

        drop(second);
        assert!(first.try_grow(60), "a body that is written lets the next overdraw");
        assert_eq!(120, budget.used());
    }

    #[tokio::test]
    async fn a_waiting_body_goes_on_when_another_is_written() {
        let budget = MemoryBudget::new(10);
        let (mut first, mut second, mut third) = (budget.reservation(), budget.reservation(), budget.reservation());
        assert!(first.try_grow(10));
        assert!(second.try_grow(5), "overdraws");
        second.settle();
        let waiting = async {
            third.grow(5).await;
            third.bytes
        };
        let (granted, ()) = tokio::join!(waiting, async { drop((first, second)) });
        assert_eq!(5, granted);
    }

    const BODIES: usize = 6;
    const LIMIT: u64 = 100;
    const MAX_BODY_BYTES: u64 = 40;

    proptest! {
        #[test]
        fn what_is_set_aside_never_exceeds_the_budget_by_more_than_a_body(
            steps in proptest::collection::vec((0..BODIES, 1_u64..30, 0..4), 0..200),
        ) {
            let budget = MemoryBudget::new(LIMIT);
            let mut bodies: Vec<Reservation> = (0..BODIES).map(|_| budget.reservation()).collect();
            let mut whole = [false; BODIES];
            for (at, bytes, step) in steps {
                if step == 0 {
                    bodies[at] = budget.reservation();
                    whole[at] = false;
                } else if whole[at] || bodies[at].bytes() + bytes > MAX_BODY_BYTES {
                    bodies[at].settle();
                    whole[at] = true;
                } else {
                    bodies[at].try_grow(bytes);
                }
                prop_assert_eq!(bodies.iter().map(Reservation::bytes).sum::<u64>(), budget.used());
                prop_assert!(budget.used() <= LIMIT + MAX_BODY_BYTES, "{}", budget.used());
            }
            // However the budget is used up: when the sink has written the whole ones, some body can finish.
            for (at, body) in bodies.iter_mut().enumerate().filter(|(at, _)| whole[*at]) {
                prop_assert!(!body.overdraws, "{at}");
                *body = budget.reservation();
            }
            prop_assert!(bodies.iter_mut().any(|body| body.try_grow(MAX_BODY_BYTES)));
            drop(bodies);
            prop_assert_eq!(0, budget.used());
        }
    }
}
