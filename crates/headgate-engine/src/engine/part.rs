//! A worker's part of what a run has in flight.

/// One of so many equal parts, but for what can't be divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) index: usize,
    pub(super) count: usize,
}

impl Part {
    /// The parts add up to the whole exactly.
    pub(super) fn of(self, whole: usize) -> usize {
        whole / self.count + usize::from(self.index < whole % self.count)
    }
}
