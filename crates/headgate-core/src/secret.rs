//! A value that is never shown: `Debug`, and so logs and messages, have `***` instead.

use std::fmt;

/// The replacement for a value that is omitted.
pub const MASK: &str = "***";

/// A value that is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Returns the value, to be sent.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret<String> {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

impl From<&str> for Secret<Vec<u8>> {
    fn from(value: &str) -> Self {
        Self(value.into())
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}
