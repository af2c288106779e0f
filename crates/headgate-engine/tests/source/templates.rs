//! Requests that are made of the columns of each form of input.

use std::fs::File;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array,
    ListArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field};
use headgate_engine::model::error::JobErrorKind;
use headgate_engine::model::options::{SourceOptions, Templates};
use headgate_engine::source::content::{Content, Unread};
use parquet::arrow::ArrowWriter;

use crate::{Files, body, defects, headers, open, open_error, options, rows, urls};

fn with_json(options: SourceOptions, document: &str) -> SourceOptions {
    SourceOptions { templates: Templates { json: Some(document.into()), ..Templates::default() }, ..options }
}

fn with_url(options: SourceOptions, url: &str) -> SourceOptions {
    SourceOptions { url: Some(url.into()), ..options }
}

fn parquet(files: &Files, columns: &[(&str, ArrayRef)]) -> SourceOptions {
    let path = files.path("rows.parquet");
    let columns = columns.iter().map(|(name, column)| (*name, column.clone(), true));
    let records = RecordBatch::try_from_iter_with_nullable(columns).expect("columns");
    let mut writer = ArrowWriter::try_new(File::create(&path).expect("a file"), records.schema(), None).expect("types");
    writer.write(&records).expect("rows");
    writer.close().expect("an end");
    options(&path)
}

fn text(options: &SourceOptions) -> Vec<String> {
    rows(options).iter().map(|row| String::from_utf8_lossy(body(row).unwrap_or(b"none")).into_owned()).collect()
}

#[test]
fn each_form_makes_urls_and_bodies_of_its_columns_and_reads_no_column_of_theirs() {
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
fn a_null_makes_its_row_invalid_and_the_job_goes_on() {
    let files = Files::new();
    let told = "the column \"id\" has no value";
    for (place, options) in [
        ("line 3", files.write("rows.csv", "id,n\n1,1\n,2\n3,3\n")),
        ("line 2", files.write("rows.ndjson", "{\"id\":1}\n{\"id\":null}\n{\"id\":3}\n")),
        ("line 2", files.write("other.ndjson", "{\"id\":1}\n{}\n{\"id\":3}\n")),
        ("row 1", parquet(&files, &[("id", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])))])),
    ] {
        let rows = rows(&with_url(options, "http://h/{id}"));
        assert_eq!(["http://h/1", "", "http://h/3"].as_slice(), urls(&rows));
        let expected = format!("{told} ({place})");
        assert_eq!([None, Some(&*expected), None].as_slice(), defects(&rows));
    }
}

#[test]
fn a_column_that_is_missing_is_refused_with_those_there_are() {
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
        let told = files.message(&open_error(&column));
        assert!(told.contains("there is no column \"etag\" for if_none_match_column; the columns are"), "{told}");
    }
    let pattern = SourceOptions { input: "http://h/[1-2]".into(), ..SourceOptions::default() };
    let told = open_error(&with_json(pattern.clone(), "[\"{x}\"]")).to_string();
    assert_eq!("http://h/[1-2]: there is no column \"x\" for json; there are no columns at all", told);
    let told = open_error(&with_url(pattern.clone(), "http://h/")).to_string();
    let expected =
        "http://h/[1-2]: the input is a URL already, and url makes URLs of the rows of a file: leave one of them out";
    assert_eq!(expected, told);
    assert_eq!(["[{}]", "[{}]"].as_slice(), text(&with_json(pattern, "[{}]")));
}

#[test]
fn a_mistake_in_a_template_is_told_before_the_input_is_opened() {
    let options = with_json(options(std::path::Path::new("/nowhere.csv")), "{");
    let error = open_error(&options);
    let expected = "json: not JSON: EOF while parsing an object at line 1 column 1";
    assert_eq!((JobErrorKind::Usage, expected), (error.kind, &*error.to_string()));
}

#[test]
fn a_line_of_a_list_is_the_one_column() {
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
fn values_of_parquet_stay_what_they_are() {
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
fn a_number_that_json_can_not_hold_makes_its_row_invalid() {
    let files = Files::new();
    let urls: ArrayRef = Arc::new(StringArray::from(vec!["http://h/"; 3]));
    let numbers = Float64Array::from(vec![Some(f64::NAN), Some(1.0), Some(f64::INFINITY)]);
    let field = Arc::new(Field::new("x", DataType::Float64, true));
    let nested = StructArray::from(vec![(field, Arc::new(numbers.clone()) as ArrayRef)]);
    for column in [Arc::new(numbers) as ArrayRef, Arc::new(nested)] {
        let rows = rows(&with_json(parquet(&files, &[("url", urls.clone()), ("n", column)]), "[\"{n}\"]"));
        let told = |row: u64| {
            let trouble = "the column \"n\" has a number that JSON can't hold: infinity, or what is not a number";
            format!("{trouble} (row {row})")
        };
        assert_eq!([Some(&*told(0)), None, Some(&*told(2))].as_slice(), defects(&rows));
    }
}

#[test]
fn a_second_pass_takes_headers_of_columns_with_times() {
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
fn rows_are_known_again_by_the_columns_that_templates_need() {
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
