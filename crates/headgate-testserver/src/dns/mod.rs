//! A DNS server, over UDP and TCP, for tests of resolvers. The name in a query selects the response.
//!
//! The first label of a name, up to its first hyphen, selects the response, unless [`DnsConfig::always`] does:
//!
//! | label | response |
//! | --- | --- |
//! | `dead` | none |
//! | `none` | the name does not exist; a SOA record has the lifetime in seconds: `none-30` |
//! | `empty` | the hostname has no address; seconds as above |
//! | `servfail`, `refused` | this response code |
//! | `garbage` | malformed bytes after the question |
//! | `long` | truncated over UDP, complete over TCP |
//! | `alias` | an alias, and the address of its target |
//! | `six` | the IPv6 loopback address, and no IPv4 address |
//! | `slow` | the address, after this many milliseconds: `slow-300` |
//! | `ttl` | the address, with this lifetime in seconds: `ttl-0` |
//! | any other | the address, one of [`DnsConfig::addresses`] by the name |
//!
//! `hickory_proto` encodes and decodes the messages.

mod config;
mod response;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::spawn_local;

pub use self::config::DnsConfig;

use self::response::{DnsQuestion, ResponseMessage};

/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The bound of names with counters of their own; questions for further names count in the total only.
const MAX_COUNTED: usize = 1 << 17;
const MAX_QUESTION_BYTES: usize = 512;

/// A running DNS server. Dropping it stops it.
#[derive(Debug)]
pub struct DnsServer {
    address: SocketAddr,
    state: Arc<Mutex<DnsState>>,
    /// The thread stops when this is dropped.
    running: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct DnsState {
    questions: u64,
    questions_by_name: HashMap<String, u64>,
    /// Names whose addresses were set.
    addresses: HashMap<String, Vec<IpAddr>>,
}

/// The state that its connections share.
#[derive(Debug)]
struct SharedState {
    config: DnsConfig,
    state: Arc<Mutex<DnsState>>,
}

fn lock(state: &Mutex<DnsState>) -> MutexGuard<'_, DnsState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DnsServer {
    /// Starts its thread, and returns when queries are received.
    ///
    /// # Errors
    /// The address can't be listened on, or the system refuses the thread or its event loop.
    pub fn start(config: DnsConfig) -> io::Result<Self> {
        let (udp, tcp) = bind(config.address)?;
        let address = udp.local_addr()?;
        let (running, stopped) = watch::channel(());
        let (ready, readiness) = mpsc::channel();
        let state = Arc::<Mutex<DnsState>>::default();
        let shared = SharedState { config, state: state.clone() };
        let thread = thread::Builder::new().name("testserver-dns".into()).spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            let started = runtime.and_then(|runtime| {
                let _context = runtime.handle().enter();
                let sockets = (UdpSocket::from_std(udp)?, TcpListener::from_std(tcp)?);
                Ok((runtime, sockets))
            });
            match started {
                Ok((runtime, (udp, tcp))) => {
                    let _ = ready.send(Ok(()));
                    runtime.block_on(serve(Rc::new(udp), tcp, Rc::new(shared), stopped));
                }
                Err(error) => _ = ready.send(Err(error)),
            }
        })?;
        readiness.recv().map_err(io::Error::other)??;
        Ok(Self { address, state, running: Some(running), thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of questions so far, for all names.
    pub fn questions(&self) -> u64 {
        lock(&self.state).questions
    }

    /// Returns the number of questions for a name, in lower case and without a dot at the end. A lookup has two: one for each
    /// address family.
    pub fn questions_for(&self, name: &str) -> u64 {
        lock(&self.state).questions_by_name.get(name).copied().unwrap_or_default()
    }

    /// Sets the response to further questions for this name, whatever its label is. The addresses have a lifetime of 0.
    pub fn respond_with(&self, name: &str, addresses: Vec<IpAddr>) {
        lock(&self.state).addresses.insert(name.into(), addresses);
    }

    /// Closes everything and frees the port before it returns.
    pub fn stop(&mut self) {
        self.running = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already printed.
            let _ = thread.join();
        }
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl SharedState {
    /// Returns the message to send and its delay, or `None` to send nothing.
    fn response(&self, message: &[u8], over_udp: bool) -> Option<(Vec<u8>, Duration)> {
        let question = DnsQuestion::read(message)?;
        let mut state = lock(&self.state);
        state.questions += 1;
        if state.questions_by_name.len() < MAX_COUNTED || state.questions_by_name.contains_key(&question.name) {
            *state.questions_by_name.entry(question.name.clone()).or_default() += 1;
        }
        let addresses = state.addresses.get(&question.name).cloned();
        drop(state);
        let response = match addresses {
            Some(addresses) => ResponseMessage::of(&question, &addresses),
            None => ResponseMessage::new(&question, &self.config, over_udp),
        };
        let ResponseMessage { message, delay } = response?;
        Some((message, self.config.delay + delay))
    }
}

/// Binds UDP and TCP to one port.
fn bind(address: SocketAddr) -> io::Result<(std::net::UdpSocket, std::net::TcpListener)> {
    // A port that is free for TCP may be in use for UDP.
    for _ in 0..16 {
        let tcp = std::net::TcpListener::bind(address)?;
        let domain = socket2::Domain::for_address(address);
        let udp = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
        // A large buffer for bursts of queries; the kernel may grant less.
        let _ = udp.set_recv_buffer_size(8 << 20);
        if udp.bind(&tcp.local_addr()?.into()).is_ok() {
            udp.set_nonblocking(true)?;
            tcp.set_nonblocking(true)?;
            return Ok((udp.into(), tcp));
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, format!("no port is free for UDP and TCP at {address}")))
}

async fn serve(udp: Rc<UdpSocket>, tcp: TcpListener, shared: Rc<SharedState>, mut stopped: watch::Receiver<()>) {
    tokio::select! {
        _ = stopped.changed() => {}
        () = serve_udp(udp, shared.clone()) => {}
        () = serve_tcp(tcp, shared) => {}
    }
}

async fn serve_udp(udp: Rc<UdpSocket>, shared: Rc<SharedState>) {
    let mut buffer = [0; MAX_QUESTION_BYTES];
    loop {
        // An error means that an earlier response has found a closed port.
        let Ok((length, peer)) = udp.recv_from(&mut buffer).await else { continue };
        let Some((response, delay)) = shared.response(&buffer[..length], true) else { continue };
        let udp = udp.clone();
        spawn_local(async move {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let _ = udp.send_to(&response, peer).await;
        });
    }
}

async fn serve_tcp(tcp: TcpListener, shared: Rc<SharedState>) {
    loop {
        let Ok((stream, _)) = tcp.accept().await else {
            // No file descriptor is left: without a pause, this loop would occupy the thread.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let shared = shared.clone();
        // The only error is that the client has disconnected.
        spawn_local(async move { _ = serve_connection(stream, &shared).await });
    }
}

async fn serve_connection(mut stream: TcpStream, shared: &SharedState) -> io::Result<()> {
    loop {
        let length = usize::from(stream.read_u16().await?);
        let mut question = vec![0; length];
        stream.read_exact(&mut question).await?;
        let Some((response, delay)) = shared.response(&question, false) else { return Ok(()) };
        tokio::time::sleep(delay).await;
        stream.write_u16(response.len() as u16).await?;
        stream.write_all(&response).await?;
    }
}
