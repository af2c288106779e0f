//! Limits, beyond which the server delays or refuses requests, as commercial APIs do.
//!
//! All limits apply to all threads and connections together. A request counts from its headers until just before the end of its
//! response, as in [`crate::statistics`]. So a client that keeps a limit is never refused for it.

pub(crate) mod api;
mod bearer;
mod bucket;
pub(crate) mod capacity;
mod keys;
