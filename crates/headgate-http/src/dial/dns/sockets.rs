//! The UDP sockets for one DNS server: few, however many queries are pending.
//!
//! A reply is matched by its socket, its ID and its question. To forge one, an attacker that can't see our packets has to
//! guess the socket's port and the ID (RFC 5452). So IDs are random, and a socket that has sent [`MAX_QUERIES_BY_SOCKET`] is
//! replaced by one with another port. It stays open until no query on it is pending.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::rand;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::dial::dns::message::{DnsReply, Question};

/// The sockets in use for one server. The kernel buffers some 250 unread replies for each.
const SOCKETS_BY_SERVER: usize = 4;
/// The bound of open sockets of all servers, with replaced sockets that still wait for replies.
pub const MAX_SOCKETS: usize = 16;
const MAX_QUERIES_BY_SOCKET: usize = 1000;
/// The bound of pending queries on one socket: with it, a random ID is likely to be free.
const MAX_PENDING: usize = 16_384;
/// More than the longest reply over UDP without EDNS (512 bytes, RFC 1035 section 2.3.4), for servers that ignore that bound.
const MAX_REPLY_BYTES: usize = 4096;

/// Receives the replies to one question, with the index of the server: at most one for each query that is sent.
pub(crate) type ReplySender = mpsc::Sender<(usize, io::Result<DnsReply>)>;

/// A query that was sent. If it is dropped, its reply is ignored.
#[derive(Debug)]
pub(crate) struct SentQuery {
    socket: Arc<QuerySocket>,
    id: u16,
}

impl Drop for SentQuery {
    fn drop(&mut self) {
        self.socket.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// The sockets of one server.
#[derive(Debug)]
pub(crate) struct ServerSockets {
    server: SocketAddr,
    /// Its index in the list of servers.
    server_index: usize,
    in_use: Mutex<Vec<Arc<QuerySocket>>>,
    next: AtomicUsize,
    /// The number of open sockets of all servers.
    open: Arc<AtomicUsize>,
}

impl ServerSockets {
    pub(crate) fn new(server: SocketAddr, server_index: usize, open: Arc<AtomicUsize>) -> Self {
        Self { server, server_index, in_use: Mutex::default(), next: AtomicUsize::new(0), open }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server
    }

    /// Sends a query. Its reply goes to `replies`, unless the returned value is dropped before.
    pub(crate) async fn send(&self, question: &Arc<Question>, replies: &ReplySender) -> io::Result<SentQuery> {
        let socket = self.socket()?;
        let id = socket.register(self.server_index, question, replies)?;
        let sent = SentQuery { socket, id };
        sent.socket.udp.send(&question.message(id)?).await?;
        Ok(sent)
    }

    /// Returns the next socket in turn, and opens or replaces it if necessary. Needs the event loop.
    fn socket(&self) -> io::Result<Arc<QuerySocket>> {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % SOCKETS_BY_SERVER;
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        match in_use.get(next) {
            None => {
                let socket = Arc::new(QuerySocket::open(self.server, self.open.clone())?);
                in_use.push(socket.clone());
                Ok(socket)
            }
            Some(socket) => {
                if socket.sent.fetch_add(1, Ordering::Relaxed) < MAX_QUERIES_BY_SOCKET
                    || self.open.load(Ordering::Relaxed) >= MAX_SOCKETS
                {
                    return Ok(socket.clone());
                }
                // If the process has no file descriptor left for a new socket, the old one stays in use.
                if let Ok(socket) = QuerySocket::open(self.server, self.open.clone()) {
                    in_use[next] = Arc::new(socket);
                }
                Ok(in_use[next].clone())
            }
        }
    }
}

#[derive(Debug)]
struct PendingQuery {
    question: Arc<Question>,
    server_index: usize,
    replies: ReplySender,
}

type PendingById = Arc<Mutex<HashMap<u16, PendingQuery>>>;

#[derive(Debug)]
struct QuerySocket {
    udp: Arc<UdpSocket>,
    pending: PendingById,
    sent: AtomicUsize,
    reader: AbortHandle,
    /// The number of open sockets of all servers.
    open: Arc<AtomicUsize>,
}

impl Drop for QuerySocket {
    fn drop(&mut self) {
        self.reader.abort();
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl QuerySocket {
    fn open(server: SocketAddr, open: Arc<AtomicUsize>) -> io::Result<Self> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = std::net::UdpSocket::bind(any)?;
        // On a connected socket, the kernel accepts packets of the server only, and reports if its port is closed.
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        let udp = Arc::new(UdpSocket::from_std(socket)?);
        let pending = PendingById::default();
        let reader = tokio::spawn(read(udp.clone(), pending.clone())).abort_handle();
        open.fetch_add(1, Ordering::Relaxed);
        Ok(Self { udp, pending, sent: AtomicUsize::new(1), reader, open })
    }

    /// Registers a query under a random free ID, and returns the ID.
    fn register(&self, server_index: usize, question: &Arc<Question>, replies: &ReplySender) -> io::Result<u16> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= MAX_PENDING {
            return Err(io::Error::other("too many DNS queries are in flight"));
        }
        loop {
            let mut id = [0; 2];
            rand::fill(&mut id).map_err(|_| io::Error::other("the system has no random numbers"))?;
            if let std::collections::hash_map::Entry::Vacant(free) = pending.entry(u16::from_be_bytes(id)) {
                let id = *free.key();
                free.insert(PendingQuery { question: question.clone(), server_index, replies: replies.clone() });
                return Ok(id);
            }
        }
    }
}

/// Passes each reply to the query that it belongs to, and ignores other messages.
async fn read(udp: Arc<UdpSocket>, pending: PendingById) {
    let mut buffer = [0; MAX_REPLY_BYTES];
    loop {
        match udp.recv(&mut buffer).await {
            Ok(length) => {
                let message = &buffer[..length];
                let Some(id) = message.first_chunk::<2>() else { continue };
                let id = u16::from_be_bytes(*id);
                let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(reply) = pending.get(&id).and_then(|one| one.question.read(message)) else { continue };
                if let Some(one) = pending.remove(&id) {
                    let _ = one.replies.try_send((one.server_index, Ok(reply)));
                }
            }
            // The server's port is closed, or there is no route to it: all pending queries fail.
            Err(error) => {
                let all = std::mem::take(&mut *pending.lock().unwrap_or_else(PoisonError::into_inner));
                for one in all.into_values() {
                    let _ =
                        one.replies.try_send((one.server_index, Err(io::Error::new(error.kind(), error.to_string()))));
                }
            }
        }
    }
}
