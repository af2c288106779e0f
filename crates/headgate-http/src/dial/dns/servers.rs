//! One question to the configured servers: when a query is sent to which server, and which reply counts.
//!
//! Queries are sent to the servers in turn, `attempts` times each, and the first reply counts. The second query is sent after
//! [`FIRST_ANSWER_WAIT`]. Each wait is twice the previous one, up to the configured `timeout`, which is the wait for the last
//! query. If a later server replies first, the next questions begin with it. Nothing else is remembered about servers: a
//! hostname without a response says nothing about other hostnames, and so does not slow their lookups down.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use headgate_core::error::cause;
use headgate_core::reason::Reason;
use hickory_proto::op::ResponseCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use crate::dial::dns::config::ResolverConfig;
use crate::dial::dns::message::{DnsReply, Question};
use crate::dial::dns::sockets::ServerSockets;

/// The wait after the first query before the second is sent: far longer than a server needs for a response in its cache.
pub(crate) const FIRST_ANSWER_WAIT: Duration = Duration::from_secs(1);
/// The bound of TCP connections for replies that are too long for a packet.
pub(crate) const MAX_CONNECTIONS: usize = 8;

/// The DNS servers, each with its sockets, and how queries are sent to them.
#[derive(Debug)]
pub(crate) struct Servers {
    sockets: Vec<ServerSockets>,
    /// The index of the server that gets the first query.
    first: AtomicUsize,
    attempts: usize,
    timeout: Duration,
    connections: Semaphore,
}

impl Servers {
    pub(crate) fn new(config: &ResolverConfig) -> Self {
        let open = Arc::default();
        let servers = config.servers.iter().enumerate();
        Self {
            sockets: servers.map(|(index, server)| ServerSockets::new(*server, index, Arc::clone(&open))).collect(),
            first: AtomicUsize::new(0),
            attempts: config.attempts,
            timeout: config.timeout,
            connections: Semaphore::new(MAX_CONNECTIONS),
        }
    }

    /// Returns the reply of the servers to a question: addresses, or that there are none. Needs the event loop.
    ///
    /// If it is cancelled, replies that arrive later are ignored.
    pub(crate) async fn query(&self, question: Question) -> Result<DnsReply, Reason> {
        let question = Arc::new(question);
        let count = self.sockets.len();
        let first = self.first.load(Ordering::Relaxed);
        let mut tries: VecDeque<usize> = (0..count * self.attempts).map(|index| (first + index) % count).collect();
        let (sender, mut replies) = mpsc::channel(tries.len().max(1));
        let mut sent = Vec::new();
        let mut pending = 0;
        let mut wait = FIRST_ANSWER_WAIT.min(self.timeout);
        let mut failure = None;
        while let Some(index) = tries.pop_front() {
            match self.sockets[index].send(&question, &sender).await {
                Ok(query) => sent.push(query),
                Err(error) => {
                    failure = Some(self.with_server(index, query_failure(&error)));
                    continue;
                }
            }
            pending += 1;
            let until = Instant::now() + if tries.is_empty() { self.timeout } else { wait };
            wait = (wait * 2).min(self.timeout);
            while let Ok(Some((index, reply))) = timeout_at(until, replies.recv()).await {
                pending -= 1;
                let reply = match reply {
                    Ok(DnsReply::Truncated) => self.query_over_tcp(index, &question).await,
                    reply => reply,
                };
                match reply {
                    Ok(DnsReply::Failed(code)) => {
                        // A retried query would fail in the same manner.
                        tries.retain(|other| *other != index);
                        failure = Some(self.with_server(index, code_meaning(code)));
                    }
                    Ok(reply) => {
                        if index != first {
                            self.first.store(index, Ordering::Relaxed);
                        }
                        return Ok(reply);
                    }
                    Err(error) => failure = Some(self.with_server(index, query_failure(&error))),
                }
                if pending == 0 || !tries.is_empty() {
                    break;
                }
            }
        }
        Err(failure.unwrap_or_else(|| {
            let servers: Vec<String> = self.sockets.iter().map(|sockets| sockets.address().to_string()).collect();
            Reason::new("no response from the DNS server").with(servers.join(", "))
        }))
    }

    /// Sends a query over TCP, whose reply may be too long for a packet (RFC 7766).
    async fn query_over_tcp(&self, index: usize, question: &Question) -> io::Result<DnsReply> {
        let until = Instant::now() + self.timeout;
        let exchange = async {
            let _permit = self.connections.acquire().await;
            let mut stream = TcpStream::connect(self.sockets[index].address()).await?;
            let message = question.message(0)?;
            let mut bytes = (message.len() as u16).to_be_bytes().to_vec();
            bytes.extend(message);
            stream.write_all(&bytes).await?;
            let mut response = vec![0; usize::from(stream.read_u16().await?)];
            stream.read_exact(&mut response).await?;
            Ok(match question.read(&response) {
                None | Some(DnsReply::Truncated) => DnsReply::Failed(None),
                Some(reply) => reply,
            })
        };
        timeout_at(until, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    fn with_server(&self, index: usize, what: Reason) -> Reason {
        what.with(self.sockets[index].address().to_string())
    }
}

/// Returns why a query could not be sent or its reply not be received.
fn query_failure(error: &io::Error) -> Reason {
    format!("the DNS server can't be queried: {}", cause(error)).into()
}

/// Returns the meaning of a response code (RFC 1035 section 4.1.1).
fn code_meaning(code: Option<ResponseCode>) -> Reason {
    match code {
        None => "the DNS server's response is malformed".into(),
        Some(ResponseCode::FormErr) => "the DNS server rejected the query as malformed (FORMERR)".into(),
        Some(ResponseCode::ServFail) => "the DNS server failed (SERVFAIL)".into(),
        Some(ResponseCode::Refused) => "the DNS server refused the query (REFUSED)".into(),
        Some(code) => format!("the DNS server responded with code {}", u16::from(code)).into(),
    }
}
