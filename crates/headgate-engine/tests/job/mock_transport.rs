//! Requests that the mock transport serves in this process, without a network.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;

use headgate_core::error::{ErrorKind, Failure};
use headgate_core::limits::HostBy;
use headgate_core::mock_transport::{ConnectMock, MockSocket, MockTransport, Verdict};
use headgate_core::options::RequestOptions;
use headgate_core::origin::Origin;
use headgate_core::row::OwnOptions;

use crate::fed::{Fed, status};

/// A mock transport that responds to each request with its request line, or fails it if the path is `/fail`, and within the
/// body if it is `/break`.
#[derive(Default)]
struct Echo {
    hosts: Mutex<Vec<String>>,
    single_use: bool,
}

impl ConnectMock for Echo {
    fn connect(&self, host: &Origin) -> Result<MockSocket, Failure> {
        if host.port == 1 {
            return Err(Failure::new(ErrorKind::Tls, "not there").lasting());
        }
        self.hosts.lock().unwrap().push(host.key(HostBy::Origin).into());
        let (socket, other) = UnixStream::pair().unwrap();
        let verdict = Arc::<Verdict>::default();
        let of_server = verdict.clone();
        thread::spawn(move || serve(other, &of_server));
        Ok(MockSocket { socket, verdict, single_use: self.single_use })
    }
}

fn serve(mut socket: UnixStream, verdict: &Verdict) {
    let mut request = Vec::new();
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = socket.read(&mut bytes) {
        request.extend_from_slice(&bytes[..length]);
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
        if line.starts_with("GET /break ") {
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart").unwrap();
        }
        if line.starts_with("GET /fail ") || line.starts_with("GET /break ") {
            verdict.set(Failure::new(ErrorKind::Decode, "as configured").with_detail("here"));
            return;
        }
        let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{line}", line.len());
        socket.write_all(reply.as_bytes()).unwrap();
        request.clear();
    }
}

/// Starts a run whose requests the mock transport serves.
fn use_mock_transport(echo: &Arc<Echo>, request: RequestOptions) -> Fed {
    let mut request = request;
    request.use_mock_transport(MockTransport(echo.clone()));
    Fed::with_request(8, request)
}

fn submit(fed: &Fed, urls: impl IntoIterator<Item = String>) {
    fed.feed(urls.into_iter().map(|url| (url, OwnOptions::default())));
}

#[test]
fn hosts_without_an_address_are_served_by_the_mock_for_either_scheme() {
    let echo = Arc::<Echo>::default();
    let fed = use_mock_transport(&echo, RequestOptions::default());
    submit(&fed, (0..400).map(|n| format!("{}://host-{}.invalid/{n}", ["http", "https"][n % 2], n % 4)));
    for arrived in fed.wait(400) {
        assert_eq!(Some(200), status(&arrived));
        let reply = arrived.outcome.unwrap().response.unwrap();
        assert_eq!(format!("GET /{} HTTP/1.1", arrived.number).as_bytes(), reply.body.unwrap().bytes);
    }
    let hosts: BTreeSet<_> = echo.hosts.lock().unwrap().drain(..).collect();
    assert_eq!(
        ["http://host-0.invalid", "http://host-2.invalid", "https://host-1.invalid", "https://host-3.invalid"],
        *hosts.into_iter().collect::<Vec<_>>()
    );
}

#[test]
fn the_mock_uses_neither_proxies_nor_http2() {
    let request = RequestOptions {
        proxies: vec!["http://127.0.0.1:1".into()],
        http2_prior_knowledge: true,
        ..RequestOptions::default()
    };
    let fed = use_mock_transport(&Arc::default(), request);
    submit(&fed, ["http://host.invalid/".to_owned()]);
    assert_eq!(Some(200), status(&fed.wait(1)[0]));
}

#[test]
fn an_exchange_fails_with_the_error_that_the_mock_sets_on_new_and_reused_connections() {
    let fed = use_mock_transport(&Arc::default(), RequestOptions::default());
    for path in ["fail", "", "fail", "break", "", "break"] {
        submit(&fed, [format!("http://host.invalid/{path}")]);
        let failure = fed.wait(1).remove(0).outcome.unwrap().failure;
        let expected = (!path.is_empty()).then(|| "decode: as configured (here)".to_owned());
        assert_eq!(expected, failure.map(|failure| failure.to_string()));
    }
}

#[test]
fn a_connection_for_one_request_is_not_reused() {
    for single_use in [false, true] {
        let echo = Arc::new(Echo { single_use, ..Echo::default() });
        let fed = use_mock_transport(&echo, RequestOptions::default());
        for _ in 0..9 {
            submit(&fed, ["http://host.invalid/".to_owned()]);
            assert_eq!(Some(200), status(&fed.wait(1)[0]));
        }
        // Otherwise each worker has one.
        assert_eq!(single_use, echo.hosts.lock().unwrap().len() == 9);
    }
}

#[test]
fn a_refused_mock_connection_fails_with_its_error() {
    let fed = use_mock_transport(&Arc::default(), RequestOptions::default());
    submit(&fed, ["http://host.invalid:1/".to_owned()]);
    let failure = fed.wait(1).remove(0).outcome.unwrap().failure.unwrap();
    assert_eq!("tls: not there", failure.to_string());
}
