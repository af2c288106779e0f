//! What was taken from an answer, for columns of its own.

use crate::model::error::Failure;

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

/// What was taken from one answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selected {
    /// Of each selected column, in their order.
    pub values: Vec<SelectedValue>,
    /// A column has no value that must have one.
    pub failure: Option<Failure>,
}

impl Selected {
    /// About the memory that it takes.
    pub fn bytes(&self) -> usize {
        let text = |value: &SelectedValue| if let SelectedValue::Text(text) = value { text.len() } else { 0 };
        self.values.iter().map(|value| size_of::<SelectedValue>() + text(value)).sum()
    }
}
