use std::fs::File;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, MapBuilder, StringBuilder, StructBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Int64Array, LargeBinaryArray, LargeStringArray,
    NullArray, RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use headgate_core::options::SourceOptions;
use headgate_core::row::MAX_BATCH_BYTES;
use headgate_core::source_size::SourceSize;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::{WriterProperties, WriterVersion};

use crate::keep::kept;
use crate::{Files, body, defects, drain, headers, method, open, open_error, options, rows, urls};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .expect("columns")
}

/// Writes a file with row groups of at most this many rows.
fn write(files: &Files, records: &RecordBatch, group_rows: usize) -> SourceOptions {
    let path = files.path("urls.parquet");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let file = File::create(&path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, records.schema(), Some(properties)).expect("a schema");
    writer.write(records).expect("rows");
    writer.close().expect("an end");
    options(&path)
}

fn url_column(count: usize) -> ArrayRef {
    Arc::new((0..count).map(|row| Some(format!("http://a/{row}"))).collect::<StringArray>())
}

#[test]
fn urls_may_have_any_type_of_text_or_bytes() {
    let texts = vec![Some("http://a/"), None, Some("http://b/")];
    let bytes: Vec<Option<&[u8]>> = texts.iter().map(|text| text.map(str::as_bytes)).collect();
    let columns: [ArrayRef; 6] = [
        Arc::new(StringArray::from(texts.clone())),
        Arc::new(LargeStringArray::from(texts.clone())),
        Arc::new(StringViewArray::from(texts.clone())),
        Arc::new(BinaryArray::from(bytes.clone())),
        Arc::new(LargeBinaryArray::from(bytes)),
        Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>()),
    ];
    let files = Files::new();
    for column in columns {
        let data_type = column.data_type().clone();
        let rows = rows(&write(&files, &batch(vec![("url", column)]), 100));
        assert_eq!(["http://a/", "", "http://b/"].as_slice(), urls(&rows), "{data_type}");
        assert_eq!([None, Some("the URL is null (row 1)"), None].as_slice(), defects(&rows), "{data_type}");
    }
}

#[test]
fn a_url_of_bytes_that_are_not_utf_8_is_a_defect() {
    let files = Files::new();
    let column = Arc::new(BinaryArray::from(vec![&b"http://a/\xFF"[..], b""]));
    let rows = rows(&write(&files, &batch(vec![("url", column)]), 100));
    assert_eq!(
        [Some("the URL is not UTF-8 (row 0: byte 0xFF after 9 valid ones)"), Some("the URL is empty (row 1)")]
            .as_slice(),
        defects(&rows)
    );
}

#[test]
fn rows_come_in_order_over_row_groups_and_their_number_is_known() {
    let files = Files::new();
    let options = write(&files, &batch(vec![("url", url_column(5000))]), 1500);
    let mut source = open(&options);
    let bytes = std::fs::metadata(&options.input).expect("a file").len();
    assert_eq!(SourceSize { rows: Some(5000), bytes: Some(bytes), bytes_read: 0 }, source.size());
    let (rows, error) = drain(source.as_mut());
    assert_eq!(None, error);
    assert_eq!((0..5000).map(|row| format!("http://a/{row}")).collect::<Vec<_>>(), urls(&rows));
    assert_eq!(SourceSize { rows: Some(5000), bytes: Some(bytes), bytes_read: bytes }, source.size());
}

#[test]
fn a_file_without_rows_is_a_job_without_rows() {
    let files = Files::new();
    assert_eq!(0, rows(&write(&files, &batch(vec![("url", url_column(0))]), 100)).len());
    let nothing: ArrayRef = Arc::new(NullArray::new(0));
    assert_eq!(0, rows(&write(&files, &batch(vec![("url", nothing)]), 100)).len());
}

#[test]
fn method_and_body_may_be_null_or_empty() {
    let files = Files::new();
    let method_column: ArrayRef = Arc::new(StringArray::from(vec![Some("POST"), None, Some("")]));
    let bodies: [ArrayRef; 2] = [
        Arc::new(StringArray::from(vec![Some("\u{ff}"), None, Some("")])),
        Arc::new(BinaryArray::from(vec![Some("\u{ff}".as_bytes()), None, Some(b"")])),
    ];
    for bodies in bodies {
        let columns = vec![("url", url_column(3)), ("method", method_column.clone()), ("body", bodies)];
        let rows = rows(&write(&files, &batch(columns), 100));
        let read: Vec<_> = rows.iter().map(|row| (method(row), body(row))).collect();
        assert_eq!(vec![(Some("POST"), Some("\u{ff}".as_bytes())), (None, None), (None, Some(&b""[..]))], read);
    }
}

fn json_headers() -> ArrayRef {
    Arc::new(StringArray::from(vec![Some(r#"{"A":"1","B":"2"}"#), None, Some("{}")]))
}

fn map_headers() -> ArrayRef {
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for (name, value) in [("A", "1"), ("B", "2")] {
        map.keys().append_value(name);
        map.values().append_value(value);
    }
    map.append(true).expect("keys and values");
    map.append(false).expect("a null");
    map.keys().append_value("absent");
    map.values().append_null();
    map.append(true).expect("keys and values");
    Arc::new(map.finish())
}

fn map_of_lists() -> ArrayRef {
    let mut map = MapBuilder::new(None, StringBuilder::new(), ListBuilder::new(StringBuilder::new()));
    for (name, value) in [("A", "1"), ("B", "2")] {
        map.keys().append_value(name);
        map.values().append_value([Some(value), None]);
    }
    map.append(true).expect("keys and values");
    map.append(false).expect("a null");
    map.append(true).expect("nothing");
    Arc::new(map.finish())
}

fn pairs() -> ArrayRef {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let pair = StructBuilder::from_fields(vec![text("value"), text("name")], 4);
    let mut list = ListBuilder::new(pair);
    for (name, value) in [("A", "1"), ("B", "2")] {
        let pair = list.values();
        pair.field_builder::<StringBuilder>(0).expect("value").append_value(value);
        pair.field_builder::<StringBuilder>(1).expect("name").append_value(name);
        pair.append(true);
    }
    list.append(true);
    list.append(false);
    list.append(true);
    Arc::new(list.finish())
}

fn struct_headers() -> ArrayRef {
    let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(7), None]));
    let b: ArrayRef = Arc::new(StringArray::from(vec![Some("2"), Some("hidden"), None]));
    let fields = vec![Field::new("A", DataType::Int64, true), Field::new("B", DataType::Utf8, true)];
    Arc::new(StructArray::new(fields.into(), vec![a, b], Some(vec![true, false, true].into())))
}

#[test]
fn headers_may_be_json_a_map_pairs_or_a_struct() {
    let files = Files::new();
    for column in [json_headers(), map_headers(), map_of_lists(), pairs(), struct_headers()] {
        let data_type = column.data_type().clone();
        let rows = rows(&write(&files, &batch(vec![("url", url_column(3)), ("headers", column)]), 2));
        let read: Vec<_> = rows.iter().map(headers).collect();
        assert_eq!(vec![vec![("A", "1"), ("B", "2")], vec![], vec![]], read, "{data_type}");
        assert_eq!([None, None, None].as_slice(), defects(&rows), "{data_type}");
    }
}

#[test]
fn columns_of_unsupported_types_are_refused_before_the_first_row() {
    let files = Files::new();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let cases = [
        ("url", "is neither text nor binary; its type is Int64"),
        ("body", "is neither text nor binary; its type is Int64"),
        (
            "headers",
            "can't be read as headers: it may be text (a JSON object), a map, a struct, or a list of structs of name and value; its type is Int64",
        ),
    ];
    for (name, expected) in cases {
        let mut columns = vec![(name, numbers.clone())];
        if name != "url" {
            columns.push(("url", url_column(1)));
        }
        let error = open_error(&write(&files, &batch(columns), 100));
        assert_eq!(format!("urls.parquet: the column {name:?} {expected}"), files.message(&error));
    }
}

#[test]
fn a_file_that_is_not_a_complete_parquet_file_is_an_error() {
    let files = Files::new();
    for text in ["", "http://a/\n"] {
        let error = open_error(&files.write("urls.parquet", text));
        assert_eq!("urls.parquet: not a Parquet file: it does not begin with PAR1", files.message(&error));
    }
    let options = write(&files, &batch(vec![("url", url_column(1000))]), 100);
    let bytes = std::fs::read(&options.input).expect("a file");
    let message = files.message(&open_error(&files.write("urls.parquet", &bytes[..bytes.len() / 2])));
    assert!(message.starts_with("urls.parquet: not a complete Parquet file: "), "{message}");
}

#[test]
fn a_file_without_the_url_column_is_refused_with_its_columns() {
    let files = Files::new();
    let error = open_error(&write(&files, &batch(vec![("link", url_column(1)), ("id", url_column(1))]), 100));
    assert_eq!(
        "urls.parquet: there is no column \"url\" with URLs: use url_column to name the one that has them, or url to make them of other columns; the columns are \"link\", \"id\"",
        files.message(&error)
    );
}

#[test]
fn a_damaged_row_group_ends_the_job_after_the_rows_before_it() {
    let files = Files::new();
    let options = write(&files, &batch(vec![("url", url_column(4000))]), 1000);
    let mut bytes = std::fs::read(&options.input).expect("a file");
    let third = bytes.windows(13).position(|window| window == b"http://a/2000").expect("its first value");
    // The end of the page header, and the length of the value.
    bytes[third - 12..third].fill(0xFF);
    let (rows, error) = drain(open(&files.write("urls.parquet", bytes)).as_mut());
    assert_eq!(2000, rows.len());
    let message = files.message(&error.expect("a damaged file"));
    let start = "urls.parquet: damaged: it can't be read beyond row group 3 of 4, after 2000 rows (";
    assert!(message.starts_with(start), "{message}");
}

/// The footer determines how many rows are skipped, so rows that are read must have the same ordinals.
#[test]
fn a_row_group_whose_rows_contradict_the_footer_is_damaged() {
    let files = Files::new();
    let options = write(&files, &batch(vec![("url", url_column(2000))]), 1000);
    let bytes = std::fs::read(&options.input).expect("a file");
    let whole = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(bytes.clone())).expect("a footer");
    for (rows, expected) in [(999, 1000), (1001, 2000)] {
        let mut builder = whole.clone().into_builder();
        let mut groups = builder.take_row_groups();
        groups[1] = groups[1].clone().into_builder().set_num_rows(rows).build().expect("a row group");
        let metadata = builder.set_row_groups(groups).build();
        // The first footer stays in place, as bytes that no reader reads.
        let mut lying = bytes.clone();
        ParquetMetaDataWriter::new(&mut lying, &metadata).finish().expect("a footer");
        let (read, error) = drain(open(&files.write("urls.parquet", lying)).as_mut());
        assert_eq!(expected, read.len());
        let message = files.message(&error.expect("a damaged file"));
        let end = format!(
            "row group 2 of 2, after {expected} rows (it doesn't have the {rows} rows that its footer states); get an intact copy and start over with if_exists=overwrite"
        );
        assert!(message.ends_with(&end), "{message}");
    }
}

#[test]
fn large_bodies_make_small_batches_even_if_a_dictionary_hides_their_size() {
    let files = Files::new();
    let large = "x".repeat(300_000);
    let same: ArrayRef = Arc::new(std::iter::repeat_n(Some(&large), 100).collect::<StringArray>());
    let different: ArrayRef = Arc::new((0..100).map(|row| Some(format!("{row}{large}"))).collect::<StringArray>());
    for bodies in [same, different] {
        let mut source = open(&write(&files, &batch(vec![("url", url_column(100)), ("body", bodies)]), 1000));
        let mut count = 0;
        while let Some(batch) = source.next_batch().expect("a good file") {
            assert!(batch.iter().filter_map(body).map(<[u8]>::len).sum::<usize>() < MAX_BATCH_BYTES + 310_000);
            count += batch.len();
        }
        assert_eq!(100, count);
    }
}

#[test]
fn kept_columns_keep_their_types_and_dictionaries_become_their_values() {
    let ids: ArrayRef = Arc::new((0..3000).map(|id| (id % 7 != 0).then_some(id)).collect::<Int64Array>());
    let flags: ArrayRef = Arc::new((0..3000).map(|id| Some(id % 3 == 0)).collect::<BooleanArray>());
    let texts: Vec<String> = (0..3000).map(|id| format!("text {}", id % 10)).collect();
    let plain: ArrayRef = Arc::new(LargeStringArray::from(texts.clone()));
    let dictionary: ArrayRef =
        Arc::new(texts.iter().map(|text| Some(text.as_str())).collect::<DictionaryArray<Int32Type>>());
    let hydrated: ArrayRef = Arc::new(StringArray::from(texts));
    let nested = Arc::new(arrow_select::concat::concat(&vec![&map_of_lists() as &dyn Array; 1000]).expect("one type"));
    let columns = vec![
        ("id", ids.clone()),
        ("url", url_column(3000)),
        ("flag", flags.clone()),
        ("plain", plain.clone()),
        ("dictionary", dictionary),
        ("nested", nested.clone() as ArrayRef),
    ];
    let files = Files::new();
    let written = batch(columns);
    let names = ["dictionary", "id", "plain", "flag", "nested"];
    let options = SourceOptions { keep: names.map(str::to_owned).to_vec(), ..write(&files, &written, 1700) };

    let kept = kept(&options);
    let expected: [ArrayRef; 5] = [hydrated, ids, plain, flags, nested];
    let fields = names.iter().zip(&expected).map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    assert_eq!(Schema::new(fields.collect::<Vec<_>>()), *kept.schema().as_ref());
    assert_eq!(expected.as_slice(), kept.columns());
}

/// Flips one bit of each byte of the footer at a time: this bit is the sign of many of its numbers.
#[test]
fn a_damaged_footer_is_an_error_or_harmless_and_never_a_panic() {
    let files = Files::new();
    let options = write(&files, &batch(vec![("url", url_column(3)), ("body", url_column(3))]), 2);
    let bytes = std::fs::read(&options.input).expect("a file");
    let mut errors = 0;
    for damaged in bytes.len() / 3..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[damaged] ^= 1;
        let opened = headgate_table::source::open::open(&files.write("urls.parquet", bytes));
        if opened.and_then(|mut source| drain(source.as_mut()).1.map_or(Ok(()), Err)).is_err() {
            errors += 1;
        }
    }
    assert!(errors > 100, "only {errors} were noticed");
}

#[test]
fn dictionaries_within_kept_columns_become_their_values() {
    let mut list = ListBuilder::new(arrow_array::builder::StringDictionaryBuilder::<Int32Type>::new());
    list.append_value([Some("a"), Some("b"), None]);
    list.append_value([Some("a")]);
    let files = Files::new();
    let columns = vec![("url", url_column(2)), ("tags", Arc::new(list.finish()) as ArrayRef)];
    let options = SourceOptions { keep: vec!["tags".into()], ..write(&files, &batch(columns), 100) };

    let mut expected = ListBuilder::new(StringBuilder::new());
    expected.append_value([Some("a"), Some("b"), None]);
    expected.append_value([Some("a")]);
    assert_eq!([Arc::new(expected.finish()) as ArrayRef].as_slice(), kept(&options).columns());
}

#[test]
fn rows_keep_their_own_columns_if_a_batch_ends_within_a_record_batch() {
    let files = Files::new();
    let same: ArrayRef = Arc::new(std::iter::repeat_n(Some("x".repeat(300_000)), 50).collect::<StringArray>());
    let ids: ArrayRef = Arc::new((0..50).map(Some).collect::<Int64Array>());
    let columns = vec![("url", url_column(50)), ("body", same), ("id", ids.clone())];
    let options = SourceOptions { keep: vec!["id".into()], ..write(&files, &batch(columns), 100) };
    assert_eq!([ids].as_slice(), kept(&options).columns());
}

#[test]
fn a_page_that_states_too_large_a_size_is_refused_before_it_is_decompressed() {
    let files = Files::new();
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(3000), "y".repeat(20_000)]));
    let options = write(&files, &batch(vec![("url", url_column(2)), ("note", long)]), 1);
    let options = SourceOptions { keep: vec!["note".into()], max_page_size: 10_000, ..options };
    let (rows, error) = drain(open(&options).as_mut());
    assert_eq!(1, rows.len());
    let message = files.message(&error.expect("a page that is too large"));
    let start = "urls.parquet: row group 2 has a page of 20,0";
    let end = "bytes, decompressed, in the column \"note\", where 10,000 are allowed; if you trust the file, allow more with max_page_size";
    assert!(message.starts_with(start) && message.ends_with(end), "{message}");
    // An unused column is not read.
    assert_eq!(2, drain(open(&SourceOptions { keep: Vec::new(), ..options }).as_mut()).0.len());
}

#[test]
fn pages_are_read_in_each_codec_within_their_bounds() {
    let files = Files::new();
    let texts: ArrayRef = Arc::new((0..3000).map(|row| Some(format!("note {row}"))).collect::<StringArray>());
    let records = batch(vec![("url", url_column(3000)), ("note", texts)]);
    for codec in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let path = files.path("urls.parquet");
            let properties = WriterProperties::builder()
                .set_compression(codec)
                .set_writer_version(version)
                .set_max_row_group_row_count(Some(1000))
                .set_data_page_row_count_limit(100)
                .set_write_batch_size(50)
                .build();
            let file = File::create(&path).expect("a file");
            let mut writer = ArrowWriter::try_new(file, records.schema(), Some(properties)).expect("a schema");
            writer.write(&records).expect("rows");
            writer.close().expect("an end");
            let options = SourceOptions { keep: vec!["note".into()], max_page_size: 100_000, ..options(&path) };
            assert_eq!(3000, rows(&options).len(), "{codec:?} {version:?}");
            let mut skipped = open(&options);
            skipped.skip_to(2345).expect("so many");
            let left = crate::drain_from(skipped.as_mut(), 2345).0;
            assert_eq!((655, "http://a/2345"), (left.len(), urls(&left)[0]), "{codec:?} {version:?}");
        }
    }
}
