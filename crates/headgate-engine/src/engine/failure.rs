//! The failure that ends a run: the first one that a thread of the run reports.

use std::sync::{Arc, Mutex, PoisonError};

use headgate_core::error::JobError;

/// The first reason counts; later ones follow from it.
#[derive(Debug, Default)]
pub(crate) struct FirstFailure {
    error: Mutex<Option<JobError>>,
}

impl FirstFailure {
    pub(crate) fn set(&self, error: JobError) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub(crate) fn get(&self) -> Option<JobError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a guard for the calling thread, which reports a panic of the thread as the run's failure.
    pub(crate) fn on_panic(self: &Arc<Self>, part: &'static str) -> PanicGuard {
        PanicGuard { failure: self.clone(), part }
    }
}

/// See [`FirstFailure::on_panic`].
#[derive(Debug)]
pub(crate) struct PanicGuard {
    failure: Arc<FirstFailure>,
    part: &'static str,
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = format!("the {} panicked: this is a fault of headgate, please report it", self.part);
            self.failure.set(JobError::internal(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_and_the_first_failure_counts() {
        let failure = Arc::<FirstFailure>::default();
        let guarded = failure.clone();
        let thread = std::thread::spawn(move || {
            let _guard = guarded.on_panic("source");
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        failure.set(JobError::output("later"));
        let message = "the source panicked: this is a fault of headgate, please report it";
        assert_eq!(Some(JobError::internal(message)), failure.get());
    }
}
