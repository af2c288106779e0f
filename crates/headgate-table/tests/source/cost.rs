//! The column with the cost of a row for the rate limiter.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt8Array};
use headgate_core::options::SourceOptions;
use headgate_core::row::Row;
use headgate_table::source::content::Unread;
use parquet::arrow::ArrowWriter;

use crate::{Files, defects, drain, open, open_error, options, rows, urls};

fn with_costs(options: SourceOptions) -> SourceOptions {
    SourceOptions { cost_column: Some("tokens".into()), ..options }
}

fn costs(rows: &[Row]) -> Vec<Option<u64>> {
    rows.iter().map(|row| row.extra.as_ref().and_then(|extra| extra.cost)).collect()
}

fn parquet(files: &Files, costs: &ArrayRef) -> SourceOptions {
    let path = files.path("urls.parquet");
    let url: ArrayRef = Arc::new((0..costs.len()).map(|row| Some(format!("http://a/{row}"))).collect::<StringArray>());
    let columns = [("url", url, true), ("tokens", costs.clone(), true)];
    let records = RecordBatch::try_from_iter_with_nullable(columns).expect("columns");
    let mut writer = ArrowWriter::try_new(File::create(&path).expect("a file"), records.schema(), None).expect("types");
    writer.write(&records).expect("rows");
    writer.close().expect("an end");
    options(&path)
}

#[test]
fn each_format_with_columns_may_have_costs_and_a_null_is_no_cost() {
    let files = Files::new();
    let csv = "url,tokens\nhttp://a/0,12\nhttp://a/1,\nhttp://a/2,1.5\n";
    let lines = [
        "{\"url\":\"http://a/0\",\"tokens\":12}",
        "{\"url\":\"http://a/1\",\"tokens\":null}",
        "{\"tokens\":\"1.5\",\"url\":\"http://a/2\"}",
    ];
    let inputs = [
        files.write("urls.csv", csv),
        files.write("urls.tsv", csv.replace(',', "\t")),
        files.write("urls.ndjson", lines.join("\n")),
        parquet(&files, &(Arc::new(Float64Array::from(vec![Some(12.0), None, Some(1.5)])) as ArrayRef)),
    ];
    for options in inputs {
        let rows = rows(&with_costs(options.clone()));
        assert_eq!([Some(12), None, Some(2)].as_slice(), costs(&rows), "{}", options.input);
        assert_eq!(["http://a/0", "http://a/1", "http://a/2"].as_slice(), urls(&rows));
        assert_eq!([None; 3].as_slice(), defects(&rows));
        // Without the option, it is a column like any other.
        assert_eq!([None; 3].as_slice(), costs(&crate::rows(&options)));
    }
    let line = files.write("none.ndjson", "{\"url\":\"http://a/0\"}");
    assert_eq!([None].as_slice(), costs(&rows(&with_costs(line))));
}

#[test]
fn an_invalid_cost_is_a_defect_of_its_row_that_names_the_column_and_the_value() {
    let files = Files::new();
    let inputs = [
        ("line 2", files.write("urls.csv", "url,tokens\nhttp://a/,-3\n")),
        ("line 1", files.write("urls.ndjson", "{\"url\":\"http://a/\",\"tokens\":-3}")),
        ("row 0", parquet(&files, &(Arc::new(Int64Array::from(vec![-3])) as ArrayRef))),
    ];
    for (place, options) in inputs {
        let expected =
            format!("the column \"tokens\" has no cost: a cost is a number, and not below 0 ({place}: `-3`)");
        let rows = rows(&with_costs(options));
        assert_eq!((vec![Some(&*expected)], vec![None]), (defects(&rows), costs(&rows)));
    }
}

#[test]
fn cost_columns_of_parquet_may_have_any_type_of_number_or_text() {
    let files = Files::new();
    let columns: [ArrayRef; 3] = [
        Arc::new(UInt8Array::from(vec![7, 255])),
        Arc::new(Int64Array::from(vec![7, 255])),
        Arc::new(StringArray::from(vec!["7", " 255 "])),
    ];
    for column in columns {
        assert_eq!(
            vec![Some(7), Some(255)],
            costs(&rows(&with_costs(parquet(&files, &column)))),
            "{:?}",
            column.data_type()
        );
    }
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    assert_eq!(
        "urls.parquet: the column \"tokens\" can't be read as costs: they are numbers, or text with them; its type is Boolean",
        files.message(&open_error(&with_costs(parquet(&files, &flags))))
    );
}

#[test]
fn a_missing_cost_column_is_refused_with_the_existing_columns() {
    let files = Files::new();
    let error = open_error(&with_costs(files.write("urls.csv", "id,url\n")));
    let expected = "urls.csv: there is no column \"tokens\" for cost_column; the columns are \"id\", \"url\"";
    assert_eq!(expected, files.message(&error));
    for input in [files.write("urls.txt", ""), options(Path::new("http://a/[1-3]")), options(Path::new("-"))] {
        let expected = format!(
            "{}: there are no costs in a list of URLs: cost_column is for .csv, .tsv, .ndjson and .parquet",
            input.input
        );
        assert_eq!(expected, open_error(&with_costs(input)).to_string());
    }
}

#[test]
fn a_job_resumes_with_changed_costs() {
    let files = Files::new();
    let plain = parquet(&files, &(Arc::new(Int64Array::from(vec![3, 4])) as ArrayRef));
    let with_costs = with_costs(plain.clone());
    for (then, now) in [(&plain, &with_costs), (&with_costs, &plain)] {
        let mut source = open(then);
        let read = source.track(&then.input, None, Unread::Trusted).expect("columns").expect("a file");
        drain(source.as_mut());
        let content = read.up_to(2).expect("both rows");
        let mut source = open(now);
        source.track(&now.input, Some(&content), Unread::Compared).expect("the same columns");
        let (rows, error) = drain(source.as_mut());
        assert_eq!((2, None), (rows.len(), error));
    }
}
