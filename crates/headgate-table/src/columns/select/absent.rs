//! The reasons why a selected column has no value.

use std::fmt;

/// The reason why a selected column has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Absent {
    /// There is no body.
    NoBody(&'static str),
    /// The body is not JSON; parsing stopped at this byte.
    NotJson(usize),
    /// A bound prevents the search.
    TooLarge(&'static str),
    NotThere,
    Null,
    /// The kind of the value, and the type that it does not fit.
    Unfit(Box<str>),
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBody(why) | Self::TooLarge(why) => f.write_str(why),
            Self::NotJson(byte) => write!(f, "the body is not JSON: byte {byte}"),
            Self::NotThere => f.write_str("there is no such value"),
            Self::Null => f.write_str("it is null"),
            Self::Unfit(what) => f.write_str(what),
        }
    }
}
