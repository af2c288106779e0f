//! The kinds of bottlenecks.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BottleneckKind {
    Concurrency,
    Machine,
    Input,
    /// No row is read, because one that was read long before is unfinished.
    ReadAhead,
    Output,
    /// Undoing content encodings.
    Decoding,
    Memory,
    /// Looking up hostnames.
    Dns,
    /// Making connections.
    Connecting,
    /// Streams of HTTP/2 connections.
    Streams,
    /// Reading files that are sent.
    Files,
    /// The rate limiter of the run.
    Rate,
    /// The limit on costs.
    Cost,
    /// A budget, more of which must be reserved first.
    Budget,
    /// The rate limiter of a host.
    HostRate,
    /// The concurrency limit of a host.
    HostConcurrency,
    /// A host requested a pause.
    Pause,
    /// The circuit breaker of a host is open: the host does not respond, or is overloaded.
    CircuitBreaker,
    /// No host can be reached.
    Network,
    /// Requests wait for new credentials.
    Credentials,
    /// Rows wait for their next attempt.
    Retries,
    /// The user has paused the job.
    Paused,
    /// Most rows fail: a higher throughput would not help.
    Failures,
    /// Too little has happened to decide.
    Nothing,
}
