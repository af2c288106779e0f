//! Input columns that pass through the engine. The columns of a row are encoded as one byte string (arrow's row format). So a
//! slow request keeps its own columns in memory, and not the whole batch that they were read with.

use std::sync::Arc;

use arrow_array::{ArrayRef, new_null_array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};

/// Turns columns into one byte string for each row, and back.
#[derive(Debug)]
pub struct KeptCodec {
    converter: RowConverter,
    /// The encoding of a row that has no kept columns, as a ragged one.
    nulls: Box<[u8]>,
}

impl KeptCodec {
    /// Creates a codec for columns of these fields.
    ///
    /// # Errors
    /// A field has a type that arrow's row format does not support.
    pub fn new(fields: &Fields) -> Result<Self, ArrowError> {
        let sort_fields = fields.iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let converter = RowConverter::new(sort_fields)?;
        let nulls: Vec<ArrayRef> = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
        let nulls = converter.convert_columns(&nulls)?.row(0).data().into();
        Ok(Self { converter, nulls })
    }

    /// Returns one byte string for each row of `columns`, which are in the order of the fields.
    ///
    /// # Errors
    /// A column is not of its field's type.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Vec<Box<[u8]>>, ArrowError> {
        let rows = self.converter.convert_columns(columns)?;
        Ok(rows.iter().map(|row| row.data().into()).collect())
    }

    /// Returns the columns of `rows`, in the order of the fields; a row of `None` is null in all of them.
    ///
    /// # Errors
    /// A byte string was not made by `encode` of a codec for the same fields.
    pub fn decode<'a>(&self, rows: impl IntoIterator<Item = Option<&'a [u8]>>) -> Result<Vec<ArrayRef>, ArrowError> {
        let parser = self.converter.parser();
        let nulls: &[u8] = &self.nulls;
        self.converter.convert_rows(rows.into_iter().map(|row| parser.parse(row.unwrap_or(nulls))))
    }
}

/// Returns the fields with dictionaries replaced by their values, as [`KeptCodec::decode`] returns them, all nullable.
pub fn hydrated(fields: &Fields) -> Fields {
    let plain = &mut |leaf: &Field| match leaf.data_type() {
        DataType::Dictionary(_, value) => leaf.clone().with_data_type(value.as_ref().clone()),
        _ => leaf.clone(),
    };
    fields.iter().map(|field| with_leaves(field, plain).with_nullable(true)).collect()
}

/// Returns the field with each innermost field of its lists, maps and structs replaced, depth first.
pub(crate) fn with_leaves(field: &Field, replace: &mut dyn FnMut(&Field) -> Field) -> Field {
    let mut item = |field: &FieldRef| Arc::new(with_leaves(field, replace));
    let data_type = match field.data_type() {
        DataType::List(field) => DataType::List(item(field)),
        DataType::LargeList(field) => DataType::LargeList(item(field)),
        DataType::FixedSizeList(field, length) => DataType::FixedSizeList(item(field), *length),
        DataType::ListView(field) => DataType::ListView(item(field)),
        DataType::LargeListView(field) => DataType::LargeListView(item(field)),
        DataType::Map(field, sorted) => DataType::Map(item(field), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(item).collect()),
        _ => return replace(field),
    };
    field.clone().with_data_type(data_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, StringArray};

    #[test]
    fn kept_rows_are_returned_unchanged_and_missing_ones_as_nulls() {
        let fields =
            Fields::from(vec![Field::new("id", DataType::Int64, true), Field::new("name", DataType::Utf8, true)]);
        let codec = KeptCodec::new(&fields).expect("plain types");
        let id: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let name: ArrayRef = Arc::new(StringArray::from(vec![Some("seven"), Some("")]));

        let encoded = codec.encode(&[id, name]).expect("types fit");
        let rows = encoded.iter().map(|row| Some(&row[..])).chain([None]);
        let columns = codec.decode(rows).expect("own bytes");

        let id: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, None]));
        let name: ArrayRef = Arc::new(StringArray::from(vec![Some("seven"), Some(""), None]));
        assert_eq!(vec![id, name], columns);
    }
}
