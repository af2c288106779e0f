//! One budget of bytes for all response bodies in memory, whichever worker holds them, and whichever run of an engine.
//!
//! A body asks for its bytes as they arrive and gives them back when the sink has written it. When the budget is
//! used up, bodies wait; the connection is not read meanwhile, so the server waits too. Were all bodies half read
//! and all waiting, nothing would ever be given back; therefore one body of each run at a time may overdraw: it goes on
//! without waiting until it is whole. The next one may when the sink has written that one. So the memory is bounded by the
//! budget plus one body of the largest size allowed for each run; there is always one that can finish, and a run whose sink
//! stands still leaves the others alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// In [`Run::overdrawn`]: a body still overdraws. Beside the number, so that both are decided on at once.
const GOES_ON: u64 = 1 << 63;

/// The budget as one run draws on it; cloned, it is the same one.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    run: Arc<Run>,
}

/// What all runs have in common.
#[derive(Debug)]
struct Common {
    limit: u64,
    /// Bytes set aside: never more than the limit.
    used: AtomicU64,
    released: Notify,
}

#[derive(Debug)]
struct Run {
    common: Arc<Common>,
    /// Bytes set aside beyond the limit, all of one body, and [`GOES_ON`].
    overdrawn: AtomicU64,
}

/// Bytes set aside from a [`MemoryBudget`]; dropping it gives them back.
#[derive(Debug, Default)]
pub struct Reservation {
    run: Option<Arc<Run>>,
    /// Within the limit.
    bytes: u64,
    /// Beyond it.
    overdrawn: u64,
    overdraws: bool,
}

impl MemoryBudget {
    pub fn new(limit: u64) -> Self {
        Self::of(Arc::new(Common { limit, used: AtomicU64::new(0), released: Notify::new() }))
    }

    /// The same budget for another run.
    #[must_use]
    pub fn for_another_run(&self) -> Self {
        Self::of(self.run.common.clone())
    }

    fn of(common: Arc<Common>) -> Self {
        Self { run: Arc::new(Run { common, overdrawn: AtomicU64::new(0) }) }
    }

    /// An empty reservation, to be grown.
    pub fn reservation(&self) -> Reservation {
        Reservation { run: Some(self.run.clone()), ..Reservation::default() }
    }

    /// What is set aside: by all runs within the limit, and by this one beyond it.
    pub fn used(&self) -> u64 {
        let overdrawn = self.run.overdrawn.load(Ordering::Relaxed) & !GOES_ON;
        self.run.common.used.load(Ordering::Relaxed) + overdrawn
    }
}

impl Run {
    fn take(&self, bytes: u64) -> bool {
        let room = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.common.limit);
        self.common.used.try_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
    }

    fn give_back(&self, bytes: u64, overdrawn: u64) {
        self.common.used.fetch_sub(bytes, Ordering::Relaxed);
        self.overdrawn.fetch_sub(overdrawn, Ordering::Relaxed);
        self.common.released.notify_waiters();
    }
}

impl Reservation {
    /// Sets aside `bytes` more if there is room now.
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        let Some(run) = &self.run else { return true };
        if self.overdraws {
            run.overdrawn.fetch_add(bytes, Ordering::Relaxed);
            self.overdrawn += bytes;
        } else if run.take(bytes) {
            self.bytes += bytes;
        } else {
            let begun = run.overdrawn.compare_exchange(0, bytes | GOES_ON, Ordering::Relaxed, Ordering::Relaxed);
            self.overdraws = begun.is_ok();
            self.overdrawn += if self.overdraws { bytes } else { 0 };
            return self.overdraws;
        }
        true
    }

    /// Sets aside `bytes` more, waiting until there is room. Cancel safe: nothing is set aside until it returns.
    pub async fn grow(&mut self, bytes: u64) {
        let Some(run) = self.run.clone() else { return };
        loop {
            let released = run.common.released.notified();
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
        if let (true, Some(run)) = (std::mem::take(&mut self.overdraws), &self.run) {
            run.overdrawn.fetch_and(!GOES_ON, Ordering::Relaxed);
            run.common.released.notify_waiters();
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes + self.overdrawn
    }

    /// Gives back what is set aside beyond `bytes`, first what is beyond the limit.
    pub fn shrink_to(&mut self, bytes: u64) {
        let excess = self.bytes().saturating_sub(bytes);
        if let (Some(run), true) = (&self.run, excess > 0) {
            let overdrawn = excess.min(self.overdrawn);
            self.overdrawn -= overdrawn;
            self.bytes -= excess - overdrawn;
            run.give_back(excess - overdrawn, overdrawn);
        }
    }

    /// Takes over the bytes of `other`, of the same run.
    pub fn absorb(&mut self, mut other: Reservation) {
        other.settle();
        if self.run.is_none() {
            self.run.clone_from(&other.run);
        }
        self.bytes += std::mem::take(&mut other.bytes);
        self.overdrawn += std::mem::take(&mut other.overdrawn);
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

    #[test]
    fn a_run_whose_bodies_stay_leaves_another_one_body_at_a_time() {
        let budget = MemoryBudget::new(100);
        let other = budget.for_another_run();
        let (mut first, mut second) = (budget.reservation(), budget.reservation());
        assert!(first.try_grow(100) && second.try_grow(50), "the second overdraws");
        second.settle();
        for _ in 0..3 {
            let (mut body, mut next) = (other.reservation(), other.reservation());
            assert!(body.try_grow(30) && body.try_grow(30));
            assert!(!next.try_grow(1), "one at a time");
            body.settle();
            assert!(!next.try_grow(1), "until it is written");
        }
        drop(first);
        let (mut body, mut next) = (other.reservation(), other.reservation());
        assert!(body.try_grow(60) && next.try_grow(40), "within the limit there is room for all");
        assert_eq!((150, 100), (budget.used(), other.used()));
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
            third.bytes()
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
