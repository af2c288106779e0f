//! HTTPS: which servers are trusted, and how untrusted ones fail.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{ALL_VERSIONS, RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use rustls_pki_types::PrivatePkcs8KeyDer;
use url::Url;

use headgate_core::options::IfExists;

use crate::harness::{ResultRow, Rig, server};
use crate::scripted::{Scripted, read_head, response};

pub type TlsStream = StreamOwned<ServerConnection, TcpStream>;

/// A certificate authority of the test, which signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        Self::named("an authority of tests")
    }

    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn certify(&self, name: &str, until_year: i32) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(until_year, 1, 1);
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    /// Returns a verifier that accepts client certificates signed by this authority.
    pub fn of_clients(&self) -> Arc<dyn ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap()
    }

    /// Starts a server for `localhost` that clients with this authority trust.
    fn server(&self, serve: impl Fn(&mut TlsStream) + Send + Sync + 'static) -> Scripted {
        start(self.certify("localhost", 4000), serve)
    }

    /// Creates a job that trusts only this authority.
    fn trusted(&self, input: String) -> Rig {
        self.trusted_by(Rig::new(input))
    }

    pub fn trusted_by(&self, mut rig: Rig) -> Rig {
        let path: PathBuf = rig.path("authority.pem");
        fs::write(&path, self.0.pem()).unwrap();
        rig.options.request.cacert = Some(path);
        rig
    }
}

pub fn start(has: (Certificate, KeyPair), serve: impl Fn(&mut TlsStream) + Send + Sync + 'static) -> Scripted {
    start_with(has, ALL_VERSIONS, None, serve)
}

/// Starts a server with these versions of TLS; `clients` verifies the certificates that it requires of clients.
pub fn start_with(
    (certificate, key): (Certificate, KeyPair),
    versions: &[&'static SupportedProtocolVersion],
    clients: Option<Arc<dyn ClientCertVerifier>>,
    serve: impl Fn(&mut TlsStream) + Send + Sync + 'static,
) -> Scripted {
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_client_cert_verifier(clients.unwrap_or_else(|| Arc::new(NoClientAuth)))
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let config = Arc::new(config);
    Scripted::start(move |stream, _| {
        serve(&mut StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream));
    })
}

/// Responds to every request with its own head.
pub fn echo(stream: &mut TlsStream) {
    while let Some(head) = read_head(stream) {
        if stream.write_all(response(&head).as_bytes()).is_err() {
            return;
        }
    }
}

fn send_close_notify(stream: &mut TlsStream) {
    stream.conn.send_close_notify();
    stream.flush().unwrap();
}

pub fn localhost(server: &Scripted, path: &str) -> String {
    format!("https://localhost:{}{path}", server.address.port())
}

fn insecure(input: String) -> ResultRow {
    let mut rig = Rig::new(input);
    rig.options.request.insecure = true;
    rig.row()
}

/// Checks the failure; `detail` follows the address and the hostname.
fn assert_tls(row: &ResultRow, message: &str, detail: &str) {
    assert_eq!((Some("tls"), None, 1), (row.kind(), row.status, row.attempts), "{}", row.message());
    assert_eq!(message, row.message());
    let url = Url::parse(&row.url).unwrap();
    let place = format!(":{} as {}", url.port().unwrap(), url.host_str().unwrap());
    let (_, after) = row.detail().split_once(&place).unwrap_or_else(|| panic!("{}", row.detail()));
    assert_eq!(detail, after);
}

const EXPIRED: &str = "the server's certificate has expired";
const ANOTHER_NAME: &str = "the server's certificate is for another name";
const NO_NAME: &str =
    "the server's certificate names no host (it has no subjectAltName; its common name does not count)";
const UNTRUSTED: &str = "the server's certificate is not trusted: it is self-signed, or from an unknown authority";

#[test]
fn a_trusted_server_gets_all_requests_over_one_connection() {
    let authority = Authority::new();
    let server = authority.server(echo);
    let rows = authority.trusted(localhost(&server, "/[1-5]")).one_by_one().rows();
    for row in &rows {
        assert_eq!((None, Some(200)), (row.kind(), row.status), "{}", row.message());
        assert!(row.text().starts_with(&format!("GET /{} HTTP/1.1\r\n", row.row + 1)));
        assert!(row.text().contains(&format!("host: localhost:{}\r\n", server.address.port())));
    }
    assert_eq!((5, 1), (rows.len(), server.connections()));
}

#[test]
fn an_unknown_authority_is_not_trusted() {
    let server = Authority::new().server(echo);
    assert_tls(&Rig::new(localhost(&server, "/")).row(), UNTRUSTED, "");
    assert_eq!(Some(200), insecure(localhost(&server, "/")).status);
}

#[test]
fn a_certificate_for_another_hostname_is_not_trusted() {
    let authority = Authority::new();
    let server = start(authority.certify("other.example", 4000), echo);
    assert_tls(&authority.trusted(localhost(&server, "/")).row(), ANOTHER_NAME, ": for other.example");
    assert_eq!(Some(200), insecure(localhost(&server, "/")).status);
}

#[test]
fn an_expired_certificate_is_not_trusted() {
    let authority = Authority::new();
    let server = start(authority.certify("localhost", 2020), echo);
    assert_tls(&authority.trusted(localhost(&server, "/")).row(), EXPIRED, ": it was valid until 2020-01-01T00:00:00Z");
    assert_eq!(Some(200), insecure(localhost(&server, "/")).status);
}

/// Creates a certificate as `openssl req -x509` does: self-signed, of an authority and of a server.
fn own_certificate(names: &[&str], until_year: i32) -> (Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_after = date_time_ymd(until_year, 1, 1);
    (params.self_signed(&key).unwrap(), key)
}

/// Runs a job that trusts only this certificate, against a server that has it or another one.
fn trusting(trusted: &Certificate, has: (Certificate, KeyPair)) -> ResultRow {
    let server = start(has, echo);
    let mut rig = Rig::new(localhost(&server, "/"));
    let path = rig.path("trusted.pem");
    fs::write(&path, trusted.pem()).unwrap();
    rig.options.request.cacert = Some(path);
    rig.row()
}

#[test]
fn a_certificate_that_is_itself_trusted_is_accepted_for_its_hostnames_while_it_is_valid() {
    let own = own_certificate(&["localhost"], 4000);
    let row = trusting(&own.0.clone(), own);
    assert_eq!(Some(200), row.status, "{}", row.message());

    let unnamed = own_certificate(&[], 4000);
    assert_tls(&trusting(&unnamed.0.clone(), unnamed), NO_NAME, "");
    let other = own_certificate(&["other.example"], 4000);
    assert_tls(&trusting(&other.0.clone(), other), ANOTHER_NAME, ": for other.example");
    let expired = own_certificate(&["localhost"], 2020);
    assert_tls(&trusting(&expired.0.clone(), expired), EXPIRED, ": it was valid until 2020-01-01T00:00:00Z");
}

#[test]
fn a_trusted_certificate_is_accepted_without_its_authority() {
    let authority = Authority::new();
    let leaf = authority.certify("localhost", 4000);
    let row = trusting(&leaf.0.clone(), leaf);
    assert_eq!(Some(200), row.status, "{}", row.message());
    let expired = authority.certify("localhost", 2020);
    assert_tls(&trusting(&expired.0.clone(), expired), EXPIRED, ": it was valid until 2020-01-01T00:00:00Z");
}

#[test]
fn a_certificate_like_the_trusted_one_is_not_trusted() {
    let trusted = own_certificate(&["localhost"], 4000);
    let row = trusting(&trusted.0, own_certificate(&["localhost"], 4000));
    assert_tls(&row, "the server's certificate is not trusted: it is self-signed, or an authority's own", "");
    let authority = Authority::new();
    let (trusted, other) = (authority.certify("localhost", 4000), authority.certify("localhost", 4000));
    assert_tls(&trusting(&trusted.0, other), UNTRUSTED, "");
}

#[test]
fn a_trusted_certificate_that_is_no_authority_signs_no_other_certificate() {
    for is_ca in [IsCa::NoCa, IsCa::ExplicitNoCa] {
        let mut params = CertificateParams::new(vec!["other.example".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let trusted = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let signed = params.signed_by(&key, &trusted).unwrap();
        assert_tls(&trusting(trusted.as_ref(), (signed, key)), UNTRUSTED, "");
    }
}

#[test]
fn an_expired_authority_is_still_trusted() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_after = date_time_ymd(2020, 1, 1);
    let authority = Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap());
    let server = authority.server(echo);
    assert_eq!(Some(200), authority.trusted(localhost(&server, "/")).row().status);
}

#[test]
fn an_authority_with_the_name_of_the_trusted_one_is_not_trusted() {
    let server = Authority::new().server(echo);
    let row = Authority::new().trusted(localhost(&server, "/")).row();
    assert_tls(&row, "the server's certificate is not signed by the authority that it names", "");
}

#[test]
fn a_certificate_may_be_for_an_address() {
    let authority = Authority::new();
    let server = start(authority.certify("127.0.0.1", 4000), echo);
    let input = server.url("/").replace("http:", "https:");
    assert_eq!(Some(200), authority.trusted(input).row().status);
}

#[test]
fn a_server_without_tls_fails_with_tls() {
    let server = server();
    for row in
        [Rig::new(format!("https://{}/", server.address())).row(), insecure(format!("https://{}/", server.address()))]
    {
        assert_tls(&row, "what the server sent is not TLS, or is broken", ": invalid content type");
    }
}

#[test]
fn a_body_that_the_close_delimits_needs_a_close_notify() {
    let authority = Authority::new();
    for (kind, ends_well) in [(None, true), (Some("connection_closed"), false)] {
        let server = authority.server(move |stream| {
            read_head(stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nthe end").unwrap();
            if ends_well {
                send_close_notify(stream);
            }
        });
        let row = authority.trusted(localhost(&server, "/")).row();
        assert_eq!((kind, Some(200)), (row.kind(), row.status), "{}", row.message());
        assert_eq!((Some(b"the end".to_vec()), ends_well), (row.body(), !row.message().contains("close_notify")));
    }
}

/// Sends encrypted data and then these bytes, in one segment.
fn send_with(stream: &mut TlsStream, reply: &str, behind: &[u8]) {
    let mut segment = Vec::new();
    stream.conn.writer().write_all(reply.as_bytes()).unwrap();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut segment).unwrap();
    }
    segment.extend_from_slice(behind);
    stream.sock.write_all(&segment).unwrap();
}

#[test]
fn a_response_that_is_complete_before_an_invalid_record_succeeds() {
    let authority = Authority::new();
    // A record with content that the server did not encrypt, and bytes that are no record.
    for garbage in [&b"\x17\x03\x03\x00\x20no one can decrypt this, for sure"[..], b"this is no record of TLS"] {
        let reply = response("whole");
        let server = authority.server(move |stream| {
            read_head(stream);
            send_with(stream, &reply, garbage);
            // The server reads until the client closes, so that the end of the connection arrives after the garbage.
            let _ = stream.sock.read_to_end(&mut Vec::new());
        });
        let rows = authority.trusted(localhost(&server, "/[1-3]")).one_by_one().rows();
        assert!(rows.iter().all(|row| row.kind().is_none() && row.text() == "whole"), "{rows:?}");
        assert_eq!((3, 3), (rows.len(), server.connections()), "no connection is reused");

        let server = authority.server(move |stream| {
            read_head(stream);
            send_with(stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", garbage);
            let _ = stream.sock.read_to_end(&mut Vec::new());
        });
        let row = authority.trusted(localhost(&server, "/")).row();
        assert_eq!((Some("tls"), Some(200), Some(b"half".to_vec())), (row.kind(), row.status, row.body()));
    }
}

#[test]
fn a_server_that_closes_after_each_response_loses_no_request() {
    let authority = Authority::new();
    let server = authority.server(|stream| {
        let head = read_head(stream).unwrap_or_default();
        stream.write_all(response(&head).as_bytes()).unwrap();
        send_close_notify(stream);
    });
    let rows = authority.trusted(localhost(&server, "/[1-10]")).one_by_one().rows();
    assert!(rows.iter().all(|row| row.kind().is_none() && row.attempts == 1), "{rows:?}");
    assert_eq!((10, 10), (rows.len(), server.connections()));
}

#[test]
fn large_bodies_are_sent_in_both_directions() {
    const BYTES: usize = 2_000_000;
    let authority = Authority::new();
    let server = authority.server(|stream| {
        while let Some(_head) = read_head(stream) {
            let mut body = vec![0; BYTES];
            stream.read_exact(&mut body).unwrap();
            stream.write_all(response(str::from_utf8(&body).unwrap()).as_bytes()).unwrap();
        }
    });
    let body: Vec<u8> = (b'a'..=b'z').cycle().take(BYTES).collect();
    let mut rig = authority.trusted(localhost(&server, "/[1-2]")).method("POST").one_by_one();
    rig.options.request.body = Some(body.clone());
    for row in rig.rows() {
        assert!(Some(&body) == row.body().as_ref(), "{}", row.message());
    }
    assert_eq!(1, server.connections());
}

#[test]
fn a_file_without_complete_certificates_is_refused_with_a_clear_message() {
    for (expected, text) in [
        ("has no certificate in PEM form", ""),
        ("has a certificate that is broken", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        ("is not complete PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n"),
    ] {
        let mut rig = Rig::new("https://127.0.0.1:1/");
        let path = rig.path("authority.pem");
        fs::write(&path, text).unwrap();
        rig.options.request.cacert = Some(path.clone());
        let error = headgate_engine::Run::job(&rig.options).expect_err("no authority is trusted");
        assert_eq!(format!("cacert={}: {expected}", path.display()), error.message.to_string());
    }
}

#[test]
fn an_unreadable_certificate_file_is_refused_before_results_are_replaced() {
    let server = server();
    let mut rig = Rig::new(format!("http://{}/[1-3]", server.address()));
    rig.run();
    let results = || {
        let entries = fs::read_dir(rig.path("out")).unwrap().map(|entry| entry.unwrap().file_name());
        entries.collect::<std::collections::BTreeSet<_>>()
    };
    let before = results();
    let missing = rig.path("missing.pem");
    let mut options = rig.options.clone();
    options.sink.if_exists = IfExists::Overwrite;
    options.request.cacert = Some(missing);
    let error = headgate_engine::Run::job(&options).expect_err("there is no such file");
    assert!(error.message.to_string().contains("missing.pem"), "{error}");
    assert_eq!(before, results());
    rig.options.sink.if_exists = IfExists::Overwrite;
    rig.run();
}

#[test]
fn encrypted_responses_wait_for_memory_as_plain_ones_do() {
    let authority = Authority::new();
    let server = authority.server(|stream| {
        while read_head(stream).is_some() {
            stream.write_all(response(&"x".repeat(100_000)).as_bytes()).unwrap();
            stream.flush().unwrap();
        }
    });
    for budget in [1, 200_000, 300_000] {
        let url = format!("https://localhost:{}/?[1-20]", server.address.port());
        let mut rig = authority.trusted(url).concurrency(5, 2);
        rig.options.engine.max_memory = Some(budget);
        let rows = rig.rows();
        assert_eq!(20, rows.iter().filter(|row| row.body().is_some_and(|body| body.len() == 100_000)).count());
    }
}
