//! The number of open connections: idle ones wait for the next row of their host, and no host exceeds its limit.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use headgate_core::limits::HostConcurrency;
use headgate_engine::Run;
use nix::sys::socket::{MsgFlags, recv};

use crate::harness::{MAX_WAIT, Rig};
use crate::own_ends::{Channel, Collector, engine, passage};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A server that counts the open connections to one address.
struct Counting {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Counting {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counting = Self { address, accepted: accepted.clone(), most: most.clone() };
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                accepted.fetch_add(1, Ordering::SeqCst);
                // Connections that the client closed earlier have ended by now, whether or not their thread has noticed.
                let mut open = open.lock().unwrap();
                open.retain(|stream: &TcpStream| !is_at_end(stream));
                open.push(stream.try_clone().unwrap());
                most.fetch_max(open.len(), Ordering::SeqCst);
                drop(open);
                thread::spawn(move || respond(stream));
            }
        });
        counting
    }

    fn url(&self, host: u8) -> String {
        format!("http://127.0.0.{host}:{}/", self.address.port())
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    fn max_open(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

fn is_at_end(stream: &TcpStream) -> bool {
    recv(stream.as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT) == Ok(0)
}

fn respond(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
        if stream.write_all(RESPONSE).is_err() {
            return;
        }
    }
}

#[test]
fn the_connection_of_a_recurring_host_is_kept_although_all_lanes_are_busy() {
    // The default number of idle connections for each lane.
    const HOSTS: u8 = 10;
    // Idle connections for all hosts, for half of them, and for none. With hosts in turn, the next one needed is the one
    // closed last.
    // There is one lane, because a second one could pass all hosts while the first waits for its response.
    for (accepted, max_idle) in [(10, None), (30, Some(5)), (30, Some(0))] {
        let server = Counting::start();
        let urls = (0..3 * HOSTS).map(|row| server.url(1 + row % HOSTS));
        let mut rig = Rig::urls(urls).concurrency(1, 1);
        rig.options.engine.max_idle_connections = max_idle;
        assert!(rig.rows().iter().all(|row| row.text() == "ok"));
        assert_eq!(accepted, server.accepted(), "{max_idle:?}");
    }
}

#[test]
fn the_connection_limit_of_a_host_holds_across_workers_and_every_row_gets_a_connection() {
    const ROWS: usize = 400;
    for threads in [1, 3] {
        for by_concurrency in [false, true] {
            let (one, other) = (Counting::start(), Counting::start());
            let urls = (0..ROWS).map(|row| if row % 3 == 0 { other.url(2) } else { one.url(1) });
            let mut rig = Rig::urls(urls).concurrency(24, threads);
            let limits = &mut rig.options.run.limits;
            if by_concurrency {
                limits.concurrency_per_host.each = Some(HostConcurrency::Fixed(3));
            } else {
                limits.max_connections_per_host = NonZeroU32::new(3);
            }
            let rows = rig.rows();
            assert_eq!(ROWS, rows.iter().filter(|row| row.text() == "ok").count());
            assert!(one.max_open() <= 3 && other.max_open() <= 3, "{} and {}", one.max_open(), other.max_open());
        }
    }
}

#[test]
fn requests_for_robots_txt_count_toward_the_connection_limit_of_their_host() {
    let (server, engine) = (Counting::start(), engine(2));
    // Runs are assigned to workers in turn, so the idle connection belongs to the other worker.
    for _ in 0..4 {
        let (seen, sink) = Collector::new();
        let mut passage = passage(Channel::of([server.url(1), server.url(1)]), sink, 1);
        passage.request.response.obey_robots = true;
        passage.run.limits.max_connections_per_host = NonZeroU32::new(1);
        let run = Run::start(&engine, passage).expect("a run");
        assert!(run.wait(MAX_WAIT));
        assert_eq!(vec![Some(200); 2], seen.statuses());
    }
    assert_eq!((1, 4), (server.max_open(), server.accepted()));
}
