//! One request and its response over one stream.
//!
//! A server may send no more than a stream's window before we have taken it. It is taken when memory is reserved for it; where
//! there is none, the server waits, and no other stream does.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Error, Reason as Code, RecvStream, SendStream};
use headgate_core::body_stream::BodyChunk;
use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::headers::Headers;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, Method, Request, Version};

use crate::deadline::Deadline;
use crate::exchange_context::ExchangeContext;
use crate::h1::framing::Framing;
use crate::h1::head::Head;
use crate::h2::errors;
use crate::h2::meter::AwaitedStream;
use crate::h2::streams::StreamPermit;
use crate::incoming::{BodySource, Fill, IncomingBody, WantedBody, next_piece, receive};
use crate::reply::{NoReply, Replied, Reply};
use crate::response_timeouts::{ExchangePhase, ResponseTimeouts, caller_timed_out, timed_out};
use crate::save::saving::Saving;
use crate::upload::Upload;

/// A request that is on its way, and what comes back.
pub(crate) struct StreamExchange {
    outgoing: BodyUpload,
    response: ResponseFuture,
    awaited: AwaitedStream,
    to_head: bool,
    /// The number of reads of the connection when the request was sent.
    reads: u32,
    /// The destination of the body, if it is saved.
    saving: Option<Box<Saving>>,
}

/// The end of an exchange without a response.
#[derive(Debug)]
pub(crate) enum Http2Error {
    /// The server wants the request over HTTP/1.1.
    WantsHttp1(Failure),
    NoReply(NoReply),
}

impl StreamExchange {
    /// Sends the head of a request.
    ///
    /// # Errors
    /// The connection takes no more.
    pub(crate) fn begin(
        stream: &StreamPermit,
        request: Request<()>,
        body: Bytes,
        upload: Option<Box<Upload>>,
        saving: Option<Box<Saving>>,
    ) -> Result<Self, Http2Error> {
        let upload = upload.filter(|upload| !upload.is_done());
        let to_head = *request.method() == Method::HEAD;
        let reads = stream.connection.reads();
        let sent = stream.connection.send(request, body.is_empty() && upload.is_none());
        let (response, outgoing, awaited) =
            sent.map_err(|failure| Http2Error::NoReply(NoReply { failure, unsent: true, silent: true }))?;
        let mut outgoing = BodyUpload { stream: outgoing, rest: body, upload, failure: None };
        outgoing.stream.reserve_capacity(outgoing.rest.len());
        Ok(Self { outgoing, response, awaited, to_head, reads, saving })
    }

    /// Goes on until the response is whole, and decodes it.
    ///
    /// # Errors
    /// There was no response.
    ///
    /// Cancelling it resets the stream; the connection stays.
    pub(crate) async fn finish(
        mut self,
        stream: StreamPermit,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
    ) -> Result<Replied<Http2Body>, Http2Error> {
        match self.head(&context.limits.timeouts, deadline).await {
            Some(Ok(response)) => Ok(self.reply(response, stream, context, deadline).await),
            Some(Err(error)) => Err(http2_error(&stream, &error)),
            None if let Some(failure) = self.outgoing.failure.take() => {
                Err(Http2Error::NoReply(NoReply { failure, unsent: false, silent: false }))
            }
            None => {
                let failure = if self.outgoing.is_awaiting_caller() {
                    caller_timed_out(deadline.due().option)
                } else {
                    stream.connection.suspect(self.reads);
                    timed_out(deadline.due().option, self.outgoing.is_pending(), false)
                };
                Err(Http2Error::NoReply(NoReply { failure, unsent: false, silent: false }))
            }
        }
    }

    /// Waits for the head of the response; `None`: it did not come in time, or the request can't be sent whole.
    async fn head(
        &mut self,
        timeouts: &ResponseTimeouts,
        deadline: &mut Deadline,
    ) -> Option<Result<http::Response<RecvStream>, Error>> {
        if timeouts.is_bounded() {
            deadline.expect(timeouts.limit(self.outgoing.progress(), clock::now()));
        }
        poll_fn(|cx| {
            if self.outgoing.poll(deadline, cx) && timeouts.is_bounded() {
                deadline.expect(timeouts.limit(self.outgoing.progress(), clock::now()));
            }
            match Pin::new(&mut self.response).poll(cx) {
                Poll::Ready(response) => Poll::Ready(Some(response)),
                Poll::Pending if self.outgoing.failure.is_some() => Poll::Ready(None),
                Poll::Pending if !self.outgoing.is_reading() && deadline.poll_passed(cx) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    async fn reply(
        mut self,
        response: http::Response<RecvStream>,
        stream: StreamPermit,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
    ) -> Replied<Http2Body> {
        stream.record_response();
        let now = clock::now();
        let first_byte = now.checked_sub(deadline.excused()).unwrap_or(now);
        let (parts, incoming) = response.into_parts();
        let encoded = !self.to_head && parts.headers.contains_key(CONTENT_ENCODING);
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        // What there would be for another method.
        let length = length.filter(|_| !self.to_head);
        let status = parts.status.as_u16();
        // A caller that takes a body while it comes bounds it.
        let wanted = WantedBody::of_exchange(context);
        let mut body = IncomingBody::new(wanted, context.limits.memory.reservation());
        // A header that HPACK names by a number is shared until it is copied, so a hundred bytes can become 300 KiB here.
        let head_bytes = copied_bytes(&parts.headers);
        if context.read_reservation.try_reserve(head_bytes) {
            context.read_reservation.transfer(&mut body.reservation, head_bytes as u64);
        } else {
            body.reserve(head_bytes as u64, deadline).await;
        }
        let head = Head {
            status,
            version: Version::HTTP_2,
            headers: kept(&parts.headers),
            framing: Framing::Empty,
            keep_alive: true,
            skipped: 0,
            encoded,
        };
        drop(parts);
        let leads_on = context.redirects.follows(status, &head.headers);
        // The end of what has no body is not compared with a content-length that belongs to another response. Dropped unread, the
        // stream is reset, and nothing else of the connection waits for it.
        if leads_on || matches!(status, 204 | 304) {
            body.wanted = WantedBody::Nothing;
        }
        if let Some(length) = length {
            body.set_length(length);
        }
        body.saving = self.saving.take().filter(|saving| saving.applies_to(&head, context.limits));
        let head_bytes = head_bytes as u64;
        let mut source = Http2Body {
            sending: self,
            stream,
            incoming,
            length,
            body,
            head_bytes,
            piece: Bytes::new(),
            has_ended: false,
        };
        let is_open = context.streams && !leads_on;
        let failure = if is_open { None } else { receive(&mut source, context, deadline).await.err() };
        deadline.expect(None);
        let mut memory = context.limits.memory.reservation();
        source.body.reservation.transfer(&mut memory, std::mem::take(&mut source.head_bytes));
        let mut reply = Reply::headed(head, memory, first_byte);
        if is_open {
            source.body.reservation.end_overdrawing();
            return Replied { reply, open: Some(source) };
        }
        reply.reusable = true;
        Replied { reply: source.body.conclude(reply, failure, context, deadline).await, open: None }
    }
}

fn http2_error(stream: &StreamPermit, error: &Error) -> Http2Error {
    let failure = errors::failure(error, stream.connection.close_reason(), "without a response");
    if errors::wants_http1(error) {
        return Http2Error::WantsHttp1(failure);
    }
    let unsent = errors::is_unprocessed(error);
    let silent = failure.kind == ErrorKind::ConnectionClosed && !error.is_remote() && stream.connection.has_responded();
    Http2Error::NoReply(NoReply { failure, unsent, silent })
}

/// Returns the number of bytes that a copy of these headers takes.
fn copied_bytes(headers: &HeaderMap) -> usize {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    Headers::needed_bytes(headers.len(), bytes)
}

fn kept(headers: &HeaderMap) -> Headers {
    let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let mut kept = Headers::with_capacity(headers.len(), bytes);
    for (name, value) in headers {
        kept.push(name.as_str(), value.as_bytes());
    }
    kept
}

/// A request's body on its way.
struct BodyUpload {
    stream: SendStream<Bytes>,
    rest: Bytes,
    /// The rest of the body, which is read when `rest` was sent.
    upload: Option<Box<Upload>>,
    /// The reason why the rest can't be read.
    failure: Option<Failure>,
}

impl BodyUpload {
    /// Sends as much of the body as the server accepts, and returns whether any of it was sent. If the server wants no more,
    /// its response says so.
    fn poll(&mut self, deadline: &mut Deadline, cx: &mut Context<'_>) -> bool {
        let mut has_moved = false;
        while self.is_pending() && self.failure.is_none() {
            if self.rest.is_empty() {
                match self.poll_upload(deadline, cx) {
                    Poll::Ready(()) if self.rest.is_empty() => {
                        // The server has reset the stream if it takes no end.
                        let _ = self.stream.send_data(Bytes::new(), true);
                        return true;
                    }
                    Poll::Ready(()) => {}
                    Poll::Pending => break,
                }
            }
            let Poll::Ready(Some(Ok(room))) = self.stream.poll_capacity(cx) else { break };
            let piece = self.rest.split_to(room.min(self.rest.len()));
            has_moved = true;
            if self.stream.send_data(piece, !self.is_pending()).is_err() {
                self.rest.clear();
                self.upload = None;
            }
            self.stream.reserve_capacity(self.rest.len());
        }
        has_moved
    }

    /// Reads on. Ready: there is something to be sent, or the body has ended.
    fn poll_upload(&mut self, deadline: &mut Deadline, cx: &mut Context<'_>) -> Poll<()> {
        let Some(upload) = &mut self.upload else { return Poll::Pending };
        let read = ready!(upload.poll_next(cx));
        upload.excuse(deadline);
        match read {
            Ok(read) => self.rest = read.unwrap_or_default(),
            Err(failure) => {
                self.failure = Some(failure);
                return Poll::Pending;
            }
        }
        self.stream.reserve_capacity(self.rest.len());
        Poll::Ready(())
    }

    fn is_pending(&self) -> bool {
        !self.rest.is_empty() || self.upload.as_ref().is_some_and(|upload| !upload.is_done())
    }

    /// Returns whether the next piece of a file is being read, for which the server waits.
    fn is_reading(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| upload.is_reading())
    }

    /// Returns whether the server waits for the caller of the body.
    fn is_awaiting_caller(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| upload.is_awaiting_caller())
    }

    fn progress(&self) -> ExchangePhase {
        if self.is_pending() { ExchangePhase::Sending } else { ExchangePhase::Waiting }
    }
}

/// A stream behind the head of its response. Dropping it resets the stream, if that has not ended.
pub(crate) struct Http2Body {
    sending: StreamExchange,
    stream: StreamPermit,
    incoming: RecvStream,
    /// The length of the body that the headers state.
    length: Option<u64>,
    body: IncomingBody,
    /// The part of its reservation that is for the headers.
    head_bytes: u64,
    /// The received bytes for which no memory is reserved yet.
    piece: Bytes,
    has_ended: bool,
}

impl Http2Body {
    /// Returns the next piece of the body; see [`next_piece`].
    ///
    /// # Errors
    /// `timeout`, `connection_closed`, `protocol`.
    pub(crate) async fn next(
        &mut self,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
    ) -> Result<Option<BodyChunk>, Failure> {
        next_piece(self, context, deadline).await
    }

    /// Waits for a piece; an empty one may be the end.
    fn poll_piece(&mut self, deadline: &mut Deadline, cx: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        let Self { sending, stream, incoming, .. } = self;
        sending.outgoing.poll(deadline, cx);
        let polled = incoming.poll_data(cx);
        if polled.is_pending() {
            if let Some(failure) = sending.outgoing.failure.take() {
                return Poll::Ready(Err(failure));
            }
            if !sending.outgoing.is_reading() && deadline.poll_passed(cx) {
                return Poll::Ready(Err(self.timed_out(deadline)));
            }
        }
        Poll::Ready(match ready!(polled) {
            Some(Ok(piece)) => return Poll::Ready(Ok(piece)),
            None => {
                self.has_ended = true;
                Ok(Bytes::new())
            }
            // The server has responded before it had the whole request, and wants no more of it (RFC 9113 section 8.1).
            Some(Err(error))
                if error.is_remote()
                    && error.reason() == Some(Code::NO_ERROR)
                    && error.is_reset()
                    && self
                        .length
                        .map_or(sending.awaited.has_ended(), |length| length == self.body.received_bytes()) =>
            {
                self.has_ended = true;
                Ok(Bytes::new())
            }
            Some(Err(error)) => {
                Err(errors::failure(&error, stream.connection.close_reason(), "in the middle of the body"))
            }
        })
    }
}

impl BodySource for Http2Body {
    fn body(&mut self) -> &mut IncomingBody {
        &mut self.body
    }

    fn held_bytes(&self) -> u64 {
        self.body.bytes.capacity() as u64 + self.head_bytes
    }

    fn is_done(&self) -> bool {
        match self.body.wanted {
            WantedBody::AtMost(_) => self.has_ended,
            WantedBody::FirstBytes(_) => self.has_ended || self.body.is_cut,
            WantedBody::Nothing => true,
        }
    }

    fn is_receiving(&self) -> bool {
        !self.incoming.is_end_stream()
    }

    fn poll_fill(
        &mut self,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Fill, Failure>> {
        self.body.check()?;
        if self.piece.is_empty() {
            self.piece = ready!(self.poll_piece(deadline, cx))?;
        }
        let Self { incoming, body, piece, head_bytes, .. } = self;
        if incoming.is_end_stream() {
            body.expect_last(piece.len());
        }
        let needed = body.capacity_for(piece.len()) as u64 + *head_bytes;
        let missing = needed.saturating_sub(body.reservation.bytes());
        if missing > 0 {
            if !context.read_reservation.try_reserve(missing as usize) {
                return Poll::Ready(Ok(Fill::NeedsMemory(missing)));
            }
            context.read_reservation.transfer(&mut body.reservation, missing);
        }
        body.grow_for(piece.len());
        body.append(piece);
        // A stream that has ended in the meantime has no window to give back to.
        let _ = incoming.flow_control().release_capacity(piece.len());
        piece.clear();
        Poll::Ready(Ok(Fill::Came))
    }

    fn timed_out(&self, deadline: &Deadline) -> Failure {
        timed_out(deadline.due().option, false, true)
    }
}

impl fmt::Debug for Http2Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Body").finish_non_exhaustive()
    }
}
