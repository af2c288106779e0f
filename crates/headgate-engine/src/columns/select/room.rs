//! Memory for selected values: how much they may have, and where it comes from. What there is no memory for now is counted, so that
//! a lane that has waited for as much of it can take them anew.

use super::absent::Absent;

/// Of the values of one answer.
pub struct Room<'m> {
    /// They are no longer than this together.
    left: usize,
    /// Set aside for them.
    in_hand: usize,
    /// Sets aside so many bytes more, if they are to be had now.
    set_aside: &'m mut dyn FnMut(usize) -> bool,
    used: usize,
    is_short: bool,
}

/// There was no memory for the values, which need so many bytes in all.
#[derive(Debug, PartialEq, Eq)]
pub struct Short(pub usize);

impl<'m> Room<'m> {
    pub fn new(in_hand: usize, set_aside: &'m mut dyn FnMut(usize) -> bool) -> Self {
        Self { left: 0, in_hand, set_aside, used: 0, is_short: false }
    }

    pub(super) fn of(mut self, most: usize) -> Self {
        self.left = most;
        self
    }

    /// Takes the memory of a value.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Absent> {
        self.left = self.left.checked_sub(bytes).ok_or(Absent::TooLarge("the selected values are too long"))?;
        self.used += bytes;
        let lacking = self.used.saturating_sub(self.in_hand);
        if lacking > 0 && !self.is_short {
            self.is_short = !(self.set_aside)(lacking);
            self.in_hand += if self.is_short { 0 } else { lacking };
        }
        if self.is_short { Err(Absent::TooLarge("there is no memory for it")) } else { Ok(()) }
    }

    /// How much it was.
    pub(super) fn ended(&self) -> Result<(), Short> {
        if self.is_short { Err(Short(self.used)) } else { Ok(()) }
    }
}
