//! Values that are selected from a response, for columns of their own.

use std::fmt;

use crate::error::Failure;
use crate::headers::HeadersRef;

/// Selects values from responses.
pub trait SelectValues: fmt::Debug + Send + Sync {
    /// Returns the selected values of a response. `body` is decoded and complete, or says why there is no such body.
    /// `reserved` bytes of memory are reserved for the values; `reserve_more` reserves more, if they are available now.
    ///
    /// # Errors
    /// There is not enough memory now.
    fn select_from(
        &self,
        headers: HeadersRef<'_>,
        body: Result<&[u8], &'static str>,
        reserved: usize,
        reserve_more: &mut dyn FnMut(usize) -> bool,
    ) -> Result<SelectedValues, Short>;

    /// Returns whether searching a body of this size is little work.
    fn is_quick(&self, body_bytes: usize) -> bool;

    /// Returns the final cost of a row, if its response has it.
    fn cost(&self, selected: &SelectedValues) -> Option<u64>;
}

/// There was not enough memory for the values, which need this many bytes in all.
#[derive(Debug, PartialEq, Eq)]
pub struct Short(pub usize);

/// The value of a selected column.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectedValue {
    Null,
    /// Also JSON, as it was written.
    Text(Box<str>),
    Int64(i64),
    Float64(f64),
    Bool(bool),
    /// A decimal without its point; its column has the scale.
    Decimal(i128),
    /// Microseconds since 1970, in UTC.
    Timestamp(i64),
}

/// The values that were selected from one response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SelectedValues {
    /// The value of each selected column, in their order.
    pub values: Vec<SelectedValue>,
    /// Why the row fails: a required column has no value.
    pub failure: Option<Failure>,
}

impl SelectedValues {
    /// Returns about how much memory it needs.
    pub fn bytes(&self) -> usize {
        let text = |value: &SelectedValue| if let SelectedValue::Text(text) = value { text.len() } else { 0 };
        self.values.iter().map(|value| size_of::<SelectedValue>() + text(value)).sum()
    }
}
