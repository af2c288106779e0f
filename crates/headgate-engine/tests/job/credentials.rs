//! Credentials are sent only to their origins.

use std::fs;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use headgate_core::options::{JobOptions, SourceOptions};
use headgate_engine::Run;
use rustls::version::TLS13;

use crate::harness::Rig;
use crate::scripted::{Scripted, read_head, response};
use crate::tls::{Authority, echo, localhost, start_with};

type Log = Arc<Mutex<Vec<String>>>;

const SECRET: &str = "hunter2";

fn server(respond: impl Fn(&str) -> String + Send + Sync + 'static) -> (Scripted, Log) {
    let log = Log::default();
    let seen = log.clone();
    let server = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let reply = respond(head.split(' ').nth(1).unwrap_or_default());
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(head);
            if stream.write_all(reply.as_bytes()).is_err() {
                break;
            }
        }
    });
    (server, log)
}

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 x\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

fn seen(log: &Log) -> Vec<String> {
    log.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

type Give = fn(&mut JobOptions);

/// Every option that gives a run a credential, except for certificates.
const GIVEN: [(&str, Give); 6] = [
    ("bearer", |options| options.request.bearer = Some(SECRET.into())),
    ("user", |options| options.request.user = Some("me:hunter2".into())),
    ("headers", |options| options.request.headers = vec![("Authorization".into(), SECRET.into())]),
    ("headers", |options| options.request.headers = vec![("X-Api-Key".into(), SECRET.into())]),
    ("headers", |options| {
        options.request.headers = vec![("X-Mine".into(), SECRET.into())];
        options.request.secret_headers = vec!["x-mine".into()];
    }),
    ("header_templates", |options| {
        options.source.templates.headers = vec![("X-Auth-Token".into(), SECRET.into())];
    }),
];

#[test]
fn scrapy_cve_2021_41125_rows_of_a_list_get_credentials_only_for_origins_that_the_user_names() {
    let (here, here_log) = server(|_| response("here"));
    let (there, there_log) = server(|_| response("there"));
    for (option, give) in GIVEN {
        let mut rig = Rig::objects(&[
            serde_json::json!({ "url": here.url("/1") }),
            serde_json::json!({ "url": there.url("/1") }),
            serde_json::json!({ "url": there.url("/2"), "headers": {"X-Row": "own"} }),
        ]);
        give(&mut rig.options);
        let refused = Run::job(&rig.options).expect_err("no origin is named").to_string();
        let expected = format!(
            "{option} is a credential, and nothing says which hosts may get it: name their origins with \
             credentials_for=https://api.example.com"
        );
        assert!(refused.starts_with(&expected), "{refused}");
        assert!(seen(&here_log).is_empty() && !rig.path("out").exists(), "it is refused before the first request");

        rig.options.request.credentials_for = vec![here.url("")];
        let rows = rig.rows();
        assert!(rows.iter().all(|row| row.status == Some(200)), "{rows:?}");
        let (mine, others) = (seen(&here_log), seen(&there_log));
        assert_eq!((1, 2), (mine.len(), others.len()));
        assert!(mine[0].contains(SECRET) || mine[0].contains("authorization: Basic bWU6aHVudGVyMg=="), "{mine:?}");
        for head in &others {
            let head = head.to_lowercase();
            assert!(
                !["hunter2", "authorization", "bwu6ahvudgvymg"].iter().any(|secret| head.contains(secret)),
                "{head}"
            );
        }
        assert!(others.iter().any(|head| head.contains("X-Row: own\r\n")), "{others:?}");
        here_log.lock().unwrap_or_else(PoisonError::into_inner).clear();
        there_log.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[test]
fn a_range_or_template_with_one_origin_needs_no_credentials_for() {
    let (server, log) = server(|_| response("here"));
    let mut rig = Rig::new(server.url("/[1-3]"));
    rig.options.request.bearer = Some(SECRET.into());
    assert_eq!(3, rig.rows().len());
    let mut rig = Rig::objects(&[serde_json::json!({ "id": 4 })]);
    rig.options.source.url = Some(server.url("/{id}"));
    rig.options.request.bearer = Some(SECRET.into());
    assert_eq!(1, rig.rows().len());
    let heads = seen(&log);
    assert!(heads.len() == 4 && heads.iter().all(|head| head.contains("authorization: Bearer hunter2")), "{heads:?}");
}

#[test]
fn a_redirect_from_another_origin_gets_no_credentials() {
    let (here, here_log) = server(|_| response("here"));
    let to = here.url("/delete-everything");
    let (there, _) = server(move |_| redirect(&to));
    let mut rig = Rig::urls([there.url("/"), here.url("/own")]);
    rig.options.request.bearer = Some(SECRET.into());
    rig.options.request.credentials_for = vec![here.url("")];
    rig.rows();
    for head in seen(&here_log) {
        assert_eq!(head.starts_with("GET /own "), head.contains(SECRET), "{head}");
    }
}

#[test]
fn a_retry_and_a_resumed_job_keep_the_origins_of_credentials() {
    let (here, here_log) = server(|_| "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".into());
    let (there, there_log) = server(|_| "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".into());
    let mut rig = Rig::urls([here.url("/"), there.url("/")]);
    rig.options.request.bearer = Some(SECRET.into());
    rig.options.request.credentials_for = vec![here.url("")];
    rig.run();
    rig.options.request.credentials_for.clear();
    rig.run();
    let retry = headgate_engine::RetryOptions {
        output: rig.path("out"),
        only: Vec::new(),
        job: JobOptions { source: SourceOptions::default(), ..rig.options.clone() },
    };
    let job = Run::retry(retry).expect("the job knows whom its credentials are for");
    assert!(job.wait(crate::harness::MAX_WAIT));
    let (mine, others) = (seen(&here_log), seen(&there_log));
    assert_eq!((2, 2), (mine.len(), others.len()));
    assert!(mine.iter().all(|head| head.contains(SECRET)) && !others.iter().any(|head| head.contains(SECRET)));
}

#[test]
fn requests_cve_2024_35195_a_client_certificate_is_sent_only_to_its_origins_on_separate_connections() {
    let authority = Authority::new();
    let client = authority.certify("client.example", 4000);
    let wanting = || start_with(authority.certify("localhost", 4000), &[&TLS13], Some(authority.of_clients()), echo);
    let (here, there) = (wanting(), wanting());
    let to = localhost(&here, "/own");
    let (stranger, _) = server(move |_| redirect(&to));
    let mut rig = authority.trusted_by(Rig::urls([
        localhost(&here, "/own"),
        localhost(&there, "/"),
        stranger.url("/"),
        localhost(&here, "/again"),
    ]));
    let path = rig.path("client.pem");
    fs::write(&path, format!("{}{}", client.1.serialize_pem(), client.0.pem())).unwrap();
    rig.options.request.cert = Some(path);
    let refused = Run::job(&rig.options).expect_err("no origin is named").to_string();
    assert!(refused.starts_with("cert is a credential, and nothing says which hosts may get it"), "{refused}");
    rig.options.request.credentials_for = vec![localhost(&here, "")];
    let rows = rig.one_by_one().rows();
    let without = "the server requires a client certificate";
    assert_eq!([Some(200), None, None, Some(200)], [0, 1, 2, 3].map(|row: usize| rows[row].status), "{rows:?}");
    assert_eq!([without, without], [rows[1].message(), rows[2].message()]);
}
