//! The state of one quota.

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Quota {
    pub is_used_up: Option<bool>,
    pub reset_ms: Option<u64>,
}

impl Quota {
    /// Returns how long to wait for it, if at all; `is_refused`: the request was refused, for this or another reason.
    pub(super) fn wait_ms(self, is_refused: bool) -> Option<u64> {
        self.reset_ms.filter(|_| self.is_used_up.unwrap_or(is_refused))
    }
}
