//! One question to the configured servers: who is asked when, and which reply counts.
//!
//! Servers are asked in turn, `attempts` times each, and whichever answers first is believed. A packet is soon missed: the
//! second is sent after [`FIRST_WAIT`], and each wait is twice the one before, up to the configured `timeout`, for which the
//! last is waited for. Where a server was passed over and a later one answered, questions to come begin there. That
//! is all that is remembered of servers: that a name has no answer says nothing of others, so that names without one cost
//! the others nothing.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use crate::http::dial::names::config::Config;
use crate::http::dial::names::message::{Question, Reply};
use crate::http::dial::names::sockets::Sockets;
use crate::model::error::cause;
use crate::model::reason::Reason;

/// How long the first server asked has before the next is asked, too: far beyond what one takes that has the answer.
pub const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Connections for answers that are too long for a packet.
pub const MAX_CONNECTIONS: usize = 8;

/// The servers, each with its sockets, and how they are asked.
#[derive(Debug)]
pub struct Servers {
    sockets: Vec<Sockets>,
    /// The place of the one that is asked first.
    first: AtomicUsize,
    attempts: usize,
    timeout: Duration,
    connections: Semaphore,
}

/// Why a question has no answer.
pub type Unanswered = Reason;

impl Servers {
    pub fn new(config: &Config) -> Self {
        let open = Arc::new(());
        let servers = config.servers.iter().enumerate();
        Self {
            sockets: servers.map(|(place, server)| Sockets::new(*server, place, open.clone())).collect(),
            first: AtomicUsize::new(0),
            attempts: config.attempts,
            timeout: config.timeout,
            connections: Semaphore::new(MAX_CONNECTIONS),
        }
    }

    /// What the servers say to a question: addresses, or that there are none. Needs the event loop.
    ///
    /// Cancelling it forgets about the answers.
    pub async fn ask(&self, question: Question) -> Result<Reply, Unanswered> {
        let question = Arc::new(question);
        let count = self.sockets.len();
        let first = self.first.load(Ordering::Relaxed);
        let mut tries: VecDeque<usize> = (0..count * self.attempts).map(|index| (first + index) % count).collect();
        let (sender, mut replies) = mpsc::channel(tries.len().max(1));
        let mut under_way = Vec::new();
        let mut unanswered = 0;
        let mut wait = FIRST_WAIT.min(self.timeout);
        let mut trouble = None;
        while let Some(place) = tries.pop_front() {
            match self.sockets[place].send(&question, &sender).await {
                Ok(sent) => under_way.push(sent),
                Err(error) => {
                    trouble = Some(self.said(place, unasked(&error)));
                    continue;
                }
            }
            unanswered += 1;
            let until = Instant::now() + if tries.is_empty() { self.timeout } else { wait };
            wait = (wait * 2).min(self.timeout);
            while let Ok(Some((place, reply))) = timeout_at(until, replies.recv()).await {
                unanswered -= 1;
                let reply = match reply {
                    Ok(Reply::Truncated) => self.ask_over_tcp(place, &question).await,
                    reply => reply,
                };
                match reply {
                    Ok(Reply::Failed(code)) => {
                        // It would say the same again.
                        tries.retain(|other| *other != place);
                        trouble = Some(self.said(place, meaning(code)));
                    }
                    Ok(reply) => {
                        if place != first {
                            self.first.store(place, Ordering::Relaxed);
                        }
                        return Ok(reply);
                    }
                    Err(error) => trouble = Some(self.said(place, unasked(&error))),
                }
                if unanswered == 0 || !tries.is_empty() {
                    break;
                }
            }
        }
        Err(trouble.unwrap_or_else(|| {
            let servers: Vec<String> = self.sockets.iter().map(|sockets| sockets.address().to_string()).collect();
            Reason::new("no answer from the name server").with(servers.join(", "))
        }))
    }

    /// Asks for an answer that is too long for a packet (RFC 7766).
    async fn ask_over_tcp(&self, place: usize, question: &Question) -> io::Result<Reply> {
        let until = Instant::now() + self.timeout;
        let exchange = async {
            let _permit = self.connections.acquire().await;
            let mut stream = TcpStream::connect(self.sockets[place].address()).await?;
            let message = question.message(0)?;
            let mut bytes = (message.len() as u16).to_be_bytes().to_vec();
            bytes.extend(message);
            stream.write_all(&bytes).await?;
            let mut answer = vec![0; usize::from(stream.read_u16().await?)];
            stream.read_exact(&mut answer).await?;
            Ok(match question.read(&answer) {
                None | Some(Reply::Truncated) => Reply::Failed(None),
                Some(reply) => reply,
            })
        };
        timeout_at(until, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    fn said(&self, place: usize, what: Reason) -> Unanswered {
        what.with(self.sockets[place].address().to_string())
    }
}

fn unasked(error: &io::Error) -> Reason {
    format!("the name server can't be asked: {}", cause(error)).into()
}

/// What a code means (RFC 1035 section 4.1.1).
fn meaning(code: Option<ResponseCode>) -> Reason {
    match code {
        None => "the name server's answer makes no sense".into(),
        Some(ResponseCode::FormErr) => "the name server does not understand the question (FORMERR)".into(),
        Some(ResponseCode::ServFail) => "the name server failed (SERVFAIL)".into(),
        Some(ResponseCode::Refused) => "the name server refused to answer (REFUSED)".into(),
        Some(code) => format!("the name server answered with code {}", u16::from(code)).into(),
    }
}
