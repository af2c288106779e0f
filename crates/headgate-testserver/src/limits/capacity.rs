//! A bound of requests in progress. Further requests wait in the order of their arrival, or are refused.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits for requests, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct Capacity {
    permits: Arc<Semaphore>,
    size: Mutex<CapacitySize>,
}

#[derive(Debug)]
struct CapacitySize {
    wanted: usize,
    /// The number of permits beyond `wanted` that are in use: they are forgotten when they are released.
    excess: usize,
}

impl Capacity {
    pub(crate) fn new(size: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(size)), size: Mutex::new(CapacitySize { wanted: size, excess: 0 }) }
    }

    /// Changes the number of permits. Those in use stay valid.
    pub(crate) fn resize(&self, wanted: usize) {
        let mut size = self.size();
        if let Some(more) = wanted.checked_sub(size.wanted) {
            let reused = size.excess.min(more);
            size.excess -= reused;
            self.permits.add_permits(more - reused);
        } else {
            let fewer = size.wanted - wanted;
            size.excess += fewer - self.permits.forget_permits(fewer);
        }
        size.wanted = wanted;
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(self: &Arc<Self>) -> io::Result<CapacityPermit> {
        let permit = self.permits.clone().acquire_owned().await.map_err(io::Error::other)?;
        Ok(CapacityPermit { capacity: self.clone(), permit: Some(permit) })
    }

    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<CapacityPermit> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        Some(CapacityPermit { capacity: self.clone(), permit: Some(permit) })
    }

    fn size(&self) -> MutexGuard<'_, CapacitySize> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A permit for one request, until it is dropped.
#[derive(Debug)]
pub(crate) struct CapacityPermit {
    capacity: Arc<Capacity>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for CapacityPermit {
    fn drop(&mut self) {
        let mut size = self.capacity.size();
        if size.excess > 0 {
            size.excess -= 1;
            if let Some(permit) = self.permit.take() {
                permit.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(capacity: &Arc<Capacity>) -> Vec<CapacityPermit> {
        std::iter::from_fn(|| capacity.try_acquire()).collect()
    }

    #[test]
    fn there_are_as_many_permits_as_were_configured_last() {
        let capacity = Arc::new(Capacity::new(3));
        for size in [3, 5, 1, 4] {
            capacity.resize(size);
            assert_eq!(size, take_all(&capacity).len());
        }
    }

    #[test]
    fn excess_permits_are_forgotten_when_they_are_released() {
        let capacity = Arc::new(Capacity::new(5));
        let mut taken = take_all(&capacity);
        capacity.resize(2);
        taken.truncate(3);
        assert!(capacity.try_acquire().is_none());
        taken.truncate(1);
        assert_eq!(1, take_all(&capacity).len());
    }

    #[test]
    fn excess_permits_that_become_valid_again_are_not_counted_twice() {
        let capacity = Arc::new(Capacity::new(5));
        let taken = take_all(&capacity);
        capacity.resize(2);
        capacity.resize(6);
        assert_eq!(1, take_all(&capacity).len());
        drop(taken);
        assert_eq!(6, take_all(&capacity).len());
    }
}
