//! Columns of several files: the ones of the files, which all must have, and those of their directories.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, LargeStringArray, StringArray};
use headgate_core::options::SourceOptions;

use crate::keep::kept;
use crate::several::{column, inputs, keeping, parquet, refusal, write_as};
use crate::{Files, open, rows, urls};

/// Returns the texts of a kept column.
fn texts(options: &SourceOptions, name: &str) -> Vec<Option<String>> {
    let kept = kept(&keeping(options.clone(), &[name]));
    let column = kept.column(0).as_any().downcast_ref::<StringArray>().expect("text").clone();
    column.iter().map(|text| text.map(String::from)).collect()
}

#[test]
fn directories_are_columns_of_every_format_with_columns() {
    let files = Files::new();
    for (day, country) in [("1", "CH"), ("2", "a%2Fb"), ("3", "__HIVE_DEFAULT_PARTITION__")] {
        let path = |extension| format!("{extension}/day={day}/country={country}/0.{extension}");
        write_as(&files, &path("csv"), format!("url,day\nhttp://{day}/,own\n"));
        write_as(&files, &path("ndjson"), format!("{{\"url\":\"http://{day}/\",\"day\":\"own\"}}\n"));
        let url = format!("http://{day}/");
        parquet(&files, &path("parquet"), &[("day", column(["own"])), ("url", column([url.as_str()]))]);
    }
    let some = |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>();
    for form in ["csv", "ndjson", "parquet"] {
        let whole = inputs(&files, &[form]);
        // The value of the directory takes precedence over that of the file.
        assert_eq!(some(&["1", "2", "3"]), texts(&whole, "day"), "{form}");
        let countries = [some(&["CH", "a/b"]), vec![None]].concat();
        assert_eq!(countries, texts(&whole, "country"), "{form}");
        assert_eq!(["http://1/", "http://2/", "http://3/"].as_slice(), urls(&rows(&whole)), "{form}");
        let by_country = SourceOptions { url_column: "country".into(), ..whole.clone() };
        assert_eq!(["CH", "a/b", ""].as_slice(), urls(&rows(&by_country)), "{form}");
        let costs = rows(&SourceOptions { cost_column: Some("day".into()), ..whole });
        let costs: Vec<_> = costs.iter().map(|row| row.extra.as_ref().and_then(|extra| extra.cost)).collect();
        assert_eq!([Some(1), Some(2), Some(3)].as_slice(), costs, "{form}");
        // This holds however the directory is named.
        let pattern = inputs(&files, &[&format!("{form}/*/*/*")]);
        assert_eq!(some(&["1", "2", "3"]), texts(&pattern, "day"), "{form}");
        let one = inputs(&files, &[&format!("{form}/day=2/country=a%2Fb/0.{form}")]);
        assert_eq!(some(&["2"]), texts(&one, "day"), "{form}");
        let missing = SourceOptions { url_column: "none".into(), ..inputs(&files, &[form]) };
        if form != "ndjson" {
            assert!(refusal(&files, &missing).ends_with("\"day\", \"country\""), "{form}");
        }
    }
}

#[test]
fn a_column_with_the_name_of_a_directory_column_is_kept_once() {
    let files = Files::new();
    for day in ["1", "2"] {
        write_as(&files, &format!("csv/day={day}/0.csv"), "url,id,day\nhttp://a/,7,own\n");
        let columns = [("day", column(["own"])), ("id", column(["7"])), ("url", column(["http://a/"]))];
        parquet(&files, &format!("parquet/day={day}/0.parquet"), &columns);
    }
    for form in ["csv", "parquet"] {
        let kept = kept(&keeping(inputs(&files, &[form]), &["*"]));
        let names: Vec<_> = kept.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(["id", "day"].as_slice(), names, "{form}");
        let days = kept.column(1).as_any().downcast_ref::<StringArray>().expect("text").clone();
        assert_eq!(vec![Some("1"), Some("2")], days.iter().collect::<Vec<_>>(), "{form}");
    }
}

#[test]
fn all_files_must_have_the_columns_that_are_used() {
    let files = Files::new();
    write_as(&files, "d/a.csv", "url,id\nhttp://a/,1\n");
    write_as(&files, "d/b.csv", "id,link,url\n2,,http://b/\n");
    write_as(&files, "d/c.csv", "");
    let ids = [Some("1".to_owned()), Some("2".to_owned())];
    assert_eq!(ids.as_slice(), texts(&inputs(&files, &["d"]), "id"));
    let whole = inputs(&files, &["d"]);
    let expected = "d/a.csv: there is no column \"link\" to keep; the columns are \"url\", \"id\"";
    assert_eq!(expected, refusal(&files, &keeping(whole.clone(), &["link"])));

    write_as(&files, "d/d.csv", "url,body,id\nhttp://d/,text,4\n");
    assert!(refusal(&files, &whole).starts_with("d/d.csv: the column \"body\" sets more of a request than its URL"));
    let other = SourceOptions { body_column: Some("none".into()), ..whole.clone() };
    assert!(refusal(&files, &other).starts_with("d/a.csv: there is no column \"none\" for body_column"));

    write_as(&files, "d/d.csv", "link\n");
    assert!(refusal(&files, &whole).starts_with("d/d.csv: there is no column \"url\" with URLs"));
    write_as(&files, "list/a.txt", "http://a/\n");
    let list = keeping(inputs(&files, &["list"]), &["id"]);
    assert!(refusal(&files, &list).starts_with("list: there are no columns to keep in a list of URLs"));
}

#[test]
fn all_columns_are_kept_only_if_all_files_have_them() {
    let files = Files::new();
    write_as(&files, "d/a.csv", "url,id\nhttp://a/,1\n");
    write_as(&files, "d/b.csv", "id,url\n2,http://b/\n");
    let whole = keeping(inputs(&files, &["d"]), &["*"]);
    assert_eq!(["1", "2"].map(|id| Some(id.to_owned())).as_slice(), texts(&whole, "id"));
    write_as(&files, "d/c.csv", "url,id,tag\nhttp://c/,3,x\n");
    let expected =
        "d/c.csv: there is a column \"tag\", which d/a.csv doesn't have: list the columns to keep, without *, in keep";
    assert_eq!(expected, refusal(&files, &whole));
    write_as(&files, "d/c.csv", "url\nhttp://c/\n");
    assert!(refusal(&files, &whole).starts_with("d/c.csv: there is no column \"id\" to keep"));
}

#[test]
fn kept_columns_have_one_type_in_all_files_whatever_the_layout_of_text() {
    let files = Files::new();
    parquet(&files, "d/0.parquet", &[("url", column(["http://a/"])), ("id", column(["1"]))]);
    let large: ArrayRef = Arc::new(LargeStringArray::from(vec!["2", "3"]));
    parquet(&files, "d/1.parquet", &[("id", large), ("url", column(["http://b/", "http://c/"]))]);
    let whole = keeping(inputs(&files, &["d"]), &["id"]);
    assert_eq!(["1", "2", "3"].map(|id| Some(id.to_owned())).as_slice(), texts(&whole, "id"));
    assert_eq!(Some(3), open(&whole).size().rows);

    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    parquet(&files, "d/2.parquet", &[("url", column(["http://d/"])), ("id", numbers)]);
    let expected = "d/2.parquet: the column \"id\" can't be kept: its type is Int64 here, and Utf8 in d/0.parquet";
    assert_eq!(expected, refusal(&files, &whole));
    assert_eq!(4, rows(&inputs(&files, &["d"])).len());
}
