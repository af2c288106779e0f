//! The body of a response that was handed out before it has come: the rest of its exchange, over whichever version of HTTP.

use std::time::Duration;

use headgate_core::body_stream::BodyChunk;
use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::message::OptionName;

use super::lane::LaneState;
use crate::deadline::Deadline;
use crate::decode::ContentEncodings;
use crate::exchange_context::ExchangeContext;
use crate::h1::exchange::OpenExchange;
use crate::h1::head::Head;
use crate::h2::exchange::Http2Body;
use crate::pool::Lease;
use crate::reply::PARTIAL_CONTENT;
use crate::response_timeouts::{ExchangePhase, piece_timed_out};

/// Dropping it closes the connection, or resets the stream.
#[derive(Debug)]
pub struct OpenBody {
    rest: RemainingExchange,
    /// The content encodings to decode, unless the caller wants the body as it came.
    encodings: Option<ContentEncodings>,
}

/// The rest of an exchange.
#[derive(Debug)]
enum RemainingExchange {
    Http1(Box<OpenExchange>, Lease),
    Http2(Box<Http2Body>),
}

impl OpenBody {
    pub(crate) fn of_http1(
        exchange: OpenExchange,
        connection: Lease,
        head: &Head,
        context: &ExchangeContext<'_>,
    ) -> Box<Self> {
        Box::new(Self {
            rest: RemainingExchange::Http1(Box::new(exchange), connection),
            encodings: encodings(head, context),
        })
    }

    pub(crate) fn of_http2(stream: Http2Body, head: &Head, context: &ExchangeContext<'_>) -> Box<Self> {
        Box::new(Self { rest: RemainingExchange::Http2(Box::new(stream)), encodings: encodings(head, context) })
    }

    pub fn take_encodings(&mut self) -> Option<ContentEncodings> {
        self.encodings.take()
    }

    /// Waits for more of the body, for `time` at the most; `None`: it is whole.
    ///
    /// # Errors
    /// `timeout`, `connection_closed`, `protocol`, `tls`. Before that, all that has come was given out.
    ///
    /// Cancelling it may lose a piece.
    pub async fn next(
        &mut self,
        time: Duration,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
    ) -> Result<Option<BodyChunk>, Failure> {
        let now = clock::now();
        deadline.set(now + time, OptionName::Timeout);
        deadline.expect(context.limits.timeouts.limit(ExchangePhase::Receiving, now));
        let next = match &mut self.rest {
            RemainingExchange::Http1(exchange, lease) => {
                let next = exchange.next(lease.connection(), context, deadline).await;
                next.map_err(|failure| lease.connection().verdict().unwrap_or(failure))
            }
            RemainingExchange::Http2(stream) => stream.next(context, deadline).await,
        };
        next.map_err(
            |failure| {
                if failure.kind == ErrorKind::Timeout { piece_timed_out(deadline.due().option) } else { failure }
            },
        )
    }

    /// Ends the reading of the body. The lane gets the connection back if that can carry another request.
    pub fn end(self, lane: &mut LaneState) {
        if let RemainingExchange::Http1(exchange, lease) = self.rest
            && exchange.is_reusable()
        {
            lane.take_back(lease);
        }
    }
}

/// Returns the content encodings to decode, as of a body that is kept: a part of a representation is not decoded.
fn encodings(head: &Head, context: &ExchangeContext<'_>) -> Option<ContentEncodings> {
    (head.encoded && !context.limits.raw && head.status != PARTIAL_CONTENT).then(|| ContentEncodings::of(&head.headers))
}
