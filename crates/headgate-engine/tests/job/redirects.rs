//! Redirects: their targets, what is sent to them, and the limits that hold for each hop.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headgate_core::limits::{HostConcurrency, PerHost};
use headgate_core::options::RedirectPolicy;
use headgate_engine::Summary;

use crate::harness::{ResultRow, Rig, eventually};
use crate::scripted::{Scripted, read_head, response};

/// The heads of the requests that a server received.
type Log = Arc<Mutex<Vec<String>>>;

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} x\r\nLocation: {location}\r\nContent-Length: 2\r\n\r\nno")
}

/// Starts a server that responds to each path as `respond` returns.
fn server(respond: impl Fn(&str) -> String + Send + Sync + 'static) -> (Scripted, Log) {
    let log = Log::default();
    let seen = log.clone();
    let server = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(head);
            if stream.write_all(respond(&path).as_bytes()).is_err() {
                break;
            }
        }
    });
    (server, log)
}

fn seen(log: &Log) -> Vec<String> {
    log.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn run(rig: &Rig) -> (Vec<ResultRow>, Summary) {
    let (rows, summary) = rig.run();
    assert!(summary.failure.is_none(), "{:?}", summary.failure);
    (rows, summary)
}

/// Returns the response to a path: `/N` redirects to `/N-1`, and `/0` responds.
fn redirect_chain(path: &str) -> String {
    let step: u32 = path.trim_start_matches('/').parse().unwrap_or_default();
    if step == 0 { response("down") } else { redirect(302, &format!("/{}", step - 1)) }
}

#[test]
fn a_redirect_is_followed_over_the_same_connection() {
    let (server, log) = server(redirect_chain);
    let mut rig = Rig::new(server.url("/3"));
    rig.options.request.response.keep_redirects = true;
    let (rows, _) = run(&rig);
    let row = &rows[0];
    assert_eq!((Some(200), "down", 1), (row.status, row.text(), row.attempts));
    assert_eq!(Some(server.url("/0")), row.final_url);
    assert_eq!(server.url("/3"), row.url);
    let hops: Vec<_> =
        row.redirects.as_ref().expect("kept").iter().map(|hop| (hop.status, &hop.location[..])).collect();
    let expected = ["/2", "/1", "/0"].map(|path| server.url(path));
    assert_eq!(expected.each_ref().map(|url| (302, url.as_str())).to_vec(), hops);
    assert_eq!((4, 1), (seen(&log).len(), server.connections()));
}

#[test]
fn the_redirect_chain_is_kept_only_on_request_and_is_null_without_redirects() {
    let (server, _) = server(redirect_chain);
    let (rows, _) = run(&Rig::new(server.url("/[0-1]")));
    assert_eq!([None, Some(server.url("/0"))], [rows[0].final_url.clone(), rows[1].final_url.clone()]);
    assert!(rows.iter().all(|row| row.redirects.is_none()));
}

#[test]
fn with_redirects_none_a_redirect_is_the_response() {
    let (server, log) = server(redirect_chain);
    let mut rig = Rig::new(server.url("/1"));
    rig.options.request.response.redirects = RedirectPolicy::None;
    let (rows, _) = run(&rig);
    assert_eq!((Some(302), "no", None), (rows[0].status, rows[0].text(), rows[0].final_url.as_deref()));
    assert_eq!(1, seen(&log).len());
}

#[test]
fn a_loop_fails_at_its_second_visit_and_keeps_the_last_response() {
    let (server, log) = server(|_| redirect(301, "/again"));
    let (rows, _) = run(&Rig::new(server.url("/")));
    let row = &rows[0];
    assert_eq!((Some("redirect_loop"), Some(301), 1), (row.kind(), row.status, row.attempts));
    let message = "the redirect leads back to a request that was made before";
    assert_eq!((message, server.url("/again")), (row.message(), row.detail().to_owned()));
    assert_eq!((2, None), (seen(&log).len(), row.body()));
}

#[test]
fn a_chain_that_is_too_long_fails_and_keeps_the_last_response() {
    let (server, log) = server(redirect_chain);
    let (rows, _) = run(&Rig::new(server.url("/11")));
    let row = &rows[0];
    assert_eq!((Some("too_many_redirects"), Some(302), 1), (row.kind(), row.status, row.attempts));
    assert_eq!(("there were more than 10 redirects", server.url("/0")), (row.message(), row.detail().to_owned()));
    assert_eq!((11, None), (seen(&log).len(), row.body()));
}

#[test]
fn a_redirect_that_is_not_followed_is_the_response_with_its_body() {
    let (there, there_log) = server(|_| response("there"));
    let to = there.url("/to");
    let (here, _) = server(move |path| redirect(307, if path == "/near" { "/end" } else { &to }));
    for (policy, body) in [(RedirectPolicy::SameOrigin, None), (RedirectPolicy::Follow, Some(b"{}".to_vec()))] {
        let mut rig = Rig::new(here.url("/"));
        rig.options.request.response.redirects = policy;
        rig.options.request.body = body;
        let (rows, summary) = run(&rig);
        assert_eq!(
            (Some(307), "no", None),
            (rows[0].status, rows[0].text(), rows[0].final_url.as_deref()),
            "{policy:?}"
        );
        assert_eq!(1, summary.succeeded);
    }
    assert!(seen(&there_log).is_empty());
}

#[test]
fn the_body_of_a_redirect_is_not_waited_for() {
    let (server, log) = server(|path| match path {
        "/" => "HTTP/1.1 302 x\r\nLocation: /little\r\nContent-Length: 100000000\r\n\r\nno".into(),
        "/little" => "HTTP/1.1 302 x\r\nLocation: /coded\r\nContent-Length: 20\r\n\r\nno".into(),
        "/coded" => {
            "HTTP/1.1 302 x\r\nLocation: /end\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnone".into()
        }
        _ => response("end"),
    });
    let (rows, _) = run(&Rig::new(server.url("/")));
    assert_eq!((Some(200), "end"), (rows[0].status, rows[0].text()));
    assert_eq!((4, 3), (seen(&log).len(), server.connections()), "what is hanging is left behind");
}

#[test]
fn an_invalid_location_fails_with_protocol_and_its_text() {
    let (server, _) = server(|_| redirect(302, "ftp://elsewhere/x"));
    let (rows, _) = run(&Rig::new(server.url("/")));
    assert_eq!((Some("protocol"), Some(302)), (rows[0].kind(), rows[0].status));
    assert_eq!("`ftp://elsewhere/x`", rows[0].detail());
}

#[test]
fn a_posted_body_is_dropped_where_the_redirect_status_requires_it() {
    let (server, log) = server(|path| match path {
        "/to" => response("there"),
        // The server does not read the body, which stays in the connection.
        path => redirect(if path == "/keep" { 307 } else { 303 }, "/to")
            .replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"),
    });
    for (path, method, body) in [("/keep", "POST", true), ("/drop", "GET", false)] {
        let mut rig = Rig::new(server.url(path));
        rig.options.request.body = Some(b"{}".to_vec());
        let (rows, _) = run(&rig);
        // The result has the method that the row requested.
        assert_eq!((Some(200), "POST"), (rows[0].status, &rows[0].method[..]), "{path}");
        let head = seen(&log).pop().expect("it was requested");
        assert!(head.starts_with(&format!("{method} /to ")), "{head}");
        assert_eq!(body, head.contains("content-length: 2\r\n") && head.contains("content-type: "), "{head}");
    }
}

#[test]
fn each_hop_obeys_the_limit_of_its_host_and_waits_without_a_lane() {
    // The slow host accepts one request at a time, and checks that no other one arrives meanwhile.
    let in_flight = Arc::new(Mutex::new((0_u32, 0_u32)));
    let counted = in_flight.clone();
    let (slow, slow_log) = server(move |_| {
        {
            let mut counts = counted.lock().unwrap_or_else(PoisonError::into_inner);
            counts.0 += 1;
            counts.1 = counts.1.max(counts.0);
        }
        std::thread::sleep(Duration::from_millis(5));
        counted.lock().unwrap_or_else(PoisonError::into_inner).0 -= 1;
        response("there")
    });
    let to = slow.url("/to").replace("127.0.0.1", "localhost");
    let (here, here_log) = server(move |path| if path.len() > 3 { redirect(302, &to) } else { response("here") });
    drop(slow);
    let mut rig = Rig::new(here.url("/[1-150]"));
    rig.options.run.limits.concurrency_per_host =
        PerHost { named: vec![("localhost".into(), HostConcurrency::Fixed(1))], each: None };
    rig.options.run.concurrency = 4;
    let (rows, _) = run(&rig);
    assert_eq!(150, rows.len());
    assert!(rows.iter().all(|row| row.status == Some(200) && row.attempts == 1), "{rows:?}");
    assert_eq!((51, 1), (seen(&slow_log).len(), in_flight.lock().unwrap_or_else(PoisonError::into_inner).1));
    assert_eq!(150, seen(&here_log).len());
}

#[test]
fn an_attempt_that_fails_during_redirects_is_retried_from_the_first_url() {
    let failures = Arc::new(Mutex::new(1));
    let (server, log) = server(move |path| {
        let mut left = failures.lock().unwrap_or_else(PoisonError::into_inner);
        if path == "/0" && *left > 0 {
            *left -= 1;
            return "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".into();
        }
        redirect_chain(path)
    });
    let mut rig = Rig::new(server.url("/1"));
    rig.options.run.retrying.retries = 2;
    rig.options.run.retrying.delay = Duration::from_millis(1);
    let (rows, _) = run(&rig);
    assert_eq!((Some(200), 2), (rows[0].status, rows[0].attempts));
    let paths: Vec<String> = seen(&log).iter().filter_map(|head| head.split(' ').nth(1).map(str::to_owned)).collect();
    assert_eq!(["/1", "/0", "/1", "/0"].map(str::to_owned).to_vec(), paths);
}

#[test]
fn cookies_are_sent_to_the_next_hop_if_enabled() {
    for cookies in [false, true] {
        let (server, log) = server(|path| {
            if path == "/" {
                "HTTP/1.1 302 x\r\nLocation: /in\r\nSet-Cookie: session=abc; Path=/\r\nContent-Length: 0\r\n\r\n".into()
            } else {
                response("in")
            }
        });
        let mut rig = Rig::new(server.url("/"));
        rig.options.request.response.redirect_cookies = cookies;
        let (rows, _) = run(&rig);
        assert_eq!(Some(200), rows[0].status);
        assert_eq!(cookies, seen(&log)[1].contains("cookie: session=abc\r\n"));
    }
}

#[test]
fn a_host_header_of_the_user_is_sent_only_to_the_origin_of_the_row() {
    let (there, there_log) = server(|_| response("there"));
    let to = there.url("/to");
    let (here, here_log) = server(move |path| redirect(302, if path == "/" { "/2" } else { &to }));
    let mut rig = Rig::new(here.url("/"));
    rig.options.request.headers = vec![("Host".into(), "virtual.example".into())];
    let (rows, _) = run(&rig);
    assert_eq!(Some(200), rows[0].status);
    assert!(seen(&here_log).iter().all(|head| head.contains("Host: virtual.example\r\n")));
    let head = &seen(&there_log)[0];
    assert!(head.contains(&format!("host: {}\r\n", there.address)) && !head.contains("virtual"), "{head}");
}

#[test]
fn a_processed_post_is_not_resent_after_an_invalid_redirect() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("a bound address");
    // If the redirect kept the body, the other origin would get no request at all.
    for (status, attempts) in [(303, 1), (302, 1)] {
        let (server, log) = server(move |_| redirect(status, &format!("http://{gone}/")));
        let mut rig = Rig::new(server.url("/"));
        rig.options.request.body = Some(b"{}".to_vec());
        rig.options.run.retrying.retries = 2;
        rig.options.run.retrying.delay = Duration::from_millis(1);
        let (rows, summary) = run(&rig);
        assert_eq!((Some("connect"), attempts), (rows[0].kind(), rows[0].attempts), "{status}");
        assert_eq!((usize::from(attempts), u64::from(attempts == 1)), (seen(&log).len(), summary.not_retried));
    }
}

#[test]
fn a_row_that_is_cancelled_during_redirects_has_an_attempt() {
    let (there, there_log) = server(|_| {
        loop {
            std::thread::park();
        }
    });
    let to = there.url("").replace("127.0.0.1", "localhost");
    let (here, here_log) = server(move |path| redirect(302, &format!("{to}{path}")));
    let mut rig = Rig::new(here.url("/[0-1]")).concurrency(2, 1);
    rig.options.run.limits.concurrency_per_host =
        PerHost { named: vec![("localhost".into(), HostConcurrency::Fixed(1))], each: None };
    let job = rig.start();
    eventually("one is in flight there, and the other waits", || {
        seen(&there_log).len() == 1 && seen(&here_log).len() == 2 && job.snapshot().in_flight == 1
    });
    let hangs = u64::from(seen(&there_log)[0].starts_with("GET /1 "));
    job.cancel(1 - hangs);
    eventually("the one that waited has ended", || job.snapshot().failed == 1);
    job.cancel(hangs);
    let (rows, _) = rig.finish(&job);
    let messages = ["cancelled while it was in flight", "cancelled while it waited for the host of its redirect"];
    for (message, row) in messages.iter().zip([hangs, 1 - hangs]) {
        let row = &rows[row as usize];
        assert_eq!((Some("cancelled"), *message, 1), (row.kind(), row.message(), row.attempts));
    }
}
