use std::collections::BTreeMap;

use headgate_testserver::Statistics;
use serde_json::{Value, json};

use crate::client::{Client, start, wait_until};

#[test]
fn everything_is_counted() {
    let server = start();
    let mut client = Client::connect(&server);
    client.get("/1");
    client.get("/1");
    client.get("/status/404");
    client.get("/fault/no-reason");
    client.send("GET /fault/refuse HTTP/1.1\r\n\r\n");
    assert_eq!(0, client.until_end().len());
    drop(client);

    wait_until("the connection is closed", || server.statistics().connections_open == 0);
    let started = ["/1", "/1", "/status/404", "/fault/no-reason"]
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").len() as u64);
    let response = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!".len();
    let not_found =
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\n404 Not Found\n".len();
    let fault = "HTTP/1.1 200 \r\nContent-Length: 13\r\n\r\nHello, World!".len();
    let expected = Statistics {
        connections_accepted: 1,
        connections_open: 0,
        requests: 5,
        requests_in_progress: 0,
        max_requests_in_progress: 1,
        responses: BTreeMap::from([(200, 2), (404, 1)]),
        faults: BTreeMap::from([("no-reason", 1), ("refuse", 1)]),
        limits: BTreeMap::new(),
        bytes_read: started.iter().sum::<u64>() + "GET /fault/refuse HTTP/1.1\r\n\r\n".len() as u64,
        bytes_written: (2 * response + not_found + fault) as u64,
    };
    assert_eq!(expected, server.statistics());
}

#[test]
fn the_statistics_by_path_are_those_of_the_server_and_do_not_count_themselves() {
    let server = start();
    let mut client = Client::connect(&server);
    client.get("/status/201");
    client.get("/stats");
    let shown: Value = serde_json::from_str(client.get("/stats").text()).expect("JSON");
    assert_eq!(1, shown["requests"]);
    assert_eq!(json!({ "201": 1 }), shown["responses"]);
    assert_eq!(1, shown["connections_open"]);
    assert_eq!(0, shown["requests_in_progress"]);
    let names: Vec<&String> = shown.as_object().expect("an object").keys().collect();
    let expected = [
        "bytes_read",
        "bytes_written",
        "connections_accepted",
        "connections_open",
        "faults",
        "limits",
        "max_requests_in_progress",
        "requests",
        "requests_in_progress",
        "responses",
    ];
    assert_eq!(expected, names[..]);
}

#[test]
fn the_maximum_of_requests_in_progress_is_kept() {
    let server = start();
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(&server)).collect();
    for client in &mut clients {
        client.send("GET /fault/hang-mid-body HTTP/1.1\r\n\r\n");
    }
    wait_until("all are in progress", || server.statistics().requests_in_progress == 20);
    drop(clients);
    wait_until("all have ended", || server.statistics().requests_in_progress == 0);
    assert_eq!(20, server.statistics().max_requests_in_progress);
}

#[test]
fn a_client_that_keeps_its_bound_never_exceeds_it_in_the_statistics() {
    let server = start();
    // On several workers: a request that is still counted after its last byte was read would overlap the next one.
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&server)).collect();
    for turn in 0..100 {
        for client in &mut clients {
            match turn % 2 {
                0 => {
                    client.send("GET /chunked/10 HTTP/1.1\r\n\r\n");
                    client.head();
                    client.exactly("a\r\n0123456789\r\n0\r\n\r\n".len());
                }
                _ => {
                    for path in ["/1", "/bytes/0", "/bytes/70000", "/echo", "/fault/no-reason", "/redirect/1"] {
                        client.get(path);
                    }
                }
            }
        }
    }
    assert_eq!(1, server.statistics().max_requests_in_progress);
}
