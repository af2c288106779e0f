//! Kept columns of Parquet files keep their values, with types that other readers support.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Date64Array, FixedSizeListArray, Int64Array, LargeListArray, ListArray, MapArray, RecordBatch,
    StringArray, StructArray, TimestampSecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_schema::DataType::{self, *};
use arrow_schema::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
use arrow_schema::{Field, Fields, IntervalUnit};
use headgate_core::options::SourceOptions;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::keep::kept;
use crate::{Files, open_error, options};

/// Days and a fraction of one, in milliseconds.
const MILLISECONDS: [Option<i64>; 3] = [Some(86_400_000), None, Some(2 * 86_400_000 + 1)];

/// Writes a file with that column, which is to be kept.
fn write(files: &Files, column: &ArrayRef, properties: Option<WriterProperties>) -> SourceOptions {
    let urls: ArrayRef = Arc::new(StringArray::from(vec!["http://a/"; column.len()]));
    let batch = RecordBatch::try_from_iter_with_nullable([("url", urls, false), ("it", column.clone(), true)]).unwrap();
    let path = files.path("urls.parquet");
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), properties).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    SourceOptions { keep: vec!["it".into()], ..options(&path) }
}

fn numbers() -> ArrayRef {
    Arc::new(Int64Array::from(vec![Some(7), None, Some(100)]))
}

fn texts() -> ArrayRef {
    Arc::new(StringArray::from(vec![Some("abc"), None, Some("xyz")]))
}

fn dates() -> ArrayRef {
    Arc::new(Date64Array::from(MILLISECONDS.to_vec()))
}

fn item(data_type: &DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type.clone(), true))
}

/// Returns columns of nested types with these innermost values.
fn nested(values: &ArrayRef) -> Vec<ArrayRef> {
    let item = item(values.data_type());
    let fields =
        Fields::from(vec![Field::new("number", Int64, true), Field::new("value", item.data_type().clone(), true)]);
    let pairs = StructArray::new(fields, vec![numbers(), values.clone()], None);
    let entries = StructArray::from(vec![
        (Arc::new(Field::new("keys", Utf8, false)), Arc::new(StringArray::from(vec!["a", "b", "c"])) as ArrayRef),
        (Arc::new(Field::new("values", item.data_type().clone(), true)), values.clone()),
    ]);
    let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let lengths = [2, 0, 1];
    vec![
        Arc::new(ListArray::new(item.clone(), OffsetBuffer::from_lengths(lengths), values.clone(), None)),
        Arc::new(LargeListArray::new(item.clone(), OffsetBuffer::from_lengths(lengths), values.clone(), None)),
        Arc::new(FixedSizeListArray::new(item, 1, values.clone(), Some(NullBuffer::from(vec![true, false, true])))),
        Arc::new(MapArray::new(entry, OffsetBuffer::from_lengths(lengths), entries, None, false)),
        Arc::new(pairs),
    ]
}

#[test]
fn a_kept_column_has_the_type_of_the_input_or_the_nearest_widely_supported_one() {
    let files = Files::new();
    let same = |column: &ArrayRef, data_type: DataType| {
        let column = cast(column, &data_type).unwrap();
        (column.clone(), column)
    };
    let zone = || Some("Europe/Zurich".into());
    let of_numbers = [
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Time32(Millisecond),
        Time64(Microsecond),
        Time64(Nanosecond),
        Timestamp(Millisecond, None),
        Timestamp(Microsecond, Some("+00:00".into())),
        Timestamp(Nanosecond, None),
        Duration(Second),
        Duration(Nanosecond),
        Decimal32(5, 2),
        Decimal64(15, 2),
        Decimal128(5, 2),
        Decimal128(30, 2),
        Decimal256(60, 2),
    ];
    let of_texts = [Utf8, LargeUtf8, Utf8View, Binary, LargeBinary, BinaryView, FixedSizeBinary(3)];
    let mut cases: Vec<(ArrayRef, ArrayRef)> = of_numbers
        .map(|data_type| match data_type {
            Null => same(&(Arc::new(arrow_array::NullArray::new(3)) as ArrayRef), Null),
            Time32(_) | Date32 => same(&cast(&numbers(), &Int32).unwrap(), data_type),
            other => same(&numbers(), other),
        })
        .into();
    cases.extend(of_texts.map(|data_type| match data_type {
        FixedSizeBinary(_) => same(&cast(&texts(), &Binary).unwrap(), data_type),
        other => same(&texts(), other),
    }));
    // Types that Parquet lacks, and that most readers would see as plain numbers.
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![Some(1_778_751_000), None, Some(-1)]));
    let of_day = cast(&cast(&numbers(), &Int32).unwrap(), &Time32(Second)).unwrap();
    let in_zone: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1_778_751_000; 3]).with_timezone("Europe/Zurich"));
    let points = [
        (dates(), Timestamp(Millisecond, None)),
        (seconds.clone(), Timestamp(Millisecond, None)),
        (in_zone, Timestamp(Millisecond, zone())),
        (of_day, Time32(Millisecond)),
        (cast(&texts(), &Dictionary(Box::new(Int32), Box::new(Utf8))).unwrap(), Utf8),
        (cast(&numbers(), &Dictionary(Box::new(Int8), Box::new(Int64))).unwrap(), Int64),
    ];
    for (column, as_kept) in points {
        let expected = cast(&column, &as_kept).unwrap();
        cases.extend(nested(&column).into_iter().zip(nested(&expected)));
        cases.push((column, expected));
    }
    for (column, expected) in cases {
        let kept = kept(&write(&files, &column, None));
        assert_eq!(expected.data_type(), kept.column(0).data_type(), "{}", column.data_type());
        assert_eq!(&expected, kept.column(0), "{}", column.data_type());
    }
}

/// pyarrow writes it like this, and stores the original type in the metadata.
#[test]
fn a_date_of_64_bits_stays_a_date() {
    let files = Files::new();
    let days: ArrayRef = Arc::new(Date64Array::from(vec![Some(86_400_000), None, Some(-86_400_000)]));
    let expected = cast(&days, &Date32).unwrap();
    let as_dates = || Some(WriterProperties::builder().set_coerce_types(true).build());
    for (column, expected) in nested(&days).into_iter().zip(nested(&expected)).chain([(days, expected)]) {
        let kept = kept(&write(&files, &column, as_dates()));
        // Nested fields have the names that Parquet gives them.
        let same_names = cast(&expected, kept.column(0).data_type()).unwrap();
        assert_eq!(&same_names, kept.column(0), "{}", column.data_type());
        let text = kept.column(0).data_type().to_string();
        assert!(text.contains("Date32") && !text.contains("Date64"), "{text}");
    }
}

#[test]
fn an_interval_is_refused_by_name_before_the_first_row() {
    let files = Files::new();
    for unit in [IntervalUnit::YearMonth, IntervalUnit::DayTime] {
        let interval = arrow_array::new_null_array(&Interval(unit), 3);
        for column in [nested(&interval).remove(0), interval] {
            let message = files.message(&open_error(&write(&files, &column, None)));
            let start = format!("urls.parquet: the column \"it\" can't be kept: its type is {}", column.data_type());
            assert!(message.starts_with(&start), "{message}");
            assert!(message.ends_with("(an interval's months, days and milliseconds can't all be kept)"), "{message}");
        }
    }
}

#[test]
fn a_timestamp_that_does_not_fit_ends_the_job_and_does_not_become_null() {
    let files = Files::new();
    let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX / 10]));
    let error = crate::open(&write(&files, &far, None)).next_batch().expect_err("it does not fit");
    let message = files.message(&error);
    assert!(message.starts_with("urls.parquet: the column \"it\" can't be kept as Timestamp(ms): "), "{message}");
}

/// Readers recognise a UUID, a JSON text and a time of the day in UTC by these annotations.
#[test]
fn the_metadata_of_a_column_is_kept_with_its_type() {
    use parquet::data_type::{ByteArray, ByteArrayType, FixedLenByteArrayType, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let files = Files::new();
    let path = files.path("urls.parquet");
    let schema = "message rows {
        required binary url (STRING);
        required fixed_len_byte_array(16) uuid (UUID);
        required binary json (JSON);
        required int64 time (TIME(MICROS,true));
        required int64 anywhere (TIME(MICROS,false));
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let text = |text: &'static str| [ByteArray::from(text)];
    let mut texts = [text("http://a/"), text("{}")].into_iter();
    while let Some(mut column) = group.next_column().unwrap() {
        match column.untyped() {
            parquet::column::writer::ColumnWriter::ByteArrayColumnWriter(_) => {
                column.typed::<ByteArrayType>().write_batch(&texts.next().unwrap(), None, None).unwrap();
            }
            parquet::column::writer::ColumnWriter::FixedLenByteArrayColumnWriter(_) => {
                let uuid = ByteArray::from(vec![7; 16]).into();
                column.typed::<FixedLenByteArrayType>().write_batch(&[uuid], None, None).unwrap();
            }
            _ => {
                column.typed::<Int64Type>().write_batch(&[1], None, None).unwrap();
            }
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();

    let names = ["uuid", "json", "time", "anywhere"];
    let keep = SourceOptions { keep: names.map(str::to_owned).to_vec(), ..options(&path) };
    let fields = kept(&keep).schema();
    let written = parquet::arrow::ArrowSchemaConverter::new().convert(&fields).unwrap();
    let meanings: Vec<_> = written.columns().iter().map(|column| format!("{:?}", column.logical_type_ref())).collect();
    let expected = ["Uuid", "Json", "is_adjusted_to_u_t_c: true", "is_adjusted_to_u_t_c: false"];
    for (expected, meaning) in expected.iter().zip(&meanings) {
        assert!(meaning.contains(expected), "{meanings:?}");
    }
}
