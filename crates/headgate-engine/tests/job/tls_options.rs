//! Options of TLS: a client certificate, a hostname, a version; and the resumption of sessions.

use std::fs;
use std::sync::{Arc, Mutex};

use headgate_core::message::OptionName;
use headgate_core::options::TlsMin;
use rcgen::{Certificate, KeyPair};
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};

use crate::harness::{ResultRow, Rig};
use crate::scripted::{Scripted, read_head, response};
use crate::tls::{Authority, TlsStream, echo, localhost, start, start_with};

/// Makes the job use this client certificate, whose key is in the same file.
fn showing((certificate, key): &(Certificate, KeyPair), mut rig: Rig) -> Rig {
    let path = rig.path("client.pem");
    fs::write(&path, format!("{}{}", key.serialize_pem(), certificate.pem())).unwrap();
    rig.options.request.cert = Some(path);
    rig
}

fn wanting_certificates(authority: &Authority, versions: &[&'static rustls::SupportedProtocolVersion]) -> Scripted {
    start_with(authority.certify("localhost", 4000), versions, Some(authority.of_clients()), echo)
}

#[test]
fn a_client_certificate_is_sent_to_a_server_that_requests_one() {
    let authority = Authority::new();
    let client = authority.certify("client.example", 4000);
    for version in [&TLS12, &TLS13] {
        let server = wanting_certificates(&authority, &[version]);
        let row = showing(&client, authority.trusted_by(Rig::new(localhost(&server, "/")))).row();
        assert_eq!(Some(200), row.status, "{}", row.message());
        // The key may be in a separate file.
        let mut rig = authority.trusted_by(Rig::new(localhost(&server, "/")));
        let (cert, key) = (rig.path("cert.pem"), rig.path("key.pem"));
        fs::write(&cert, client.0.pem()).unwrap();
        fs::write(&key, client.1.serialize_pem()).unwrap();
        (rig.options.request.cert, rig.options.request.key) = (Some(cert), Some(key));
        assert_eq!(Some(200), rig.row().status);
    }
}

#[test]
fn a_missing_or_refused_client_certificate_has_its_own_message() {
    let authority = Authority::new();
    let server = wanting_certificates(&authority, &[&TLS13]);
    let rig = || authority.trusted_by(Rig::new(localhost(&server, "/")));
    let row = rig().row();
    assert_eq!((Some("tls"), "the server requires a client certificate"), (row.kind(), row.message()));
    let row = showing(&Authority::named("another").certify("client.example", 4000), rig()).row();
    let why = "the server does not accept the client certificate: unknown ca";
    assert_eq!((Some("tls"), why), (row.kind(), row.message()));
}

#[test]
fn files_without_a_certificate_or_key_are_refused_by_name() {
    let authority = Authority::new();
    let (one, other) = (authority.certify("one.example", 4000), authority.certify("other.example", 4000));
    let (one_pem, one_key, other_key) = (one.0.pem(), one.1.serialize_pem(), other.1.serialize_pem());
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (expected, cert, key) in [
        ("cert=CERT: has no certificate in PEM form", Some(""), None),
        ("cert=CERT: is not complete PEM", Some("-----BEGIN CERTIFICATE-----\nAAAA\n"), None),
        ("cert=CERT: has no private key in PEM form; name the file that has it with key", Some(&*one_pem), None),
        ("key=KEY: has no private key in PEM form", Some(&one_pem), Some("")),
        ("key=KEY: the key is not that of the certificate", Some(&one_pem), Some(&*other_key)),
        ("key=KEY: its private key is encrypted; decrypt it with `openssl pkey`", Some(&one_pem), Some(encrypted)),
        ("key is the key of a client certificate: give cert, too", None, Some(&one_key)),
    ] {
        let mut rig = Rig::new("https://127.0.0.1:1/");
        let file = |name: &str, text: Option<&str>| {
            text.map(|text| {
                let path = rig.path(name);
                fs::write(&path, text).unwrap();
                path
            })
        };
        let (cert_path, key_path) = (file("CERT", cert), file("KEY", key));
        let directory = format!("{}/", rig.path("CERT").parent().unwrap().display());
        (rig.options.request.cert, rig.options.request.key) = (cert_path, key_path);
        let error = headgate_engine::Run::job(&rig.options).expect_err(expected);
        assert_eq!(expected, error.message.to_string().replace(&directory, ""));
    }
    let mut rig = Rig::new("https://127.0.0.1:1/");
    rig.options.request.cert = Some(rig.path("missing.pem"));
    let error = headgate_engine::Run::job(&rig.options).expect_err("there is none").to_string();
    assert!(error.ends_with("missing.pem: No such file or directory (os error 2)"), "{error}");
}

#[test]
fn a_tls_version_below_the_minimum_is_refused() {
    let authority = Authority::new();
    let old = start_with(authority.certify("localhost", 4000), &[&TLS12], None, echo);
    let rig = || authority.trusted_by(Rig::new(localhost(&old, "/")));
    assert_eq!(Some(200), rig().row().status);
    let mut strict = rig();
    strict.options.request.tls_min = TlsMin::V13;
    let (row, example) = strict.failed_row();
    assert_eq!((Some("tls"), "the server does not speak TLS 1.3"), (row.kind(), row.message()));
    assert_eq!(Some(OptionName::TlsMin), example.option);
}

#[test]
fn the_sni_option_sets_the_hostname_that_is_sent_and_checked() {
    let authority = Authority::new();
    let names = Arc::<Mutex<Vec<Option<String>>>>::default();
    let seen = names.clone();
    let server = start(authority.certify("other.example", 4000), move |stream| {
        echo(stream);
        seen.lock().unwrap().push(stream.conn.server_name().map(str::to_owned));
    });
    let with = |sni: &str| -> ResultRow {
        let mut rig = authority.trusted_by(Rig::new(localhost(&server, "/")));
        rig.options.request.tls_server_name = Some(sni.into());
        rig.row()
    };
    let row = with("other.example");
    assert!(row.text().contains(&format!("host: localhost:{}\r\n", server.address.port())), "{row:?}");
    crate::harness::eventually("the server has seen the name", || !names.lock().unwrap().is_empty());
    assert_eq!(Some("other.example".to_owned()), names.lock().unwrap()[0]);
    let row = with("third.example");
    assert_eq!("the server's certificate is for another name", row.message());
    assert!(row.detail().ends_with(" as third.example: for other.example"), "{}", row.detail());
}

/// Starts a server that closes after each response, and records its handshakes.
fn counting(authority: &Authority, version: &'static rustls::SupportedProtocolVersion) -> (Scripted, Handshakes) {
    let handshakes = Handshakes::default();
    let seen = handshakes.clone();
    let serve = move |stream: &mut TlsStream| {
        let head = read_head(stream).unwrap_or_default();
        seen.lock().unwrap().extend(stream.conn.handshake_kind());
        let reply = response(&head).replace("200 OK\r\n", "200 OK\r\nConnection: close\r\n");
        let _ = std::io::Write::write_all(stream, reply.as_bytes());
        stream.conn.send_close_notify();
        let _ = std::io::Write::flush(stream);
    };
    (start_with(authority.certify("localhost", 4000), &[version], None, serve), handshakes)
}

type Handshakes = Arc<Mutex<Vec<HandshakeKind>>>;

#[test]
fn a_tls_session_is_resumed_on_a_new_connection_to_its_host() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let (server, handshakes) = counting(&authority, version);
        let rows = authority.trusted_by(Rig::new(localhost(&server, "/[1-10]"))).one_by_one().rows();
        assert!(rows.iter().all(|row| row.status == Some(200)), "{rows:?}");
        let handshakes = handshakes.lock().unwrap();
        assert_eq!(10, handshakes.len());
        assert_eq!(HandshakeKind::Full, handshakes[0]);
        assert!(handshakes[1..].iter().all(|kind| *kind == HandshakeKind::Resumed), "{version:?}: {handshakes:?}");
    }
}
