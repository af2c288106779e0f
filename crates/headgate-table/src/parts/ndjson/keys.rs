//! The keys of bytes and headers in NDJSON, for the encoder and the decoder.

use arrow_schema::{DataType, Field, FieldRef, Fields};

/// Returns the key for bytes of this column that are not UTF-8.
pub(in crate::parts) fn base64_name(field: &Field) -> String {
    format!("{}_base64", field.name())
}

/// Returns the item of a list of headers and the fields of one header, or `None` for any other type.
pub(super) fn headers_of(data_type: &DataType) -> Option<(&FieldRef, &Fields)> {
    let DataType::List(item) = data_type else { return None };
    let DataType::Struct(fields) = item.data_type() else { return None };
    let expected = [("name", &DataType::Utf8), ("value", &DataType::Binary)];
    let found = fields.iter().map(|field| (field.name().as_str(), field.data_type()));
    let has_nulls = item.is_nullable() || fields.iter().any(|field| field.is_nullable());
    (found.eq(expected) && !has_nulls).then_some((item, fields))
}
