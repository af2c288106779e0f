//! The columns that are selected from responses.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BooleanBuilder, Decimal128Builder, Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_schema::{DataType, Fields};
use headgate_core::selected::{SelectedValue, SelectedValues};

use super::refill::Refill as _;

pub(super) struct SelectedColumns(Vec<SelectedColumn>);

enum SelectedColumn {
    Text(StringBuilder),
    Int64(Int64Builder),
    Float64(Float64Builder),
    Bool(BooleanBuilder),
    Decimal(Decimal128Builder),
    Timestamp(TimestampMicrosecondBuilder),
}

impl SelectedColumns {
    /// Creates the columns for the fields of a selection.
    pub(super) fn new(fields: &Fields) -> Self {
        let columns = fields.iter().map(|field| match field.data_type() {
            DataType::Int64 => SelectedColumn::Int64(Int64Builder::new()),
            DataType::Float64 => SelectedColumn::Float64(Float64Builder::new()),
            DataType::Boolean => SelectedColumn::Bool(BooleanBuilder::new()),
            DataType::Decimal128(..) => {
                SelectedColumn::Decimal(Decimal128Builder::new().with_data_type(field.data_type().clone()))
            }
            DataType::Timestamp(..) => {
                SelectedColumn::Timestamp(TimestampMicrosecondBuilder::new().with_data_type(field.data_type().clone()))
            }
            _ => SelectedColumn::Text(StringBuilder::new()),
        });
        Self(columns.collect())
    }

    /// Adds the next row's values; `None`: it has no response.
    pub(super) fn push(&mut self, selected: Option<&SelectedValues>) {
        let values = selected.map_or(&[][..], |selected| &selected.values);
        for (index, column) in self.0.iter_mut().enumerate() {
            column.push(values.get(index).unwrap_or(&SelectedValue::Null));
        }
    }

    /// Returns the rows so far; the columns are empty afterwards.
    pub(super) fn finish_batch(&mut self) -> impl Iterator<Item = ArrayRef> {
        self.0.iter_mut().map(SelectedColumn::finish_batch)
    }
}

impl SelectedColumn {
    fn push(&mut self, value: &SelectedValue) {
        match (self, value) {
            (Self::Text(column), SelectedValue::Text(text)) => column.append_value(text),
            (Self::Text(column), _) => column.append_null(),
            (Self::Int64(column), SelectedValue::Int64(number)) => column.append_value(*number),
            (Self::Int64(column), _) => column.append_null(),
            (Self::Float64(column), SelectedValue::Float64(number)) => column.append_value(*number),
            (Self::Float64(column), _) => column.append_null(),
            (Self::Bool(column), SelectedValue::Bool(value)) => column.append_value(*value),
            (Self::Bool(column), _) => column.append_null(),
            (Self::Decimal(column), SelectedValue::Decimal(number)) => column.append_value(*number),
            (Self::Decimal(column), _) => column.append_null(),
            (Self::Timestamp(column), SelectedValue::Timestamp(time)) => column.append_value(*time),
            (Self::Timestamp(column), _) => column.append_null(),
        }
    }

    fn finish_batch(&mut self) -> ArrayRef {
        match self {
            Self::Text(column) => column.finish_batch(),
            Self::Int64(column) => column.finish_batch(),
            Self::Float64(column) => column.finish_batch(),
            Self::Bool(column) => Arc::new(column.finish()),
            Self::Decimal(column) => column.finish_batch(),
            Self::Timestamp(column) => column.finish_batch(),
        }
    }
}
