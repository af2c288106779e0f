//! A server that can do so much at once and no more. What comes beyond that waits in line, so that all of it together is
//! never faster; or it is refused.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for requests; the first to come has the first that is free.
#[derive(Debug)]
pub(crate) struct Capacity {
    places: Arc<Semaphore>,
    size: Mutex<Size>,
}

#[derive(Debug)]
struct Size {
    wanted: usize,
    /// Places that were taken when there came to be fewer: they end with what they are taken by.
    too_many: usize,
}

impl Capacity {
    pub fn new(size: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(size)), size: Mutex::new(Size { wanted: size, too_many: 0 }) }
    }

    /// Changes the number of places. Those that are taken stay so.
    pub fn resize(&self, wanted: usize) {
        let mut size = self.size();
        if let Some(more) = wanted.checked_sub(size.wanted) {
            let kept = size.too_many.min(more);
            size.too_many -= kept;
            self.places.add_permits(more - kept);
        } else {
            let fewer = size.wanted - wanted;
            size.too_many += fewer - self.places.forget_permits(fewer);
        }
        size.wanted = wanted;
    }

    /// Waits for its turn.
    pub async fn wait_for_place(self: &Arc<Self>) -> io::Result<Place> {
        let permit = self.places.clone().acquire_owned().await.map_err(io::Error::other)?;
        Ok(Place { capacity: self.clone(), permit: Some(permit) })
    }

    pub fn try_place(self: &Arc<Self>) -> Option<Place> {
        let permit = self.places.clone().try_acquire_owned().ok()?;
        Some(Place { capacity: self.clone(), permit: Some(permit) })
    }

    fn size(&self) -> MutexGuard<'_, Size> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the places, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Place {
    capacity: Arc<Capacity>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut size = self.capacity.size();
        if size.too_many > 0 {
            size.too_many -= 1;
            if let Some(permit) = self.permit.take() {
                permit.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(capacity: &Arc<Capacity>) -> Vec<Place> {
        std::iter::from_fn(|| capacity.try_place()).collect()
    }

    #[test]
    fn there_are_as_many_places_as_were_asked_for_last() {
        let capacity = Arc::new(Capacity::new(3));
        for size in [3, 5, 1, 4] {
            capacity.resize(size);
            assert_eq!(size, take_all(&capacity).len());
        }
    }

    #[test]
    fn places_that_are_too_many_end_with_those_who_have_them() {
        let capacity = Arc::new(Capacity::new(5));
        let mut taken = take_all(&capacity);
        capacity.resize(2);
        taken.truncate(3);
        assert!(capacity.try_place().is_none());
        taken.truncate(1);
        assert_eq!(1, take_all(&capacity).len());
    }

    #[test]
    fn places_that_come_back_before_they_have_ended_are_not_counted_twice() {
        let capacity = Arc::new(Capacity::new(5));
        let taken = take_all(&capacity);
        capacity.resize(2);
        capacity.resize(6);
        assert_eq!(1, take_all(&capacity).len());
        drop(taken);
        assert_eq!(6, take_all(&capacity).len());
    }
}
