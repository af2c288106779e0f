//! One request and its response over one stream.
//!
//! A server may send no more than a stream's window before we have taken it. It is taken when memory is set aside for it;
//! where there is none, the server waits, and no other stream does.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Error, Reason as Code, RecvStream, SendStream};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, Method, Request, Version};

use crate::http::deadline::{Deadline, OwnWait};
use crate::http::h1::exchange::Means;
use crate::http::h1::head::Head;
use crate::http::h1::meaning::Framing;
use crate::http::h1::response::Wanted;
use crate::http::h2::meter::Awaited;
use crate::http::h2::open_stream::OpenStream;
use crate::http::h2::streams::Stream;
use crate::http::h2::trouble;
use crate::http::patience::{Patience, Progress, timed_out};
use crate::http::received::{Kept, Received};
use crate::http::reply::{NoReply, Replied, Reply};
use crate::http::save::saving::{PIECE_BYTES, Saving};
use crate::http::upload::Upload;
use crate::model::error::{ErrorKind, Failure};
use crate::model::headers::Headers;
use crate::model::memory::Reservation;
use crate::model::message::OptionName;
use crate::model::outcome::Body;
use crate::model::reason::Reason;

/// What a body's memory grows by beyond what came: as much as it has, within these bounds.
const MIN_GROWTH_BYTES: usize = 4096;
const MAX_GROWTH_BYTES: usize = 1024 * 1024;

/// What an exchange came to without an answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The server wants the request over HTTP/1.1.
    WantsHttp1(Failure),
    Other(NoReply),
}

/// A request that is on its way, and what comes back.
pub struct Sending {
    outgoing: Outgoing,
    response: ResponseFuture,
    awaited: Awaited,
    to_head: bool,
    /// What had come over the connection when it was sent.
    heard: u32,
    /// Where the body goes, if it is saved.
    saving: Option<Box<Saving>>,
}

/// A request's body on its way.
struct Outgoing {
    stream: SendStream<Bytes>,
    rest: Bytes,
    /// What of the body is read when `rest` has gone.
    files: Option<Box<Upload>>,
    /// Why that can't be read.
    failure: Option<Failure>,
}

impl Outgoing {
    /// Sends on, as far as the server takes it. One that wants no more is heard when it answers. Whether some of it went.
    fn poll(&mut self, deadline: &mut Deadline, cx: &mut Context<'_>) -> bool {
        let mut has_moved = false;
        while self.is_pending() && self.failure.is_none() {
            if self.rest.is_empty() && !self.poll_files(deadline, cx) {
                break;
            }
            let Poll::Ready(Some(Ok(room))) = self.stream.poll_capacity(cx) else { break };
            let piece = self.rest.split_to(room.min(self.rest.len()));
            has_moved = true;
            if self.stream.send_data(piece, !self.is_pending()).is_err() {
                self.rest.clear();
                self.files = None;
            }
            self.stream.reserve_capacity(self.rest.len());
        }
        has_moved
    }

    /// Reads on. Whether there is something to be sent.
    fn poll_files(&mut self, deadline: &mut Deadline, cx: &mut Context<'_>) -> bool {
        let Some(files) = &mut self.files else { return false };
        let Poll::Ready(read) = files.poll_next(cx) else { return false };
        files.excuse(deadline);
        match read {
            Ok(read) => self.rest = read,
            Err(failure) => self.failure = Some(failure),
        }
        self.stream.reserve_capacity(self.rest.len());
        self.failure.is_none()
    }

    fn is_pending(&self) -> bool {
        !self.rest.is_empty() || self.files.as_ref().is_some_and(|files| !files.is_done())
    }

    /// Whether the server waits for us.
    fn is_reading(&self) -> bool {
        self.files.as_ref().is_some_and(|files| files.is_reading())
    }

    fn progress(&self) -> Progress {
        if self.is_pending() { Progress::Sending } else { Progress::Waiting }
    }
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
        let head = Head {
            status: response.status().as_u16(),
            version: Version::HTTP_2,
            headers: kept(response.headers()),
            framing: Framing::Empty,
            keep_alive: true,
            skipped: 0,
            encoded: !self.to_head && response.headers().contains_key(CONTENT_ENCODING),
        };
        let length = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let mut memory = means.limits.memory.reservation();
        set_aside(head.headers.bytes(), &mut memory, means, deadline).await;
        let mut reader = BodyReader {
            incoming: response.into_body(),
            // What there would be for another method.
            length: length.filter(|_| !self.to_head),
            bytes: Vec::new(),
            handed_out: 0,
            reservation: means.limits.memory.reservation(),
            saving: self.saving.take().filter(|saving| saving.takes(&head, means.limits)),
            cut: false,
        };
        if means.streams && !means.redirects.lead_on(head.status, &head.headers) {
            deadline.expect(None);
            memory.end_overdrawing();
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
        let BodyReader { bytes, reservation, saving, cut, .. } = reader;
        let received = Received { body: Body { bytes, reservation }, cut, failure };
        // Boxed: most bodies have nothing to be undone.
        let kept = match saving {
            Some(saving) => Box::pin(saving.end(received, &head, means.limits, deadline)).await,
            None => {
                Box::pin(received.kept(&head, means.redirects, means.limits, &means.scratch.decoder, deadline)).await
            }
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

fn kept(headers: &HeaderMap) -> Headers {
    let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let mut kept = Headers::with_capacity(headers.len(), bytes);
    for (name, value) in headers {
        kept.push(name.as_str(), value.as_bytes());
    }
    kept
}

/// Sets memory aside for what is about to be taken. Where there is none, the server waits, too.
pub(super) async fn set_aside(bytes: usize, reservation: &mut Reservation, means: &Means<'_>, deadline: &mut Deadline) {
    if means.allowance.covers(bytes) {
        means.allowance.give(reservation, bytes as u64);
    } else if !reservation.try_grow(bytes as u64) {
        let since = Instant::now();
        Box::pin(reservation.grow(bytes as u64)).await;
        // That the memory was full is not the server's fault.
        deadline.excuse(OwnWait::Memory, since.elapsed());
    }
}

pub(super) struct BodyReader {
    pub(super) incoming: RecvStream,
    /// What the head says.
    length: Option<u64>,
    bytes: Vec<u8>,
    /// Bytes of it that were handed out while it comes.
    pub(super) handed_out: u64,
    reservation: Reservation,
    /// Where it goes, if it is saved.
    saving: Option<Box<Saving>>,
    /// There is more of it, which is not wanted.
    cut: bool,
}

impl BodyReader {
    /// How much of it has come.
    fn came(&self) -> u64 {
        let saved = self.saving.as_ref().map_or(0, |saving| saving.handed_over());
        saved + self.handed_out + self.bytes.len() as u64
    }

    /// Reads until the body is whole, or as much of it as is wanted.
    async fn read(
        &mut self,
        wanted: Wanted,
        stream: &Stream,
        sending: &mut Sending,
        means: &Means<'_>,
        deadline: &mut Deadline,
    ) -> Result<(), Failure> {
        let max_bytes = wanted.max_bytes();
        let told = self.length.filter(|length| *length > max_bytes);
        if let (Some(length), Wanted::AtMost(_)) = (told, wanted) {
            return Err(too_large(&format!("{length} bytes"), max_bytes));
        }
        let patience = &means.limits.patience;
        loop {
            if told.is_some() && self.came() == max_bytes {
                self.cut = true;
                return Ok(());
            }
            if patience.is_bounded() {
                deadline.expect(patience.limit(Progress::Receiving, Instant::now()));
            }
            let Some(mut piece) = poll_fn(|cx| self.poll_piece(stream, sending, deadline, cx)).await? else {
                return Ok(());
            };
            let (came, room) = (piece.len(), max_bytes - self.came());
            if came as u64 > room {
                piece.truncate(room as usize);
                self.cut = true;
            }
            self.take_in(&piece, means, deadline).await;
            if self.cut {
                let is_failure = matches!(wanted, Wanted::AtMost(_));
                return if is_failure { Err(too_large("more", max_bytes)) } else { Ok(()) };
            }
            if self.bytes.len() >= PIECE_BYTES
                && let Some(saving) = &mut self.saving
            {
                Box::pin(saving.hand_over(&mut self.bytes, deadline)).await;
                if saving.has_failed() {
                    return Err(Failure::new(ErrorKind::Closed, "the body can't be written"));
                }
            }
            // A stream that has ended in the meantime has no window to give back to.
            let _ = self.incoming.flow_control().release_capacity(came);
            // While data keeps coming, nothing waits, and nothing but this looks at the clock.
            if !self.incoming.is_end_stream() && deadline.due().at <= Instant::now() {
                return Err(timed_out(deadline.due().option, false, true));
            }
        }
    }

    pub(super) fn poll_piece(
        &mut self,
        stream: &Stream,
        sending: &mut Sending,
        deadline: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        sending.outgoing.poll(deadline, cx);
        let polled = self.incoming.poll_data(cx);
        if polled.is_pending()
            && let Some(failure) = sending.outgoing.failure.take()
        {
            return Poll::Ready(Err(failure));
        }
        if polled.is_pending() && !sending.outgoing.is_reading() && deadline.poll_passed(cx) {
            return Poll::Ready(Err(timed_out(deadline.due().option, false, true)));
        }
        Poll::Ready(match ready!(polled) {
            None => Ok(None),
            Some(Ok(piece)) => Ok(Some(piece)),
            // It has answered before it had the whole request, and wants no more of it (RFC 9113 section 8.1).
            Some(Err(error))
                if error.is_remote()
                    && error.reason() == Some(Code::NO_ERROR)
                    && error.is_reset()
                    && self.length.map_or(sending.awaited.has_ended(), |length| length == self.came()) =>
            {
                Ok(None)
            }
            Some(Err(error)) => Err(trouble::failure(&error, stream.connection.end(), "in the middle of the body")),
        })
    }

    async fn take_in(&mut self, piece: &[u8], means: &Means<'_>, deadline: &mut Deadline) {
        let needed = self.bytes.len() + piece.len();
        if needed > self.bytes.capacity() {
            let left = self.length.map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(usize::MAX));
            let growth = self.bytes.len().clamp(MIN_GROWTH_BYTES, MAX_GROWTH_BYTES).max(piece.len());
            let is_last = self.incoming.is_end_stream();
            let capacity = if is_last { needed } else { (self.bytes.len() + growth).min(left).max(needed) };
            let missing = (capacity as u64).saturating_sub(self.reservation.bytes());
            set_aside(missing as usize, &mut self.reservation, means, deadline).await;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
    }
}

fn too_large(bytes: &str, max_bytes: u64) -> Failure {
    let detail = format!("{bytes}, where {max_bytes} bytes are allowed");
    Failure::new(ErrorKind::BodyTooLarge, Reason::new("the body is larger than it may be").with(detail))
        .with_option(OptionName::MaxBodyBytes)
}
