//! One request and its response over one connection.
//!
//! hyper splits a connection in two: a sender for requests, and a driver that reads and writes the socket, meant to
//! be spawned as a task of its own. Here one task polls both, first the driver, then what the driver may have brought;
//! on 5,000 connections that is half as fast again as two tasks that wake each other. Since the driver is always
//! polled first, what it brings needs no waking: those futures are polled with a waker that does nothing.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Version};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};

use crate::error::{ErrorKind, Failure};
use crate::http::connect::Connection;
use crate::http::deadline::Deadline;
use crate::http::decode::decode;
use crate::limit::memory::MemoryBudget;
use crate::outcome::Body;

/// What bounds a response.
#[derive(Debug, Clone)]
pub struct ResponseLimits {
    /// For the body as received, and again as decoded.
    pub max_body_bytes: u64,
    pub memory: MemoryBudget,
}

/// A response, whose body may have failed after its head had come.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub version: Version,
    pub headers: HeaderMap,
    pub first_byte: Instant,
    pub body: Result<Body, Failure>,
    pub body_bytes: u64,
    /// How long the body had to wait for memory; the deadline was moved on by as much.
    pub waited_for_memory: Duration,
}

/// There was no response.
#[derive(Debug)]
pub struct NoReply {
    pub failure: Failure,
    /// The request was not written: it may be sent again, whatever its method.
    pub unsent: bool,
    /// No byte of a response came: if the request is idempotent, it may be sent again (RFC 9110 section 9.2.2).
    pub silent: bool,
}

impl Connection {
    /// Whether it can take a request now. Notices if the server closed it, or sent something nobody asked for.
    pub fn poll_alive(&mut self, cx: &mut Context<'_>) -> bool {
        Pin::new(&mut self.driver).poll(cx).is_pending() && self.sender.is_ready()
    }

    /// Sends `request` and reads the response to its end.
    ///
    /// # Errors
    /// There was no response: `timeout`, `closed`, `protocol`. The connection must not be used again after an error
    /// here or in the reply's body; [`Connection::poll_alive`] tells of all other reasons.
    ///
    /// Cancelling it leaves the connection in the middle of an exchange: drop it.
    pub async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        limits: &ResponseLimits,
        deadline: &mut Deadline,
    ) -> Result<Reply, NoReply> {
        let received_before = self.received.get();
        let mut response = pin!(self.sender.try_send_request(request));
        let driver = &mut self.driver;
        let mut driver_done = false;
        let mut idle = Context::from_waker(Waker::noop());
        let response = poll_fn(|cx| {
            driver_done = driver_done || Pin::new(&mut *driver).poll(cx).is_ready();
            if let Poll::Ready(response) = response.as_mut().poll(&mut idle) {
                return Poll::Ready(
                    response.map_err(|mut error| (error.take_message().is_some(), failure_of(error.error()))),
                );
            }
            if deadline.poll_passed(cx) {
                return Poll::Ready(Err((false, timed_out("no response came"))));
            }
            Poll::Pending
        })
        .await;
        let response = response.map_err(|(unsent, failure)| NoReply {
            silent: self.received.get() == received_before && failure.kind != ErrorKind::Timeout,
            unsent,
            failure,
        })?;

        let first_byte = Instant::now();
        let (head, incoming) = response.into_parts();
        let mut reader = BodyReader {
            connection: self,
            driver_done,
            limits,
            body: Body { bytes: Vec::new(), reservation: limits.memory.reservation() },
            body_bytes: 0,
            waited_for_memory: Duration::ZERO,
        };
        let read = reader.read(incoming, deadline).await;
        let BodyReader { body, body_bytes, waited_for_memory, .. } = reader;
        let body = match read {
            Ok(()) => decode(&head.headers, body, limits.max_body_bytes).await,
            Err(failure) => Err(failure),
        };
        let body = body.map(|mut body| {
            body.reservation.settle();
            body
        });
        Ok(Reply {
            status: head.status.as_u16(),
            version: head.version,
            headers: head.headers,
            first_byte,
            body,
            body_bytes,
            waited_for_memory,
        })
    }
}

/// Gathers a body as it arrives.
struct BodyReader<'a> {
    connection: &'a mut Connection,
    driver_done: bool,
    limits: &'a ResponseLimits,
    body: Body,
    body_bytes: u64,
    waited_for_memory: Duration,
}

impl BodyReader<'_> {
    async fn read(&mut self, mut incoming: Incoming, deadline: &mut Deadline) -> Result<(), Failure> {
        let max_bytes = self.limits.max_body_bytes;
        if incoming.size_hint().lower() > max_bytes {
            return Err(too_large(max_bytes));
        }
        let mut idle = Context::from_waker(Waker::noop());
        loop {
            let frame = poll_fn(|cx| {
                // What came together with the head is here already; the driver is polled when it is used up.
                if let Poll::Ready(frame) = Pin::new(&mut incoming).poll_frame(&mut idle) {
                    return Poll::Ready(Ok(frame));
                }
                self.driver_done = self.driver_done || Pin::new(&mut self.connection.driver).poll(cx).is_ready();
                match Pin::new(&mut incoming).poll_frame(&mut idle) {
                    Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                    Poll::Pending if self.driver_done => Poll::Ready(Err(closed())),
                    Poll::Pending if deadline.poll_passed(cx) => {
                        Poll::Ready(Err(timed_out("the body did not come to its end")))
                    }
                    Poll::Pending => Poll::Pending,
                }
            });
            match frame.await? {
                None => return Ok(()),
                Some(Err(error)) => return Err(failure_of(&error)),
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let length = data.len() as u64;
                    self.body_bytes += length;
                    if self.body_bytes > max_bytes {
                        return Err(too_large(max_bytes));
                    }
                    if !self.body.reservation.try_grow(length) {
                        let waiting_since = Instant::now();
                        self.body.reservation.grow(length).await;
                        // That the memory was full is not the server's fault.
                        deadline.set(deadline.at() + waiting_since.elapsed());
                        self.waited_for_memory += waiting_since.elapsed();
                    }
                    self.body.bytes.extend_from_slice(&data);
                }
            }
        }
    }
}

fn timed_out(what: &str) -> Failure {
    Failure::new(ErrorKind::Timeout, format!("{what} in time; see --timeout-s"))
}

fn closed() -> Failure {
    Failure::new(ErrorKind::Closed, "the server closed the connection before the answer was complete")
}

fn too_large(max_body_bytes: u64) -> Failure {
    let message = format!("the body is larger than {max_body_bytes} bytes; see --max-body-bytes");
    Failure::new(ErrorKind::BodyTooLarge, message)
}

/// hyper's error as one of our kinds.
fn failure_of(error: &hyper::Error) -> Failure {
    use std::error::Error as _;
    if error.is_incomplete_message() {
        return closed();
    }
    let cause = error.source();
    let message = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    let kind = match cause.and_then(|cause| cause.downcast_ref::<io::Error>()) {
        Some(io) if io.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>) => {
            ErrorKind::Tls
        }
        Some(io) => match io.kind() {
            // hyper reports broken chunks as these two.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => ErrorKind::Protocol,
            io::ErrorKind::TimedOut => ErrorKind::Timeout,
            _ => ErrorKind::Closed,
        },
        None if error.is_canceled() || error.is_closed() => ErrorKind::Closed,
        None => ErrorKind::Protocol,
    };
    Failure::new(kind, message)
}
