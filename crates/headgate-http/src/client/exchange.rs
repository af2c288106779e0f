//! What an exchange is made of, from the request that is sent to the response.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::Request;

use super::open_body::OpenBody;
use crate::exchange_context::ExchangeContext;
use crate::h1::exchange::Exchange;
use crate::h1::read_reservation::ReadReservation;
use crate::h1::response::WholeResponse;
use crate::h1::transfer::UnsentRequest;
use crate::reply::{Reply, ResponseLimits};
use crate::save::saving::Saving;
use crate::site::Site;
use crate::upload::Upload;

/// Whether a lane can send a request now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneReadiness {
    Ready,
    /// There is no connection that it may use: `Client::open` makes one.
    NoConnection,
    /// The request can't be sent twice, and the idle connection has to stay open until then to prove that it is usable.
    Unproven(Instant),
}

/// An exchange that takes more than one write or one read. `Client::finish` completes it.
#[derive(Debug)]
pub enum Pending {
    Http1(Box<Exchange>),
    Http2(Box<Translated>),
}

/// A request that goes over the HTTP/2 stream that the lane holds.
#[derive(Debug)]
pub struct Translated {
    pub(super) site: Rc<Site>,
    pub(super) request: Request<()>,
    pub(super) body: Bytes,
    /// The part of the body that follows `body`.
    pub(super) upload: Option<Box<Upload>>,
    pub(super) saving: Option<Box<Saving>>,
}

/// How a response is read that does not come whole in one read.
pub struct Expected<'a> {
    pub context: ExchangeContext<'a>,
    /// The request's method is HEAD.
    pub to_head: bool,
    /// Saves the body, if it is to be saved.
    pub saving: Option<Box<Saving>>,
}

/// The facts about the expected response that the fast path needs.
pub struct Awaited<'a> {
    pub limits: &'a ResponseLimits,
    pub read_reservation: &'a ReadReservation,
    /// The time now, if the attempt began in this poll: reading the clock is expensive beside the rest.
    pub sent_now: Option<Instant>,
}

/// A whole response that one read has brought.
pub struct Read<'a> {
    pub response: &'a WholeResponse<'a>,
    /// The length of the response, with its head.
    pub bytes: usize,
    pub at: Instant,
}

/// A response and the connection that it came over.
#[derive(Debug)]
pub struct ReceivedResponse {
    pub reply: Reply,
    pub remote_addr: Arc<str>,
    /// See [`Remote::is_outside`](crate::dial::policy::Remote).
    pub is_outside: bool,
    /// The body has still to come, and is handed out as it does.
    pub open: Option<Box<OpenBody>>,
}

impl Expected<'_> {
    /// Returns the exchange of a request that was sent as far as `outgoing` says.
    pub(super) fn exchange(&mut self, outgoing: UnsentRequest) -> Box<Exchange> {
        Box::new(Exchange::new(outgoing, self.to_head, self.saving.take(), &self.context))
    }
}
