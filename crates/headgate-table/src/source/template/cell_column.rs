//! A column of a Parquet file as cells: text, bytes, UUIDs, dates and times as text, and other types as JSON.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BinaryViewArray, FixedSizeBinaryArray};
use arrow_json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};
use arrow_schema::extension::{ExtensionType as _, Json, Uuid};
use arrow_schema::{ArrowError, DataType, FieldRef};
use headgate_core::reason::Reason;
use serde::de::IgnoredAny;

use super::cell::Cell;
use crate::parts::time::in_utc;
use crate::source::header_column::byte_column;

/// The text that the formatter writes for a date beyond the calendar.
const NO_DATE: &[u8] = b"\"ERROR";

pub(in crate::source) enum CellColumn {
    Bytes(BinaryViewArray),
    /// Text that the file declares as JSON, with the name of the column.
    Json(String, BinaryViewArray),
    Encoded(Box<EncodedColumn>),
}

/// The values of a record batch, all encoded in advance.
pub(in crate::source) struct EncodedColumn {
    name: String,
    json: Vec<u8>,
    /// The range of each value, or `None` for null, or what makes the value impossible to encode.
    values: Vec<Result<Option<Range<usize>>, &'static str>>,
}

impl CellColumn {
    /// # Errors
    /// JSON can't hold this type.
    pub(in crate::source) fn new(field: &FieldRef, array: &ArrayRef) -> Result<Self, ArrowError> {
        let is = |name: &str| field.extension_type_name() == Some(name);
        if is(Uuid::NAME)
            && let Some(uuids) = array.as_fixed_size_binary_opt()
        {
            return Ok(Self::Bytes(uuids_as_text(uuids)));
        }
        if let Some(bytes) = byte_column(array) {
            return Ok(if is(Json::NAME) { Self::Json(field.name().clone(), bytes) } else { Self::Bytes(bytes) });
        }
        let array = in_utc(array)?;
        let options = EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(UuidsWithin));
        let mut encoder = make_encoder(field, &array, &options)?;
        let (is_time, has_floats) = (field.data_type().is_temporal(), has_floats(field.data_type()));
        let mut json = Vec::new();
        let values = (0..array.len()).map(|row| {
            if encoder.is_null(row) {
                return Ok(None);
            }
            if has_floats && !is_finite(&array, row) {
                return Err("a number that JSON can't represent: infinity or NaN");
            }
            let start = json.len();
            encoder.encode(row, &mut json);
            if is_time && json[start..].starts_with(NO_DATE) {
                return Err("a date or time that can't be written");
            }
            Ok(Some(start..json.len()))
        });
        let values = values.collect();
        drop(encoder);
        Ok(Self::Encoded(Box::new(EncodedColumn { name: field.name().clone(), json, values })))
    }

    pub(in crate::source) fn cell(&self, row: usize) -> Cell<'_> {
        match self {
            Self::Bytes(bytes) | Self::Json(_, bytes) if bytes.is_null(row) => Cell::Null,
            Self::Bytes(bytes) => Cell::Text(bytes.value(row).into()),
            Self::Json(name, bytes) => json_cell(name, bytes.value(row)),
            Self::Encoded(column) => column.cell(row),
        }
    }
}

impl EncodedColumn {
    fn cell(&self, row: usize) -> Cell<'_> {
        let name = &self.name;
        let unfit = |reason: &str| Cell::Unfit(Reason::new(format!("the column {name:?} has {reason}")));
        match &self.values[row] {
            Ok(None) => Cell::Null,
            Err(reason) => unfit(reason),
            Ok(Some(range)) => match std::str::from_utf8(&self.json[range.clone()]) {
                // A date or time: it has no escapes.
                Ok(json) => match json.strip_prefix('"').and_then(|json| json.strip_suffix('"')) {
                    Some(text) => Cell::Text(text.as_bytes().into()),
                    None => Cell::Json(json.into()),
                },
                Err(_) => unfit("text that is not UTF-8"),
            },
        }
    }
}

/// Returns a cell of JSON, or a defect: only the writer of the file has checked that it is JSON.
fn json_cell<'a>(name: &str, value: &'a [u8]) -> Cell<'a> {
    let json = std::str::from_utf8(value).ok().map(str::trim_ascii);
    match json.filter(|json| serde_json::from_str::<IgnoredAny>(json).is_ok()) {
        Some(json) => Cell::Json(json.into()),
        None => {
            Cell::Unfit(Reason::new(format!("the column {name:?} is of the type JSON and has text that is not JSON")))
        }
    }
}

/// Formats UUIDs as RFC 9562 does.
fn uuids_as_text(uuids: &FixedSizeBinaryArray) -> BinaryViewArray {
    let text = |uuid: &[u8]| {
        let mut text = Vec::with_capacity(36);
        write_uuid(uuid, &mut text);
        text
    };
    uuids.iter().map(|uuid| uuid.map(text)).collect()
}

fn write_uuid(uuid: &[u8], out: &mut Vec<u8>) {
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend([byte >> 4, byte & 0xf].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    }
}

/// Writes UUIDs in lists, maps and structs like those in columns of their own, and not as bytes.
#[derive(Debug)]
struct UuidsWithin;

impl EncoderFactory for UuidsWithin {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let is_uuid = item_of(field).extension_type_name() == Some(Uuid::NAME);
        let uuids = array.as_fixed_size_binary_opt().filter(|_| is_uuid);
        Ok(uuids.map(|uuids| NullableEncoder::new(Box::new(UuidEncoder(uuids)), uuids.nulls().cloned())))
    }
}

/// Returns the field of the items: for lists and maps, the encoder passes their own field. The keys of maps are text.
fn item_of(field: &FieldRef) -> &FieldRef {
    match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => item_of(item),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => fields.get(1).map_or(field, item_of),
            _ => field,
        },
        _ => field,
    }
}

struct UuidEncoder<'a>(&'a FixedSizeBinaryArray);

impl Encoder for UuidEncoder<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        write_uuid(self.0.value(row), out);
        out.push(b'"');
    }
}

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_floats(field.data_type()),
        other => other.is_floating(),
    }
}

/// Returns whether a value has no number that JSON can't hold, for which the encoder would write null.
fn is_finite(array: &dyn Array, row: usize) -> bool {
    let all = |items: &dyn Array| (0..items.len()).all(|item| is_finite(items, item));
    if array.is_null(row) {
        return true;
    }
    match array.data_type() {
        DataType::Float16 => array.as_primitive::<Float16Type>().value(row).is_finite(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).is_finite(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).is_finite(),
        DataType::Struct(_) => array.as_struct().columns().iter().all(|column| is_finite(column, row)),
        DataType::List(_) => all(&array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => all(&array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => all(&array.as_fixed_size_list().value(row)),
        DataType::Map(..) => all(&array.as_map().value(row)),
        _ => true,
    }
}
