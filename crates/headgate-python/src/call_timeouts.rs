//! How long calls may take, by the options of clients and calls.

use std::time::Duration;

use headgate_engine::CallTimeouts;
use pyo3::prelude::*;

/// How long calls of a client may take, unless they have timeouts of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallDefaults(CallTimeouts);

/// How long one call may take, where it has timeouts of its own.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OwnCallTimeouts {
    pub total: Option<Duration>,
    pub pool: Option<Duration>,
}

impl CallDefaults {
    /// Reads them from the options of a client.
    pub(crate) fn read(options: &Bound<'_, PyAny>) -> PyResult<Self> {
        let seconds =
            |name| options.getattr(name)?.extract().map(|seconds: Option<f64>| seconds.map(Duration::from_secs_f64));
        let (total, max_pause) = (seconds("call_total_timeout")?, seconds("call_max_pause")?);
        Ok(Self(CallTimeouts {
            total: total.unwrap_or_default(),
            pool: seconds("pool_timeout")?,
            max_pause: max_pause.unwrap_or_default(),
        }))
    }

    pub(crate) fn with(self, own: OwnCallTimeouts) -> CallTimeouts {
        let Self(of_client) = self;
        CallTimeouts { total: own.total.unwrap_or(of_client.total), pool: own.pool.or(of_client.pool), ..of_client }
    }
}
