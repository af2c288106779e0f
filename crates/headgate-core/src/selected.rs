//! The values that were selected from a response, for columns of their own.

use crate::error::Failure;

/// The value of a selected column.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectedValue {
    Null,
    /// Also JSON, as it was written.
    Text(Box<str>),
    Int64(i64),
    Float64(f64),
    Bool(bool),
    /// Microseconds since 1970, in UTC.
    Timestamp(i64),
}

/// The values that were selected from one response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selected {
    /// The value of each selected column, in their order.
    pub values: Vec<SelectedValue>,
    /// Why the row fails: a required column has no value.
    pub failure: Option<Failure>,
}

impl Selected {
    /// Returns about how much memory it needs.
    pub fn bytes(&self) -> usize {
        let text = |value: &SelectedValue| if let SelectedValue::Text(text) = value { text.len() } else { 0 };
        self.values.iter().map(|value| size_of::<SelectedValue>() + text(value)).sum()
    }
}
