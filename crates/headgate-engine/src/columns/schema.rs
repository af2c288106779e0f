//! The columns of a result.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

use super::kept::hydrated;

pub(super) fn header_fields() -> Fields {
    Fields::from(vec![Field::new("name", DataType::Utf8, false), Field::new("value", DataType::Binary, false)])
}

pub(super) fn headers_item() -> Field {
    Field::new("item", DataType::Struct(header_fields()), false)
}

pub(super) fn hop_fields() -> Fields {
    Fields::from(vec![Field::new("status", DataType::Int16, false), Field::new("location", DataType::Utf8, false)])
}

pub(super) fn hops_item() -> Field {
    Field::new("item", DataType::Struct(hop_fields()), false)
}

/// Columns that jobs of older versions don't have.
const NEWER: [&str; 4] = ["error_detail", "redirects", "body_encoding", "body_truncated"];

/// These columns as a job has them that began with those: all parts of a job have the same.
pub(crate) fn as_begun(columns: &SchemaRef, begun: &Schema) -> SchemaRef {
    let is_missing = |name: &str| NEWER.contains(&name) && begun.column_with_name(name).is_none();
    if !NEWER.into_iter().any(is_missing) {
        return columns.clone();
    }
    let fields = columns.fields().iter().filter(|field| !is_missing(field.name())).cloned();
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

pub(crate) fn utc() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Those that every result has, unless they are left out.
pub(super) fn own_fields() -> Vec<FieldRef> {
    vec![
        Arc::new(Field::new("row", DataType::Int64, false)),
        Arc::new(Field::new("url", DataType::Utf8, false)),
        Arc::new(Field::new("method", DataType::Utf8, false)),
        Arc::new(Field::new("status", DataType::Int16, true)),
        Arc::new(Field::new("error", DataType::Utf8, true)),
        Arc::new(Field::new("error_message", DataType::Utf8, true)),
        Arc::new(Field::new("error_detail", DataType::Utf8, true)),
        Arc::new(Field::new("attempts", DataType::Int16, false)),
        Arc::new(Field::new("final_url", DataType::Utf8, true)),
        Arc::new(Field::new("redirects", DataType::List(Arc::new(hops_item())), true)),
        Arc::new(Field::new("headers", DataType::List(Arc::new(headers_item())), true)),
        Arc::new(Field::new("body", DataType::Binary, true)),
        Arc::new(Field::new("body_bytes", DataType::Int64, false)),
        Arc::new(Field::new("body_encoding", DataType::Utf8, true)),
        Arc::new(Field::new("body_truncated", DataType::Boolean, false)),
        Arc::new(Field::new("started_at", utc(), false)),
        Arc::new(Field::new("elapsed_us", DataType::Int64, false)),
        Arc::new(Field::new("ttfb_us", DataType::Int64, true)),
        Arc::new(Field::new("http_version", DataType::Utf8, true)),
        Arc::new(Field::new("remote_addr", DataType::Utf8, true)),
    ]
}

/// Those of results whose bodies are saved.
pub(super) fn saved_fields() -> [FieldRef; 2] {
    ["path", "sha256"].map(|name| Arc::new(Field::new(name, DataType::Utf8, true)))
}

/// The columns of a result of which nothing else is asked than to keep these of the input.
pub fn schema(kept: &Fields) -> SchemaRef {
    Arc::new(Schema::new(own_fields().into_iter().chain(hydrated(kept).iter().cloned()).collect::<Fields>()))
}

/// Two columns of the same name would make files that no reader takes.
///
/// # Errors
/// Which column can't be kept, for a person.
pub(crate) fn check_names(columns: &Schema) -> Result<(), String> {
    let mut names = HashSet::new();
    let Some(twice) = columns.fields().iter().find(|field| !names.insert(field.name())) else { return Ok(()) };
    let own = own_fields();
    let taken: Vec<&str> = own.iter().map(|field| field.name().as_str()).collect();
    Err(format!(
        "the column {:?} can't be kept: the result has one of its own by that name (taken are {})",
        twice.name(),
        taken.join(", ")
    ))
}
