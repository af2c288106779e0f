//! The UDP sockets that one server is asked over: few, however many questions are under way.
//!
//! An answer is known by its socket, its number and its question. Who can't see our packets has to guess the socket's port
//! and the number to forge one (RFC 5452), so numbers are random, and a socket that has sent [`SENT_BY_SOCKET`] makes way
//! for one with another port. It lives on until nobody waits for an answer on it.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::rand;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::http::dial::names::message::{Question, Reply};

/// Sockets in use for one server: the kernel keeps some 250 answers for each that we have not got round to reading.
const SOCKETS: usize = 4;
/// Sockets open at the most, over all servers, while those that made way have answers to come.
pub const MAX_SOCKETS: usize = 16;
const SENT_BY_SOCKET: usize = 1000;
/// Questions under way on one socket at the most: then a free number is soon found.
const MAX_ASKED: usize = 16_384;
/// The longest answer over UDP to who did not ask for longer ones (RFC 1035 section 2.3.4), with room for servers that
/// don't care.
const MAX_ANSWER_BYTES: usize = 4096;

/// Where the replies to one question arrive, with the place of the server in the list: for each time that it is sent, one at
/// the most.
pub type Replies = mpsc::Sender<(usize, io::Result<Reply>)>;

/// A question that was sent; dropping it forgets about its answer.
#[derive(Debug)]
pub struct Sent {
    socket: Arc<Socket>,
    number: u16,
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.socket.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// The sockets of one server.
#[derive(Debug)]
pub struct Sockets {
    server: SocketAddr,
    /// Its place in the list of servers.
    place: usize,
    in_use: Mutex<Vec<Arc<Socket>>>,
    turn: AtomicUsize,
    /// One clone for each socket that is open, of this server or another.
    open: Arc<()>,
}

impl Sockets {
    pub fn new(server: SocketAddr, place: usize, open: Arc<()>) -> Self {
        Self { server, place, in_use: Mutex::default(), turn: AtomicUsize::new(0), open }
    }

    pub fn address(&self) -> SocketAddr {
        self.server
    }

    /// Sends a question. Its reply comes to `replies` unless what is returned is dropped before.
    pub async fn send(&self, question: &Arc<Question>, replies: &Replies) -> io::Result<Sent> {
        let socket = self.socket()?;
        let number = socket.register(self.place, question, replies)?;
        let sent = Sent { socket, number };
        sent.socket.udp.send(&question.message(number)?).await?;
        Ok(sent)
    }

    /// The next socket in turn, opened or replaced if need be. Needs the event loop.
    fn socket(&self) -> io::Result<Arc<Socket>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % SOCKETS;
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        match in_use.get(turn) {
            None => {
                let socket = Arc::new(Socket::open(self.server, self.open.clone())?);
                in_use.push(socket.clone());
                Ok(socket)
            }
            Some(socket) => {
                if socket.sent.fetch_add(1, Ordering::Relaxed) < SENT_BY_SOCKET
                    || Arc::strong_count(&self.open) > MAX_SOCKETS
                {
                    return Ok(socket.clone());
                }
                // A system that has no file left for another port goes on with this one.
                if let Ok(socket) = Socket::open(self.server, self.open.clone()) {
                    in_use[turn] = Arc::new(socket);
                }
                Ok(in_use[turn].clone())
            }
        }
    }
}

#[derive(Debug)]
struct Query {
    question: Arc<Question>,
    place: usize,
    replies: Replies,
}

type QueriesByNumber = Arc<Mutex<HashMap<u16, Query>>>;

#[derive(Debug)]
struct Socket {
    udp: Arc<UdpSocket>,
    asked: QueriesByNumber,
    sent: AtomicUsize,
    reader: AbortHandle,
    _open: Arc<()>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Socket {
    fn open(server: SocketAddr, open: Arc<()>) -> io::Result<Self> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = std::net::UdpSocket::bind(any)?;
        // Connected: the kernel passes on what comes from the server alone, and tells when nobody listens there.
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        let udp = Arc::new(UdpSocket::from_std(socket)?);
        let asked = QueriesByNumber::default();
        let reader = tokio::spawn(read(udp.clone(), asked.clone())).abort_handle();
        Ok(Self { udp, asked, sent: AtomicUsize::new(1), reader, _open: open })
    }

    /// A number that nobody else has.
    fn register(&self, place: usize, question: &Arc<Question>, replies: &Replies) -> io::Result<u16> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= MAX_ASKED {
            return Err(io::Error::other("too many names are asked for at once"));
        }
        loop {
            let mut number = [0; 2];
            rand::fill(&mut number).map_err(|_| io::Error::other("the system has no random numbers"))?;
            if let std::collections::hash_map::Entry::Vacant(free) = asked.entry(u16::from_be_bytes(number)) {
                let number = *free.key();
                free.insert(Query { question: question.clone(), place, replies: replies.clone() });
                return Ok(number);
            }
        }
    }
}

/// Hands each answer to who asked. What is no answer to anything is passed over.
async fn read(udp: Arc<UdpSocket>, asked: QueriesByNumber) {
    let mut buffer = [0; MAX_ANSWER_BYTES];
    loop {
        match udp.recv(&mut buffer).await {
            Ok(length) => {
                let message = &buffer[..length];
                let Some(number) = message.first_chunk::<2>() else { continue };
                let number = u16::from_be_bytes(*number);
                let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(reply) = asked.get(&number).and_then(|one| one.question.read(message)) else { continue };
                if let Some(one) = asked.remove(&number) {
                    let _ = one.replies.try_send((one.place, Ok(reply)));
                }
            }
            // Nobody listens there, or no way leads there: that goes for all.
            Err(error) => {
                let all = std::mem::take(&mut *asked.lock().unwrap_or_else(PoisonError::into_inner));
                for one in all.into_values() {
                    let _ = one.replies.try_send((one.place, Err(io::Error::new(error.kind(), error.to_string()))));
                }
            }
        }
    }
}
