//! The rules of `robots.txt`, if they are obeyed.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::harness::{ResultRow, Rig};
use crate::scripted::{Scripted, read_head, response};

type Log = Arc<Mutex<Vec<String>>>;

/// Starts a server that responds to `/robots.txt` with this response, and to all other paths with 200.
fn server(robots: impl Into<String>) -> (Scripted, Log) {
    let (robots, log) = (robots.into(), Log::default());
    let seen = log.clone();
    let server = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let reply = match &path[..] {
                "/robots.txt" => robots.clone(),
                "/moved.txt" => response("User-agent: *\nDisallow: /2"),
                "/elsewhere" => "HTTP/1.1 302 x\r\nLocation: /2\r\nContent-Length: 0\r\n\r\n".into(),
                _ => response("ok"),
            };
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(head);
            if stream.write_all(reply.as_bytes()).is_err() {
                break;
            }
        }
    });
    (server, log)
}

/// Starts a server that allows everything, and redirects all other paths to `to`.
fn redirecting(to: String) -> Scripted {
    Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let reply = if head.starts_with("GET /robots.txt ") {
                "HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n".into()
            } else {
                format!("HTTP/1.1 302 x\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
            };
            if stream.write_all(reply.as_bytes()).is_err() {
                break;
            }
        }
    })
}

fn paths(log: &Log) -> Vec<String> {
    let seen = log.lock().unwrap_or_else(PoisonError::into_inner);
    seen.iter().filter_map(|head| head.split(' ').nth(1).map(str::to_owned)).collect()
}

fn run(input: String) -> Vec<ResultRow> {
    let mut rig = Rig::new(input);
    rig.options.request.response.obey_robots = true;
    rig.rows()
}

#[test]
fn disallowed_rows_are_blocked_and_the_file_is_fetched_once() {
    let (server, log) = server(response("User-agent: headgate\nDisallow: /2\n\nUser-agent: *\nDisallow: /"));
    let rows = run(server.url("/[1-30]"));
    for row in &rows {
        let expected = if row.url.contains("/2") {
            (None, Some("blocked_by_robots"), "robots.txt disallows it", 0)
        } else {
            (Some(200), None, "", 1)
        };
        assert_eq!(expected, (row.status, row.kind(), row.message(), row.attempts), "{}", row.url);
    }
    let requested = paths(&log);
    assert_eq!(1, requested.iter().filter(|path| *path == "/robots.txt").count());
    assert_eq!(20, requested.len(), "{requested:?}");
}

#[test]
fn a_missing_file_allows_all_rows_and_an_unreadable_one_blocks_them() {
    let (gone, _) = server("HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(Some(200), run(gone.url("/"))[0].status);
    let (broken, log) = server("HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n");
    let rows = run(broken.url("/[1-5]"));
    assert!(rows.iter().all(|row| row.kind() == Some("blocked_by_robots") && row.detail() == "status 500"), "{rows:?}");
    assert_eq!(["/robots.txt".to_owned()].to_vec(), paths(&log));
}

#[test]
fn the_file_may_be_redirected() {
    let (server, log) = server("HTTP/1.1 301 x\r\nLocation: /moved.txt\r\nContent-Length: 0\r\n\r\n");
    let rows = run(server.url("/[1-2]"));
    assert_eq!([None, Some("blocked_by_robots")], [rows[0].kind(), rows[1].kind()]);
    assert_eq!(["/robots.txt", "/moved.txt", "/1"].map(str::to_owned).to_vec(), paths(&log));
}

#[test]
fn the_target_of_a_redirect_is_checked() {
    let (server, _) = server(response("User-agent: *\nDisallow: /2"));
    let row = run(server.url("/elsewhere")).remove(0);
    assert_eq!((None, Some("blocked_by_robots"), 1), (row.status, row.kind(), row.attempts));
    assert_eq!(Some(server.url("/2")), row.final_url);
}

#[test]
fn the_request_for_the_file_has_none_of_the_options_of_the_job() {
    let (server, log) = server(response("User-agent: *\nDisallow: /2"));
    let mut rig = Rig::new(server.url("/1"));
    rig.options.request.response.obey_robots = true;
    rig.options.request.body = Some(b"{}".to_vec());
    rig.options.request.max_body_size = 2;
    rig.options.request.response.range = Some("0-9".into());
    rig.options.request.headers = vec![("If-None-Match".into(), "*".into()), ("Accept".into(), "image/png".into())];
    assert_eq!(Some(200), rig.row().status);
    let heads = log.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(heads[0].starts_with("GET /robots.txt HTTP/1.1\r\n") && !heads[0].contains("content-"), "{}", heads[0]);
    let sent: Vec<&str> =
        heads[0].lines().skip(1).filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
    assert_eq!(["host", "user-agent", "accept", "accept-encoding"].to_vec(), sent);
    assert!(heads[0].contains("accept: */*\r\n"), "{}", heads[0]);
    assert!(heads[1].starts_with("POST /1 "));
}

#[test]
fn the_file_of_a_redirect_target_gets_no_credentials() {
    let (there, there_log) = server("HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n");
    let here = redirecting(there.url("/there"));
    let mut rig = Rig::new(here.url("/"));
    let request = &mut rig.options.request;
    request.response.obey_robots = true;
    request.bearer = Some("secret".into());
    request.headers = vec![("Cookie".into(), "a=secret".into()), ("X-Key".into(), "secret".into())];
    request.secret_headers = vec!["x-key".into()];
    rig.run();
    let heads = there_log.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(!heads.is_empty() && heads.iter().all(|head| !head.contains("secret")), "{heads:?}");
}

#[test]
fn the_rules_are_those_for_the_user_agent_that_is_sent() {
    let (server, log) = server(response("User-agent: otherbot\nDisallow: /"));
    let mut rig = Rig::new(server.url("/1"));
    rig.options.request.response.obey_robots = true;
    rig.options.request.headers = vec![("User-Agent".into(), "OtherBot/2.0".into())];
    assert_eq!(Some("blocked_by_robots"), rig.run().0[0].kind());
    assert!(log.lock().unwrap_or_else(PoisonError::into_inner)[0].contains(": OtherBot/2.0\r\n"));
}

#[test]
fn a_row_that_is_blocked_after_a_redirect_has_an_attempt() {
    let (there, _) = server(response("User-agent: *\nDisallow: /"));
    let here = redirecting(there.url("/there"));
    let mut rig = Rig::new(here.url("/"));
    rig.options.request.response.obey_robots = true;
    rig.options.run.limits.rate_per_host.each = Some("1000/s".parse().expect("a rate"));
    let row = rig.run().0.remove(0);
    assert_eq!((Some("blocked_by_robots"), 1), (row.kind(), row.attempts));
    assert!(row.elapsed_us > 0);
}

#[test]
fn a_rule_that_the_size_bound_cuts_does_not_apply() {
    let (begin, end) = ("User-agent: *\n#", "\nDisallow: /");
    let padding = "x".repeat(500 * 1024 - begin.len() - end.len());
    let (server, _) = server(response(&format!("{begin}{padding}{end}private\n")));
    assert_eq!(None, run(server.url("/1"))[0].kind());
}

#[test]
fn a_file_whose_fetch_failed_is_fetched_again_with_the_retries_of_rows() {
    for (kind, retries, files) in [(Some("blocked_by_robots"), 0, 1), (None, 1, 2)] {
        let log = Log::default();
        let seen = log.clone();
        let server = Scripted::start(move |mut stream, _| {
            while let Some(head) = read_head(&mut stream) {
                let is_first = seen.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(head);
                let reply = if is_first { "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".into() } else { response("") };
                if stream.write_all(reply.as_bytes()).is_err() {
                    break;
                }
            }
        });
        let mut rig = Rig::new(server.url("/1"));
        rig.options.request.response.obey_robots = true;
        rig.options.run.retrying.retries = retries;
        rig.options.run.retrying.delay = Duration::from_millis(1);
        assert_eq!(kind, rig.row().kind());
        assert_eq!(files, paths(&log).iter().filter(|path| *path == "/robots.txt").count());
    }
}

#[test]
fn the_file_of_a_silent_server_has_the_timeouts_and_retries_of_a_row() {
    for (option, closes) in [("the first byte of the response did not come in time", false), ("closed", true)] {
        let log = Log::default();
        let seen = log.clone();
        let server = Scripted::start(move |mut stream, _| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).extend(read_head(&mut stream));
            if !closes {
                while read_head(&mut stream).is_some() {}
            }
        });
        let mut rig = Rig::new(server.url("/1")).timeout(Duration::from_secs(60));
        rig.options.request.response.obey_robots = true;
        rig.options.request.first_byte_timeout = (!closes).then_some(Duration::from_millis(50));
        rig.options.run.retrying.retries = 0;
        let row = rig.row();
        assert!(row.detail().contains(option), "{}", row.detail());
        while paths(&log).is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let kind = if closes { "connection_closed" } else { "timeout" };
        assert_eq!((Some(kind), 1), (row.kind(), paths(&log).len()));
    }
}

#[test]
fn a_server_that_closes_every_connection_is_not_retried_forever() {
    let server = Scripted::start(|stream, _| drop(stream));
    let mut rig = Rig::new(server.url("/1")).timeout(Duration::from_secs(60));
    rig.options.request.response.obey_robots = true;
    rig.options.run.retrying.retries = 0;
    assert_eq!(Some("connection_closed"), rig.row().kind());
    assert!(server.connections() <= 3, "{}", server.connections());
}

#[test]
fn the_rows_of_a_dead_host_have_the_error_of_the_file() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rows = run(format!("http://{gone}/[1-5]"));
    assert!(rows.iter().all(|row| row.kind() == Some("connect") && row.attempts == 0), "{rows:?}");
    assert!(rows[0].message().starts_with("robots.txt can't be read"), "{}", rows[0].message());

    let closing = Scripted::start(|mut stream, _| drop(read_head(&mut stream)));
    let rows = run(closing.url("/[1-5]"));
    assert!(rows.iter().all(|row| row.kind() == Some("connection_closed")), "{rows:?}");

    let silent = Scripted::start(|mut stream, _| while read_head(&mut stream).is_some() {});
    let mut rig = Rig::new(silent.url("/[1-3]")).timeout(Duration::from_millis(300));
    rig.options.request.response.obey_robots = true;
    assert!(rig.rows().iter().all(|row| row.kind() == Some("timeout")));
}

/// The class of CVE-2021-33503 (urllib3): a path whose decision would take seconds is disallowed.
#[test]
fn a_file_of_500_kib_is_read_completely_and_its_decisions_are_bounded() {
    let rules = (0..28_000).map(|rule| format!("Disallow:/*{rule:05}\n")).collect::<Vec<_>>().concat();
    let file = format!("User-agent: *\n{rules}Disallow: /last\n");
    assert!((470_000..512_000).contains(&file.len()), "{}", file.len());
    let (server, _) = server(response(&file));
    let long = server.url(&format!("/{}", "ab".repeat(30_000)));
    let blocked = [server.url("/last"), server.url("/x00042"), long];
    let mut rig = Rig::urls([&[server.url("/free")], &blocked[..]].concat()).concurrency(10, 1);
    rig.options.request.response.obey_robots = true;
    let rows = rig.rows();
    assert_eq!(Some(200), rows[0].status);
    assert!(rows[1..].iter().all(|row| row.kind() == Some("blocked_by_robots")), "{:?}", &rows[1..3]);
}
