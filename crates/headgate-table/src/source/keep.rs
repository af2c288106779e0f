//! Columns to carry into the result: their names, and how text forms gather them.

use arrow_array::ArrayRef;
use arrow_array::builder::{ArrayBuilder, StringBuilder};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Fields};
use headgate_core::error::JobError;
use headgate_core::options::SourceOptions;
use headgate_core::row::{Row, RowBatch};

use super::partition::UNNAMED;
use crate::columns::kept::{KeptCodec, with_leaves};

/// Stands for all columns of the input.
pub(super) const ALL: &str = "*";
/// The result's column of URLs.
const URL: &str = "url";

/// Returns the names to keep of an input that has these columns, each once.
pub(super) fn names(options: &SourceOptions, columns: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        if names.iter().all(|other| other != name) {
            names.push(name.to_owned());
        }
    };
    for name in &options.keep {
        if name == ALL {
            let is_left_out = |column: &str| column == UNNAMED || is_url_of_result(options, column);
            columns.iter().filter(|column| !is_left_out(column)).for_each(|column| add(column));
        } else {
            add(name);
        }
    }
    names
}

/// Returns whether the result has the column already, as its column of URLs.
pub(super) fn is_url_of_result(options: &SourceOptions, column: &str) -> bool {
    column == URL && options.url_column == URL && options.url.is_none()
}

/// Returns whether all columns are kept.
pub(super) fn keeps_all(options: &SourceOptions) -> bool {
    options.keep.iter().any(|name| name == ALL)
}

/// Returns the codec of kept columns, or `None` if there are no columns.
///
/// # Errors
/// `Input`: a column has an unsupported type.
pub(super) fn codec(input: &str, fields: &Fields) -> Result<Option<KeptCodec>, JobError> {
    for field in fields {
        if has_interval(field) {
            let (name, data_type) = (field.name(), field.data_type());
            return Err(JobError::input(format!(
                "{input}: the column {name:?} can't be kept: its type is {data_type} (an interval's months, days and milliseconds can't all be kept)"
            )));
        }
        if let Err(error) = KeptCodec::new(&Fields::from(vec![field.clone()])) {
            let (name, data_type) = (field.name(), field.data_type());
            return Err(JobError::input(format!(
                "{input}: the column {name:?} can't be kept: its type is {data_type} ({error})"
            )));
        }
    }
    let codec = (!fields.is_empty()).then(|| KeptCodec::new(fields)).transpose();
    codec.map_err(|error| JobError::internal(format!("{input}: kept columns: {error}")))
}

/// Returns whether a column has intervals: Arrow has three types for them, and none that holds what Parquet's has.
fn has_interval(field: &Field) -> bool {
    let mut found = false;
    with_leaves(field, &mut |leaf| {
        found |= matches!(leaf.data_type(), DataType::Interval(_));
        leaf.clone()
    });
    found
}

/// Attaches the encoded columns, converted to the types of the fields, to the rows.
///
/// # Errors
/// `Input`: a value does not fit. It would be lost in silence if it became a null.
pub(super) fn attach_as(
    (input, fields, codec): (&str, &Fields, &KeptCodec),
    columns: impl Iterator<Item = ArrayRef>,
    batch: &mut [Row],
) -> Result<(), JobError> {
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    let columns = columns.zip(fields).map(|(column, field)| {
        cast_with_options(&column, field.data_type(), &exact).map_err(|error| {
            let (name, data_type) = (field.name(), field.data_type());
            JobError::input(format!("{input}: the column {name:?} can't be kept as {data_type}: {error}"))
        })
    });
    attach(codec, &columns.collect::<Result<Vec<_>, _>>()?, batch)
}

fn attach(codec: &KeptCodec, columns: &[ArrayRef], batch: &mut [Row]) -> Result<(), JobError> {
    let encoded =
        codec.encode(columns).map_err(|error| JobError::internal(format!("kept columns of the input: {error}")))?;
    for (row, kept) in batch.iter_mut().zip(encoded) {
        row.extra.get_or_insert_default().kept = Some(kept);
    }
    Ok(())
}

/// Kept columns of a form without types: all are text.
pub(super) struct KeptText {
    fields: Fields,
    codec: Option<KeptCodec>,
    columns: Vec<StringBuilder>,
    bytes: usize,
}

impl KeptText {
    pub(super) fn new(input: &str, names: &[String]) -> Result<Self, JobError> {
        let fields: Fields = names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
        let codec = codec(input, &fields)?;
        let columns = names.iter().map(|_| StringBuilder::new()).collect();
        Ok(Self { fields, codec, columns, bytes: 0 })
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the next row's text in this column; each column needs one for each row.
    pub(super) fn push(&mut self, column: usize, text: Option<&str>) {
        if let Some(column) = self.columns.get_mut(column) {
            self.bytes += text.map_or(0, str::len);
            column.append_option(text);
        }
    }

    /// Adds a row that has none of the columns.
    pub(super) fn push_nulls(&mut self) {
        self.columns.iter_mut().for_each(StringBuilder::append_null);
    }

    pub(super) fn attach(&mut self, batch: &mut RowBatch) -> Result<(), JobError> {
        self.bytes = 0;
        let Some(codec) = &self.codec else { return Ok(()) };
        let columns: Vec<ArrayRef> = self.columns.iter_mut().map(ArrayBuilder::finish).collect();
        attach(codec, &columns, batch)
    }
}
