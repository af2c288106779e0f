//! One attempt at a lane's row: from the row to its outcome in a batch, or back to the scheduler.
//!
//! Between a request and its response a lane keeps its connection and when the attempt began, and nothing else: all that comes
//! before is done in one poll, and so is all that comes after. Ten thousand lanes that wait are then as many looks into cold
//! memory as there have to be. Whatever is rare is boxed, each part by itself: ten thousand lanes that connect at once need no
//! memory for an exchange.

mod conclude;
mod cookies;
mod credentials;
mod head;
mod record;
mod robots;
mod schedule;
mod select;
mod stream_body;
mod whole_response;

use std::future::poll_fn;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use headgate_core::call::CallStage;
use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::row::{BodyPiece, Row};
use headgate_core::timer::sleep_until;
use headgate_http::client::{Expected, LaneReadiness, LaneState, Opening, Pending};
use headgate_http::deadline::OwnWait;
use headgate_http::exchange_context::ExchangeContext;
use headgate_http::method;
use headgate_http::redirect::Redirects;
use headgate_http::save::saving::Saving;
use headgate_http::sent_body::{BodyRest, end_head};
use headgate_http::site::Site;
use headgate_http::upload::{Upload, UploadSource};
use http::Method;

use crate::engine::gathered::Batch;
use crate::engine::lanes::{LaneIndex, Span};
use crate::engine::share::Share;
use crate::stats::lanes::Wait;

/// An attempt at the row of a lane. The row stays in [`Lanes`](crate::engine::lanes::Lanes) meanwhile, so that it can be seen and
/// cancelled there.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    share: &'a Share,
    lane: LaneIndex,
    started: Instant,
}

/// One sending of an attempt's request: a redirect or a resend begins another one.
#[derive(Default)]
struct Sending {
    /// `None`: the request was not made yet.
    site: Option<Rc<Site>>,
    /// Its body, if that is read while it is sent, once it was begun.
    upload: Option<Box<Upload>>,
    /// Its connection was made for it.
    on_new_connection: bool,
    /// A connection was made for it, and not a stream on one that there was.
    has_connected: bool,
    /// A rate limiter has let it pass, or there is none.
    may_start: bool,
}

/// How far sending a request has come.
enum Sent {
    Whole,
    Pending(Pending),
    /// Nothing was sent: this is needed before.
    Needs(Need),
}

/// What a request may need before it can be sent.
enum Need {
    Connection,
    /// The lengths of the files in its body.
    Files(Arc<[BodyPiece]>),
    /// It can't be sent twice, and the connection has to stay open until then to prove that it is usable.
    ProvenConnection(Instant),
    /// The time that a rate limiter has reserved for it.
    Turn(SendAt),
}

/// When a request may be sent for which a rate limiter has reserved a time.
#[derive(Debug, Clone, Copy)]
struct SendAt {
    awake: Instant,
    /// As real time, as stalls were known when it was reserved.
    real: Instant,
    reserved: Instant,
}

/// Where a row is after something was done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowNow {
    /// In its lane, as before.
    InLane,
    /// It waits at the scheduler, and the lane is free.
    Requeued,
}

/// What follows a step of an attempt.
enum Next {
    /// The request is sent, perhaps not for the first time.
    Send,
    /// The attempt has ended.
    Done(Batch),
}

/// An attempt has ended without a response.
struct NoResponse {
    failure: Failure,
    /// `None`: the request could not even be made, and the attempt doesn't count.
    tried: Option<Tried>,
}

/// The attempt of a request that had no response.
#[derive(Default)]
struct Tried {
    /// The remote address of its connection, if it had one.
    remote_addr: Option<Arc<str>>,
    has_connected: bool,
}

impl From<RowNow> for Next {
    fn from(now: RowNow) -> Self {
        match now {
            RowNow::InLane => Self::Send,
            RowNow::Requeued => Self::Done(Batch::HasRoom),
        }
    }
}

impl NoResponse {
    fn not_tried(failure: Failure) -> Self {
        Self { failure, tried: None }
    }

    fn not_sent(failure: Failure) -> Self {
        Self { failure, tried: Some(Tried::default()) }
    }
}

/// Returns the failure of a row whose origin refuses the credentials.
pub(super) fn refused() -> Failure {
    Failure::new(ErrorKind::Credentials, "its origin has refused the credentials of many rows").lasting()
}

impl<'a> Attempt<'a> {
    pub(super) fn new(share: &'a Share, lane: LaneIndex, started: Instant) -> Self {
        Self { share, lane, started }
    }

    /// Makes the attempt, and records the row's outcome or requeues the row. Returns whether a batch is full.
    ///
    /// Cancelling it closes the connection, or resets the stream.
    pub(super) async fn run(mut self, state: &mut LaneState) -> Batch {
        state.from_outside = self.is_from_outside();
        self.skip_refused_head();
        if let Some(failure) = self.refusal(state).await {
            return Box::pin(self.fail(NoResponse::not_tried(failure), state)).await;
        }
        if self.share.shared.robots.is_some() {
            self.started = clock::now();
        }
        self.set_deadline(state);
        match self.request(state).await {
            Ok(batch) => batch,
            Err(none) => Box::pin(self.fail(none, state)).await,
        }
    }

    /// Sends the request until it has its response.
    async fn request(self, state: &mut LaneState) -> Result<Batch, NoResponse> {
        let mut sending = self.begin_sending(state);
        let mut is_first = true;
        loop {
            // After a wait, the timer may have fired since the attempt began.
            let mut just_begun = mem::take(&mut is_first);
            let sent = poll_fn(|cx| Poll::Ready(self.send(&mut sending, state, cx))).await;
            let next = match sent.map_err(NoResponse::not_tried)? {
                Sent::Whole => {
                    match poll_fn(|cx| self.poll_response(&sending, mem::take(&mut just_begun), state, cx)).await {
                        Ok(batch) => return Ok(batch),
                        Err(pending) => Box::pin(self.finish(pending, &mut sending, state)).await?,
                    }
                }
                Sent::Pending(pending) => Box::pin(self.finish(pending, &mut sending, state)).await?,
                Sent::Needs(Need::Connection) => Box::pin(self.connect(&mut sending, state)).await?,
                Sent::Needs(need) => Box::pin(self.obtain(need, &mut sending, state)).await?,
            };
            if let Next::Done(batch) = next {
                return Ok(batch);
            }
        }
    }

    fn begin_sending(&self, state: &mut LaneState) -> Sending {
        state.begin();
        Sending { may_start: !self.share.shared.scheduler.counts_sends(), ..Sending::default() }
    }

    /// Sends the request, if nothing is missing for that.
    ///
    /// # Errors
    /// No request can be made of the row.
    fn send(&self, sending: &mut Sending, state: &mut LaneState, cx: &mut Context<'_>) -> Result<Sent, Failure> {
        let client = &self.share.client;
        let mut wire = client.scratch.write.borrow_mut();
        let (site, rest) = self.share.lanes.begin(self.lane, self.started, |row| {
            let (site, rest, cookies) = self.share.preparer.borrow_mut().write(row, &mut wire)?;
            row.note_headers(site.version, cookies);
            Ok((site, rest))
        })?;
        let site = &*sending.site.insert(site);
        if self.share.shared.has_refused_origins.load(Ordering::Relaxed)
            && site.credentials.as_ref().is_some_and(|credentials| credentials.is_refused())
        {
            return Err(refused());
        }
        let body = match rest {
            BodyRest::Bytes(body) => body,
            BodyRest::Upload(source) => {
                let upload = match (&mut sending.upload, source) {
                    (Some(upload), _) => upload,
                    (None, UploadSource::Files(pieces)) => return Ok(Sent::Needs(Need::Files(pieces))),
                    (none, UploadSource::Stream(stream)) => none.insert(Upload::of_stream(stream)?),
                };
                end_head(upload.length(), &mut wire);
                self.share.lanes.change(self.lane, |row| row.note_upload_length(upload.length()));
                Bytes::new()
            }
        };
        match client.ready(site, sending.on_new_connection, || self.can_send_twice(), state, cx) {
            LaneReadiness::Ready => {}
            LaneReadiness::NoConnection => return Ok(Sent::Needs(Need::Connection)),
            LaneReadiness::Unproven(until) => return Ok(Sent::Needs(Need::ProvenConnection(until))),
        }
        if !sending.may_start
            && let Some(at) = self.reserve_send(clock::now())
        {
            return Ok(Sent::Needs(Need::Turn(at)));
        }
        let (request, timeouts) = ((&**wire, body, &mut sending.upload), &self.share.shared.limits.response.timeouts);
        let pending = client.send(site, request, timeouts, || self.expected(), state, cx)?;
        self.share.lanes.note_sent(self.lane);
        Ok(pending.map_or(Sent::Whole, Sent::Pending))
    }

    /// Obtains what the request needs.
    async fn obtain(self, need: Need, sending: &mut Sending, state: &mut LaneState) -> Result<Next, NoResponse> {
        match need {
            Need::Connection => return self.connect(sending, state).await,
            Need::Files(pieces) => match self.open_files(pieces, state).await {
                Ok(files) => sending.upload = Some(files),
                Err(failure) => {
                    self.count_own_waits(state);
                    return Err(NoResponse::not_tried(failure));
                }
            },
            Need::ProvenConnection(until) => sleep_until(until).await,
            Need::Turn(at) => {
                self.row(|row| row.record(CallStage::Rate));
                self.share.waiting(Wait::RateLimiter, self.wait_to_send(at)).await;
                sending.may_start = true;
            }
        }
        Ok(self.requeue_unsent(state).into())
    }

    /// Makes a connection for the request.
    async fn connect(self, sending: &mut Sending, state: &mut LaneState) -> Result<Next, NoResponse> {
        if let Some(site) = &sending.site {
            let limits = &self.share.shared.limits;
            let own = self.row(|row| row.own().and_then(|own| own.connect_timeout));
            let record = |stage| self.row(|row| row.record(stage));
            let opening = Opening { timeout: own.unwrap_or(limits.connect_timeout), record: &record };
            let opened = self.share.client.open(site, limits, opening, state).await;
            self.share.count_wait(Wait::Dns, state.take_waited_for_dns());
            self.share.count_wait(Wait::Stream, state.take_waited_for_stream());
            let connected = state.take_connected();
            sending.has_connected |= connected.connections > 0;
            self.share.count_wait(Wait::Connection, connected.time);
            self.share.stats().figures.connections += connected.connections;
            opened.map_err(NoResponse::not_sent)?;
        }
        sending.on_new_connection = true;
        Ok(self.requeue_unsent(state).into())
    }

    /// Opens the files of a body. The server is not to blame for the time that this takes.
    async fn open_files(self, pieces: Arc<[BodyPiece]>, state: &mut LaneState) -> Result<Box<Upload>, Failure> {
        let begun = clock::now();
        let files = Upload::begin(pieces, self.share.shared.limits.response.memory.clone()).await;
        state.deadline.excuse(OwnWait::Files, clock::elapsed(begun));
        files
    }

    /// Returns why the row may not be requested at all, if so.
    async fn refusal(self, state: &mut LaneState) -> Option<Failure> {
        if self.row(Row::is_unwanted) {
            return Some(Failure::new(ErrorKind::Cancelled, "it was cancelled before it was sent"));
        }
        self.share.shared.robots.as_ref()?;
        self.row(|row| row.record(CallStage::Robots));
        Box::pin(self.objection(state)).await
    }

    /// Looks at the row.
    fn row<T>(&self, look: impl FnOnce(&Row) -> T) -> T {
        self.share.lanes.look(self.lane, look)
    }

    /// Returns how the response is read, where that takes more than one read.
    fn expected(&self) -> Expected<'a> {
        let to_head = self.is_head();
        let saver = self.share.shared.limits.response.saver.as_ref().filter(|_| !to_head);
        let saving = saver.and_then(|saver| self.row(|row| Saving::of(saver, row)));
        Expected { context: self.exchange_context(), to_head, saving }
    }

    fn exchange_context(&self) -> ExchangeContext<'a> {
        let share = self.share;
        ExchangeContext {
            redirects: self.redirects(),
            streams: self.is_streamed(),
            max_body_size: self.own_max_body_size().unwrap_or(share.shared.limits.response.max_body_size),
            ..share.client.exchange_context(&share.shared.limits, &share.read_reservation)
        }
    }

    /// Returns how redirects are followed for this row.
    fn redirects(&self) -> Redirects {
        self.row(|row| self.share.shared.limits.response.redirects.of(row, self.share.method_now(row)))
    }

    /// Returns whether a response with this status may be a redirect that is followed.
    fn may_redirect(&self, status: u16) -> bool {
        self.row(|row| self.share.shared.limits.response.redirects.may_follow(row, status))
    }

    /// Returns whether a server outside has redirected the row.
    fn is_from_outside(&self) -> bool {
        self.row(|row| row.chain().is_some_and(|chain| chain.from_outside))
    }

    /// Returns whether the body of the response is handed out as it comes.
    fn is_streamed(&self) -> bool {
        self.row(|row| row.stream().is_some())
    }

    /// Returns the row's own bound of the body, if it has one.
    fn own_max_body_size(&self) -> Option<u64> {
        self.row(|row| row.own().and_then(|own| own.max_body_size))
    }

    fn is_head(&self) -> bool {
        self.row(|row| self.share.method_now(row) == Method::HEAD.as_str())
    }

    fn is_idempotent(&self) -> bool {
        self.row(|row| method::is_idempotent(self.share.method_now(row)))
    }

    /// Returns whether the request may be sent once more if a connection that was used before turns out to be closed.
    fn can_send_twice(&self) -> bool {
        self.is_idempotent() && !self.row(Row::has_single_use_body)
    }

    /// Returns when the attempt began and how long the server took: what it has waited for this process is no part of that.
    fn span(&self, state: &mut LaneState) -> Span {
        state.deadline.excuse_stalls(clock::now());
        let excused = state.deadline.excused();
        self.count_own_waits(state);
        Span { started: self.started, elapsed: clock::elapsed(self.started).saturating_sub(excused) }
    }

    /// Counts the time that was spent waiting for this process; the next attempt begins without it.
    fn count_own_waits(&self, state: &mut LaneState) {
        let own_waits = [
            (Wait::Memory, OwnWait::Memory),
            (Wait::Decoder, OwnWait::Decoder),
            (Wait::Files, OwnWait::Files),
            (Wait::Sink, OwnWait::Disk),
        ];
        for (wait, own) in own_waits {
            self.share.count_wait(wait, state.deadline.take_excused(own));
        }
        state.deadline.take_excused(OwnWait::Stall);
    }
}
