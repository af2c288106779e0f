//! Bodies that are saved in files: complete, once, and only under the name of their row.

mod archives;
mod names;
mod stopped;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use headgate_core::file_name::hex;
use headgate_core::options::IfExists;
use headgate_engine::{RetryOptions, Run};
use headgate_testserver::{Config, Server};

use crate::harness::{ResultRow, Rig, server, url};
use crate::scripted::{Scripted, read_head, response};

const BYTES: usize = 700_000;

/// Creates a job for these URLs that saves their bodies.
fn saving<T: AsRef<str>>(template: &str, urls: impl IntoIterator<Item = T>) -> Rig {
    let mut rig = Rig::urls(urls);
    rig.options.source.save_to = Some(template.into());
    rig
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// Returns the files below a directory, except for those of the job itself, with their contents.
fn files(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![out.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(out).unwrap().display().to_string();
            if path.is_dir() {
                directories.push(path);
            } else if !name.starts_with("_headgate/") && !name.ends_with(".ndjson") {
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

fn tmp(rig: &Rig) -> Vec<PathBuf> {
    fs::read_dir(rig.path("out/_headgate/tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Creates a job for these rows that saves their bodies under the names of the template.
fn saving_rows(template: &str, rows: &[serde_json::Value]) -> Rig {
    let mut rig = Rig::objects(rows);
    rig.options.source.save_to = Some(template.into());
    rig
}

/// Checks that the files are those that the rows name, each as its row describes it, and that no file is left over.
fn check(rig: &Rig, rows: &[ResultRow]) -> BTreeMap<String, Vec<u8>> {
    let files = files(&rig.path("out"));
    let of_files = files.iter().map(|(path, bytes)| (path.clone(), sha256(bytes)));
    let of_rows = rows.iter().filter_map(|row| Some((row.path.clone()?, row.sha256.clone()?)));
    assert_eq!(of_rows.collect::<BTreeMap<_, _>>(), of_files.collect());
    for row in rows {
        assert_eq!(row.path.is_some(), row.sha256.is_some());
        assert!(row.path.is_none() || row.body().is_none(), "{}", row.url);
    }
    assert_eq!(Vec::<PathBuf>::new(), tmp(rig));
    files
}

#[test]
fn a_body_in_a_file_is_the_same_however_it_is_delimited_and_encoded() {
    let server = server();
    let of_sizes = |bytes: usize| {
        let kinds =
            ["bytes", "chunked", "close-delimited", "encoded/gzip", "encoded/br", "encoded/zstd", "encoded/deflate"];
        kinds.map(|kind| url(server.address(), &format!("/{kind}/{bytes}")))
    };
    for bytes in [0, 1, 1000, 130_000, BYTES] {
        let plain = Rig::new(url(server.address(), &format!("/bytes/{bytes}"))).row();
        let rig = saving("bodies/{row}.{ext}", of_sizes(bytes));
        let rows = rig.rows();
        let files = check(&rig, &rows);
        assert_eq!(7, files.len());
        for row in &rows {
            assert_eq!((Some(200), None, None), (row.status, row.kind(), row.body_encoding.as_deref()), "{}", row.url);
            let path = row.path.as_deref().unwrap();
            assert_eq!(format!("bodies/{}.txt", row.row), path);
            assert!(plain.text().as_bytes() == files[path], "{}", row.url);
            assert!(row.row > 2 || row.received_bytes == bytes as u64, "{}", row.url);
        }
    }
}

#[test]
fn a_body_over_http_2_or_tls_is_saved() {
    let directory = tempfile::tempdir().unwrap();
    let certificate = directory.path().join("certificate.pem");
    let tls = Some(headgate_testserver::Tls::Made { certificate: certificate.clone() });
    for http2 in [false, true] {
        let server = Server::start(Config { tls: tls.clone(), http2, ..Config::default() }).unwrap();
        let address = server.address();
        let urls = ["bytes", "chunked", "encoded/gzip"].map(|kind| format!("https://{address}/{kind}/{BYTES}"));
        let mut rig = saving("{row}.bin", urls);
        rig.options.request.cacert = Some(certificate.clone());
        let rows = rig.rows();
        let files = check(&rig, &rows);
        assert_eq!(3, files.len(), "{rows:?}");
        let version = if http2 { "HTTP/2" } else { "HTTP/1.1" };
        assert!(rows.iter().all(|row| row.http_version.as_deref() == Some(version)), "{rows:?}");
        assert!(files.values().all(|bytes| bytes.len() == BYTES && *bytes == files["0.bin"]));
    }
}

#[test]
fn the_body_of_a_failed_row_stays_in_its_column_and_has_no_file() {
    let server = server();
    let paths = ["/status/404", "/status/204", "/status/205", "/status/304", "/status/500", "/bytes/9"];
    let rig = saving("{row}", paths.map(|path| url(server.address(), path)));
    let rows = rig.rows();
    check(&rig, &rows);
    for row in &rows[..5] {
        assert!(row.path.is_none() && row.body().is_some(), "{row:?}");
    }
    assert_eq!(Some("5"), rows[5].path.as_deref());
    let rig = saving("{row}", [url(server.address(), "/bytes/9")]).method("HEAD");
    let rows = rig.rows();
    check(&rig, &rows);
    assert_eq!((None, Some(Vec::new())), (rows[0].path.as_deref(), rows[0].body()));
}

#[test]
fn the_response_at_the_end_of_redirects_is_saved() {
    let server = server();
    let rig = saving("{row}.{ext}", [url(server.address(), "/redirect/2")]);
    let rows = rig.rows();
    assert_eq!(1, check(&rig, &rows).len());
    assert!(rows[0].final_url.is_some());
}

#[test]
fn an_incomplete_body_leaves_no_file() {
    let long = "x".repeat(300_000);
    let replies = [
        format!("HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n{long}"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\nnonsense", long.len()),
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n{long}", long.len()),
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc".into(),
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", 2 * long.len(), long.repeat(2)),
        format!("HTTP/1.1 200 OK\r\n\r\n{}", long.repeat(2)),
    ];
    for (reply, kind) in replies.into_iter().zip([
        "connection_closed",
        "protocol",
        "decode",
        "decode",
        "body_too_large",
        "body_too_large",
    ]) {
        let server = Scripted::start(move |mut stream, _| {
            read_head(&mut stream);
            let _ = stream.write_all(reply.as_bytes());
        });
        let mut rig = saving("{row}.bin", [server.url("/")]);
        rig.options.request.max_body_size = 500_000;
        let rows = rig.rows();
        assert!(check(&rig, &rows).is_empty());
        assert_eq!((Some(kind), None, Some(200)), (rows[0].kind(), rows[0].body(), rows[0].status));
    }
}

#[test]
fn a_decompression_bomb_ends_at_the_maximum_size_and_leaves_no_file() {
    let server = server();
    for path in ["/encoded/gzip/5001", "/encoded/zstd/2000000"] {
        let mut rig = saving("{row}", [url(server.address(), path)]);
        rig.options.request.max_body_size = 5000;
        let rows = rig.rows();
        assert!(check(&rig, &rows).is_empty());
        assert_eq!(Some("body_too_large"), rows[0].kind());
        rig.options.request.truncate_body = true;
        rig.options.sink.if_exists = IfExists::Overwrite;
        let rows = rig.rows();
        let files = check(&rig, &rows);
        assert_eq!((None, true), (rows[0].kind(), rows[0].body_truncated), "{:?}", rows[0]);
        rig.options.source.save_to = None;
        assert_eq!(rig.row().body().as_ref(), files.get("0"), "the same as in a column");
    }
}

#[test]
fn a_body_that_is_not_decoded_is_saved_as_sent() {
    let server = server();
    let mut rig = saving("{row}", [url(server.address(), "/encoded/gzip/300000")]);
    rig.options.request.response.decode = false;
    let rows = rig.rows();
    let files = check(&rig, &rows);
    assert_eq!(Some("gzip"), rows[0].body_encoding.as_deref());
    assert_eq!((rows[0].received_bytes, &b"\x1f\x8b"[..]), (files["0"].len() as u64, &files["0"][..2]));
}

#[test]
fn an_existing_file_is_not_replaced() {
    let server = server();
    let mut rig =
        saving("mine/{row}.txt", ["/bytes/10", "/bytes/10", "/bytes/10"].map(|path| url(server.address(), path)));
    rig.options.run.concurrency = 1;
    let (rows, _) = rig.run();
    assert_eq!(3, check(&rig, &rows).len());
    // A job starts over in the directory of an earlier one: the job's own files are removed, and foreign files stay.
    fs::write(rig.path("out/mine/note.txt"), "mine").unwrap();
    fs::write(rig.path("out/mine/1.other"), "mine").unwrap();
    rig.options.source.save_to = Some("mine/{row}.other".into());
    rig.options.sink.if_exists = IfExists::Overwrite;
    let (rows, _) = rig.run();
    assert_eq!([None, Some("duplicate_name"), None], [0, 1, 2].map(|row| rows[row].kind()));
    let files = files(&rig.path("out"));
    assert_eq!(vec!["mine/0.other", "mine/1.other", "mine/2.other", "mine/note.txt"], files.keys().collect::<Vec<_>>());
    assert_eq!(b"mine", &files["mine/1.other"][..]);
}

#[test]
fn starting_a_job_over_removes_its_saved_files() {
    let server = server();
    let mut rig = saving("A/{row}/b.{ext}", ["/bytes/10", "/bytes/11"].map(|path| url(server.address(), path)));
    let rows = rig.rows();
    assert_eq!(2, check(&rig, &rows).len());
    assert!(rig.path("out/_headgate/names").is_dir(), "a name with a capital is marked");
    rig.options.source.save_to = None;
    rig.options.sink.if_exists = IfExists::Overwrite;
    rig.rows();
    assert!(files(&rig.path("out")).is_empty() && !rig.path("out/A").exists());
    assert!(!rig.path("out/_headgate/names").exists());
}

#[test]
fn a_disk_error_ends_the_job_and_loses_no_row() {
    let server = server();
    let mut rig = saving("{row}.txt", (0..20).map(|_| url(server.address(), "/bytes/1000")));
    rig.options.source.save_to = Some("{row}.txt".into());
    // A directory has the name of a row's file.
    let in_the_way = rig.path("out/_headgate/tmp/b-7");
    rig.options.run.concurrency = 2;
    rig.options.sink.commit_interval = Some(std::time::Duration::ZERO);
    fs::create_dir_all(rig.path("out")).unwrap();
    let job = rig.start();
    // The directory may come too late, and then the job succeeds. In both cases no row is lost.
    let _ = fs::create_dir(&in_the_way);
    assert!(job.wait(crate::harness::MAX_WAIT));
    if let Some(failure) = job.summary().failure {
        assert!(failure.message.to_string().contains("b-7: is a directory"), "{failure:?}");
        assert!(rig.run().1.failure.is_none());
    } else {
        // The directory came too late, and the job did not change it.
        let _ = fs::remove_dir(&in_the_way);
    }
    let rows = rig.results();
    assert_eq!(20, check(&rig, &rows).len());
}

#[test]
fn saved_bodies_take_no_memory_however_large_they_are() {
    let body = "y".repeat(8 << 20);
    let server = Scripted::responding(response(&body));
    let mut rig = saving("{row}.bin", (0..32).map(|_| server.url("/")));
    rig.options.run.concurrency = 16;
    rig.options.engine.max_memory = Some(8 << 20);
    let rows = rig.rows();
    let files = check(&rig, &rows);
    assert!(files.len() == 32 && files.values().all(|bytes| bytes.len() == body.len()));
}

#[test]
fn a_body_must_have_the_checksum_of_its_row() {
    let server = server();
    let plain = Rig::new(url(server.address(), "/bytes/1000")).row();
    let right = sha256(plain.text().as_bytes());
    let checksums = [
        serde_json::json!(right),
        serde_json::json!(right.to_uppercase()),
        serde_json::json!(format!("sha256:{right}")),
        serde_json::Value::Null,
        serde_json::json!("0".repeat(64)),
        serde_json::json!("abc"),
    ];
    let url = url(server.address(), "/encoded/gzip/1000");
    let rows: Vec<_> = checksums.iter().map(|sum| serde_json::json!({"url": url, "sum": sum})).collect();
    let mut rig = saving_rows("{row}.{ext}", &rows);
    rig.options.source.checksum_column = Some("sum".into());
    let (rows, _) = rig.run();
    assert_eq!(4, check(&rig, &rows).len());
    let kinds: Vec<_> = rows.iter().map(ResultRow::kind).collect();
    assert_eq!(vec![None, None, None, None, Some("checksum_mismatch"), Some("invalid_request")], kinds);
    assert_eq!("the body does not have the checksum of its row", rows[4].message());
    assert_eq!(format!("{right}, not {}", "0".repeat(64)), rows[4].detail());
    assert_eq!(0, rows[5].attempts);
}

#[test]
fn bodies_of_retried_rows_are_saved() {
    let server = server();
    let urls = (0..9).map(|row| url(server.address(), if row % 3 == 0 { "/status/503" } else { "/bytes/10" }));
    let mut rig = saving("{row}.txt", urls);
    rig.options.request.fail_on = "503".parse().unwrap();
    let (rows, summary) = rig.run();
    assert_eq!(3, summary.failed);
    assert_eq!(6, check(&rig, &rows).len());
    let options = RetryOptions { output: rig.path("out"), only: Vec::new(), job: rig.options.clone() };
    let job = Run::retry(options).unwrap();
    assert!(job.wait(crate::harness::MAX_WAIT));
    let rows = rig.results();
    assert_eq!((9, 6), (rows.len(), check(&rig, &rows).len()), "the server has not healed");
}
