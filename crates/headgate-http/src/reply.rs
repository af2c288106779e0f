//! The result of an exchange, for all versions of HTTP.

use std::sync::Arc;
use std::time::Instant;

use headgate_core::cookie_jar::SharedCookieJar;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::memory::{MemoryBudget, Reservation};
use headgate_core::options::RequestOptions;
use headgate_core::reason::Reason;
use headgate_core::response::Body;

use crate::h1::head::Head;
use crate::method::is_idempotent;
use crate::redirect::Redirects;
use crate::response_timeouts::ResponseTimeouts;
use crate::save::claim;
use crate::save::saver::Saver;

pub(crate) const PARTIAL_CONTENT: u16 = 206;

/// The bounds of a response, and how much of it is wanted.
#[derive(Debug, Clone)]
pub struct ResponseLimits {
    /// The bound of the body, both as received and as decoded.
    pub max_body_size: u64,
    /// A longer body is cut off instead of refused.
    pub truncate_body: bool,
    /// Bodies are not read.
    pub no_body: bool,
    /// Bodies are not decoded.
    pub raw: bool,
    pub timeouts: ResponseTimeouts,
    pub redirects: Redirects,
    /// The cookie jar of the client, if it keeps cookies.
    pub cookies: Option<SharedCookieJar>,
    pub memory: MemoryBudget,
    /// Saves bodies to files, if they are not kept in memory.
    pub saver: Option<Arc<Saver>>,
}

impl ResponseLimits {
    /// Creates the limits of responses. `memory`: the budget of their bodies.
    pub fn new(request: &RequestOptions, memory: MemoryBudget) -> Self {
        Self {
            max_body_size: request.max_body_size,
            truncate_body: request.truncate_body,
            no_body: request.response.no_body,
            raw: !request.response.decode,
            timeouts: ResponseTimeouts::new(request),
            redirects: Redirects::new(request),
            cookies: request.cookies.clone(),
            memory,
            saver: None,
        }
    }
}

/// A response; its body may have failed after its head.
#[derive(Debug)]
pub struct Reply {
    pub head: Head,
    /// The reservation of the head.
    pub memory: Reservation,
    pub first_byte: Instant,
    /// The received part of the body; `None`: the body was not read.
    pub body: Option<Body>,
    /// The content encodings that `body` still has.
    pub body_encoding: Option<Box<str>>,
    /// `body` is the beginning of a longer body.
    pub truncated: bool,
    /// The length of the body as received, before decoding.
    pub received_bytes: u64,
    /// The file that holds the body instead of `body`.
    pub saved: Option<claim::SaveResult>,
    /// Why the response is incomplete.
    pub failure: Option<Failure>,
    /// The connection can take another request.
    pub(crate) reusable: bool,
}

/// A response, with its open exchange if the caller reads the body in pieces.
#[derive(Debug)]
pub struct Replied<T> {
    pub reply: Reply,
    pub open: Option<T>,
}

impl Reply {
    /// Returns a reply without a body.
    pub(crate) fn headed(head: Head, memory: Reservation, first_byte: Instant) -> Self {
        Self {
            head,
            memory,
            first_byte,
            body: None,
            body_encoding: None,
            truncated: false,
            received_bytes: 0,
            saved: None,
            failure: None,
            reusable: false,
        }
    }
}

/// Why there was no response.
#[derive(Debug)]
pub struct NoReply {
    pub failure: Failure,
    /// No byte of the request was written, or the server has reported that it did not process the request.
    pub unsent: bool,
    /// The connection ended before the first byte of a response.
    pub silent: bool,
}

impl NoReply {
    /// Returns the value for a request that had no connection.
    pub fn unsent() -> Self {
        Self {
            failure: Failure::new(ErrorKind::ConnectionClosed, "the connection is closed"),
            unsent: true,
            silent: true,
        }
    }

    /// Returns the failure of a request that isn't resent. It mentions that the connection was not new, if that may be the
    /// cause.
    #[must_use]
    pub fn failure_on(self, new_connection: bool) -> Failure {
        if new_connection || !self.silent {
            return self.failure;
        }
        let Failure { reason: Reason { message, detail }, .. } = self.failure;
        let message = format!("{message}; the connection had been used before");
        Failure { reason: Reason { message: message.into(), detail }, ..self.failure }
    }

    /// Returns whether the request may be resent on a new connection.
    ///
    /// A server may close an idle connection at the very moment a request is written to it. So if no byte of a response came
    /// on a connection that was used before, a request is resent in two cases: none of it was written, or its method is
    /// idempotent. See RFC 9110 section 9.2.2 and RFC 9112 section 9.3.1. A resend does not count as another attempt.
    pub fn may_resend(&self, method: &str) -> bool {
        self.unsent || self.silent && is_idempotent(method)
    }
}
