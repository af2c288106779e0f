//! Commands of a stream to its connection.

use crate::faults::FaultStep;

#[derive(Debug, Clone, Copy)]
pub(super) enum ConnectionCommand {
    /// Accept no more streams.
    GoAway,
    /// End the connection with this step.
    Close(FaultStep),
}
