//! One request and its response over one stream.
//!
//! A server may send no more than a stream's window before we have taken it. It is taken when memory is set aside for it;
//! where there is none, the server waits, and no other stream does.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use h2::{Error, RecvStream};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, Method, Request, Version};

use crate::http::deadline::Deadline;
use crate::http::h1::exchange::Means;
use crate::http::h1::head::Head;
use crate::http::h1::meaning::Framing;
use crate::http::h1::response::Wanted;
use crate::http::h2::body_reader::{BodyReader, set_aside};
use crate::http::h2::open_stream::OpenStream;
use crate::http::h2::sending::{Outgoing, Sending};
use crate::http::h2::streams::Stream;
use crate::http::h2::trouble;
use crate::http::patience::{Patience, timed_out};
use crate::http::received::{Kept, Received};
use crate::http::reply::{NoReply, Replied, Reply};
use crate::http::save::saving::Saving;
use crate::http::upload::Upload;
use crate::model::error::{ErrorKind, Failure};
use crate::model::headers::Headers;
use crate::model::outcome::Body;

/// What an exchange came to without an answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The server wants the request over HTTP/1.1.
    WantsHttp1(Failure),
    Other(NoReply),
}

impl Sending {
    /// Sends the head of a request.
    ///
    /// # Errors
    /// The connection takes no more.
    pub fn begin(
        stream: &Stream,
        request: Request<()>,
        body: Bytes,
        files: Option<Box<Upload>>,
        saving: Option<Box<Saving>>,
    ) -> Result<Self, NoAnswer> {
        let files = files.filter(|files| !files.is_done());
        let to_head = *request.method() == Method::HEAD;
        let heard = stream.connection.heard();
        let sent = stream.connection.send(request, body.is_empty() && files.is_none());
        let (response, outgoing, awaited) =
            sent.map_err(|failure| NoAnswer::Other(NoReply { failure, unsent: true, silent: true }))?;
        let mut outgoing = Outgoing { stream: outgoing, rest: body, files, failure: None };
        outgoing.stream.reserve_capacity(outgoing.rest.len());
        Ok(Self { outgoing, response, awaited, to_head, heard, saving })
    }

    /// Goes on until the response is whole, and decodes it.
    ///
    /// # Errors
    /// There was no response.
    ///
    /// Cancelling it resets the stream; the connection stays.
    pub async fn finish(
        mut self,
        stream: Stream,
        means: &Means<'_>,
        deadline: &mut Deadline,
    ) -> Result<Replied<OpenStream>, NoAnswer> {
        match self.head(&means.limits.patience, deadline).await {
            Some(Ok(response)) => self.reply(response, stream, means, deadline).await,
            Some(Err(error)) => Err(no_answer(&stream, &error)),
            None if let Some(failure) = self.outgoing.failure.take() => {
                Err(NoAnswer::Other(NoReply { failure, unsent: false, silent: false }))
            }
            None => {
                stream.connection.doubt(self.heard);
                let failure = timed_out(deadline.due().option, self.outgoing.is_pending(), false);
                Err(NoAnswer::Other(NoReply { failure, unsent: false, silent: false }))
            }
        }
    }

    /// Waits for the head of the response; `None`: it did not come in time, or the request can't be sent whole.
    async fn head(
        &mut self,
        patience: &Patience,
        deadline: &mut Deadline,
    ) -> Option<Result<http::Response<RecvStream>, Error>> {
        if patience.is_bounded() {
            deadline.expect(patience.limit(self.outgoing.progress(), Instant::now()));
        }
        poll_fn(|cx| {
            if self.outgoing.poll(deadline, cx) && patience.is_bounded() {
                deadline.expect(patience.limit(self.outgoing.progress(), Instant::now()));
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
        stream: Stream,
        means: &Means<'_>,
        deadline: &mut Deadline,
    ) -> Result<Replied<OpenStream>, NoAnswer> {
        stream.answered();
        let now = Instant::now();
        let first_byte = now.checked_sub(deadline.excused()).unwrap_or(now);
        let (parts, incoming) = response.into_parts();
        let encoded = !self.to_head && parts.headers.contains_key(CONTENT_ENCODING);
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        // A header that HPACK names by a number is shared until it is copied, so a hundred bytes can become 300 KiB here.
        let head_bytes = copied_bytes(&parts.headers);
        let mut reservation = means.limits.memory.reservation();
        set_aside(head_bytes, &mut reservation, means, deadline).await;
        let head = Head {
            status: parts.status.as_u16(),
            version: Version::HTTP_2,
            headers: kept(&parts.headers),
            framing: Framing::Empty,
            keep_alive: true,
            skipped: 0,
            encoded,
        };
        drop(parts);
        let mut memory = means.limits.memory.reservation();
        let mut reader = BodyReader {
            incoming,
            // What there would be for another method.
            length: length.filter(|_| !self.to_head),
            bytes: Vec::new(),
            handed_out: 0,
            // One for the headers and the body, so that a response which overdraws never waits for itself.
            reservation,
            head_bytes: head_bytes as u64,
            saving: self.saving.take().filter(|saving| saving.takes(&head, means.limits)),
            cut: false,
        };
        if means.streams && !means.redirects.lead_on(head.status, &head.headers) {
            deadline.expect(None);
            reader.move_head_reservation(&mut memory);
            reader.reservation.end_overdrawing();
            let open = Some(OpenStream::new(self, reader, stream, matches!(head.status, 204 | 304)));
            return Ok(Replied { reply: Reply::headed(head, memory, first_byte), open });
        }
        let failure = match Wanted::of(means.limits) {
            // There is none, and the end of it is not compared with a content-length that speaks of another answer.
            _ if matches!(head.status, 204 | 304) => None,
            // The stream is reset: nobody reads the body of a redirect.
            _ if means.redirects.lead_on(head.status, &head.headers) => None,
            // Dropped unread, the stream is reset, and nothing else of the connection waits for it.
            Wanted::Nothing => None,
            wanted => reader.read(wanted, &stream, &mut self, means, deadline).await.err(),
        };
        deadline.expect(None);
        let body_bytes = reader.came();
        reader.move_head_reservation(&mut memory);
        let BodyReader { bytes, reservation, saving, cut, .. } = reader;
        let received = Received { body: Body { bytes, reservation }, cut, failure };
        let kept = match saving {
            Some(saving) => Box::pin(saving.end(received, &head, means.limits, deadline)).await,
            None => received.kept(&head, &means.redirects, means.limits, &means.scratch.decoder, deadline).await,
        };
        let Kept { body, body_encoding, truncated, saved, failure } = kept;
        let reusable = true;
        let reply =
            Reply { head, memory, first_byte, body, body_encoding, truncated, body_bytes, saved, failure, reusable };
        Ok(Replied { reply, open: None })
    }
}

fn no_answer(stream: &Stream, error: &Error) -> NoAnswer {
    let failure = trouble::failure(error, stream.connection.end(), "without an answer");
    if trouble::wants_http1(error) {
        return NoAnswer::WantsHttp1(failure);
    }
    let unsent = trouble::did_nothing(error);
    let silent = failure.kind == ErrorKind::Closed && !error.is_remote() && stream.connection.has_answered();
    NoAnswer::Other(NoReply { failure, unsent, silent })
}

/// What a copy of these headers takes.
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
