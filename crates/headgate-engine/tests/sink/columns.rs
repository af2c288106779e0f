use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{Field, Fields};
use headgate_core::memory::MemoryBudget;
use headgate_core::options::Format;
use headgate_core::row::RowExtra;
use headgate_engine::preview;
use headgate_table::columns::builder::OutcomeBuilder;
use headgate_table::columns::kept::KeptCodec;
use headgate_table::columns::result::ResultColumns;
use headgate_table::columns::schema::schema;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::outcomes::{STARTED_AT_US, batch, failed, interrupt, open_with, options, succeeded, write};

fn read(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().build().unwrap();
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    assert_eq!(1, batches.len());
    batches.into_iter().next().unwrap()
}

#[test]
fn parquet_returns_every_column_with_the_type_it_was_written_with() {
    let directory = tempfile::tempdir().unwrap();
    write(&options(directory.path(), Format::Parquet), [batch([succeeded(7, b"Hello"), succeeded(8, b"\xff\x00")])]);

    let records = read(&directory.path().join("part-00000001.parquet"));

    let columns: Vec<_> = records
        .schema()
        .fields()
        .iter()
        .map(|field| {
            format!("{} {}{}", field.name(), field.data_type(), if field.is_nullable() { ", null" } else { "" })
        })
        .collect();
    let expected = [
        "row Int64",
        "url Utf8",
        "method Utf8",
        "status Int16, null",
        "failed Boolean",
        "error Utf8, null",
        "error_message Utf8, null",
        "error_detail Utf8, null",
        "attempts Int16",
        "final_url Utf8, null",
        "redirects List(non-null Struct(\"status\": non-null Int16, \"location\": non-null Utf8)), null",
        "headers List(non-null Struct(\"name\": non-null Utf8, \"value\": non-null Binary)), null",
        "body Binary, null",
        "received_bytes Int64",
        "body_encoding Utf8, null",
        "body_truncated Boolean",
        "started_at Timestamp(µs, \"UTC\")",
        "elapsed_us Int64",
        "ttfb_us Int64, null",
        "http_version Utf8, null",
        "remote_addr Utf8, null",
    ];
    assert_eq!(expected, columns.as_slice());

    let column = |name| records.column_by_name(name).unwrap();
    assert_eq!([7, 8], column("row").as_primitive::<Int64Type>().values().as_ref());
    assert_eq!([200, 200], column("status").as_primitive::<Int16Type>().values().as_ref());
    assert_eq!(STARTED_AT_US, column("started_at").as_primitive::<TimestampMicrosecondType>().value(0));
    assert_eq!(b"\xff\x00", column("body").as_binary::<i32>().value(1));
    let headers = column("headers").as_list::<i32>().value(1);
    let (names, values) = (headers.as_struct().column(0), headers.as_struct().column(1));
    let pairs: Vec<_> = names.as_string::<i32>().iter().zip(values.as_binary::<i32>()).collect();
    let expected = [("server", b"nginx".as_slice()), ("set-cookie", b"a=1"), ("set-cookie", b"b=2")]
        .map(|(n, v)| (Some(n), Some(v)));
    assert_eq!(expected, pairs.as_slice());
}

#[test]
fn failed_rows_go_to_separate_parts() {
    let directory = tempfile::tempdir().unwrap();
    write(
        &options(directory.path(), Format::Parquet),
        [batch([succeeded(0, b""), failed(1), succeeded(2, b"")]), batch([failed(3)]), batch([succeeded(4, b"")])],
    );

    let rows = |name| {
        let records = read(&directory.path().join(name));
        records.column(0).as_primitive::<Int64Type>().values().to_vec()
    };
    assert_eq!(vec![0, 2, 4], rows("part-00000001.parquet"));
    assert_eq!(vec![1, 3], rows("failed-00000001.parquet"));
    let records = read(&directory.path().join("failed-00000001.parquet"));
    let column = |name| records.column_by_name(name).unwrap();
    assert_eq!("connect", column("error").as_string::<i32>().value(0));
    assert_eq!("connection refused", column("error_message").as_string::<i32>().value(0));
    for absent in ["status", "headers", "body", "ttfb_us", "http_version", "remote_addr"] {
        assert!(column(absent).is_null(0), "{absent}");
    }
}

#[test]
fn kept_columns_come_last_and_keep_their_types() {
    let seen = TimestampMillisecondArray::from(vec![1_778_751_000_500]).with_timezone("Europe/Zurich");
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![42])), Arc::new(StringArray::from(vec!["Zürich"])), Arc::new(seen)];
    let kept: Fields = ["id", "city", "seen"]
        .iter()
        .zip(&columns)
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
        .collect();
    let encoded = KeptCodec::new(&kept).unwrap().encode(&columns).unwrap().remove(0);

    for (format, name) in [(Format::Parquet, "part-00000001.parquet"), (Format::Ndjson, "part-00000001.ndjson")] {
        let mut builder = OutcomeBuilder::new(&ResultColumns::of_kept(kept.clone()), MemoryBudget::new(0)).unwrap();
        let mut with_kept = succeeded(0, b"");
        with_kept.row.extra = Some(Box::new(RowExtra { kept: Some(encoded.clone()), ..RowExtra::default() }));
        builder.push(with_kept.as_ref(), false);
        builder.push(succeeded(1, b"").as_ref(), false);
        let directory = tempfile::tempdir().unwrap();
        let mut sink = open_with(&options(directory.path(), format), &schema(&kept), Box::new(Instant::now)).unwrap();
        assert!(sink.write(builder.finish_batch().unwrap()).unwrap().is_continue());
        interrupt(sink.as_mut()).unwrap();

        let path = directory.path().join(name);
        if format == Format::Parquet {
            let records = read(&path);
            for (expected, column) in columns.iter().zip(&records.columns()[21..]) {
                assert_eq!(expected.as_ref(), column.slice(0, 1).as_ref());
                assert!(column.is_null(1));
            }
            let shown = preview(directory.path(), 1, false).unwrap().rows.remove(0);
            assert_eq!(["42", "Zürich", "2026-05-14T09:30:00.500Z"].map(|text| Some(text.to_owned())), shown[21..]);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines: Vec<_> = text.lines().collect();
            assert!(
                lines[0].ends_with(r#","id":42,"city":"Zürich","seen":"2026-05-14T09:30:00.500Z"}"#),
                "{}",
                lines[0]
            );
            assert!(lines[1].ends_with(r#","id":null,"city":null,"seen":null}"#), "{}", lines[1]);
        }
    }
}

#[test]
fn a_job_without_rows_leaves_a_table_without_rows() {
    let directory = tempfile::tempdir().unwrap();
    write(&options(directory.path(), Format::Parquet), []);

    let path = directory.path().join("part-00000001.parquet");
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    assert_eq!(0, reader.metadata().file_metadata().num_rows());
    assert_eq!(21, reader.schema().fields().len());
}
