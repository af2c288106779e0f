use std::iter;

use arrow_array::builder::{Int32Builder, MapBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{Array as _, StringViewArray};
use arrow_array::{
    BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, LargeStringArray,
    ListArray, StructArray, Time64MicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Metadata, TimeUnit};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::parts::read::{PartRows, part_schema};

fn names<const N: usize>(columns: [(&str, ArrayRef); N]) -> (Fields, Vec<ArrayRef>) {
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    (columns.iter().map(field).collect(), columns.into_iter().map(|(_, column)| column).collect())
}

/// One row of kept columns: an integer, a fraction, text, bytes.
type KeptRow = (Option<i64>, Option<f64>, Option<String>, Option<Vec<u8>>);

/// Returns columns of the types that inputs have, made from the same few values.
fn kept(rows: &[KeptRow]) -> (Fields, Vec<ArrayRef>) {
    let numbers = || rows.iter().map(|row| row.0);
    let texts = || rows.iter().map(|row| row.2.as_deref());
    let bytes = || rows.iter().map(|row| row.3.as_deref());
    let any_time = |per_day: i64| numbers().map(move |number| number.map(|number| number % (90_000 * per_day)));
    let in_day = |per_day: i64| numbers().map(move |number| number.map(|number| number.rem_euclid(per_day)));
    let inner = StructArray::try_new(
        vec![Field::new("a", DataType::Utf8, true), Field::new("b_base64", DataType::Binary, true)].into(),
        vec![Arc::new(StringArray::from_iter(texts())), Arc::new(BinaryArray::from_iter(bytes()))],
        Some(numbers().map(|number| number.is_some()).collect::<Vec<_>>().into()),
    );
    let lists = numbers().zip(texts()).map(|(number, text)| {
        text.map(|text| iter::repeat_n(number.map(|number| number as i32), text.len() % 4).collect::<Vec<_>>())
    });
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for (number, text) in numbers().zip(texts()) {
        if let Some(text) = text {
            maps.keys().append_value(text);
            maps.values().append_option(number.map(|number| number as i32));
        }
        maps.append(number.is_some()).unwrap();
    }
    let fixed = bytes().map(|bytes| bytes.filter(|bytes| bytes.len() >= 3).map(|bytes| &bytes[..3]));
    names([
        ("id", Arc::new(Int64Array::from_iter(numbers()))),
        ("hash", Arc::new(UInt64Array::from_iter(numbers().map(|number| number.map(|number| number as u64))))),
        ("yes", Arc::new(BooleanArray::from_iter(numbers().map(|number| number.map(|number| number % 2 == 0))))),
        ("share", Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.1)))),
        ("small", Arc::new(Float32Array::from_iter(numbers().map(|number| number.map(|number| number as f32))))),
        ("city \"é\"", Arc::new(StringArray::from_iter(texts()))),
        ("large", Arc::new(LargeStringArray::from_iter(texts()))),
        ("view", Arc::new(StringViewArray::from_iter(texts()))),
        ("raw", Arc::new(BinaryArray::from_iter(bytes()))),
        ("fixed", Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 3).unwrap())),
        ("day", Arc::new(Date32Array::from_iter(any_time(1).map(|day| day.map(|day| day as i32))))),
        ("time", Arc::new(Time64MicrosecondArray::from_iter(in_day(86_400_000_000)))),
        ("local", Arc::new(TimestampMillisecondArray::from_iter(any_time(86_400_000)))),
        ("seen", Arc::new(TimestampNanosecondArray::from_iter(numbers()).with_timezone("Europe/Zurich"))),
        ("utc", Arc::new(TimestampMicrosecondArray::from_iter(any_time(86_400_000_000)).with_timezone("+00:00"))),
        (
            "price",
            Arc::new(
                Decimal128Array::from_iter(numbers().map(|number| number.map(i128::from)))
                    .with_precision_and_scale(20, 3)
                    .unwrap(),
            ),
        ),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
        ("inner", Arc::new(inner.unwrap())),
        ("map", Arc::new(maps.finish())),
    ])
}

fn result_row() -> impl Strategy<Value = ResultRow> {
    let headers = vec((any::<String>(), vec(any::<u8>(), 0..4)), 0..3);
    // RFC 3339 can write the years 1582 to 9999.
    let started_at = -12_219_292_800_000_000_i64..253_402_300_800_000_000;
    let body = prop_oneof![vec(any::<u8>(), 0..30), any::<String>().prop_map(String::into_bytes)];
    (
        any::<i64>(),
        any::<String>(),
        option::of(any::<i16>()),
        option::of(any::<String>()),
        option::of(headers),
        option::of(body),
        started_at,
    )
        .prop_map(|(row, url, status, error, headers, body, started_at_us)| ResultRow {
            row,
            url,
            status,
            error,
            headers,
            body,
            started_at_us,
        })
}

fn kept_row() -> impl Strategy<Value = KeptRow> {
    let share = option::of(any::<f64>().prop_filter("JSON has no other", |share| share.is_finite()));
    (option::of(any::<i64>()), share, option::of(any::<String>()), option::of(vec(any::<u8>(), 0..6)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn written_rows_are_read_back_with_every_column_unchanged(rows in vec((result_row(), kept_row()), 1..20)) {
        let (rows, kept_rows): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let (fields, columns) = kept(&kept_rows);
        let records = results(&rows, &fields, columns);
        let directory = tempfile::tempdir().unwrap();
        for path in paths(directory.path()) {
            write(&path, &records);
            prop_assert_eq!(&records, &read(&path, records.schema_ref()), "{}", path.display());
        }
    }
}

#[test]
fn a_batch_is_bounded_in_rows_and_in_bytes() {
    let many_small = succeeded(iter::repeat_n(b"Hello".to_vec(), 5000));
    let mib = 1024 * 1024;
    let some_large = succeeded((0..6).map(|seed| (0..2 * mib).map(|at| (at % 251 + seed) as u8).collect()));
    let directory = tempfile::tempdir().unwrap();
    for (records, most) in [(many_small, 1024), (some_large, 1)] {
        for path in paths(directory.path()) {
            write(&path, &records);
            let batches = batches(&path, records.schema_ref()).unwrap();
            let rows: Vec<_> = batches.iter().map(RecordBatch::num_rows).collect();
            assert_eq!(most, *rows.iter().max().unwrap(), "{}: {rows:?}", path.display());
            assert_eq!(records, concat_batches(records.schema_ref(), &batches).unwrap());
        }
    }
}

#[test]
fn a_part_without_rows_still_has_its_columns() {
    let records = succeeded([]);
    let directory = tempfile::tempdir().unwrap();
    for path in paths(directory.path()) {
        write(&path, &records);
        assert_eq!(Vec::<RecordBatch>::new(), batches(&path, records.schema_ref()).unwrap());
    }
    assert_eq!(records.schema(), part_schema(&paths(directory.path())[0]).unwrap());
}

#[test]
fn a_part_has_the_schema_with_which_it_was_written() {
    let seen = TimestampNanosecondArray::from(vec![Some(1)]).with_timezone("Europe/Zurich");
    let with_metadata = Field::new("seen", seen.data_type().clone(), true).with_metadata(Metadata::from(
        [("PARQUET:field_id", "7"), ("unit", "ns")].map(|(key, value)| (key.to_owned(), value.to_owned())),
    ));
    let records = results(&[ResultRow::default()], &vec![with_metadata].into(), vec![Arc::new(seen)]);
    let directory = tempfile::tempdir().unwrap();
    let path = &paths(directory.path())[0];
    write(path, &records);

    assert_eq!(records.schema(), part_schema(path).unwrap());
    assert_eq!(records, read(path, records.schema_ref()));
}

#[test]
fn parts_are_read_in_the_given_order() {
    let (first, second) = (succeeded([b"a".to_vec(), b"b".to_vec()]), succeeded([b"\xff".to_vec()]));
    let directory = tempfile::tempdir().unwrap();
    let [parquet, ndjson] = paths(directory.path());
    write(&ndjson, &first);
    write(&parquet, &second);

    let rows = PartRows::new(vec![ndjson.into(), parquet.into()], first.schema());

    assert_eq!(&first.schema(), rows.schema());
    assert_eq!(Ok(vec![first, second]), rows.collect());
}

#[test]
fn nullable_headers_are_not_mistaken_for_those_of_a_response() {
    let pair =
        Fields::from(vec![Field::new("name", DataType::Utf8, true), Field::new("value", DataType::Binary, true)]);
    let item = Arc::new(Field::new("item", DataType::Struct(pair.clone()), true));
    let builders = StructBuilder::new(pair, vec![Box::<StringBuilder>::default(), Box::<BinaryBuilder>::default()]);
    let mut lists = ListBuilder::new(builders).with_field(item);
    lists.values().field_builder::<StringBuilder>(0).unwrap().append_value("x");
    lists.values().field_builder::<BinaryBuilder>(1).unwrap().append_null();
    lists.values().append(true);
    lists.append(true);
    let (fields, columns) = names([("old", Arc::new(lists.finish()) as ArrayRef)]);
    let records = results(&[ResultRow::default()], &fields, columns);
    let directory = tempfile::tempdir().unwrap();
    for path in paths(directory.path()) {
        write(&path, &records);
        assert_eq!(records, read(&path, records.schema_ref()), "{}", path.display());
    }
}

#[test]
fn columns_that_ndjson_could_not_read_back_are_refused() {
    let refused = |name: &str, data_type: DataType| {
        let kept = Fields::from(vec![Field::new(name, data_type, true)]);
        NdjsonPart::checked_encoder(&schema(&kept)).err().expect("refused").to_string()
    };
    assert_eq!(
        "the input column \"body_base64\" can't be kept in NDJSON: values of \"body\" that are not text are stored under that name; use format=parquet",
        refused("body_base64", DataType::Utf8)
    );
    let list = DataType::new_list(DataType::Duration(TimeUnit::Second), true);
    let message = refused("took", list);
    assert!(message.starts_with("the input column \"took\" can't be kept in NDJSON: its type is List("), "{message}");
    assert!(message.ends_with(", which can't be read back (a duration); use format=parquet"), "{message}");
    let message = refused("span", DataType::Interval(arrow_schema::IntervalUnit::DayTime));
    assert!(
        message.starts_with("the input column \"span\" can't be kept in NDJSON: its type is Interval"),
        "{message}"
    );
}
