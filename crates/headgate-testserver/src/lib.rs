//! A local server for tests and trial runs: fast responses, delays, and any fault that a client should survive, by path.
//!
//! `headgate serve`, the tests of the engine and the benchmarks use it. Each core has a thread with its own listener on the
//! same port (`SO_REUSEPORT`), its own event loop and its own connections; threads share only counters. Requests are parsed
//! by `httparse` in the connection's buffer, and the default response is encoded before the first request. So the server is
//! not what a benchmark measures.
//!
//! - Any path, such as `/hello` or `/1`, gets the default response of [`Config`]: status, body, delay.
//! - `/` lists the helpers (`/echo`, `/status/404`, `/bytes/1000`, …) and the faults (`/fault/reset-mid-body`, …).
//! - Requests beyond a capacity are delayed or refused; an [`ApiConfig`] sets the limits of a commercial API.
//! - `/stats` and [`Server::statistics`] return what the server has counted.
//!
//! [`DnsServer`] is a DNS server for tests.
//!
//! With TLS, and over HTTP/2 if that is enabled, the same paths get the same responses. HTTP/2 is implemented by the `h2` crate,
//! and is slower.
//!
//! It does not serve files. A client can use any amount of CPU time (a fault may send without end while it is read), but
//! not of memory: headers and bodies of requests are bounded, and long responses are created in pieces.
//!
//! ```
//! use std::io::{Read, Write};
//! use headgate_testserver::{Config, Server};
//!
//! let server = Server::start(Config::default())?;
//! let mut connection = std::net::TcpStream::connect(server.address())?;
//! connection.write_all(b"GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
//! let mut response = String::new();
//! connection.read_to_string(&mut response)?;
//! assert!(response.ends_with("\r\n\r\nHello, World!"));
//! assert_eq!(1, server.statistics().requests);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! ```text
//! lib (Server) -> thread -> serve -> http2, exchange -> respond -> helpers, limits, in_progress -> plan, worker
//! serve, http2 -> faults::play;  worker -> rules, tls;  rules -> limits, request_log -> received -> request -> route
//! route -> helpers, faults::table;  in_progress -> limits, request_log, statistics;  connection -> socket
//! worker, connection, limits -> statistics;  statistics -> faults::table -> content -> config
//! ```

#![warn(unreachable_pub)]

mod body;
mod config;
mod connection;
mod content;
mod dns;
mod exchange;
mod faults;
mod helpers;
mod http2;
mod in_progress;
mod limits;
mod listen;
mod plan;
mod received;
mod request;
mod request_log;
mod respond;
mod response;
mod route;
mod rules;
mod serve;
mod socket;
mod statistics;
mod thread;
mod tls;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::watch;

pub use crate::config::{ApiConfig, Config, DEFAULT_HTTP2_STREAMS, Tls};
pub use crate::dns::{DnsConfig, DnsServer};
pub use crate::statistics::Statistics;

use crate::statistics::Counters;
use crate::worker::ServerWorker;

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    counters: Arc<Counters>,
    /// Workers stop when this is dropped.
    running: Option<watch::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts the threads, and returns when connections are accepted.
    ///
    /// # Errors
    /// `InvalidInput`: the configuration is not valid. Otherwise the address can't be listened on, or the system refuses a thread
    /// or its event loop.
    #[expect(clippy::needless_pass_by_value, reason = "a configuration is made for one server")]
    pub fn start(config: Config) -> io::Result<Self> {
        config.check()?;
        let workers = config.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let listeners = listen::bind(SocketAddr::new(config.host, config.port), workers)?;
        let address = listeners[0].local_addr()?;

        let (running, stopped) = watch::channel(());
        let (ready, readiness) = mpsc::channel();
        let counters = Arc::new(Counters::new(workers));
        let mut server = Self { address, counters, running: Some(running), threads: Vec::with_capacity(workers) };
        let prepared = ServerWorker::prepare(&config)?;
        respond::check_robots(&ServerWorker::new(prepared.clone(), server.counters.clone(), 0))?;
        for (index, listener) in listeners.into_iter().enumerate() {
            let worker = prepared.clone();
            let (counters, stopped, ready) = (server.counters.clone(), stopped.clone(), ready.clone());
            let thread = std::thread::Builder::new()
                .name(format!("testserver-{index}"))
                .spawn(move || thread::run(listener, ServerWorker::new(worker, counters, index), stopped, ready))?;
            server.threads.push(thread);
        }
        drop(ready);
        // The loop ends when every thread has reported. If one has failed, the drop of `server` stops the others.
        for result in readiness {
            result?;
        }
        Ok(server)
    }

    /// Returns the address that the server listens on, with the actual port if 0 was configured.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the statistics so far, also after the server was stopped.
    pub fn statistics(&self) -> Statistics {
        self.counters.snapshot()
    }

    /// Closes all connections at once, and frees the port before it returns.
    pub fn stop(&mut self) {
        self.running = None;
        for thread in self.threads.drain(..) {
            // The panic of a worker was already printed, and has closed its sockets.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
