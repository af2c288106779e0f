//! The columns of a result.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use super::kept::hydrated;

pub(super) fn header_fields() -> Fields {
    Fields::from(vec![Field::new("name", DataType::Utf8, false), Field::new("value", DataType::Binary, false)])
}

pub(super) fn headers_item() -> Field {
    Field::new("item", DataType::Struct(header_fields()), false)
}

/// The column that jobs of older versions don't have.
const ERROR_DETAIL: &str = "error_detail";

/// These columns as a job has them that began with those: all parts of a job have the same.
pub(crate) fn as_begun(columns: &SchemaRef, begun: &Schema) -> SchemaRef {
    if begun.column_with_name(ERROR_DETAIL).is_some() {
        return columns.clone();
    }
    let fields = columns.fields().iter().filter(|field| field.name() != ERROR_DETAIL).cloned();
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

/// The columns of a result, the kept ones last.
pub fn schema(kept: &Fields) -> SchemaRef {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![
        Arc::new(Field::new("row", DataType::Int64, false)),
        Arc::new(Field::new("url", DataType::Utf8, false)),
        Arc::new(Field::new("method", DataType::Utf8, false)),
        Arc::new(Field::new("status", DataType::Int16, true)),
        Arc::new(Field::new("error", DataType::Utf8, true)),
        Arc::new(Field::new("error_message", DataType::Utf8, true)),
        Arc::new(Field::new(ERROR_DETAIL, DataType::Utf8, true)),
        Arc::new(Field::new("attempts", DataType::Int16, false)),
        Arc::new(Field::new("final_url", DataType::Utf8, true)),
        Arc::new(Field::new("headers", DataType::List(Arc::new(headers_item())), true)),
        Arc::new(Field::new("body", DataType::Binary, true)),
        Arc::new(Field::new("body_bytes", DataType::Int64, false)),
        Arc::new(Field::new("started_at", utc, false)),
        Arc::new(Field::new("elapsed_us", DataType::Int64, false)),
        Arc::new(Field::new("ttfb_us", DataType::Int64, true)),
        Arc::new(Field::new("http_version", DataType::Utf8, true)),
        Arc::new(Field::new("remote_addr", DataType::Utf8, true)),
    ];
    fields.extend(hydrated(kept).iter().cloned());
    Arc::new(Schema::new(fields))
}

/// A kept column beside a result column of the same name would make files that no reader takes.
///
/// # Errors
/// Which column can't be kept, for a person.
pub(crate) fn check_names(with_kept: &Schema) -> Result<(), String> {
    let mut names = HashSet::new();
    let Some(twice) = with_kept.fields().iter().find(|field| !names.insert(field.name())) else { return Ok(()) };
    let own = schema(&Fields::empty());
    let taken: Vec<&str> = own.fields().iter().map(|field| field.name().as_str()).collect();
    Err(format!(
        "the column {:?} can't be kept: the result has one of its own by that name (taken are {})",
        twice.name(),
        taken.join(", ")
    ))
}
