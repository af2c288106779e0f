//! The memory bound of selected values, and its reservation. If there is not enough memory now, the required amount is
//! counted, so that a lane can wait for it and then select once more.

use headgate_core::selected::Short;

use super::absent::Absent;

/// The memory of the values of one response.
pub(super) struct ValueMemory<'m> {
    /// The bytes that the values may still use.
    remaining: usize,
    /// The bytes that are reserved for them.
    reserved: usize,
    /// Reserves more bytes, if they are available now.
    reserve_more: &'m mut dyn FnMut(usize) -> bool,
    used: usize,
    is_short: bool,
}

impl<'m> ValueMemory<'m> {
    pub(super) fn new(max: usize, reserved: usize, reserve_more: &'m mut dyn FnMut(usize) -> bool) -> Self {
        Self { remaining: max, reserved, reserve_more, used: 0, is_short: false }
    }

    /// Reserves the memory of a value.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), Absent> {
        self.remaining =
            self.remaining.checked_sub(bytes).ok_or(Absent::TooLarge("the extracted values are too long"))?;
        self.used += bytes;
        let lacking = self.used.saturating_sub(self.reserved);
        if lacking > 0 && !self.is_short {
            self.is_short = !(self.reserve_more)(lacking);
            self.reserved += if self.is_short { 0 } else { lacking };
        }
        if self.is_short { Err(Absent::TooLarge("there is no memory for it")) } else { Ok(()) }
    }

    /// Returns how much memory the values need, if it was short.
    pub(super) fn finish(&self) -> Result<(), Short> {
        if self.is_short { Err(Short(self.used)) } else { Ok(()) }
    }
}
