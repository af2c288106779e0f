//! Streamed bodies: their bytes, the bound on buffered bytes, and their ends.

mod throttled;

use std::io::Write as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use headgate_core::body_stream::{BUFFER_BYTES, BodyStream, StreamRead};
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::limits::Retrying;
use headgate_core::message::OptionName;
use headgate_core::options::{RequestOptions, RunOptions};
use headgate_core::row::{Outcome, OwnOptions, Row, RowExtra};
use headgate_engine::{CompletionQueue, Run, WakeCaller};
use headgate_testserver::{Config, Server};

use crate::harness::{MAX_WAIT, eventually, server, url};
use crate::http2_frames::*;
use crate::own_ends::engine;
use crate::scripted::{Scripted, read_head, response};

/// The maximum of one read from a connection, and the flow-control window of an HTTP/2 stream.
const READ_BYTES: u64 = 128 * 1024;
const WINDOW_BYTES: u64 = 1024 * 1024;

struct CountingWaker(Mutex<Sender<()>>);

impl WakeCaller for CountingWaker {
    fn wake(&self) {
        let _ = self.0.lock().unwrap().send(());
    }
}

/// One response of a run, and the reader of its body.
struct Stream {
    completions: Arc<CompletionQueue>,
    body: Arc<BodyStream>,
    wake_ups: Receiver<()>,
    ordinal: u64,
}

impl Stream {
    fn submit(run: &Run, url: String) -> Self {
        Self::with_timeout(run, url, None)
    }

    fn with_timeout(run: &Run, url: String, timeout: Option<Duration>) -> Self {
        let (sender, wake_ups) = channel();
        let (of_queue, of_body) = (CountingWaker(Mutex::new(sender.clone())), CountingWaker(Mutex::new(sender)));
        let completions = CompletionQueue::new(Arc::new(of_queue));
        let body = Arc::new(BodyStream::new(Box::new(move || of_body.wake())));
        let own = OwnOptions { stream: Some(body.clone()), timeout, ..OwnOptions::default() };
        let extra = RowExtra { own: Some(Box::new(own)), ..RowExtra::default() };
        let row =
            Row { extra: Some(Box::new(extra)), reply_to: completions.reply_to(0, None, false), ..Row::new(0, url) };
        let ordinal = run.feed(vec![row]).unwrap();
        Self { completions, body, wake_ups, ordinal }
    }

    /// Waits for the headers.
    fn head(&self) -> Outcome {
        let mut arrived = Vec::new();
        loop {
            self.completions.take(1, &mut arrived);
            match arrived.pop() {
                Some(arrived) => return arrived.outcome.expect("the run continues"),
                None => self.wake_ups.recv_timeout(MAX_WAIT).expect("a response"),
            }
        }
    }

    fn status(&self) -> u16 {
        self.head().response.expect("a response").status
    }

    /// Waits for more bytes.
    fn read(&self) -> StreamRead {
        loop {
            match self.body.read() {
                StreamRead::Nothing => self.wake_ups.recv_timeout(MAX_WAIT).expect("more of the body"),
                taken => return taken,
            }
        }
    }

    /// Reads the whole body, and returns it with the error that made it incomplete.
    fn rest(&self, raw: bool) -> (Vec<u8>, Option<Failure>) {
        self.body.begin(raw);
        let mut body = Vec::new();
        loop {
            match self.read() {
                StreamRead::Bytes(bytes) => body.extend(bytes),
                StreamRead::End(failure) => return (body, failure),
                StreamRead::Nothing => {}
            }
        }
    }

    fn whole(&self) -> Vec<u8> {
        assert_eq!(200, self.status());
        let (body, failure) = self.rest(false);
        assert_eq!(None, failure);
        body
    }
}

fn run_of(request: RequestOptions, run: RunOptions) -> Run {
    Run::fed(&engine(1), request, run).unwrap()
}

fn run() -> Run {
    run_of(RequestOptions::default(), RunOptions { concurrency: 4, ..RunOptions::default() })
}

fn http2() -> (Run, Server) {
    let request = RequestOptions { http2_prior_knowledge: true, ..RequestOptions::default() };
    let server = Server::start(Config { http2: true, threads: Some(1), ..Config::default() }).unwrap();
    (run_of(request, RunOptions { concurrency: 4, ..RunOptions::default() }), server)
}

fn kind(failure: Option<Failure>) -> Option<ErrorKind> {
    failure.map(|failure| failure.kind)
}

#[test]
fn a_streamed_body_is_complete_however_it_is_delimited() {
    let (run, server) = (run(), server());
    let fetch = |path: &str| Stream::submit(&run, url(server.address(), path)).whole();
    let expected = fetch("/bytes/1000000");
    assert_eq!(1_000_000, expected.len());
    for path in ["/chunked/1000000", "/close-delimited/1000000", "/range/1000000"] {
        assert!(expected == fetch(path), "{path}");
    }
    assert_eq!(b"Hello, World!".to_vec(), fetch("/1"));
    assert!(fetch("/bytes/0").is_empty());

    let (run, server) = http2();
    let stream = Stream::submit(&run, url(server.address(), "/bytes/1000000"));
    assert!(expected == stream.whole(), "over HTTP/2");
    assert_eq!(1_000_000, stream.body.received());
    let empty = Stream::submit(&run, url(server.address(), "/status/204"));
    assert_eq!((204, (Vec::new(), None)), (empty.status(), empty.rest(false)));
}

#[test]
fn content_encodings_are_decoded_while_streaming_unless_raw() {
    let (run, server) = (run(), server());
    let plain = Stream::submit(&run, url(server.address(), "/bytes/3000000")).whole();
    for encoding in ["gzip", "gzip-members", "deflate", "br", "zstd"] {
        let path = url(server.address(), &format!("/encoded/{encoding}/3000000"));
        let stream = Stream::submit(&run, path.clone());
        assert!(plain == stream.whole(), "{encoding}");
        let received = stream.body.received();
        assert!(received < 3_000_000, "{encoding}: it counts what came");

        let raw = Stream::submit(&run, path);
        assert_eq!(200, raw.status());
        let (bytes, failure) = raw.rest(true);
        assert_eq!((received, None), (bytes.len() as u64, failure), "{encoding}");
    }
    let bare = Stream::submit(&run, url(server.address(), "/fault/raw-deflate")).whole();
    assert!(bare.starts_with(b"Hello, World!"));
    let unknown = Stream::submit(&run, url(server.address(), "/fault/unknown-encoding"));
    assert_eq!((200, None), (unknown.status(), unknown.rest(false).1), "it is left as it came");
}

#[test]
fn a_body_with_an_invalid_encoding_fails_after_its_decoded_bytes() {
    let (run, server) = (run(), server());
    for fault in ["truncated-gzip", "corrupt-gzip", "gzip-bad-checksum", "not-gzip"] {
        let stream = Stream::submit(&run, url(server.address(), &format!("/fault/{fault}")));
        assert_eq!(200, stream.status(), "{fault}");
        assert_eq!(Some(ErrorKind::Decode), kind(stream.rest(false).1), "{fault}");
    }
    eventually("they are counted", || run.snapshot().rows == 4);
    run.end_feeding();
    assert!(run.wait(MAX_WAIT));
    assert_eq!((4, 0), (run.summary().failed, run.summary().succeeded), "a row whose body fails has failed");
}

/// Waits until no more of an unread body is received, and returns the number of received bytes.
fn held(stream: &Stream) -> u64 {
    let mut before = u64::MAX;
    eventually("nothing is read", || {
        let received = stream.body.received();
        std::mem::replace(&mut before, received) == received && received > 0
    });
    before
}

#[test]
fn reading_is_bounded_by_the_buffer_and_a_slow_caller_causes_no_timeout() {
    let (run, server) = (run(), server());
    let gibibyte = url(server.address(), "/bytes/1073741824");
    let time = Duration::from_secs(1);
    let stream = Stream::with_timeout(&run, gibibyte, Some(time));
    assert_eq!(200, stream.status());
    stream.body.begin(false);
    let (mut taken, mut most) = (0, 0);
    // While the caller reads nothing, the buffered bytes are bounded for a body of any length.
    while taken < 64 * 1024 * 1024 {
        let StreamRead::Bytes(bytes) = stream.read() else { panic!("it breaks off") };
        taken += bytes.len() as u64;
        most = most.max(stream.body.received() - taken);
    }
    assert!(most <= BUFFER_BYTES as u64 + READ_BYTES, "{most} bytes were held");
    let received = held(&stream);
    assert!(received - taken <= BUFFER_BYTES as u64 + READ_BYTES);

    // The caller reads nothing for longer than the idle timeout.
    let other = Stream::with_timeout(&run, url(server.address(), "/fault/hang-mid-body"), Some(time));
    assert_eq!((200, Some(ErrorKind::Timeout)), (other.status(), kind(other.rest(false).1)));
    assert!(matches!(stream.read(), StreamRead::Bytes(_)), "it continues");
    stream.body.close();
    eventually("its exchange has ended", || run.snapshot().in_flight == 0);
    assert!(server.statistics().bytes_written < 1 << 29, "and most was never sent");
}

#[test]
fn over_http2_the_flow_control_window_stops_the_server() {
    let (run, server) = http2();
    let stream = Stream::submit(&run, url(server.address(), "/bytes/1073741824"));
    assert_eq!(200, stream.status());
    stream.body.begin(false);
    let mut taken = 0;
    while taken < 8 * 1024 * 1024 {
        let StreamRead::Bytes(bytes) = stream.read() else { panic!("it breaks off") };
        taken += bytes.len() as u64;
    }
    assert!(held(&stream) - taken <= BUFFER_BYTES as u64 + WINDOW_BYTES);
    // The connection is available to other requests.
    let other = Stream::submit(&run, url(server.address(), "/1"));
    assert_eq!(b"Hello, World!".to_vec(), other.whole());
    stream.body.close();
    eventually("its exchange has ended", || run.snapshot().in_flight == 0);
    assert_eq!(1, server.statistics().connections_accepted);
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn encoded(encodings: &str, body: &[u8]) -> Scripted {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encodings}\r\nContent-Length: {}\r\n\r\n", body.len());
    Scripted::responding([head.as_bytes(), body].concat())
}

#[test]
fn a_decompression_bomb_is_decoded_as_it_is_read_and_blocks_no_other_stream() {
    let bomb = encoded("gzip", &gzip(&vec![0; 16 << 20]));
    let run = run_of(RequestOptions::default(), RunOptions { concurrency: 4, ..RunOptions::default() });
    let stream = Stream::submit(&run, bomb.url("/"));
    assert_eq!(200, stream.status());
    stream.body.begin(false);
    let mut taken = 0;
    while taken < 16 << 20 {
        let StreamRead::Bytes(bytes) = stream.read() else { panic!("it breaks off") };
        assert!(bytes.len() <= 2 * BUFFER_BYTES, "{} bytes at once", bytes.len());
        taken += bytes.len();
    }
    assert_eq!(StreamRead::End(None), stream.read());

    // A body that endlessly decodes to nothing yields no bytes, and keeps its thread busy.
    let nothing = gzip(&gzip(b"").repeat(20));
    let endless = Scripted::start(move |mut stream, _| {
        read_head(&mut stream);
        let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\n\r\n");
        while sent.is_ok() {
            sent = stream.write_all(&nothing);
        }
    });
    let stream = Stream::submit(&run, endless.url("/"));
    assert_eq!(200, stream.status());
    stream.body.begin(false);
    eventually("much has come", || stream.body.received() > 2 * READ_BYTES);
    let other = Scripted::responding(response("another"));
    assert_eq!(b"another".to_vec(), Stream::submit(&run, other.url("/")).whole());
    stream.body.close();
    eventually("their exchanges have ended", || run.snapshot().in_flight == 0);
}

#[test]
fn an_incomplete_body_fails_after_all_its_bytes_without_a_retry() {
    let truncated = |mut stream: std::net::TcpStream, _| {
        if read_head(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin");
        }
    };
    let scripted = Scripted::start(truncated);
    let run = run();
    let stream = Stream::submit(&run, scripted.url("/"));
    assert_eq!(200, stream.status());
    let (body, failure) = stream.rest(false);
    assert_eq!((b"begin".to_vec(), Some(ErrorKind::ConnectionClosed)), (body, kind(failure)));
    eventually("it is counted", || run.snapshot().failed == 1);
    assert_eq!(1, scripted.connections());

    let server = server();
    for (expected, fault) in [
        (ErrorKind::ConnectionClosed, "reset-mid-body"),
        (ErrorKind::ConnectionClosed, "truncated-chunks"),
        (ErrorKind::Protocol, "bad-chunk-size"),
    ] {
        let before = server.statistics().requests;
        let stream = Stream::submit(&run, url(server.address(), &format!("/fault/{fault}")));
        let head = stream.head();
        // An error in the read that has the headers leads to a retry, because the caller has received nothing.
        let failure = head.failure.or_else(|| stream.rest(false).1);
        assert_eq!(Some(expected), kind(failure), "{fault}");
        assert!(server.statistics().requests > before);
    }

    let (run, server) = http2();
    for fault in ["h2-reset-internal-error", "h2-close-mid-body"] {
        let stream = Stream::submit(&run, url(server.address(), &format!("/fault/{fault}")));
        let failure = stream.head().failure.or_else(|| stream.rest(false).1);
        assert!(failure.is_some(), "{fault}");
    }
}

#[test]
fn the_idle_timeout_applies_between_two_pieces() {
    let (run, server) = (run(), server());
    let hangs = url(server.address(), "/fault/hang-mid-body");
    let stream = Stream::with_timeout(&run, hangs, Some(Duration::from_millis(100)));
    assert_eq!(200, stream.status());
    let (body, failure) = stream.rest(false);
    let failure = failure.expect("it hangs");
    assert_eq!((ErrorKind::Timeout, Some(OptionName::Timeout)), (failure.kind, failure.option));
    assert!(!body.is_empty());

    // The timeout applies to each piece, so all of them together may take longer.
    let drips = url(server.address(), "/drip?numbytes=20&duration=2");
    let stream = Stream::with_timeout(&run, drips, Some(Duration::from_secs(1)));
    assert_eq!(20, stream.whole().len());
}

#[test]
fn a_failure_before_the_headers_and_a_status_are_retried() {
    let scripted = Scripted::start(|mut stream, number| {
        while read_head(&mut stream).is_some() {
            let reply = match number {
                0 => return,
                1 => "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy".to_owned(),
                _ => response("at last"),
            };
            if stream.write_all(reply.as_bytes()).is_err() || number == 1 {
                return;
            }
        }
    });
    let retrying = Retrying { delay: Duration::from_millis(1), ..Retrying::default() };
    let run = run_of(RequestOptions::default(), RunOptions { concurrency: 4, retrying, ..RunOptions::default() });
    let stream = Stream::submit(&run, scripted.url("/"));
    let head = stream.head();
    assert_eq!((3, Some(200)), (head.attempts, head.response.map(|reply| reply.status)));
    assert_eq!((b"at last".to_vec(), None), stream.rest(false));

    let busy = Scripted::responding("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
    let stream = Stream::submit(&run, busy.url("/"));
    let head = stream.head();
    assert_eq!((4, Some(503)), (head.attempts, head.response.map(|reply| reply.status)), "that of the last attempt");
    assert_eq!((b"busy".to_vec(), None), stream.rest(false));
}

#[test]
fn redirects_are_followed_before_the_stream_starts() {
    let (server, mut request) = (server(), RequestOptions::default());
    request.response.max_redirects = 5;
    let run = run_of(request, RunOptions { concurrency: 4, ..RunOptions::default() });
    let stream = Stream::submit(&run, url(server.address(), "/redirect/3"));
    let head = stream.head();
    assert_eq!(url(server.address(), "/redirect/0"), head.row.target());
    assert_eq!((b"Hello, World!".to_vec(), None), stream.rest(false));
    let lost = Stream::submit(&run, url(server.address(), "/fault/redirect-loop"));
    assert_eq!(Some(ErrorKind::RedirectLoop), kind(lost.head().failure));
}

#[test]
fn a_connection_is_reused_after_a_complete_body_and_otherwise_closed() {
    let (run, server) = (run(), server());
    for _ in 0..3 {
        Stream::submit(&run, url(server.address(), "/bytes/1000000")).whole();
    }
    assert_eq!(1, server.statistics().connections_accepted);
    let left = Stream::submit(&run, url(server.address(), "/bytes/1000000000"));
    assert_eq!(200, left.status());
    left.body.close();
    eventually("its exchange has ended", || run.snapshot().in_flight == 0);
    Stream::submit(&run, url(server.address(), "/1")).whole();
    assert_eq!(2, server.statistics().connections_accepted);
    eventually("it has closed the other", || server.statistics().connections_open == 1);
    assert_eq!((5, 0), (run.snapshot().rows, run.snapshot().failed), "one that is left is no failure");
}

#[test]
fn a_stream_can_be_cancelled_before_its_headers_and_ends_with_the_run() {
    let (run, server) = (run(), server());
    let waiting = Stream::submit(&run, url(server.address(), "/fault/hang-before-headers"));
    eventually("it is in flight", || run.snapshot().in_flight == 1);
    run.cancel(waiting.ordinal);
    assert_eq!(Some(ErrorKind::Cancelled), kind(waiting.head().failure));

    let open = Stream::submit(&run, url(server.address(), "/bytes/1000000000"));
    assert_eq!(200, open.status());
    run.end_feeding();
    run.abort();
    assert_eq!(Some(ErrorKind::Cancelled), kind(open.rest(false).1));
    assert!(run.wait(MAX_WAIT));
}

#[test]
fn a_stream_that_is_reset_fails_after_its_bytes() {
    let scripted = crate::http2::start(100, |peer, _| {
        let request = peer.request()?;
        peer.send(HEADERS, END_HEADERS, request, STATUS_200)?;
        peer.send(DATA, 0, request, b"begin")?;
        peer.reset(request, CANCEL)
    });
    let request = RequestOptions { http2_prior_knowledge: true, ..RequestOptions::default() };
    let run = run_of(request, RunOptions { concurrency: 1, ..RunOptions::default() });
    let stream = Stream::submit(&run, scripted.url("/"));
    assert_eq!(200, stream.status());
    assert_eq!(Some(ErrorKind::ConnectionClosed), kind(stream.rest(false).1));
}

#[test]
fn a_response_over_http2_may_be_complete_before_the_request_is() {
    let scripted = crate::http2::start(100, |peer, _| {
        let request = peer.request()?;
        // `content-length: 6` beside it, named by the static table.
        peer.send(HEADERS, END_HEADERS, request, &[STATUS_200, &[0x0f, 0x0d, 1, b'6']].concat())?;
        peer.send(DATA, 0, request, b"enough")?;
        // The server resets the stream, because it needs no more of the request.
        peer.reset(request, NO_ERROR)?;
        while peer.read().is_some() {}
        None
    });
    // The body is larger than the server's flow-control window.
    let body = Some(vec![b'x'; 200_000]);
    let request =
        RequestOptions { http2_prior_knowledge: true, method: Some("POST".into()), body, ..RequestOptions::default() };
    let run = run_of(request, RunOptions { concurrency: 1, ..RunOptions::default() });
    assert_eq!(b"enough".to_vec(), Stream::submit(&run, scripted.url("/")).whole());
}
