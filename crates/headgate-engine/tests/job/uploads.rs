//! Bodies from files: they arrive unchanged at fast and slow servers, and only a small part of them is in memory.
mod cut_short;
mod memory;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headgate_core::error::JobError;
use headgate_core::limits::Retrying;
use headgate_core::options::{EngineOptions, RequestOptions};
use headgate_core::row::{BodyPiece, Row, RowBatch, RowBody, RowExtra};
use headgate_engine::testing::Passage;
use headgate_engine::{Engine, Run};
use headgate_table::source::Source;
use headgate_testserver::{Config, Server, Tls};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Echo, MAX_WAIT, eventually, server, url};
use crate::http2;
use crate::http2_frames::{
    DATA, END_HEADERS, END_STREAM, Frame, HEADERS, NO_ERROR, RST_STREAM, STATUS_200, WINDOW_UPDATE,
};
use crate::own_ends::{Collector, Ended, engine, passage};
use crate::scripted::{Scripted, read_head, response};

/// A source with these rows in one batch.
struct Rows(Option<RowBatch>);

impl Source for Rows {
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        Ok(self.0.take())
    }
}

/// Rows, and the files of their bodies.
struct Uploads {
    directory: TempDir,
    rows: RowBatch,
    request: RequestOptions,
    retrying: Option<Retrying>,
    concurrency: usize,
}

impl Uploads {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            rows: RowBatch::new(),
            request: RequestOptions { timeout: MAX_WAIT, ..RequestOptions::default() },
            retrying: None,
            concurrency: 4,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> BodyPiece {
        fs::write(self.path(name), bytes).unwrap();
        self.piece(name)
    }

    fn piece(&self, name: &str) -> BodyPiece {
        BodyPiece::File(self.path(name).into())
    }

    fn add(&mut self, url: String, method: &str, pieces: impl Into<Arc<[BodyPiece]>>) -> &mut RowExtra {
        let body = Some(RowBody::Pieces(pieces.into()));
        let extra = RowExtra { method: Some(method.into()), body, ..RowExtra::default() };
        let ordinal = self.rows.len() as u64;
        self.rows.push(Row { extra: Some(Box::new(extra)), ..Row::new(ordinal, url) });
        self.rows.last_mut().and_then(|row| row.extra.as_deref_mut()).unwrap()
    }

    fn passage(&mut self, sink: Collector) -> Passage {
        let mut passage = passage(Rows(Some(std::mem::take(&mut self.rows))), sink, self.concurrency);
        passage.request = self.request.clone();
        passage.run.retrying = self.retrying.clone().unwrap_or(passage.run.retrying);
        passage
    }

    fn ended_on(&mut self, engine: &Engine) -> Vec<Ended> {
        let (seen, sink) = Collector::new();
        let run = Run::start(engine, self.passage(sink)).expect("a run");
        assert!(run.wait(MAX_WAIT), "{:?}", run.snapshot());
        assert_eq!(None, run.summary().failure.map(|failure| failure.message));
        seen.rows()
    }

    fn ended(&mut self) -> Vec<Ended> {
        self.ended_on(&engine(2))
    }
}

fn bytes(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(length as u64);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

fn hash_of(bytes: &[u8]) -> Value {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let hex = digest.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    json!({"bytes": bytes.len(), "sha256": hex})
}

fn json(ended: &Ended) -> Value {
    assert_eq!((Some(200), None), (ended.status, ended.error.as_deref()), "{}: {}", ended.message, ended.detail);
    serde_json::from_slice(&ended.body).unwrap()
}

/// Returns a server for each version of HTTP, its address, and the options of a run that uses it.
fn servers(directory: &Path) -> Vec<(&'static str, Server, String, RequestOptions)> {
    let request = |http1_1, http2_prior_knowledge| RequestOptions {
        timeout: MAX_WAIT,
        insecure: true,
        http1_1,
        http2_prior_knowledge,
        ..RequestOptions::default()
    };
    [
        ("HTTP/1.1", false, request(false, false)),
        ("HTTP/1.1 over TLS", true, request(true, false)),
        ("HTTP/2", false, request(false, true)),
        ("HTTP/2 over TLS", true, request(false, false)),
    ]
    .map(|(name, is_tls, request)| {
        let tls = is_tls.then(|| Tls::Made { certificate: directory.join("certificate.pem") });
        let server = Server::start(Config { tls, http2: true, ..Config::default() }).expect("a server on a free port");
        let scheme = if is_tls { "https" } else { "http" };
        let at = format!("{scheme}://{}", server.address());
        (name, server, at, request)
    })
    .into()
}

#[test]
fn files_arrive_unchanged_over_each_version_of_http() {
    let mut uploads = Uploads::new();
    for (name, _server, at, request) in servers(uploads.directory.path()) {
        uploads.request = request;
        let sizes = [0, 1, 63 << 10, 64 << 10, (64 << 10) + 1, 1 << 20, 20 << 20];
        for size in sizes {
            let file = uploads.file(&size.to_string(), bytes(size));
            uploads.add(format!("{at}/hash"), "PUT", [file]);
        }
        let sent = sizes.map(|size| hash_of(&bytes(size)));
        assert_eq!(sent.to_vec(), uploads.ended().iter().map(json).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn parts_of_an_upload_are_one_body_in_their_order_with_its_media_type() {
    let mut uploads = Uploads::new();
    for (name, _server, at, request) in servers(uploads.directory.path()) {
        uploads.request = request;
        let text = |text: &'static str| BodyPiece::Bytes(text.into());
        let (empty, b, d) = (uploads.file("empty", ""), uploads.file("b", "b"), uploads.file("d", "d".repeat(70_000)));
        let mixed = [text("a"), b.clone(), empty, text("c"), d, text("")];
        uploads.add(format!("{at}/echo"), "POST", mixed).body_type = Some("multipart/form-data; boundary=x".into());
        uploads.add(format!("{at}/echo"), "POST", [b.clone()]);
        uploads.add(format!("{at}/echo"), "PATCH", [b.clone()]);
        uploads.add(format!("{at}/echo"), "POST", [text("x"), text("y")]).body_type = Some("text/plain".into());
        let row = uploads.add(format!("{at}/echo"), "PUT", [b]);
        row.body_type = Some("text/plain".into());
        row.headers = vec![("Content-Type".into(), (*b"image/png").into())];
        let echoes: Vec<Echo> =
            uploads.ended().iter().map(|ended| serde_json::from_value(json(ended)).unwrap()).collect();
        let seen: Vec<_> = echoes
            .iter()
            .map(|echo| {
                let body = echo.body.clone().unwrap();
                (echo.all("content-type").join(","), echo.all("content-length").join(","), body)
            })
            .collect();
        let whole = format!("abc{}", "d".repeat(70_000));
        let expected = [
            ("multipart/form-data; boundary=x", "70003", &*whole),
            ("application/octet-stream", "1", "b"),
            ("", "1", "b"),
            ("text/plain", "2", "xy"),
            ("image/png", "1", "b"),
        ];
        assert_eq!(
            expected.map(|(kind, length, body)| (kind.into(), length.into(), body.into())).to_vec(),
            seen,
            "{name}"
        );
    }
}

#[test]
fn an_unusable_file_fails_only_its_row_and_before_a_request_is_sent() {
    let server = server();
    let mut uploads = Uploads::new();
    uploads.retrying = Some(Retrying::default());
    let pieces =
        [uploads.piece("missing"), BodyPiece::File(uploads.directory.path().into()), uploads.file("file", "abc")];
    for piece in pieces {
        uploads.add(url(server.address(), "/hash"), "PUT", [piece]);
    }
    let ended = uploads.ended();
    let error_of = |ended: &Ended| (ended.error.clone(), ended.attempts, ended.message.clone(), ended.detail.clone());
    let invalid = |message: &str, detail: String| (Some("invalid_request".into()), 0, message.into(), detail);
    let path = |name: &str| uploads.path(name).display().to_string();
    assert_eq!(
        invalid("a file of the body can't be read", format!("{}: no such file or directory", path("missing"))),
        error_of(&ended[0])
    );
    assert_eq!(
        invalid(
            "a file of the body can't be sent: it is not a regular file",
            format!("{}: it is a directory", uploads.directory.path().display())
        ),
        error_of(&ended[1])
    );
    assert_eq!(hash_of(b"abc"), json(&ended[2]));
    assert_eq!(1, server.statistics().requests);
}

#[test]
fn each_attempt_sends_the_file_from_its_beginning() {
    let body = bytes(300_000);
    let requests = AtomicUsize::new(0);
    let sent = body.clone();
    let server = Scripted::start(move |mut stream, _| {
        while read_head(&mut stream).is_some() {
            let mut came = vec![0; sent.len()];
            stream.read_exact(&mut came).unwrap();
            assert!(came == sent);
            let status = if requests.fetch_add(1, Ordering::SeqCst) < 2 { "503 Busy" } else { "200 OK" };
            stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).unwrap();
        }
    });
    let mut uploads = Uploads::new();
    uploads.retrying =
        Some(Retrying { delay: Duration::from_millis(1), max_delay: Duration::from_millis(1), ..Retrying::default() });
    let file = uploads.file("file", body);
    uploads.add(server.url("/"), "PUT", [file]);
    let ended = uploads.ended();
    assert_eq!((Some(200), 3), (ended[0].status, ended[0].attempts));
}

#[test]
fn a_request_on_a_closed_connection_is_resent_with_the_whole_file() {
    let body = bytes(300_000);
    let sent = body.clone();
    let server = Scripted::start(move |mut stream, number| {
        if read_head(&mut stream).is_none() {
            return;
        }
        let mut came = vec![0; sent.len()];
        stream.read_exact(&mut came).unwrap();
        assert!(came == sent);
        stream.write_all(response("ok").as_bytes()).unwrap();
        // The first connection receives the next request, and is then closed.
        if number == 0 {
            let _ = read_head(&mut stream);
        }
    });
    let mut uploads = Uploads::new();
    uploads.concurrency = 1;
    let file = uploads.file("file", body);
    for _ in 0..2 {
        uploads.add(server.url("/"), "PUT", [file.clone()]);
    }
    let ended = uploads.ended();
    assert_eq!(vec![(Some(200), 1); 2], ended.iter().map(|ended| (ended.status, ended.attempts)).collect::<Vec<_>>());
    assert_eq!(2, server.connections());
}

#[test]
fn the_file_is_resent_after_a_redirect_only_if_that_keeps_the_body() {
    let (body, there) = (bytes(300_000), server());
    let mut uploads = Uploads::new();
    for (name, _server, at, request) in servers(uploads.directory.path()) {
        uploads.request = request;
        uploads.request.response.max_redirects = 3;
        let to_http1 = uploads.request.http2_prior_knowledge;
        let file = uploads.file("file", &body);
        for (code, path) in [(307, "/hash"), (303, "/echo")] {
            // Prior knowledge applies to all hosts, and a body stays at its origin.
            let to = if to_http1 || code == 307 { format!("{at}{path}") } else { url(there.address(), path) };
            uploads.add(format!("{at}/redirect-to?url={to}&status_code={code}"), "POST", [file.clone()]);
        }
        let ended = uploads.ended();
        assert_eq!(hash_of(&body), json(&ended[0]), "{name}");
        let echo: Echo = serde_json::from_value(json(&ended[1])).unwrap();
        assert_eq!(("GET", Some("")), (&*echo.method, echo.body.as_deref()), "{name}");
        assert_eq!(Vec::<&str>::new(), [echo.all("content-type"), echo.all("content-length")].concat(), "{name}");
    }
}
