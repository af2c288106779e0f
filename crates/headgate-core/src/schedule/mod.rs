//! Decides which row starts next, and what follows a finished attempt.
//!
//! Pure: nothing here waits or reads a clock. The caller reports what has happened (rows came, an attempt ended, the run
//! was stopped) and requests a [`Decision`](decision::Decision) for a time that is passed in. So each rule is tested on a
//! table of times, and all of them together against a model and an oracle. A new reason to throttle rows becomes a file
//! beside these, and a [`ThrottledBy`](throttled::ThrottledBy).

pub(crate) mod adaptive;
mod addresses;
mod breaker;
pub mod budget;
pub mod decision;
pub mod failure_limit;
mod host_queue;
pub mod host_queues;
pub mod hosts;
pub(crate) mod look_ahead;
pub mod network;
pub(crate) mod rate_limiter;
pub mod requested_pause;
pub mod retry;
mod retry_budget;
pub mod rows_to_cancel;
pub mod scheduler;
pub mod slots;
pub mod throttled;
