//! The columns of a result.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

use super::kept::hydrated;

pub(super) fn header_fields() -> Fields {
    Fields::from(vec![Field::new("name", DataType::Utf8, false), Field::new("value", DataType::Binary, false)])
}

pub(super) fn hop_fields() -> Fields {
    Fields::from(vec![Field::new("status", DataType::Int16, false), Field::new("location", DataType::Utf8, false)])
}

/// Returns the item of a list of structs.
pub(super) fn item(fields: Fields) -> FieldRef {
    Arc::new(Field::new("item", DataType::Struct(fields), false))
}

pub(crate) fn utc() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Returns the columns that every result has, unless they are omitted.
pub(super) fn own_fields() -> Vec<FieldRef> {
    vec![
        Arc::new(Field::new("row", DataType::Int64, false)),
        Arc::new(Field::new("url", DataType::Utf8, false)),
        Arc::new(Field::new("method", DataType::Utf8, false)),
        Arc::new(Field::new("status", DataType::Int16, true)),
        Arc::new(Field::new("failed", DataType::Boolean, false)),
        Arc::new(Field::new("error", DataType::Utf8, true)),
        Arc::new(Field::new("error_message", DataType::Utf8, true)),
        Arc::new(Field::new("error_detail", DataType::Utf8, true)),
        Arc::new(Field::new("attempts", DataType::Int16, false)),
        Arc::new(Field::new("final_url", DataType::Utf8, true)),
        Arc::new(Field::new("redirects", DataType::List(item(hop_fields())), true)),
        Arc::new(Field::new("headers", DataType::List(item(header_fields())), true)),
        Arc::new(Field::new("body", DataType::Binary, true)),
        Arc::new(Field::new("received_bytes", DataType::Int64, false)),
        Arc::new(Field::new("body_encoding", DataType::Utf8, true)),
        Arc::new(Field::new("body_truncated", DataType::Boolean, false)),
        Arc::new(Field::new("started_at", utc(), false)),
        Arc::new(Field::new("elapsed_us", DataType::Int64, false)),
        Arc::new(Field::new("ttfb_us", DataType::Int64, true)),
        Arc::new(Field::new("http_version", DataType::Utf8, true)),
        Arc::new(Field::new("remote_addr", DataType::Utf8, true)),
    ]
}

/// Returns the columns of results whose bodies are saved.
pub(super) fn saved_fields() -> [FieldRef; 2] {
    ["path", "sha256"].map(|name| Arc::new(Field::new(name, DataType::Utf8, true)))
}

/// Returns the columns of a result that only keeps these columns of the input.
pub fn schema(kept: &Fields) -> SchemaRef {
    Arc::new(Schema::new(own_fields().into_iter().chain(hydrated(kept).iter().cloned()).collect::<Fields>()))
}
