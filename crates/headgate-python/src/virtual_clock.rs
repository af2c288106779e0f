//! `VirtualClock`: a clock for tests, on which waiting takes no real time. `Working` holds it up.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use headgate_core::{clock, virtual_clock};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// The longest time that passes at once: a leap year.
const MAX_ADVANCE: Duration = Duration::from_secs(366 * 86_400);

/// Measures the time since it was created, on the clock of all engines; from `begin` to `end` that clock is virtual.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct VirtualClock {
    since: Instant,
    clock: Mutex<Option<virtual_clock::VirtualClock>>,
}

/// Work of which an engine knows nothing, such as a function that computes a response: a virtual clock does not jump
/// before its end.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct Working(Mutex<virtual_clock::Working>);

#[pymethods]
impl Working {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(virtual_clock::Working::begin()))
    }

    /// Ends the work.
    fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = virtual_clock::Working::default();
    }
}

#[pymethods]
impl VirtualClock {
    #[new]
    fn new() -> Self {
        Self { since: clock::now(), clock: Mutex::default() }
    }

    /// Makes the clock virtual.
    fn begin(&self) -> PyResult<()> {
        let begun = virtual_clock::VirtualClock::begin();
        let begun = begun.map_err(|error| PyOSError::new_err(format!("a thread can't be started: {error}")))?;
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
        Ok(())
    }

    /// Ends what `begin` has begun. The time does not go back.
    fn end(&self) {
        drop(self.clock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Lets this time pass at once, which is a year at the most. Does nothing if the clock is not virtual.
    fn advance(&self, seconds: f64) -> PyResult<()> {
        let time = Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
        if time > MAX_ADVANCE {
            return Err(PyValueError::new_err("seconds must be a year (31622400) at the most"));
        }
        if let Some(clock) = &*self.clock.lock().unwrap_or_else(PoisonError::into_inner) {
            clock.advance(time);
        }
        Ok(())
    }

    /// Returns the seconds since it was created.
    #[getter]
    fn elapsed_s(&self) -> f64 {
        clock::elapsed(self.since).as_secs_f64()
    }
}
