//! What an exchange came to, over whichever version of HTTP.

use std::sync::Arc;
use std::time::Instant;

use http::Method;

use crate::http::h1::head::Head;
use crate::http::redirect::Redirects;
use crate::http::response_timeouts::ResponseTimeouts;
use crate::http::save::claim;
use crate::http::save::saver::Saver;
use crate::model::error::{ErrorKind, Failure};
use crate::model::memory::{MemoryBudget, Reservation};
use crate::model::options::RequestOptions;
use crate::model::outcome::Body;
use crate::model::reason::Reason;

pub const PARTIAL_CONTENT: u16 = 206;

/// What bounds a response, and what is wanted of it.
#[derive(Debug, Clone)]
pub struct ResponseLimits {
    /// For the body as received, and again as decoded.
    pub max_body_bytes: u64,
    /// A longer body is cut off there, and not refused.
    pub truncate_body: bool,
    /// Bodies are not read.
    pub no_body: bool,
    /// Bodies are not decoded.
    pub raw: bool,
    pub timeouts: ResponseTimeouts,
    pub redirects: Redirects,
    pub memory: MemoryBudget,
    /// What saves bodies, if they are not kept.
    pub saver: Option<Arc<Saver>>,
}

impl ResponseLimits {
    /// `memory`: what bodies draw on.
    pub fn new(request: &RequestOptions, memory: MemoryBudget) -> Self {
        Self {
            max_body_bytes: request.max_body_bytes,
            truncate_body: request.truncate_body,
            no_body: request.no_body,
            raw: request.raw,
            timeouts: ResponseTimeouts::new(request),
            redirects: Redirects::new(request),
            memory,
            saver: None,
        }
    }
}

/// A response, whose body may have failed after its head had come.
#[derive(Debug)]
pub struct Reply {
    pub head: Head,
    /// What was set aside for the head.
    pub memory: Reservation,
    pub first_byte: Instant,
    /// As far as it came; `None`: none was read.
    pub body: Option<Body>,
    /// The content codings that `body` still has.
    pub body_encoding: Option<Box<str>>,
    /// `body` is the beginning of a longer one.
    pub truncated: bool,
    /// As received, before decoding.
    pub body_bytes: u64,
    /// The file that has it in place of `body`.
    pub saved: Option<claim::SaveResult>,
    /// Why the response is not whole.
    pub failure: Option<Failure>,
    /// The connection can take another request.
    pub reusable: bool,
}

/// A response, and what of its exchange is still to come where its body is handed out as it comes.
#[derive(Debug)]
pub struct Replied<T> {
    pub reply: Reply,
    pub open: Option<T>,
}

impl Reply {
    /// Of a body that is handed out as it comes: none of it is here.
    pub fn headed(head: Head, memory: Reservation, first_byte: Instant) -> Self {
        Self {
            head,
            memory,
            first_byte,
            body: None,
            body_encoding: None,
            truncated: false,
            body_bytes: 0,
            saved: None,
            failure: None,
            reusable: false,
        }
    }
}

/// There was no response.
#[derive(Debug)]
pub struct NoReply {
    pub failure: Failure,
    /// No byte of the request was written, or the server has said that it did nothing with it.
    pub unsent: bool,
    /// The connection ended with no byte of a response.
    pub silent: bool,
}

impl NoReply {
    /// There was no connection to send it on.
    pub fn unsent() -> Self {
        Self { failure: Failure::new(ErrorKind::Closed, "the connection has gone"), unsent: true, silent: true }
    }

    /// Why there is none, of a request that isn't sent again, perhaps on a connection that had been used before.
    #[must_use]
    pub fn failure_on(self, new_connection: bool) -> Failure {
        if new_connection || !self.silent {
            return self.failure;
        }
        let Failure { reason: Reason { message, detail }, .. } = self.failure;
        let message = format!("{message}; the connection had been used before");
        Failure { reason: Reason { message: message.into(), detail }, ..self.failure }
    }

    /// Whether the request may be sent once more, on a new connection.
    ///
    /// A server may close an idle connection at the very moment a request goes out on it. So if the connection was used before,
    /// a request that had no byte of an answer is sent again if none of it was written, or if its method is idempotent
    /// (RFC 9110 section 9.2.2, RFC 9112 section 9.3.1); that is no other attempt.
    pub fn may_be_sent_again(&self, method: &str) -> bool {
        let is_idempotent = || Method::from_bytes(method.as_bytes()).is_ok_and(|method| method.is_idempotent());
        self.unsent || self.silent && is_idempotent()
    }
}
