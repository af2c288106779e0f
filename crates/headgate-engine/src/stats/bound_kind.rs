//! What can hold a job back, in one word.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundKind {
    Concurrency,
    Machine,
    Input,
    /// No row is read, because one read long before has not ended.
    Window,
    Output,
    /// Undoing content codings.
    Decoding,
    Memory,
    /// Looking up names.
    Names,
    /// Making connections.
    Connecting,
    /// Room on connections that speak HTTP/2.
    Streams,
    /// Reading files that are sent.
    Files,
    /// The rate of the run.
    Rate,
    /// The limit on costs.
    Cost,
    HostRate,
    HostConcurrency,
    /// A host asked to be left alone.
    Pause,
    /// A host refuses everything.
    Refusing,
    /// No host can be reached.
    Network,
    /// Rows wait for their next attempt.
    Retries,
    /// The user has paused the job.
    Paused,
    /// Most rows fail: to be faster would not help.
    Failures,
    /// Too little happened to tell.
    Nothing,
}
