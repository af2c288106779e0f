//! Decodes lines into columns: the reverse of [`LineEncoder`](super::encode::LineEncoder).
//!
//! arrow-json decodes lines into the columns that JSON has, with two columns of text for bytes. The columns of the
//! result are made from those. Floats that are not finite are null, since JSON has no number for them.

use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, RecordBatch, StringArray, StructArray};
use arrow_cast::cast;
use arrow_json::ReaderBuilder;
use arrow_json::reader::Decoder;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::row::MAX_BATCH_ROWS;

use super::keys::{base64_name, headers_of};
use crate::parts::time::UTC_OFFSET;

pub(in crate::parts) struct LineDecoder {
    decoder: Decoder,
    schema: SchemaRef,
}

impl LineDecoder {
    /// Creates a decoder for lines of results with this schema.
    ///
    /// # Errors
    /// `Usage`: an input column to keep has a type that can't be read back from JSON.
    pub(in crate::parts) fn new(schema: &SchemaRef) -> Result<Self, JobError> {
        let mut fields = Vec::new();
        for field in schema.fields() {
            let as_json = as_json(field);
            let one = Arc::new(Schema::new(as_json.clone()));
            let readable = if has_duration(field) { Err("a duration".into()) } else { decoder(one).map(|_| ()) };
            readable.map_err(|why| {
                let (name, data_type) = (field.name(), field.data_type());
                JobError::usage(message!(
                    "the input column {name:?} can't be kept in NDJSON: its type is {data_type}, which can't be read back ({why}); use ",
                    OptionName::Format.set("parquet")
                ))
            })?;
            fields.extend(as_json);
        }
        let decoder = decoder(Arc::new(Schema::new(fields)));
        let decoder = decoder.map_err(|error| JobError::internal(format!("the columns of results: {error}")))?;
        Ok(Self { decoder, schema: schema.clone() })
    }

    /// Decodes bytes, up to the maximum number of rows of a batch. Returns the number of bytes that were decoded.
    pub(in crate::parts) fn push(&mut self, bytes: &[u8]) -> Result<usize, ArrowError> {
        self.decoder.decode(bytes)
    }

    pub(in crate::parts) fn rows(&self) -> usize {
        self.decoder.len()
    }

    pub(in crate::parts) fn is_within_row(&self) -> bool {
        self.decoder.has_partial_record()
    }

    /// Returns the rows that were decoded since the last call, if there are any.
    pub(in crate::parts) fn take(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let Some(decoded) = self.decoder.flush()? else { return Ok(None) };
        let mut decoded = decoded.columns().iter();
        let fields = self.schema.fields().iter();
        let columns = fields.map(|field| column(field, &mut decoded)).collect::<Result<_, _>>()?;
        RecordBatch::try_new(self.schema.clone(), columns).map(Some)
    }
}

fn decoder(schema: SchemaRef) -> Result<Decoder, String> {
    let builder = ReaderBuilder::new(schema).with_batch_size(MAX_BATCH_ROWS).with_strict_mode(true);
    builder.build_decoder().map_err(|error| error.to_string())
}

/// Returns the fields of a column in JSON: bytes have two keys, and points in time are in UTC.
fn as_json(field: &FieldRef) -> Vec<Field> {
    let plain = || field.as_ref().clone();
    match field.data_type() {
        DataType::Binary => text_and_base64(field).into(),
        DataType::Timestamp(unit, Some(_)) => {
            vec![plain().with_data_type(DataType::Timestamp(*unit, Some(UTC_OFFSET.into())))]
        }
        headers => match headers_of(headers) {
            Some((item, fields)) => {
                let mut pair = vec![fields[0].as_ref().clone()];
                pair.extend(text_and_base64(&fields[1]));
                let item = item.as_ref().clone().with_data_type(DataType::Struct(pair.into()));
                vec![plain().with_data_type(DataType::List(Arc::new(item)))]
            }
            None => vec![plain()],
        },
    }
}

fn text_and_base64(field: &Field) -> [Field; 2] {
    [field.name().clone(), base64_name(field)].map(|name| Field::new(name, DataType::Utf8, true))
}

/// Returns whether a field has a duration. arrow-json writes durations in ISO 8601 format but reads them as numbers.
fn has_duration(field: &FieldRef) -> bool {
    match field.data_type() {
        DataType::Duration(_) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::RunEndEncoded(_, item)
        | DataType::Map(item, _) => has_duration(item),
        DataType::Struct(fields) => fields.iter().any(has_duration),
        _ => false,
    }
}

/// Returns the column of a field, made from its one or two columns in JSON.
fn column<'a>(field: &FieldRef, decoded: &mut impl Iterator<Item = &'a ArrayRef>) -> Result<ArrayRef, ArrowError> {
    let mut next = || decoded.next().ok_or_else(|| ArrowError::SchemaError(format!("no column of {:?}", field.name())));
    let first = next()?;
    match field.data_type() {
        DataType::Binary => Ok(Arc::new(bytes(first.as_string(), next()?.as_string())?)),
        DataType::Timestamp(_, Some(_)) => cast(first, field.data_type()),
        other => match headers_of(other) {
            Some((item, fields)) => {
                let lists: &ListArray = first.as_list();
                let pairs = lists.values().as_struct();
                let values = bytes(pairs.column(1).as_string(), pairs.column(2).as_string())?;
                let pairs =
                    StructArray::try_new(fields.clone(), vec![pairs.column(0).clone(), Arc::new(values)], None)?;
                let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
                Ok(Arc::new(ListArray::try_new(item.clone(), offsets, Arc::new(pairs), nulls)?))
            }
            None => Ok(first.clone()),
        },
    }
}

fn bytes(text: &StringArray, base64: &StringArray) -> Result<BinaryArray, ArrowError> {
    if base64.null_count() == base64.len() {
        return Ok(BinaryArray::from(text.clone()));
    }
    let mut bytes = BinaryBuilder::with_capacity(text.len(), text.value_data().len() + base64.value_data().len());
    for pair in text.iter().zip(base64) {
        match pair {
            (Some(_), Some(_)) => {
                return Err(ArrowError::JsonError("bytes are given both as text and as base64".into()));
            }
            (Some(text), None) => bytes.append_value(text),
            (None, Some(base64)) => {
                let decoded = BASE64_STANDARD.decode(base64);
                bytes.append_value(decoded.map_err(|error| ArrowError::JsonError(format!("not base64: {error}")))?);
            }
            (None, None) => bytes.append_null(),
        }
    }
    Ok(bytes.finish())
}
