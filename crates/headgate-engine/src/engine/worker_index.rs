//! Which part of a run is a worker's.

/// The number of a worker among all workers of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerIndex {
    pub(super) index: usize,
    pub(super) count: usize,
}

impl WorkerIndex {
    /// Returns this worker's portion of what all workers have: equal portions, but for what can't be divided. They add up to the
    /// whole exactly.
    pub(super) fn portion_of(self, whole: usize) -> usize {
        whole / self.count + usize::from(self.index < whole % self.count)
    }
}
