//! Requests whose parts come from the columns of each input format.

use std::fs::File;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Float64Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
    UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::extension::{Json, Uuid};
use arrow_schema::{DataType, Field, Fields, Schema};
use headgate_core::error::JobErrorKind;
use headgate_core::options::{SourceOptions, Templates};
use headgate_table::source::content::{Content, Unread};
use parquet::arrow::ArrowWriter;

use crate::{Files, body, defects, headers, open, open_error, options, rows, urls};

fn with_json(options: SourceOptions, document: &str) -> SourceOptions {
    SourceOptions { templates: Templates { json: Some(document.into()), ..Templates::default() }, ..options }
}

fn with_url(options: SourceOptions, url: &str) -> SourceOptions {
    SourceOptions { url: Some(url.into()), ..options }
}

fn parquet(files: &Files, columns: &[(&str, ArrayRef)]) -> SourceOptions {
    let columns = columns.iter().map(|(name, column)| (*name, column.clone(), true));
    parquet_of(files, &RecordBatch::try_from_iter_with_nullable(columns).expect("columns"))
}

fn parquet_of(files: &Files, records: &RecordBatch) -> SourceOptions {
    let path = files.path("rows.parquet");
    let mut writer = ArrowWriter::try_new(File::create(&path).expect("a file"), records.schema(), None).expect("types");
    writer.write(records).expect("rows");
    writer.close().expect("an end");
    options(&path)
}

fn text(options: &SourceOptions) -> Vec<String> {
    rows(options).iter().map(|row| String::from_utf8_lossy(body(row).unwrap_or(b"none")).into_owned()).collect()
}

#[test]
fn each_format_fills_templates_of_urls_and_bodies_from_its_columns() {
    let files = Files::new();
    let lines = [
        r#"{"id":"a/b","n":18446744073709551616.0,"url":7,"body":"old","n ":1}"#,
        r#"{"id":"ü","n":null,"url":7,"n ":1}"#,
        r#"{"n":[1, 2],"url":7}"#,
    ];
    let parquet = parquet(
        &files,
        &[
            ("n", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(1.0)]))),
            ("id", Arc::new(StringArray::from(vec![Some("a/b"), Some("ü"), None]))),
            ("body", Arc::new(StringArray::from(vec!["old"; 3]))),
        ],
    );
    for (bodies, options) in [
        (
            ["[\"5\"]", "[null]", "[\"[1, 2]\"]"],
            files.write("rows.csv", "id,n,body\na/b,5,old\nü,,old\n,\"[1, 2]\",old\n"),
        ),
        (
            ["[\"5\"]", "[null]", "[\"[1, 2]\"]"],
            files.write("rows.tsv", "id\tn\tbody\na/b\t5\told\nü\t\told\n\t[1, 2]\told\n"),
        ),
        (["[18446744073709551616.0]", "[null]", "[[1, 2]]"], files.write("rows.ndjson", lines.join("\n"))),
        (["[0.5]", "[null]", "[1.0]"], parquet),
    ] {
        let options = with_json(with_url(options, "http://h/{id|none}"), r#"["{n}"]"#);
        let rows = rows(&options);
        assert_eq!(["http://h/a%2Fb", "http://h/%C3%BC", "http://h/none"].as_slice(), urls(&rows), "{}", options.input);
        assert_eq!(bodies.as_slice(), text(&options), "{}", options.input);
        assert_eq!([None; 3].as_slice(), defects(&rows));
        assert_eq!(Some("application/json"), rows[0].extra.as_ref().and_then(|extra| extra.body_type.as_deref()));
    }
}

#[test]
fn a_null_makes_its_row_invalid_and_the_job_continues() {
    let files = Files::new();
    let message = "the column \"id\" has no value; {id|} sends an empty one";
    for (place, options) in [
        ("line 3", files.write("rows.csv", "id,n\n1,1\n,2\n3,3\n")),
        ("line 2", files.write("rows.ndjson", "{\"id\":1}\n{\"id\":null}\n{\"id\":3}\n")),
        ("line 2", files.write("other.ndjson", "{\"id\":1}\n{}\n{\"id\":3}\n")),
        ("row 1", parquet(&files, &[("id", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])))])),
    ] {
        let rows = rows(&with_url(options, "http://h/{id}"));
        assert_eq!(["http://h/1", "", "http://h/3"].as_slice(), urls(&rows));
        let expected = format!("{message} ({place})");
        assert_eq!([None, Some(&*expected), None].as_slice(), defects(&rows));
    }
}

#[test]
fn a_missing_column_is_refused_with_the_existing_columns() {
    let files = Files::new();
    for (expected, options) in [
        (
            "rows.csv: there is no column \"x\" for url; the columns are \"id\", \"url\"",
            files.write("rows.csv", "id,url\n"),
        ),
        ("urls.txt: there is no column \"x\" for url; the columns are \"line\"", files.write("urls.txt", "1\n")),
        (
            "rows.parquet: there is no column \"x\" for url; the columns are \"id\"",
            parquet(&files, &[("id", Arc::new(Int64Array::from(vec![1])))]),
        ),
    ] {
        let error = open_error(&with_url(options.clone(), "http://h/{x}"));
        assert_eq!(expected, files.message(&error));
        let column = SourceOptions { if_none_match_column: Some("etag".into()), ..options };
        let message = files.message(&open_error(&column));
        // Beside it, the file without a column of URLs lacks that.
        let missing = message.find("there is no column \"etag\" for if_none_match_column");
        assert!(missing < message.find("; the columns are"), "{message}");
        assert!(missing.is_some(), "{message}");
    }
    let pattern = SourceOptions { input: "http://h/[1-2]".into(), ..SourceOptions::default() };
    let message = open_error(&with_json(pattern.clone(), "[\"{x}\"]")).to_string();
    assert_eq!("http://h/[1-2]: there is no column \"x\" for json; there are no columns at all", message);
    let message = open_error(&with_url(pattern.clone(), "http://h/")).to_string();
    let expected =
        "http://h/[1-2]: the input is a URL already, and url makes URLs of the rows of a file: leave one of them out";
    assert_eq!(expected, message);
    assert_eq!(["[{}]", "[{}]"].as_slice(), text(&with_json(pattern, "[{}]")));
}

#[test]
fn a_mistake_in_a_template_is_an_error_before_the_input_is_opened() {
    let options = with_json(options(std::path::Path::new("/nowhere.csv")), "{");
    let error = open_error(&options);
    let expected = "json: not JSON: EOF while parsing an object at line 1 column 1";
    assert_eq!((JobErrorKind::Usage, expected), (error.kind, &*error.to_string()));
}

#[test]
fn a_line_of_a_list_is_its_only_column() {
    let files = Files::new();
    let list = files.write("ids.txt", format!("a b \n\n# c\r\n{}\n", "x".repeat(70_000)));
    let rows = rows(&with_url(list.clone(), "http://h/?q={line}"));
    let urls = urls(&rows);
    assert_eq!("http://h/?q=a%20b", urls[0]);
    assert_eq!(Some("the line is longer than 65536 bytes (line 4)"), defects(&rows)[rows.len() - 1]);
    let list = files.write("urls.txt", "http://h/1\n");
    assert_eq!(["[\"http://h/1\"]"].as_slice(), text(&with_json(list, "[\"{line}\"]")));
}

#[test]
fn values_of_parquet_keep_their_types() {
    let files = Files::new();
    let items = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    let fields = vec![
        (Arc::new(Field::new("n", DataType::Int64, true)), Arc::new(Int64Array::from(vec![None, Some(1)])) as ArrayRef),
        (
            Arc::new(Field::new("t", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec![Some("\"\n"), None])) as ArrayRef,
        ),
    ];
    let dictionary: DictionaryArray<Int32Type> = vec![Some("a"), None].into_iter().collect();
    let decimals = Decimal128Array::from(vec![Some(1050), None]).with_precision_and_scale(38, 2).expect("a decimal");
    let times = TimestampMicrosecondArray::from(vec![Some(1_778_751_000_000_000), None]);
    let columns: [(&str, &str, &str, ArrayRef); 11] = [
        ("u", "18446744073709551615", "18446744073709551615", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None]))),
        ("f", "0.1", "0.1", Arc::new(Float64Array::from(vec![Some(0.1), None]))),
        ("b", "true", "true", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("dec", "10.50", "10.50", Arc::new(decimals)),
        ("list", "[1,null]", "[1,null]", Arc::new(items)),
        (
            "struct",
            r#"{"n":null,"t":"\"\n"}"#,
            r#"{\"n\":null,\"t\":\"\\\"\\n\"}"#,
            Arc::new(StructArray::from(fields)),
        ),
        ("date", "\"2026-05-14\"", "2026-05-14", Arc::new(Date32Array::from(vec![Some(20_587), None]))),
        ("time", "\"2026-05-14T09:30:00\"", "2026-05-14T09:30:00", Arc::new(times.clone())),
        ("zoned", "\"2026-05-14T09:30:00Z\"", "2026-05-14T09:30:00Z", Arc::new(times.with_timezone("Europe/Berlin"))),
        ("bin", "\"a\"", "a", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"a"), None]))),
        ("dict", "\"a\"", "a", Arc::new(dictionary)),
    ];
    for (name, value, within, column) in columns {
        let urls: ArrayRef = Arc::new(StringArray::from(vec!["http://h/"; 2]));
        let input = parquet(&files, &[("url", urls), (name, column)]);
        let document = format!(r#"["{{{name}}}","{{{name}:string|none}}"]"#);
        let second = if name == "struct" { r#"[{"n":1,"t":null},"{\"n\":1,\"t\":null}"]"# } else { "[null,\"none\"]" };
        let expected = [format!("[{value},\"{within}\"]"), second.to_owned()];
        assert_eq!(expected.as_slice(), text(&with_json(input, &document)), "{name}");
    }
}

#[test]
fn a_number_that_json_cannot_represent_makes_its_row_invalid() {
    let files = Files::new();
    let urls: ArrayRef = Arc::new(StringArray::from(vec!["http://h/"; 3]));
    let numbers = Float64Array::from(vec![Some(f64::NAN), Some(1.0), Some(f64::INFINITY)]);
    let field = Arc::new(Field::new("x", DataType::Float64, true));
    let nested = StructArray::from(vec![(field, Arc::new(numbers.clone()) as ArrayRef)]);
    for column in [Arc::new(numbers) as ArrayRef, Arc::new(nested)] {
        let rows = rows(&with_json(parquet(&files, &[("url", urls.clone()), ("n", column)]), "[\"{n}\"]"));
        let message = |row: u64| {
            let problem = "the column \"n\" has a number that JSON can't represent: infinity or NaN";
            format!("{problem} (row {row})")
        };
        assert_eq!([Some(&*message(0)), None, Some(&*message(2))].as_slice(), defects(&rows));
    }
}

#[test]
fn conditional_headers_may_come_from_columns_with_timestamps() {
    let files = Files::new();
    let times = TimestampMicrosecondArray::from(vec![Some(1_778_751_000_000_000), None]).with_timezone("UTC");
    let columns: [(&str, ArrayRef); 3] = [
        ("url", Arc::new(StringArray::from(vec!["http://h/"; 2]))),
        ("etag", Arc::new(StringArray::from(vec![Some("\"x\""), None]))),
        ("seen", Arc::new(times)),
    ];
    let options = SourceOptions {
        if_none_match_column: Some("etag".into()),
        if_modified_since_column: Some("seen".into()),
        ..parquet(&files, &columns)
    };
    let rows = rows(&options);
    let expected = vec![("if-none-match", "\"x\""), ("if-modified-since", "Thu, 14 May 2026 09:30:00 GMT")];
    assert_eq!((expected, Vec::new()), (headers(&rows[0]), headers(&rows[1])));
}

#[test]
fn columns_of_templates_are_part_of_the_compared_content() {
    let files = Files::new();
    let input = |tenant: &str| {
        let columns: [(&str, ArrayRef); 2] = [
            ("url", Arc::new(StringArray::from(vec!["http://h/"; 2]))),
            ("tenant", Arc::new(StringArray::from(vec!["a", tenant]))),
        ];
        let headers = vec![("X-Tenant".into(), "{tenant}".into())];
        let templates = Templates { headers, ..Templates::default() };
        SourceOptions { templates, ..parquet(&files, &columns) }
    };
    let read = |then: Option<&Content>, tenant: &str| {
        let options = input(tenant);
        let mut source = open(&options);
        let tracked = source.track(&options.input, then, Unread::Compared).expect("the same columns").expect("a file");
        source.next_batch().map(|_| tracked.up_to(2).expect("two rows"))
    };
    let then = read(None, "b").expect("a first pass");
    assert!(read(Some(&then), "b").is_ok());
    let changed = read(Some(&then), "c").expect_err("another value").to_string();
    assert!(changed.contains("has changed since it was read"), "{changed}");
}

#[test]
fn a_uuid_is_text_and_a_json_column_is_json() {
    let files = Files::new();
    let uuid = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        [Some(*b"\x55\x0e\x84\0\xe2\x9b\x41\xd4\xa7\x16\x44\x66\x55\x44\0\xff"), None, None].into_iter(),
        16,
    );
    let json = StringArray::from(vec![Some(" {\"a\": [1.10]} "), None, Some("{")]);
    let schema = Schema::new(vec![
        Field::new("id", DataType::FixedSizeBinary(16), true).with_extension_type(Uuid),
        Field::new("j", DataType::Utf8, true).with_extension_type(Json::default()),
    ]);
    let columns: Vec<ArrayRef> = vec![Arc::new(uuid.expect("16 bytes each")), Arc::new(json)];
    let records = RecordBatch::try_new(Arc::new(schema), columns).expect("columns");
    let options =
        with_json(with_url(parquet_of(&files, &records), "http://h/{id|}"), r#"["{id}", "{j}", "{j:string|}"]"#);
    let rows = rows(&options);
    let id = "550e8400-e29b-41d4-a716-4466554400ff";
    assert_eq!([&*format!("http://h/{id}"), "http://h/", "http://h/"].as_slice(), urls(&rows));
    let first = format!(r#"["{id}", {{"a": [1.10]}}, "{{\"a\": [1.10]}}"]"#);
    assert_eq!([&*first, r#"[null, null, ""]"#, "none"].as_slice(), text(&options));
    let message = "the column \"j\" is of the type JSON and has text that is not JSON (row 2)";
    assert_eq!([None, None, Some(message)].as_slice(), defects(&rows));
}

#[test]
fn a_nested_uuid_is_text() {
    let files = Files::new();
    let bytes = *b"\x55\x0e\x84\0\xe2\x9b\x41\xd4\xa7\x16\x44\x66\x55\x44\0\xff";
    let uuids = || {
        let uuids = [Some(bytes), None].into_iter();
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).expect("16 bytes each")) as ArrayRef
    };
    let uuid = Arc::new(Field::new("id", DataType::FixedSizeBinary(16), true).with_extension_type(Uuid));
    let list_item = uuid.clone();
    let plain = Arc::new(Field::new("raw", DataType::FixedSizeBinary(16), true));
    let members = StructArray::from(vec![(uuid, uuids()), (plain, uuids())]);
    let list = ListArray::new(list_item.clone(), OffsetBuffer::from_lengths([2, 0]), uuids(), None);
    let names = Arc::new(Field::new("keys", DataType::Utf8, false));
    let entries = Fields::from(vec![names, Arc::new(list_item.as_ref().clone().with_name("values"))]);
    let pairs: Vec<ArrayRef> = vec![Arc::new(StringArray::from(vec!["a", "b"])), uuids()];
    let pairs = StructArray::new(entries.clone(), pairs, None);
    let entries = Arc::new(Field::new("entries", DataType::Struct(entries), false));
    let map = MapArray::new(entries, OffsetBuffer::from_lengths([1, 1]), pairs, None, false);
    let options = parquet(&files, &[("s", Arc::new(members)), ("l", Arc::new(list)), ("m", Arc::new(map))]);
    let options = with_json(with_url(options, "http://h/"), r#"["{s}", "{l}", "{m}"]"#);
    let (id, raw) = ("550e8400-e29b-41d4-a716-4466554400ff", "550e8400e29b41d4a7164466554400ff");
    let first = format!(r#"[{{"id":"{id}","raw":"{raw}"}}, ["{id}",null], {{"a":"{id}"}}]"#);
    assert_eq!([&*first, r#"[{"id":null,"raw":null}, [], {"b":null}]"#].as_slice(), text(&options));
}

#[test]
fn headers_and_body_columns_of_results_are_not_sent_unless_named() {
    let files = Files::new();
    let text = |values: [&str; 2]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let numbers = || Arc::new(Int64Array::from(vec![0, 1])) as ArrayRef;
    let columns = [
        ("row", numbers()),
        ("url", text(["http://h/"; 2])),
        ("method", text(["GET", "POST"])),
        ("status", Arc::new(Int64Array::from(vec![Some(200), None])) as ArrayRef),
        ("error", Arc::new(StringArray::from(vec![None, Some("timeout")]))),
        ("attempts", numbers()),
        ("headers", text(["{\"Set-Cookie\":\"a=b\"}"; 2])),
        ("body", text(["a response"; 2])),
        ("etag", text(["\"x\""; 2])),
    ];
    let of_response = r#""headers":[{"name":"Set-Cookie","value":"a=b"}],"body":"a response","etag":"\"x\"""#;
    let lines = [
        format!(r#"{{"row":0,"url":"http://h/","method":"GET","status":200,"error":null,"attempts":0,{of_response}}}"#),
        format!(
            r#"{{"row":1,"url":"http://h/","method":"POST","status":null,"error":"timeout","attempts":1,{of_response}}}"#
        ),
    ];
    for options in [parquet(&files, &columns), files.write("rows.ndjson", lines.join("\n"))] {
        let options = SourceOptions { input: options.input, url_only: true, ..SourceOptions::default() };
        let second = SourceOptions { if_none_match_column: Some("etag".into()), ..options.clone() };
        let rows = rows(&second);
        assert_eq!([None; 2].as_slice(), defects(&rows));
        for row in &rows {
            assert_eq!((vec![("if-none-match", "\"x\"")], None), (headers(row), body(row)), "{}", second.input);
        }
        let chosen = crate::rows(&SourceOptions { body_column: Some("etag".into()), ..options });
        assert_eq!(Some(b"\"x\"".as_slice()), body(&chosen[1]));
    }
}
