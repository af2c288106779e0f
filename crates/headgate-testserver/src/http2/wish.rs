//! What a stream asks of its connection.

use crate::faults::Step;

#[derive(Debug, Clone, Copy)]
pub(super) enum Wish {
    /// To take no more streams.
    GoAway,
    /// To end, in this way.
    End(Step),
}
