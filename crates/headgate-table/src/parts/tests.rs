//! Parts are read back as they were written, and damage is detected.

#![allow(clippy::unwrap_used)]
#![allow(clippy::from_iter_instead_of_collect, reason = "the type of the column says most")]

mod append;
mod damage;
mod round_trip;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int16Builder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Int16Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Fields, SchemaRef};
use arrow_select::concat::concat_batches;
use headgate_core::error::JobError;

use crate::columns::schema::schema;
use crate::parts::checksum::FinishedPart;
use crate::parts::ndjson::write::NdjsonPart;
use crate::parts::parquet::write::ParquetPart;
use crate::parts::read::PartRows;
use crate::parts::writer::PartWriter;

const FORMATS: [&str; 2] = ["parquet", "ndjson"];

/// Creates a part with these columns, in the format that its file name says.
fn writer(path: &Path, schema: &SchemaRef) -> Box<dyn PartWriter> {
    let file = File::create(path).unwrap();
    if path.extension().unwrap() == "parquet" {
        Box::new(ParquetPart::new(file, schema).unwrap())
    } else {
        Box::new(NdjsonPart::new(file, NdjsonPart::checked_encoder(schema).unwrap()))
    }
}

fn write(path: &Path, records: &RecordBatch) -> FinishedPart {
    let mut writer = writer(path, records.schema_ref());
    writer.write(records).unwrap();
    writer.finish().unwrap()
}

/// Returns the path of a part of each format.
fn paths(directory: &Path) -> [PathBuf; 2] {
    FORMATS.map(|extension| directory.join(format!("part-00000001.{extension}")))
}

fn batches(path: &Path, schema: &SchemaRef) -> Result<Vec<RecordBatch>, JobError> {
    PartRows::new(vec![path.to_owned().into()], schema.clone()).collect()
}

fn read(path: &Path, schema: &SchemaRef) -> RecordBatch {
    let batches = batches(path, schema).unwrap();
    assert!(batches.iter().all(|batch| batch.schema_ref() == schema), "{}", path.display());
    concat_batches(schema, &batches).unwrap()
}

/// One row of a result, as plain values.
#[derive(Debug, Clone, Default)]
struct ResultRow {
    row: i64,
    url: String,
    status: Option<i16>,
    error: Option<String>,
    headers: Option<Vec<(String, Vec<u8>)>>,
    body: Option<Vec<u8>>,
    started_at_us: i64,
}

/// Returns results with these kept columns, which have as many rows.
fn results(rows: &[ResultRow], kept: &Fields, kept_columns: Vec<ArrayRef>) -> RecordBatch {
    let schema = schema(kept);
    let text =
        |of: fn(&ResultRow) -> Option<&str>| -> ArrayRef { Arc::new(StringArray::from_iter(rows.iter().map(of))) };
    let number =
        |of: fn(&ResultRow) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(rows.iter().map(of))) };
    let started_at = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.started_at_us));
    let mut columns: Vec<ArrayRef> = vec![
        number(|row| row.row),
        text(|row| Some(&row.url)),
        text(|_| Some("GET")),
        Arc::new(Int16Array::from_iter(rows.iter().map(|row| row.status))),
        Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.error.is_some())))),
        text(|row| row.error.as_deref()),
        text(|row| row.error.as_deref()),
        text(|row| row.error.as_deref().filter(|error| error.len() > 3)),
        Arc::new(Int16Array::from_iter_values(rows.iter().map(|row| (row.row % 5) as i16))),
        text(|row| row.error.as_deref().map(|_| "http://127.0.0.1/")),
        redirects(rows, schema.field_with_name("redirects").unwrap().data_type()),
        headers(rows, schema.field_with_name("headers").unwrap().data_type()),
        Arc::new(BinaryArray::from_iter(rows.iter().map(|row| row.body.as_deref()))),
        number(|row| row.body.as_ref().map_or(0, |body| body.len() as i64)),
        text(|row| row.body.as_deref().filter(|body| body.len() > 2).map(|_| "gzip, br")),
        Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.row % 2 == 0)))),
        Arc::new(started_at.with_timezone("UTC")),
        number(|row| row.row.wrapping_mul(3)),
        Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.status.map(i64::from)))),
        text(|row| row.status.map(|_| "HTTP/1.1")),
        text(|row| row.status.map(|_| "127.0.0.1:80")),
    ];
    columns.extend(kept_columns);
    RecordBatch::try_new(schema, columns).unwrap()
}

/// Returns redirects, whose number depends on the status of the row.
fn redirects(rows: &[ResultRow], data_type: &DataType) -> ArrayRef {
    let DataType::List(item) = data_type else { panic!("a list") };
    let DataType::Struct(fields) = item.data_type() else { panic!("of redirects") };
    let hops =
        StructBuilder::new(fields.clone(), vec![Box::<Int16Builder>::default(), Box::<StringBuilder>::default()]);
    let mut lists = ListBuilder::new(hops).with_field(item.clone());
    for row in rows {
        for number in 0..row.status.unwrap_or_default() % 3 {
            let hop = lists.values();
            hop.field_builder::<Int16Builder>(0).unwrap().append_value(300 + number);
            hop.field_builder::<StringBuilder>(1).unwrap().append_value(format!("http://{number}/"));
            hop.append(true);
        }
        lists.append(row.status.unwrap_or_default() % 3 > 0);
    }
    Arc::new(lists.finish())
}

fn headers(rows: &[ResultRow], data_type: &DataType) -> ArrayRef {
    let DataType::List(item) = data_type else { panic!("a list") };
    let DataType::Struct(fields) = item.data_type() else { panic!("of pairs") };
    let pairs =
        StructBuilder::new(fields.clone(), vec![Box::<StringBuilder>::default(), Box::<BinaryBuilder>::default()]);
    let mut lists = ListBuilder::new(pairs).with_field(item.clone());
    for row in rows {
        for (name, value) in row.headers.iter().flatten() {
            lists.values().field_builder::<StringBuilder>(0).unwrap().append_value(name);
            lists.values().field_builder::<BinaryBuilder>(1).unwrap().append_value(value);
            lists.values().append(true);
        }
        lists.append(row.headers.is_some());
    }
    Arc::new(lists.finish())
}

/// Returns succeeded rows with these bodies.
fn succeeded(bodies: impl IntoIterator<Item = Vec<u8>>) -> RecordBatch {
    let rows: Vec<_> = bodies
        .into_iter()
        .enumerate()
        .map(|(row, body)| ResultRow { row: row as i64, status: Some(200), body: Some(body), ..ResultRow::default() })
        .collect();
    results(&rows, &Fields::empty(), Vec::new())
}
