//! A redirect never leads from a public address to one that is not public. The test has its own network, in which any
//! address
//! is local; it needs root.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sched::{CloneFlags, unshare};

use crate::harness::Rig;
use crate::http2_frames::Peer;
use crate::network::BLOCKED;
use crate::scripted::{Scripted, read_head, response};

const PUBLIC: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);
const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
const WHY: &str = "a redirect may not lead from outside to an address that is not public: loopback, 127.0.0.0/8";

/// Runs a test in a network namespace where these addresses are local, if that is possible. Its threads are in it, too.
fn isolated(test: impl FnOnce() + Send + 'static) {
    let isolated = thread::spawn(|| {
        if unshare(CloneFlags::CLONE_NEWNET).is_err() {
            return;
        }
        let ip = |words: &str| Command::new("ip").args(words.split(' ')).status().is_ok_and(|status| status.success());
        let is_set_up = ip("link set lo up")
            && [PUBLIC, METADATA].iter().all(|address| ip(&format!("addr add {address}/32 dev lo")));
        assert!(is_set_up, "the network can't be set up: is iproute2 installed?");
        test();
    });
    isolated.join().expect("the test passes");
}

/// Starts a server on a public address, which sends `respond` of the path.
fn public(respond: impl Fn(&str) -> String + Send + Sync + 'static) -> SocketAddr {
    on(PUBLIC, respond).0
}

/// Starts a server on this address, and returns its address and the paths that were requested.
fn on(
    address: Ipv4Addr,
    respond: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let paths = Arc::<Mutex<Vec<String>>>::default();
    let (seen, respond) = (paths.clone(), Arc::new(respond));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, seen, respond) = (stream.unwrap(), seen.clone(), respond.clone());
            thread::spawn(move || {
                while let Some(head) = read_head(&mut stream) {
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    seen.lock().unwrap().push(path.clone());
                    if stream.write_all(respond(&path).as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (address, paths)
}

fn redirect(to: impl std::fmt::Display) -> String {
    format!("HTTP/1.1 302 x\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

#[test]
fn ssrf_by_redirect_a_public_server_cannot_redirect_to_an_internal_address() {
    isolated(|| {
        let inside = Scripted::responding(response("internal"));
        let location = inside.url("/");
        let outside = public(move |_| redirect(&location));
        let rig = || Rig::urls([format!("http://{outside}/")]);
        let row = rig().row();
        assert_eq!((BLOCKED, 1, WHY, "127.0.0.1"), (row.kind(), row.attempts, row.message(), row.detail()));
        assert_eq!(0, inside.connections());
        assert_eq!(Some(200), rig().allowing("127.0.0.0/8").row().status);
        // A redirect from an address that is not public is treated like a row of the list.
        let (first, _) = on(Ipv4Addr::LOCALHOST, {
            let to = inside.url("/");
            move |_| redirect(&to)
        });
        assert_eq!(Some(200), Rig::urls([format!("http://{first}/")]).row().status);
    });
}

#[test]
fn ssrf_by_redirect_a_hop_over_an_allowed_address_changes_nothing() {
    isolated(|| {
        let inside = Scripted::responding(response("internal"));
        let location = inside.url("/");
        let (detour, _) = on(Ipv4Addr::new(127, 0, 0, 2), move |_| redirect(&location));
        let outside = public(move |_| redirect(format!("http://{detour}/")));
        let row = Rig::urls([format!("http://{outside}/")]).allowing("127.0.0.2").row();
        assert_eq!((BLOCKED, 0), (row.kind(), inside.connections()));
    });
}

#[test]
fn ssrf_by_redirect_the_idle_connection_of_another_row_is_not_reused() {
    isolated(|| {
        for is_http2 in [false, true] {
            let serve = |stream| Peer::greet(stream, 100).and_then(|mut peer| peer.serve(b"internal"));
            let inside = Scripted::start(move |mut stream, _| {
                if is_http2 {
                    serve(stream);
                } else {
                    while read_head(&mut stream).is_some() && stream.write_all(response("internal").as_bytes()).is_ok()
                    {
                    }
                }
            });
            let location = inside.url("/from-outside");
            // Without TLS, the server uses the version that was agreed on beforehand.
            let outside = if is_http2 { http2_redirect(location) } else { public(move |_| redirect(&location)) };
            let urls = [inside.url("/1"), format!("http://{outside}/"), inside.url("/2")];
            let mut rig = Rig::urls(urls).one_by_one();
            rig.options.request.http2_prior_knowledge = is_http2;
            let rows = rig.rows();
            let kinds: Vec<_> = rows.iter().map(|row| (row.status, row.kind())).collect();
            assert_eq!(vec![(Some(200), None), (None, BLOCKED), (Some(200), None)], kinds, "{is_http2}: {rows:?}");
        }
    });
}

/// Starts a server on a public address that redirects over HTTP/2.
fn http2_redirect(location: String) -> SocketAddr {
    let listener = TcpListener::bind((PUBLIC, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Some(mut peer) = Peer::greet(stream.unwrap(), 100) else { continue };
            let location = location.clone();
            thread::spawn(move || {
                while let Some(stream) = peer.request() {
                    // Literals without indexing: `:status` 302, and `location` by its name in the static table (RFC 7541).
                    let mut block = vec![0x08, 3];
                    block.extend(b"302");
                    block.extend([0x0f, 0x1f, location.len() as u8]);
                    block.extend(location.as_bytes());
                    // HEADERS with END_STREAM and END_HEADERS.
                    peer.send(1, 5, stream, &block);
                }
            });
        }
    });
    address
}

#[test]
fn addresses_refused_to_redirects_are_allowed_to_rows_that_name_them() {
    isolated(|| {
        let (inside, paths) = on(Ipv4Addr::LOCALHOST, |path| match path {
            "/robots.txt" => response("User-agent: *\nAllow: /"),
            _ => response("internal"),
        });
        let outside = public(move |path| match path {
            "/robots.txt" => response(""),
            _ => redirect(format!("http://{inside}/secret")),
        });
        let urls = [format!("http://{outside}/"), format!("http://{inside}/own")];
        let mut rig = Rig::urls(urls).one_by_one();
        rig.options.request.response.obey_robots = true;
        let rows = rig.rows();
        assert_eq!([BLOCKED, None], [rows[0].kind(), rows[1].kind()], "{rows:?}");
        assert_eq!(["/robots.txt", "/own"], **paths.lock().unwrap());
    });
}

#[test]
fn imds_is_requested_if_the_user_typed_its_address() {
    isolated(|| {
        let (metadata, paths) = on(METADATA, |_| response("credentials"));
        let url = format!("http://{metadata}/latest");
        assert_eq!(BLOCKED, Rig::urls([&url]).row().kind());
        assert_eq!(Some(200), Rig::new(&url).row().status);
        let allowed = Rig::urls([&url]).allowing("169.254.169.254");
        assert_eq!(Some(200), allowed.row().status);
        // A row may name the address, but a redirect still can't lead to it.
        let outside = public({
            let url = url.clone();
            move |_| redirect(&url)
        });
        let mut rig = Rig::new(format!("http://{METADATA}:{}/[1-1]", outside.port()));
        rig.options.request.resolve = vec![format!("{METADATA}:{}:{PUBLIC}", outside.port())];
        assert_eq!(BLOCKED, rig.row().kind());
        assert_eq!(2, paths.lock().unwrap().len());
    });
}
