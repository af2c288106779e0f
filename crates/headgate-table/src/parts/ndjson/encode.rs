//! Writes results as NDJSON: one object per line, whose keys are the columns of a result in their order.
//!
//! Bytes (bodies, values of headers, kept binary columns) are written as text if they are UTF-8, and as base64
//! under a key that ends in `_base64` otherwise. Values are written directly to the output, so a row needs no
//! memory however long its body is.

use std::io::{self, Write};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int16Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, BinaryArray, Int16Array, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
    new_empty_array,
};
use arrow_json::writer::{EncoderOptions, NullableEncoder, make_encoder};
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef, TimeUnit};
use base64::prelude::BASE64_STANDARD;
use base64::write::EncoderWriter;
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;

use super::keys::{base64_name, headers_of};
use crate::parts::time::{TimeText, UTC_OFFSET, in_utc};

/// Turns batches of one schema into lines.
pub struct LineEncoder {
    columns: Vec<OutputColumn>,
    options: EncoderOptions,
}

struct OutputColumn {
    field: FieldRef,
    /// `"name":` with the brace or comma before it.
    key: String,
    base64_key: String,
}

/// The values of one column of one batch.
enum BatchValues<'a> {
    Int64(&'a Int64Array),
    Int16(&'a Int16Array),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    Time(&'a TimestampMicrosecondArray, TimeText),
    Headers(HeaderLists<'a>),
    /// A type that only input columns can have.
    Other(NullableEncoder<'a>, Vec<u8>),
}

struct HeaderLists<'a> {
    lists: &'a ListArray,
    names: &'a StringArray,
    values: &'a BinaryArray,
}

impl LineEncoder {
    /// Creates an encoder for batches of this schema.
    ///
    /// # Errors
    /// `Usage`: an input column to keep has a type that JSON can't hold.
    pub fn new(schema: &SchemaRef) -> Result<Self, JobError> {
        let columns = schema.fields().iter().enumerate().map(|(index, field)| {
            let before = if index == 0 { '{' } else { ',' };
            let key = |name: String| format!("{before}{}:", serde_json::Value::from(name));
            OutputColumn { field: field.clone(), key: key(field.name().clone()), base64_key: key(base64_name(field)) }
        });
        let encoder = Self { columns: columns.collect(), options: EncoderOptions::default().with_explicit_nulls(true) };
        for column in &encoder.columns {
            let empty = new_empty_array(column.field.data_type());
            in_utc(&empty)
                .and_then(|empty| BatchValues::of(&column.field, &empty, &encoder.options).map(|_| ()))
                .map_err(|error| {
                    JobError::usage(format!("the input column {:?} can't be kept: {error}", column.field.name()))
                })?;
        }
        encoder.check_keys()?;
        Ok(encoder)
    }

    /// Refuses columns that would give an object the same key twice.
    fn check_keys(&self) -> Result<(), JobError> {
        for bytes in self.columns.iter().filter(|column| column.field.data_type() == &DataType::Binary) {
            let key = base64_name(&bytes.field);
            if self.columns.iter().any(|column| *column.field.name() == key) {
                let name = bytes.field.name();
                return Err(JobError::usage(message!(
                    "the input column {key:?} can't be kept in NDJSON: values of {name:?} that are not text are stored under that name; use ",
                    OptionName::Format.set("parquet")
                )));
            }
        }
        Ok(())
    }

    /// Writes each row of `records` as a line.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn write(&self, records: &RecordBatch, out: &mut impl Write) -> io::Result<()> {
        let arrays = records.columns().iter().map(in_utc).collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        let columns = self.columns.iter().zip(&arrays);
        let mut values = columns
            .map(|(column, array)| BatchValues::of(&column.field, array, &self.options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(io::Error::other)?;
        for row in 0..records.num_rows() {
            for (column, values) in self.columns.iter().zip(&mut values) {
                values.write(row, column, out)?;
            }
            out.write_all(b"}\n")?;
        }
        Ok(())
    }
}

impl<'a> BatchValues<'a> {
    fn of(field: &'a FieldRef, array: &'a dyn Array, options: &'a EncoderOptions) -> Result<Self, ArrowError> {
        if let Some(headers) = HeaderLists::of(array) {
            return Ok(BatchValues::Headers(headers));
        }
        Ok(match array.data_type() {
            DataType::Int64 => BatchValues::Int64(array.as_primitive::<Int64Type>()),
            DataType::Int16 => BatchValues::Int16(array.as_primitive::<Int16Type>()),
            DataType::Utf8 => BatchValues::Text(array.as_string()),
            DataType::Binary => BatchValues::Bytes(array.as_binary()),
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if zone.as_ref() == UTC_OFFSET => {
                BatchValues::Time(array.as_primitive::<TimestampMicrosecondType>(), TimeText::new())
            }
            _ => BatchValues::Other(make_encoder(field, array, options)?, Vec::new()),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            BatchValues::Int64(array) => array.is_null(row),
            BatchValues::Int16(array) => array.is_null(row),
            BatchValues::Text(array) => array.is_null(row),
            BatchValues::Bytes(array) => array.is_null(row),
            BatchValues::Time(array, _) => array.is_null(row),
            BatchValues::Headers(headers) => headers.lists.is_null(row),
            BatchValues::Other(encoder, _) => encoder.is_null(row),
        }
    }

    /// Writes the key and the value of a column of a row.
    fn write(&mut self, row: usize, column: &OutputColumn, out: &mut impl Write) -> io::Result<()> {
        if self.is_null(row) {
            out.write_all(column.key.as_bytes())?;
            return out.write_all(b"null");
        }
        if let BatchValues::Bytes(array) = self {
            return write_bytes(array.value(row), &column.key, &column.base64_key, out);
        }
        out.write_all(column.key.as_bytes())?;
        match self {
            BatchValues::Int64(array) => write_integer(array.value(row), out),
            BatchValues::Int16(array) => write_integer(array.value(row), out),
            BatchValues::Text(array) => write_text(array.value(row), out),
            BatchValues::Bytes(_) => Ok(()),
            BatchValues::Time(array, time) => match time.format(array.value(row)) {
                Some(text) => write!(out, "\"{text}\""),
                None => out.write_all(b"null"),
            },
            BatchValues::Headers(headers) => headers.write(row, out),
            BatchValues::Other(encoder, scratch) => {
                scratch.clear();
                encoder.encode(row, scratch);
                out.write_all(scratch)
            }
        }
    }
}

impl<'a> HeaderLists<'a> {
    /// Returns the lists of a column of headers; `None`: it is another column.
    fn of(array: &'a dyn Array) -> Option<Self> {
        headers_of(array.data_type())?;
        let lists: &ListArray = array.as_list_opt()?;
        let pairs = lists.values().as_struct_opt()?;
        Some(Self { lists, names: pairs.column(0).as_string_opt()?, values: pairs.column(1).as_binary_opt()? })
    }

    fn write(&self, row: usize, out: &mut impl Write) -> io::Result<()> {
        let offsets = self.lists.value_offsets();
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        for index in start..end {
            out.write_all(if index == start { b"[{\"name\":" } else { b",{\"name\":" })?;
            write_text(self.names.value(index), out)?;
            write_bytes(self.values.value(index), ",\"value\":", ",\"value_base64\":", out)?;
            out.write_all(b"}")?;
        }
        out.write_all(if start == end { b"[]" } else { b"]" })
    }
}

fn write_integer(value: impl itoa::Integer, out: &mut impl Write) -> io::Result<()> {
    out.write_all(itoa::Buffer::new().format(value).as_bytes())
}

fn write_text(text: &str, out: &mut impl Write) -> io::Result<()> {
    Ok(serde_json::to_writer(out, text)?)
}

fn write_bytes(bytes: &[u8], key: &str, base64_key: &str, out: &mut impl Write) -> io::Result<()> {
    if let Ok(text) = str::from_utf8(bytes) {
        out.write_all(key.as_bytes())?;
        return write_text(text, out);
    }
    out.write_all(base64_key.as_bytes())?;
    out.write_all(b"\"")?;
    let mut encoder = EncoderWriter::new(&mut *out, &BASE64_STANDARD);
    encoder.write_all(bytes)?;
    encoder.finish()?;
    drop(encoder);
    out.write_all(b"\"")
}
