//! Headers as an arrow column: JSON text, a map, a list of structs of name and value, or a struct of headers.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, OffsetSizeTrait, new_null_array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;
use headgate_core::reason::Reason;
use headgate_core::row::RowHeaders;

use super::header_json;

pub(super) enum HeaderColumn {
    Json(BinaryViewArray),
    Entries(Box<Entries>),
    Struct(Vec<(Box<str>, HeaderValues)>),
}

/// Names and values, and which of them belong to each row.
pub(super) struct Entries {
    rows: Ranges,
    names: BinaryViewArray,
    values: HeaderValues,
}

/// One value for each row, or a list of repeated values for each.
pub(super) struct HeaderValues {
    rows: Option<Ranges>,
    items: BinaryViewArray,
}

/// The items that belong to each index of a list; none where it is null.
pub(super) struct Ranges {
    offsets: Vec<usize>,
    nulls: Option<NullBuffer>,
}

impl HeaderColumn {
    /// Returns the headers, or `None` if the type does not hold headers.
    pub(super) fn new(array: &ArrayRef) -> Option<Self> {
        if let Some(json) = byte_column(array) {
            return Some(Self::Json(json));
        }
        if let DataType::Struct(fields) = array.data_type() {
            let array = array.as_struct();
            let columns = fields.iter().zip(array.columns());
            // Where the struct is null, the file has nulls in its fields, too.
            let columns =
                columns.map(|(field, column)| Some((field.name().as_str().into(), HeaderValues::new(column)?)));
            return columns.collect::<Option<_>>().map(Self::Struct);
        }
        let (rows, entries) = list(array)?;
        let entries = entries.as_struct_opt()?;
        let (names, values) = match array.data_type() {
            // A map's two columns have their meaning by position, whatever they are called.
            DataType::Map(..) => (entries.columns().first()?, entries.columns().get(1)?),
            _ => (entries.column_by_name("name")?, entries.column_by_name("value")?),
        };
        Some(Self::Entries(Box::new(Entries { rows, names: byte_column(names)?, values: HeaderValues::new(values)? })))
    }

    /// # Errors
    /// What is wrong with the row's headers.
    pub(super) fn get(&self, row: usize) -> Result<RowHeaders, Reason> {
        let mut headers = RowHeaders::new();
        match self {
            Self::Json(json) if json.is_null(row) => {}
            Self::Json(json) => return header_json::parse(json.value(row)),
            Self::Entries(entries) => {
                let Entries { rows, names, values } = entries.as_ref();
                for index in rows.get(row) {
                    if names.is_null(index) {
                        return Err("a header has no name".into());
                    }
                    let name = str::from_utf8(names.value(index));
                    let name = name.map_err(|_| "the name of a header is not UTF-8")?;
                    values.push(name, index, &mut headers);
                }
            }
            Self::Struct(columns) => {
                for (name, values) in columns {
                    values.push(name, row, &mut headers);
                }
            }
        }
        Ok(headers)
    }
}

impl HeaderValues {
    fn new(array: &ArrayRef) -> Option<Self> {
        let (rows, items) = list(array).map_or((None, array.clone()), |(rows, items)| (Some(rows), items));
        Some(Self { rows, items: value_column(&items)? })
    }

    fn push(&self, name: &str, index: usize, headers: &mut RowHeaders) {
        let range = self.rows.as_ref().map_or(index..index + 1, |rows| rows.get(index));
        for item in range.filter(|item| self.items.is_valid(*item)) {
            headers.push((name.into(), self.items.value(item).into()));
        }
    }
}

impl Ranges {
    fn new<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, nulls: Option<&NullBuffer>) -> Self {
        Self { offsets: offsets.iter().map(|offset| offset.as_usize()).collect(), nulls: nulls.cloned() }
    }

    fn get(&self, index: usize) -> std::ops::Range<usize> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(index)) {
            return 0..0;
        }
        self.offsets[index]..self.offsets[index + 1]
    }
}

/// Returns a list or map as its ranges and items.
fn list(array: &ArrayRef) -> Option<(Ranges, ArrayRef)> {
    if let Some(list) = array.as_list_opt::<i32>() {
        return Some((Ranges::new(list.offsets(), list.nulls()), list.values().clone()));
    }
    if let Some(list) = array.as_list_opt::<i64>() {
        return Some((Ranges::new(list.offsets(), list.nulls()), list.values().clone()));
    }
    let map = array.as_map_opt()?;
    let entries: ArrayRef = Arc::new(map.entries().clone());
    Some((Ranges::new(map.offsets(), map.nulls()), entries))
}

/// Returns a text, binary or always-null column as bytes, or `None` for other types.
pub(super) fn byte_column(array: &ArrayRef) -> Option<BinaryViewArray> {
    let array = match array.data_type() {
        DataType::Dictionary(_, value) => &cast(array, value).ok()?,
        DataType::Null => &new_null_array(&DataType::BinaryView, array.len()),
        _ => array,
    };
    match array.data_type() {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::FixedSizeBinary(_)
        | DataType::BinaryView => cast(array, &DataType::BinaryView).ok()?.as_binary_view_opt().cloned(),
        _ => None,
    }
}

/// Returns a column as [`byte_column`] does, with numbers and booleans as their text.
pub(super) fn value_column(array: &ArrayRef) -> Option<BinaryViewArray> {
    if array.data_type().is_numeric() || *array.data_type() == DataType::Boolean {
        return byte_column(&cast(array, &DataType::Utf8View).ok()?);
    }
    byte_column(array)
}
