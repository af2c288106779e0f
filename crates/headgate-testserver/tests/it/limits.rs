use std::collections::BTreeMap;
use std::time::Duration;

use headgate_testserver::{ApiConfig, Config, Server};
use serde_json::Value;

use crate::client::{Client, wait_until};

fn start(config: Config) -> Server {
    // Several workers, since limits apply to all of them together.
    Server::start(Config { threads: Some(3), ..config }).expect("a free port")
}

fn with_api(api: ApiConfig) -> Server {
    start(Config { api: Some(api), ..Config::default() })
}

/// Starts a request that uses the capacity and never ends.
fn hanging(server: &Server) -> Client {
    let before = server.statistics().requests_in_progress;
    let mut client = Client::connect(server);
    client.send("GET /fault/hang-before-headers HTTP/1.1\r\n\r\n");
    wait_until("it is in progress", || server.statistics().requests_in_progress > before);
    client
}

fn status(client: &mut Client, path: &str) -> String {
    client.get(path).head.split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn requests_beyond_the_capacity_wait() {
    let server = start(Config { capacity: Some(2), ..Config::default() });
    let (one, _other) = (hanging(&server), hanging(&server));
    let mut third = Client::connect(&server);
    third.send("GET /1 HTTP/1.1\r\n\r\n");
    wait_until("the third has come", || server.statistics().requests_in_progress == 3);
    assert_eq!(0, server.statistics().responses.get(&200).copied().unwrap_or_default());
    drop(one);
    assert_eq!("Hello, World!", third.response().text());
}

#[test]
fn a_client_that_disconnects_while_it_waits_blocks_no_other() {
    let server = start(Config { capacity: Some(1), ..Config::default() });
    let first = hanging(&server);
    let mut gone = Client::connect(&server);
    gone.send("GET /1 HTTP/1.1\r\n\r\n");
    wait_until("the second has come", || server.statistics().requests_in_progress == 2);
    drop(gone);
    wait_until("the second has gone", || server.statistics().requests_in_progress == 1);
    drop(first);
    assert_eq!("200", status(&mut Client::connect(&server), "/1"));
}

#[test]
fn requests_beyond_the_capacity_are_refused_if_configured() {
    let server = start(Config { capacity: Some(1), refuse: true, ..Config::default() });
    let first = hanging(&server);
    let mut client = Client::connect(&server);
    assert_eq!("503", status(&mut client, "/1"));
    drop(first);
    wait_until("the first has gone", || server.statistics().requests_in_progress == 0);
    assert_eq!("200", status(&mut client, "/1"));
    assert_eq!(BTreeMap::from([("capacity", 1)]), server.statistics().limits);
}

#[test]
fn the_capacity_can_be_changed_while_requests_wait() {
    let server = start(Config { capacity: Some(1), ..Config::default() });
    let _first = hanging(&server);
    let mut second = Client::connect(&server);
    second.send("GET /1 HTTP/1.1\r\n\r\n");
    wait_until("the second has come", || server.statistics().requests_in_progress == 2);
    assert_eq!("from now on 2 at once\n", Client::connect(&server).get("/capacity/2").text());
    assert_eq!("Hello, World!", second.response().text());
    assert_eq!(2, server.statistics().requests);
}

#[test]
fn a_server_without_a_capacity_has_none_to_change() {
    assert_eq!("404", status(&mut Client::connect(&start(Config::default())), "/capacity/2"));
}

#[test]
fn a_client_that_keeps_the_capacity_is_never_refused() {
    let server = start(Config { capacity: Some(2), refuse: true, ..Config::default() });
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(&server)).collect();
    for _ in 0..100 {
        for pair in clients.chunks_mut(2) {
            for client in pair.iter_mut() {
                client.send("GET /1 HTTP/1.1\r\n\r\n");
            }
            for client in pair {
                assert_eq!("Hello, World!", client.response().text());
            }
        }
    }
    assert_eq!(BTreeMap::new(), server.statistics().limits);
}

#[test]
fn an_api_refuses_requests_beyond_its_rate_with_a_retry_after() {
    let server = with_api(ApiConfig {
        requests_per_s: Some(1.0 / 3600.0),
        burst: Duration::from_secs(7200),
        ..ApiConfig::default()
    });
    let mut client = Client::connect(&server);
    assert_eq!(["200", "200"], ["/1", "/2"].map(|path| status(&mut client, path)));
    let refused = client.get("/3");
    assert!(refused.head.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{}", refused.head);
    assert_eq!(Some("7200"), refused.field("Retry-After"));
    let error = &serde_json::from_str::<Value>(refused.text()).expect("JSON")["error"];
    assert_eq!(
        ("api_rate", 7200),
        (error["type"].as_str().expect("text"), error["retry_after_s"].as_u64().expect("s"))
    );
    assert_eq!(BTreeMap::from([("api_rate", 1)]), server.statistics().limits);
}

#[test]
fn an_api_takes_tokens_from_a_field_or_from_the_body() {
    let server =
        with_api(ApiConfig { tokens_per_s: Some(0.001), burst: Duration::from_secs(50_000), ..ApiConfig::default() });
    let mut client = Client::connect(&server);
    let mut request = |fields: &str, body: &str| {
        client.send(format!("POST /{} HTTP/1.1\r\n{fields}Content-Length: {}\r\n\r\n{body}", fields.len(), body.len()));
        client.response().head[9..12].to_owned()
    };
    assert_eq!("200", request("X-Tokens: 20\r\n", ""));
    assert_eq!("200", request("", r#"{"model": "x", "tokens": 30}"#));
    assert_eq!("429", request("X-Tokens: 1\r\n", ""));
    assert_eq!(BTreeMap::from([("api_tokens", 1)]), server.statistics().limits);
}

#[test]
fn an_api_refuses_requests_beyond_its_concurrency() {
    let server = with_api(ApiConfig { concurrency: Some(1), ..ApiConfig::default() });
    let first = hanging(&server);
    let mut client = Client::connect(&server);
    assert_eq!(Some("1"), client.get("/1").field("Retry-After"));
    drop(first);
    wait_until("the first has gone", || server.statistics().requests_in_progress == 0);
    assert_eq!("200", status(&mut client, "/1"));
    assert_eq!(BTreeMap::from([("api_concurrency", 1)]), server.statistics().limits);
}

#[test]
fn an_api_fails_the_first_attempt_of_a_key_and_counts_attempts_after_its_response() {
    let server = with_api(ApiConfig { fail_first: 1.0, ..ApiConfig::default() });
    let mut client = Client::connect(&server);
    let mut request = |path: &str, key: &str| {
        client.send(format!("POST {path} HTTP/1.1\r\nIdempotency-Key: {key}\r\nContent-Length: 0\r\n\r\n"));
        client.response().head[9..12].to_owned()
    };
    assert_eq!(["500", "200", "200"], [request("/1", "a"), request("/2", "a"), request("/1", "a")]);
    let expected = BTreeMap::from([("api_failed_first", 1), ("api_retried_after_response", 1)]);
    assert_eq!(expected, server.statistics().limits);
}

#[test]
fn the_log_has_a_line_for_each_request_with_its_time_and_status() {
    let directory = std::env::temp_dir().join(format!("headgate-log-{}", std::process::id()));
    let server = start(Config { log: Some(directory.clone()), ..Config::default() });
    let mut client = Client::connect(&server);
    client.get("/1");
    client.get("/status/404?a=b");
    drop(hanging(&server));
    wait_until("it has gone", || server.statistics().requests_in_progress == 0);
    client.get("/stats");
    let log = std::fs::read_to_string(&directory).expect("written by now");
    std::fs::remove_file(&directory).expect("ours");
    let lines: Vec<(&str, &str)> = log.lines().map(|line| line.split_once('\t').expect("tabs")).collect();
    let expected = ["200\tlocalhost\t/1", "404\tlocalhost\t/status/404?a=b", "-\t\t/fault/hang-before-headers"];
    assert_eq!(expected, lines.iter().map(|(_, rest)| *rest).collect::<Vec<_>>()[..]);
    assert!(lines.is_sorted_by_key(|(micros, _)| micros.parse::<u64>().expect("a time")), "{log}");
}

#[test]
fn a_log_that_cannot_be_written_is_an_error_with_its_path() {
    let log = Some("/nowhere/log".into());
    let error = Server::start(Config { log, ..Config::default() }).expect_err("no such directory");
    assert!(error.to_string().starts_with("can't write the log /nowhere/log: "), "{error}");
}

#[test]
fn an_api_responds_to_first_attempts_with_html_or_half_a_body() {
    let server = with_api(ApiConfig { html_first: 1.0, ..ApiConfig::default() });
    let mut client = Client::connect(&server);
    let page = client.get("/price/7");
    assert_eq!((Some("text/html"), true), (page.field("Content-Type"), page.head.starts_with("HTTP/1.1 200 ")));
    assert_eq!(Some("application/json"), client.get("/price/7").field("Content-Type"));
    assert_eq!(BTreeMap::from([("api_html_first", 1)]), server.statistics().limits);

    let server = with_api(ApiConfig { cut_first: 1.0, ..ApiConfig::default() });
    let mut client = Client::connect(&server);
    client.send("GET /price/7 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(client.until_end().ends_with(b"\r\nContent-Length: 100\r\n\r\nHello, World!"));
    assert_eq!("200", status(&mut Client::connect(&server), "/price/7"));
    assert_eq!(BTreeMap::from([("api_cut_first", 1)]), server.statistics().limits);
}

#[test]
fn an_api_accepts_the_bearer_tokens_that_it_issued_until_they_expire() {
    let ttl = Duration::from_millis(200);
    let server = with_api(ApiConfig { bearer_ttl: Some(ttl), ..ApiConfig::default() });
    let mut client = Client::connect(&server);
    let token = client.get("/token").text().trim().to_owned();
    let mut request = |token: &str| {
        client.send(format!("GET /1 HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n"));
        client.response()
    };
    assert!(request(&token).head.starts_with("HTTP/1.1 200 "));
    let refused = request("secret");
    assert!(refused.head.starts_with("HTTP/1.1 401 "));
    assert_eq!(Some(r#"Bearer error="invalid_token""#), refused.field("WWW-Authenticate"));
    wait_until("it has expired", || request(&token).head.starts_with("HTTP/1.1 401 "));
    let limits = server.statistics().limits;
    assert_eq!(Some(&1), limits.get("api_bearer_issued"));
    assert_eq!(server.statistics().responses.get(&401), limits.get("api_bearer"));
}

#[test]
fn a_server_without_bearer_tokens_issues_none() {
    assert_eq!("404", status(&mut Client::connect(&start(Config::default())), "/token"));
}
