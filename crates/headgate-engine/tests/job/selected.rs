//! Columns with values of responses: their contents, the rows that fail without them, and omitted columns.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use headgate_core::limits::{CostLimit, CostOf};
use headgate_core::options::{Format, IfExists, JobOptions, SelectionOptions};
use headgate_engine::{RetryOptions, Run, Summary};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value, json};

use crate::harness::{MAX_WAIT, Rig, server, url};
use crate::scripted::{Scripted, read_head, response};

/// A change of the options.
type Change = fn(&mut SelectionOptions);
type ChangeOfJob = fn(&mut JobOptions);

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn selecting(mut rig: Rig, select: &[&str], require: &[&str]) -> Rig {
    rig.options.selection.extract = texts(select);
    rig.options.selection.require = texts(require);
    rig
}

/// Returns all rows of a job as JSON, succeeded and failed, in the order of the input.
fn lines(out: &Path) -> Vec<Map<String, Value>> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(out).expect("the output directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "ndjson") {
            let text = fs::read_to_string(path).expect("a part");
            rows.extend(text.lines().map(|line| serde_json::from_str::<Map<String, Value>>(line).expect("a line")));
        }
    }
    rows.sort_by_key(|row| row["row"].as_u64());
    rows
}

fn run(rig: &Rig) -> Vec<Map<String, Value>> {
    let job = rig.start();
    assert!(job.wait(MAX_WAIT), "the job does not end");
    let summary = job.summary();
    assert!(summary.failure.is_none(), "{:?}", summary.failure);
    lines(&rig.path("out"))
}

/// Returns whether a job succeeded, and how many of its rows succeeded and failed.
fn ended(summary: &Summary) -> (bool, u64, u64) {
    (summary.failure.is_none(), summary.succeeded, summary.failed)
}

fn refusal(rig: &Rig) -> String {
    Run::job(&rig.options).expect_err("a mistake").message.to_string()
}

/// Starts a server that responds with `respond` of the path and of the number of earlier requests.
fn responding(respond: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> Scripted {
    let requests = AtomicUsize::new(0);
    Scripted::start(move |mut stream, _| {
        use std::io::Write as _;
        while let Some(head) = read_head(&mut stream) {
            let path = head.split(' ').nth(1).unwrap_or_default();
            if stream.write_all(respond(path, requests.fetch_add(1, Ordering::SeqCst)).as_bytes()).is_err() {
                return;
            }
        }
    })
}

const COMPLETION: &str = r#"{"id":"c1","choices":[{"index":0,"message":{"role":"assistant","content":"Hé"}}],"usage":{"total_tokens":17,"cost":0.25},"created":1778751000,"done":true}"#;

const SELECT: [&str; 7] = [
    "answer=$.choices[0].message.content",
    "tokens:int64=$.usage.total_tokens",
    "cost:float64=$.usage.cost",
    "at:timestamp=$.created",
    "done:bool=$.done",
    "all:json=$.choices[*].message",
    "etag=header:etag",
];

#[test]
fn selected_values_are_columns_with_their_types() {
    let reply = response(COMPLETION).replace("Content-Length", "ETag: \"v1\"\r\nContent-Length");
    let server = Scripted::responding(reply);
    let mut rig = selecting(Rig::new(server.url("/[1-3]")), &SELECT, &["answer", "tokens"]);
    rig.options.sink.format = Format::Parquet;
    let job = rig.start();
    assert!(job.wait(MAX_WAIT) && job.summary().failure.is_none());
    let file = File::open(rig.path("out/part-00000001.parquet")).expect("a part");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("Parquet");
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("a batch")).collect();
    let column = |name: &str| batches[0].column_by_name(name).expect("a column").clone();
    assert_eq!(3, batches[0].num_rows());
    for row in 0..3 {
        assert_eq!("Hé", column("answer").as_string::<i32>().value(row));
        assert_eq!(17, column("tokens").as_primitive::<Int64Type>().value(row));
        assert!((column("cost").as_primitive::<Float64Type>().value(row) - 0.25).abs() < f64::EPSILON);
        assert_eq!(1_778_751_000_000_000, column("at").as_primitive::<TimestampMicrosecondType>().value(row));
        assert!(column("done").as_boolean().value(row));
        let all = r#"[{"role":"assistant","content":"Hé"}]"#;
        assert_eq!(all, column("all").as_string::<i32>().value(row));
        assert_eq!("\"v1\"", column("etag").as_string::<i32>().value(row));
    }
    let names: Vec<String> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(["remote_addr", "answer", "tokens", "cost", "at", "done", "all", "etag"], names[names.len() - 8..]);
}

#[test]
fn a_row_without_a_required_value_fails_with_the_reason() {
    let server = responding(|path, _| match path {
        "/good" => response(r#"{"answer":"yes"}"#),
        "/null" => response(r#"{"answer":null}"#),
        "/html" => response("<html>"),
        "/other" => response(r#"{"error":"busy"}"#),
        "/long" => response(&format!("{}{}", r#"{"answer":"yes"}"#, " ".repeat(300_000))),
        "/long-html" => response(&"<p>".repeat(100_000)),
        "/503" => response(r#"{"error":"down"}"#).replace("200 OK", "503 Busy"),
        "/404" => response("<html>").replace("200 OK", "404 Not Found"),
        "/cut" => {
            response(r#"{"answer":"yes"}"#).replace("Content-Length: 16", "Content-Length: 17\r\nConnection: close")
        }
        _ => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
    });
    let paths = ["/good", "/null", "/html", "/other", "/long", "/long-html", "/503", "/none", "/404"];
    let rig = Rig::urls(paths.map(|path| server.url(path)));
    let rig = selecting(rig, &["answer=$.answer", "error_text=$.error"], &["answer"]);
    let rows = run(&rig);
    let unexpected = |detail: &str| (json!("unexpected_response"), json!("\"answer\" is missing"), json!(detail));
    let fine = || (Value::Null, Value::Null, Value::Null);
    let expected = [
        fine(),
        unexpected("it is null"),
        unexpected("the body is not JSON: byte 0"),
        unexpected("there is no such value"),
        fine(),
        unexpected("the body is not JSON: byte 0"),
        fine(),
        unexpected("there is no body"),
        fine(),
    ];
    for ((path, expected), row) in paths.iter().zip(expected).zip(&rows) {
        let found = (row["error"].clone(), row["error_message"].clone(), row["error_detail"].clone());
        assert_eq!(expected, found, "{path}");
    }
    // Values that were found are in their columns, whatever the outcome of the row.
    assert_eq!(
        (json!("busy"), json!("down"), json!(503)),
        (rows[3]["error_text"].clone(), rows[6]["error_text"].clone(), rows[6]["status"].clone())
    );
    assert_eq!(json!("yes"), rows[4]["answer"]);
}

#[test]
fn a_summary_names_the_columns_that_never_had_a_value() {
    let server = responding(|path, _| match path {
        "/12" => response(r#"{"error":"busy"}"#).replace("200 OK", "404 Not Found"),
        "/11" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        _ => response(r#"{"price":1.5,"none":null}"#),
    });
    let select = ["p=$.price", "wrong=$.prce", "n:int64=$.price", "none=$.none", "why=$.error", "etag=header:etag"];
    let notes = |rows: u32, select: &[&str]| {
        let rig = selecting(Rig::new(server.url(&format!("/[1-{rows}]"))), select, &[]);
        let (_, summary) = rig.run();
        summary.notes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let of = |text: &str| {
        format!("extract {text:?} was null in all 10 rows with a status 2xx: are its path and its type right?")
    };
    let header =
        "extract \"etag=header:etag\" was null in all 11 rows with a status 2xx: is the name of the header right?";
    let expected = [of("wrong=$.prce"), of("n:int64=$.price"), of("none=$.none"), header.into()];
    assert_eq!(expected[..], notes(12, &select));
    // Few rows say nothing, nor do those without a body.
    assert!(notes(9, &select).is_empty());
    assert!(notes(12, &["p=$.price"]).is_empty() && notes(12, &[]).is_empty());
}

#[test]
fn values_are_selected_from_large_bodies_as_from_small_ones() {
    // Sizes near the bounds of what a worker processes itself: one pass over 256 KiB, a tree of 16 KiB.
    let server = responding(|path, _| {
        let filler = "x".repeat(path[1..].parse().unwrap());
        response(&format!(r#"{{"filler":"{filler}","a":{{"n":7}}}}"#))
    });
    for path in ["$.a.n", "$..n"] {
        let urls = ["/100", "/16000", "/17000", "/300000"].map(|path| server.url(path));
        let mut rig = selecting(Rig::urls(urls), &[&format!("n:int64={path}")], &["n"]);
        rig.options.sink.format = Format::Ndjson;
        rig.options.selection.drop = texts(&["body"]);
        let rows = run(&rig);
        assert_eq!(4, rows.len());
        for row in rows {
            assert_eq!((Some(&json!(200)), Some(&json!(7))), (row.get("status"), row.get("n")), "{path} {row:?}");
        }
    }
}

#[test]
fn an_unexpected_response_is_retried_only_on_demand() {
    for (attempts, on) in [(1, None), (3, Some("unexpected_response"))] {
        let server = responding(|_, before| response(if before < 2 { "{}" } else { r#"{"a":1}"# }));
        let mut rig = selecting(Rig::new(server.url("/")).one_by_one(), &["a:int64=$.a"], &["a"]);
        rig.options.run.retrying.retries = 5;
        rig.options.run.retrying.delay = Duration::from_millis(1);
        if let Some(on) = on {
            rig.options.run.retrying.on = on.parse().expect("a kind");
        }
        let rows = run(&rig);
        assert_eq!(json!(attempts), rows[0]["attempts"]);
        assert_eq!(if attempts == 1 { Value::Null } else { json!(1) }, rows[0]["a"]);
    }
}

#[test]
fn omitted_columns_are_absent_and_outcomes_stay_the_same() {
    let server = responding(|path, _| match path {
        "/long" => response(&format!("{}{}", r#"{"a":1}"#, " ".repeat(3_000_000))),
        _ => response(r#"{"a":1}"#),
    });
    let urls = ["/x", "/long", "/y"].map(|path| server.url(path));
    let mut rig = selecting(
        Rig::file("rows.csv", format!("body,url\n1,{}\n2,{}\n3,{}\n", urls[0], urls[1], urls[2])),
        &["a:int64=$.a"],
        &[],
    );
    rig.options.selection.drop = texts(&["body", "headers", "started_at", "url"]);
    rig.options.source.keep = texts(&["body"]);
    rig.options.source.body_column = Some("none".into());
    assert!(refusal(&rig).contains("no column \"none\" for body_column"), "{}", refusal(&rig));
    rig.options.source.body_column = Some("body".into());
    for format in [Format::Ndjson, Format::Parquet] {
        rig.options.sink.format = format;
        rig.options.sink.if_exists = IfExists::Overwrite;
        let job = rig.start();
        assert!(job.wait(MAX_WAIT));
        assert_eq!((true, 3, 0), ended(&job.summary()));
    }
    rig.options.sink.format = Format::Ndjson;
    let rows = run(&rig);
    for (row, body) in rows.iter().zip(["1", "2", "3"]) {
        assert_eq!((Some(&json!(body)), Some(&json!(1))), (row.get("body"), row.get("a")));
        assert!(!row.contains_key("headers") && !row.contains_key("url") && row.contains_key("method"), "{row:?}");
    }
}

#[test]
fn needed_columns_cannot_be_omitted_and_names_are_unique() {
    let server = server();
    let rig = Rig::file("rows.csv", format!("url,id,a,row\n{},7,8,9\n", url(server.address(), "/")));
    let cases: [(&str, Change, &[&str]); 10] = [
        ("drop: \"row\": without it, a job can't be resumed or retried", |options| options.drop = texts(&["row"]), &[]),
        (
            "drop: \"id\": the results have no such column of their own; those are url, method, failed, error_message, ",
            |options| options.drop = texts(&["id"]),
            &["id"],
        ),
        (
            "extract: \"url\" is a column that the results have of their own (reserved names: row, url, ",
            |options| options.extract = texts(&["url=$.a"]),
            &[],
        ),
        ("extract: \"x\" is the name of two columns", |options| options.extract = texts(&["x=$.a", "x=$.b"]), &[]),
        (
            ", remote_addr): choose another name, or leave that column out with drop",
            |options| options.extract = texts(&["url=$.a"]),
            &[],
        ),
        (", remote_addr): choose another name", |options| options.extract = texts(&["row=$.a"]), &[]),
        (
            "rows.csv: the column \"row\" can't be kept: the result has one of its own by that name (reserved names: row, url, ",
            |_| {},
            &["row"],
        ),
        (", remote_addr); list the columns of the input to keep in keep", |_| {}, &["row"]),
        (
            "rows.csv: the column \"url\" can't be kept: the result has one of its own by that name (reserved names: row, url, ",
            |_| {},
            &["url"],
        ),
        (
            "rows.csv: the column \"a\" can't be kept: it is the name of an extracted column; give that another name in extract, or list the columns of the input to keep in keep",
            |options| options.extract = texts(&["a=$.a"]),
            &["id", "a"],
        ),
    ];
    for (expected, change, keep) in cases {
        let mut rig = rig_like(&rig);
        rig.options.source.keep = texts(keep);
        change(&mut rig.options.selection);
        let message = refusal(&rig);
        assert!(message.contains(expected), "{message}");
    }
}

fn rig_like(rig: &Rig) -> Rig {
    let mut other = Rig::new("");
    other.options.source.clone_from(&rig.options.source);
    other
}

#[test]
fn values_cannot_be_selected_from_bodies_that_are_not_read_or_decoded() {
    let server = server();
    let base = url(server.address(), "/");
    let mut rig = selecting(Rig::new(&base), &["a=$.a"], &[]);
    rig.options.request.response.no_body = true;
    let message = "extract can't have values of bodies with no_body=true, as bodies are not read";
    assert_eq!(message, refusal(&rig));
    rig.options.request.response.no_body = false;
    rig.options.request.response.decode = false;
    let message = "extract can't have values of bodies with decode=false, as bodies are not decoded";
    assert_eq!(message, refusal(&rig));
    rig.options.selection.extract = texts(&["type=header:content-type"]);
    assert!(run(&rig)[0]["type"].is_string());
}

#[test]
fn a_job_keeps_its_selections_and_a_retry_applies_them() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let server = responding(move |path, _| match path {
        "/late" if counted.fetch_add(1, Ordering::SeqCst) == 0 => response(r#"{"b":1.5}"#),
        _ => response(r#"{"a":"now","b":2.5,"t":"2026-05-14T09:30:00Z"}"#),
    });
    let urls = ["/late", "/other"].map(|path| server.url(path));
    let select = ["a=$.a", "b:float64=$.b", "t:timestamp=$.t", "c:bool=$.c"];
    for format in [Format::Ndjson, Format::Parquet] {
        requests.store(0, Ordering::SeqCst);
        let mut rig = selecting(Rig::urls(&urls), &select, &["a"]);
        rig.options.sink.format = format;
        rig.options.selection.drop = texts(&["body", "url", "error_message", "error_detail", "final_url"]);
        let job = rig.start();
        assert!(job.wait(MAX_WAIT));
        assert_eq!((true, 1, 1), ended(&job.summary()));

        let mut other = rig.options.clone();
        other.selection.extract.pop();
        let message = Run::job(&other).expect_err("another job").message.to_string();
        assert!(message.contains("extract was"), "{message}");

        let options = RetryOptions { output: rig.path("out"), job: rig.options.clone(), ..RetryOptions::default() };
        let retry = Run::retry(options).expect("a retry");
        assert!(retry.wait(MAX_WAIT));
        assert_eq!((true, 1, 0), ended(&retry.summary()));
        if format == Format::Ndjson {
            let rows = lines(&rig.path("out"));
            assert_eq!((json!(2), json!("now")), (rows[0]["attempts"].clone(), rows[0]["a"].clone()));
            assert_eq!(json!("2026-05-14T09:30:00.000000Z"), rows[1]["t"]);
        }
    }
}

#[test]
fn a_retry_is_refused_for_the_same_mistakes_as_a_job() {
    let server = Scripted::responding(response("{}"));
    let rig = selecting(Rig::file("rows.csv", format!("url,id\n{},7\n", server.url("/"))), &["a=$.a"], &["a"]);
    let job = rig.start();
    assert!(job.wait(MAX_WAIT));
    assert_eq!((true, 0, 1), ended(&job.summary()));
    let cases: [(&str, ChangeOfJob); 3] = [
        ("cost_from_response names \"b\", which is not an extracted column: the extracted columns are a", |job| {
            job.selection.cost_from_response = Some("b".into());
        }),
        ("header_templates can't set `x-a`, which headers sets, too: leave one of them out", |job| {
            job.request.headers = vec![("X-A".into(), "1".into())];
            job.source.templates.headers = vec![("x-a".into(), "{id}".into())];
        }),
        ("rows.csv: there is no column \"tokens\" for cost_column; the columns are \"url\", \"id\"", |job| {
            job.source.cost_column = Some("tokens".into());
        }),
    ];
    for (expected, change) in cases {
        let mut options = RetryOptions { output: rig.path("out"), job: rig.options.clone(), ..RetryOptions::default() };
        change(&mut options.job);
        let message = Run::retry(options).expect_err("a mistake").message.to_string();
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn the_rate_limiter_uses_the_cost_that_responses_state() {
    // Each row is estimated at 1 and costs 25: at 1,000 per second, 40 rows finish in a second.
    let server = Scripted::responding(response(r#"{"n":25}"#));
    let mut rig = selecting(Rig::new(server.url("/[1-9]")).one_by_one(), &["n:int64=$.n"], &[]);
    rig.options.selection.cost_from_response = Some("n".into());
    rig.options.run.limits.cost = Some(CostLimit { rate: "1000/s".parse().ok(), of: CostOf::Row });
    let started = Instant::now();
    assert_eq!(9, run(&rig).len());
    assert!(started.elapsed() >= Duration::from_millis(180), "{:?}", started.elapsed());
}
