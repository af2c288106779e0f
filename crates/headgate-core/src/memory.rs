//! One budget of bytes for all response bodies in memory, for all workers and all runs of an engine.
//!
//! A body reserves its bytes before it reads them, and releases them when the sink has written it. When the budget is used
//! up, bodies wait, in the order in which they came; the connection is not read meanwhile, so the server waits too. If all
//! bodies were half read and waiting, no bytes would ever be released. Therefore one body of each run at a time may
//! overdraw: it proceeds without waiting until it is complete. The next one may when the sink has written that one. So the
//! memory is bounded by the budget plus one body of the largest size allowed for each run. There is always a body that can
//! finish, and a run with a blocked sink does not block the others.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;

/// The budget as one run uses it; its clones share it.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    run: Arc<RunBudget>,
}

/// The part of the budget that all runs share.
#[derive(Debug)]
struct SharedBudget {
    limit: u64,
    /// A permit for each unreserved byte within the limit. Released permits go to the task that has waited longest.
    free: Semaphore,
}

#[derive(Debug)]
struct RunBudget {
    common: Arc<SharedBudget>,
    /// The one permit to overdraw, held until the overdrawn bytes are released.
    overdraft: Semaphore,
    /// Bytes reserved beyond the limit, all of one body.
    overdrawn: AtomicU64,
}

/// Bytes reserved from a [`MemoryBudget`]; dropping it releases them.
#[derive(Debug, Default)]
pub struct Reservation {
    run: Option<Arc<RunBudget>>,
    /// Bytes within the limit.
    bytes: u64,
    /// Bytes beyond it. If there are any, this reservation holds the permit to overdraw.
    overdrawn: u64,
    /// Whether it holds the permit to overdraw, and its body is incomplete.
    overdraws: bool,
}

impl MemoryBudget {
    pub fn new(limit: u64) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS as u64);
        Self::of(Arc::new(SharedBudget { limit, free: Semaphore::new(limit as usize) }))
    }

    /// Returns the same budget for another run.
    #[must_use]
    pub fn for_new_run(&self) -> Self {
        Self::of(self.run.common.clone())
    }

    fn of(common: Arc<SharedBudget>) -> Self {
        Self { run: Arc::new(RunBudget { common, overdraft: Semaphore::new(1), overdrawn: AtomicU64::new(0) }) }
    }

    /// Returns an empty reservation, to be grown.
    pub fn reservation(&self) -> Reservation {
        Reservation { run: Some(self.run.clone()), ..Reservation::default() }
    }

    /// Returns how much may be reserved in all without an overdraft.
    pub fn limit(&self) -> u64 {
        self.run.common.limit
    }

    /// Returns the reserved bytes: of all runs within the limit, including those that are set aside for waiting tasks, and
    /// of this run beyond it.
    pub fn used(&self) -> u64 {
        let common = &self.run.common;
        common.limit - common.free.available_permits() as u64 + self.run.overdrawn.load(Ordering::Relaxed)
    }
}

impl RunBudget {
    /// Returns the permits for `bytes` more within the limit, beside `reserved` of the same body. `None`: they exceed the
    /// limit, and must not keep other tasks waiting for them.
    fn permits(&self, reserved: u64, bytes: u64) -> Option<u32> {
        let fits = reserved.checked_add(bytes).is_some_and(|all| all <= self.common.limit);
        u32::try_from(bytes).ok().filter(|_| fits)
    }
}

impl Reservation {
    /// Reserves `bytes` more if they are available now, and no other task waits. Returns whether it did.
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        if !self.overdraws && self.try_grow_within(bytes) {
            return true;
        }
        let Some(run) = &self.run else { return true };
        if !self.overdraws {
            // An overdrawn reservation holds the permit until it is released.
            if self.overdrawn == 0 {
                let Ok(permit) = run.overdraft.try_acquire() else { return false };
                permit.forget();
            }
            self.overdraws = true;
        }
        run.overdrawn.fetch_add(bytes, Ordering::Relaxed);
        self.overdrawn += bytes;
        true
    }

    /// Reserves `bytes` more if they are available now within the limit, and no other task waits. Returns whether it did.
    pub fn try_grow_within(&mut self, bytes: u64) -> bool {
        let Some(run) = &self.run else { return true };
        let within = run.permits(self.bytes, bytes).map(|permits| run.common.free.try_acquire_many(permits));
        let Some(Ok(permits)) = within else { return false };
        permits.forget();
        self.bytes += bytes;
        true
    }

    /// Returns whether half of the limit would be left after a reservation of `bytes` more.
    pub fn leaves_half(&self, bytes: u64) -> bool {
        self.leaves(bytes, |limit| limit / 2)
    }

    /// Returns whether three quarters of the limit would be left after a reservation of `bytes` more.
    pub fn leaves_three_quarters(&self, bytes: u64) -> bool {
        self.leaves(bytes, |limit| limit - limit / 4)
    }

    /// Returns whether other tasks may wait for this reservation: little is left, or it exceeds the limit.
    pub fn is_short(&self) -> bool {
        self.is_overdrawn() || (self.bytes > 0 && !self.leaves(0, |limit| limit / 4))
    }

    fn leaves(&self, bytes: u64, part: impl FnOnce(u64) -> u64) -> bool {
        let Some(run) = &self.run else { return true };
        run.common.free.available_permits() as u64 >= bytes.saturating_add(part(run.common.limit))
    }

    /// Reserves `bytes` more, waiting until they are available. Cancel safe: nothing is reserved until it returns.
    pub async fn grow(&mut self, bytes: u64) {
        if self.try_grow(bytes) {
            return;
        }
        let Some(run) = self.run.clone() else { return };
        let within = async {
            match run.permits(self.bytes, bytes) {
                Some(permits) => run.common.free.acquire_many(permits).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            Ok(permits) = within => {
                permits.forget();
                self.bytes += bytes;
            }
            Ok(permit) = run.overdraft.acquire() => {
                permit.forget();
                self.overdraws = true;
                run.overdrawn.fetch_add(bytes, Ordering::Relaxed);
                self.overdrawn += bytes;
            }
            // Neither semaphore is ever closed.
            else => {}
        }
    }

    /// Reserves `bytes` more within the limit, waiting until they are available: for what may stay long and must not hold
    /// the permit to overdraw. Returns whether they can ever be available. Cancel safe.
    pub async fn grow_within(&mut self, bytes: u64) -> bool {
        if self.try_grow_within(bytes) {
            return true;
        }
        let Some(run) = self.run.clone() else { return true };
        let Some(permits) = run.permits(self.bytes, bytes) else { return false };
        let Ok(permits) = run.common.free.acquire_many(permits).await else { return false };
        permits.forget();
        self.bytes += bytes;
        true
    }

    /// Marks the body as complete: it needs no more bytes. Its bytes stay reserved.
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.overdraws) && self.overdrawn == 0 {
            self.end_overdraft();
        }
    }

    /// Releases the permit to overdraw, for a small body that may stay for as long as its caller wants, so that another
    /// body can overdraw.
    pub fn end_overdrawing(&mut self) {
        self.settle();
        self.shrink_to(self.bytes);
    }

    /// Returns how much may be reserved in all without an overdraft.
    pub fn limit(&self) -> u64 {
        self.run.as_ref().map_or(u64::MAX, |run| run.common.limit)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes + self.overdrawn
    }

    /// Returns whether part of this reservation exceeds the limit: other tasks wait for its release, or soon will.
    pub fn is_overdrawn(&self) -> bool {
        self.overdrawn > 0
    }

    /// Releases what is reserved beyond `bytes`, first what is beyond the limit.
    pub fn shrink_to(&mut self, bytes: u64) {
        let excess = self.bytes().saturating_sub(bytes);
        let Some(run) = self.run.as_ref().filter(|_| excess > 0) else { return };
        let overdrawn = excess.min(self.overdrawn);
        let within = excess - overdrawn;
        self.bytes -= within;
        if within > 0 {
            run.common.free.add_permits(within as usize);
        }
        if overdrawn > 0 {
            run.overdrawn.fetch_sub(overdrawn, Ordering::Relaxed);
            self.overdrawn -= overdrawn;
            if self.overdrawn == 0 && !self.overdraws {
                self.end_overdraft();
            }
        }
    }

    /// Returns the permit to overdraw, so that another body of the run may.
    fn end_overdraft(&self) {
        if let Some(run) = &self.run {
            run.overdraft.add_permits(1);
        }
    }

    /// Moves `bytes` to another reservation of the same run, or as many as this one has within the limit. This bypasses the
    /// budget, so that no other task can reserve them in between.
    pub fn transfer(&mut self, to: &mut Reservation, bytes: u64) {
        let moved = bytes.min(self.bytes);
        if to.run.is_none() {
            to.run.clone_from(&self.run);
        }
        self.bytes -= moved;
        to.bytes += moved;
    }

    /// Absorbs the bytes of `other`, of the same run. An empty reservation becomes one of that run.
    pub fn absorb(&mut self, mut other: Reservation) {
        other.settle();
        if self.bytes() == 0 && other.run.is_some() {
            self.settle();
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
mod tests;
