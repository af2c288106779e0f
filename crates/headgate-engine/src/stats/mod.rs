//! What a job does, in figures of constant size: counters and histograms, never a list of latencies.

pub(crate) mod bottleneck;
pub(crate) mod bottleneck_kind;
pub(crate) mod extracted;
pub(crate) mod failures;
pub(crate) mod lanes;
pub(crate) mod monitor;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod series;
pub(crate) mod throttled;
pub(crate) mod usage;
pub(crate) mod worker;
