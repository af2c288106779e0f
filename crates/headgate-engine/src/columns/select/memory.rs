//! Memory for selected values: how much they may use, and its reservation. If there is not enough memory now, the required
//! amount is counted, so that a lane can wait for it and then select once more.

use super::absent::Absent;

/// The memory of the values of one response.
pub struct ValueMemory<'m> {
    /// The bytes that the values may still use.
    left: usize,
    /// The bytes that are reserved for them.
    in_hand: usize,
    /// Reserves more bytes, if they are available now.
    set_aside: &'m mut dyn FnMut(usize) -> bool,
    used: usize,
    is_short: bool,
}

/// There was not enough memory for the values, which need this many bytes in all.
#[derive(Debug, PartialEq, Eq)]
pub struct Short(pub usize);

impl<'m> ValueMemory<'m> {
    pub fn new(in_hand: usize, set_aside: &'m mut dyn FnMut(usize) -> bool) -> Self {
        Self { left: 0, in_hand, set_aside, used: 0, is_short: false }
    }

    pub(super) fn up_to(mut self, max: usize) -> Self {
        self.left = max;
        self
    }

    /// Reserves the memory of a value.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), Absent> {
        self.left = self.left.checked_sub(bytes).ok_or(Absent::TooLarge("the selected values are too long"))?;
        self.used += bytes;
        let lacking = self.used.saturating_sub(self.in_hand);
        if lacking > 0 && !self.is_short {
            self.is_short = !(self.set_aside)(lacking);
            self.in_hand += if self.is_short { 0 } else { lacking };
        }
        if self.is_short { Err(Absent::TooLarge("there is no memory for it")) } else { Ok(()) }
    }

    /// Returns how much memory the values need, if it was short.
    pub(super) fn finish(&self) -> Result<(), Short> {
        if self.is_short { Err(Short(self.used)) } else { Ok(()) }
    }
}
