//! The file names that templates make from rows.

use std::fs;

use headgate_core::error::JobErrorKind;
use headgate_core::options::SaveFormat;
use headgate_engine::Run;

use super::{check, saving, saving_rows};
use crate::harness::{ResultRow, Rig, server, url};
use crate::scripted::{Scripted, response};

#[test]
fn a_template_that_leads_out_of_the_directory_is_refused() {
    for (template, problem) in [
        ("/etc/{row}", "leave out the / at the beginning"),
        ("../{row}", "leave out . and .."),
        ("a/../{row}", "leave out . and .."),
        ("./{row}", "leave out . and .."),
        ("a//{row}", "a part of the name between slashes is empty"),
        ("a/", "a part of the name between slashes is empty"),
        ("a\\{row}", "a name can't have a backslash or control characters"),
        ("a\0{row}", "a name can't have a backslash or control characters"),
        ("{row", "isn't closed"),
    ] {
        let rig = saving(template, ["http://127.0.0.1:1/"]);
        let error = Run::job(&rig.options).expect_err(template);
        assert_eq!(JobErrorKind::Usage, error.kind, "{error}");
        assert!(error.to_string().starts_with("save_to=") && error.to_string().contains(problem), "{error}");
        assert!(!rig.path("out").exists());
    }
}

#[test]
fn a_template_that_makes_names_of_results_is_refused() {
    for template in ["{row}.parquet", "a.NDJSON", "part-{row}.jpg", "Failed-{row}/a.jpg", "_headgate/{row}"] {
        let mut rig = saving(template, ["http://127.0.0.1:1/"]);
        let error = Run::job(&rig.options).expect_err(template);
        assert_eq!(JobErrorKind::Usage, error.kind, "{error}");
        let expected = format!(
            "save_to={template}: at the top of the output directory, names such as this are for results and what belongs \
             to them: put the files into a directory, as in save_to=files/{template}"
        );
        assert_eq!(expected, error.to_string());
        assert!(!rig.path("out").exists());
        rig.options.source.save_to = Some(format!("files/{template}"));
        Run::job(&rig.options).expect("what it says to do");
    }
}

#[test]
fn a_row_whose_file_has_the_name_of_a_result_fails() {
    let server = Scripted::responding(response("a body"));
    let rows = [("a.parquet", "/a"), ("b", "/b.json"), ("c", "/c.gz")];
    let rows = rows.map(|(id, path)| serde_json::json!({"url": server.url(path), "id": id}));
    let would_be = "at the top of the output directory, its file would be taken for results";
    let saved = |path: &str| (None, String::new(), 1, Some(path.to_owned()));
    let invalid = |path: &str, attempts| (Some("invalid_request".to_owned()), path.to_owned(), attempts, None);
    for (template, expected) in [
        ("{id}", [invalid("line 1: a.parquet", 0), saved("b"), saved("c")]),
        // Only the response determines the extension.
        ("{row}.nd{ext}", [saved("0.ndbin"), invalid("1.ndjson", 1), saved("2.ndgz")]),
        ("d/{id}.{ext}", [saved("d/a.parquet.bin"), saved("d/b.json"), saved("d/c.gz")]),
    ] {
        let rig = saving_rows(template, &rows);
        let rows = rig.rows();
        check(&rig, &rows);
        let shown =
            |row: &ResultRow| (row.kind().map(str::to_owned), row.detail().to_owned(), row.attempts, row.path.clone());
        assert_eq!(expected.to_vec(), rows.iter().map(shown).collect::<Vec<_>>());
        assert!(rows.iter().all(|row| row.kind().is_none() || row.message() == would_be));
    }
}

#[test]
fn archives_have_members_of_any_name() {
    let server = Scripted::responding(response("a body"));
    let mut rig = saving("{row}.parquet", [server.url("/")]);
    rig.options.source.save_format = SaveFormat::Tar;
    assert_eq!(Some("00000.tar/0.parquet"), rig.row().path.as_deref());
}

#[test]
fn one_of_several_rows_with_the_same_name_is_saved_and_the_others_fail() {
    let server = server();
    for (template, rows_of_one, commit_every) in [("same.{ext}", 40, 10), ("same.{ext}", 40, 0), ("X/{sha256}", 40, 0)]
    {
        let mut rig = saving(template, (0..rows_of_one).map(|_| url(server.address(), "/bytes/100")));
        rig.options.sink.commit_interval = Some(std::time::Duration::from_secs(commit_every));
        let rows = rig.rows();
        assert_eq!(1, check(&rig, &rows).len());
        let (saved, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.path.is_some());
        assert_eq!((1, 39), (saved.len(), others.len()));
        for row in others {
            assert_eq!(Some("duplicate_name"), row.kind());
            assert_eq!("another row has this file name", row.message());
            assert_eq!(saved[0].path.as_deref(), Some(row.detail()));
        }
    }
}

#[test]
fn names_are_made_from_columns_and_stay_in_the_directory() {
    let server = server();
    let ids = [
        "plain",
        "../../up",
        "/etc/passwd",
        "..",
        ".",
        "a/b",
        "a\\b",
        "nul\u{0}l",
        "CON",
        "x.",
        "é ü",
        "%2e%2e",
        "",
        "_headgate",
        "A",
        "a",
        "q?*:<>|\"",
        "\u{202e}gpj.exe",
    ];
    let long = "x".repeat(3000);
    let ids: Vec<String> = ids.iter().map(ToString::to_string).chain(["y".repeat(400), long]).collect();
    let rows: Vec<_> =
        ids.iter().map(|id| serde_json::json!({"url": url(server.address(), "/bytes/10"), "id": id})).collect();
    let mut rig = saving_rows("{id}/{id}.{ext}", &rows);
    rig.options.run.concurrency = 1;
    let rows = rig.rows();
    check(&rig, &rows);
    let of = |id: &str| &rows[ids.iter().position(|each| each == id).unwrap()];
    for (id, path) in [
        ("plain", "plain/plain.txt"),
        ("../../up", "..%2F..%2Fup/..%2F..%2Fup.txt"),
        ("/etc/passwd", "%2Fetc%2Fpasswd/%2Fetc%2Fpasswd.txt"),
        ("..", "%2E%2E/...txt"),
        ("CON", "%43ON/%43ON.txt"),
        ("x.", "x%2E/x..txt"),
        ("_headgate", "%5Fheadgate/_headgate.txt"),
        ("%2e%2e", "%252e%252e/%252e%252e.txt"),
    ] {
        assert_eq!(Some(path), of(id).path.as_deref(), "{id}: {:?}", of(id));
    }
    assert_eq!(Some("invalid_request"), of("").kind());
    assert_eq!("the name of its file has an empty part", of("").message());
    assert_eq!(("the name of its file is too long", 0), (rows[19].message(), rows[19].attempts));
    assert_eq!(Some("duplicate_name"), of("a").kind(), "it differs from another in case alone");
    assert!(!rig.path("up.txt").exists());
}

#[test]
fn a_name_with_a_null_value_or_a_missing_column_is_an_error() {
    let server = server();
    let rig = Rig::file("rows.csv", format!("url,id\n{0},\n{0},7\n", url(server.address(), "/bytes/10")));
    for (template, expected) in [("{id}.bin", vec![Some("invalid_request"), None]), ("{id|none}.bin", vec![None, None])]
    {
        let mut rig = Rig::file("rows.csv", fs::read(&rig.options.source.input).unwrap());
        rig.options.source.save_to = Some(template.into());
        let (rows, _) = rig.run();
        check(&rig, &rows);
        assert_eq!(expected, rows.iter().map(ResultRow::kind).collect::<Vec<_>>());
        assert_eq!(Some("7.bin"), rows[1].path.as_deref());
    }
    let mut rig = rig;
    rig.options.source.save_to = Some("{name}".into());
    let error = Run::job(&rig.options).expect_err("there is no such column").to_string();
    assert!(error.contains("there is no column \"name\" for save_to"), "{error}");
}
