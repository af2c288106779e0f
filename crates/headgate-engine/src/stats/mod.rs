//! What a job does, in figures of constant size: counters and histograms, never a list of latencies.

pub mod bottleneck;
pub mod bound_kind;
pub mod failures;
pub mod lanes;
pub mod monitor;
pub mod progress;
pub mod report;
pub mod throttled;
pub mod usage;
pub mod worker;
