//! A row of the input as the engine carries it, before it is validated; its outcome, and the caller that receives it.

use std::fmt;
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Version};

use crate::body_stream::BodyStream;
use crate::call::{CallLimits, CallProgress, CallStage};
use crate::clock;
use crate::credentials::AUTHORIZATION;
use crate::error::Failure;
use crate::files::open_file::OpenFile;
use crate::limits::Retrying;
use crate::memory::Reservation;
use crate::options::RedirectPolicy;
use crate::reason::Reason;
use crate::redirect_chain::{Hop, RedirectChain};
use crate::response::{Response, ResponseRef};
use crate::saved::SaveAs;
use crate::secret::Secret;
use crate::selected::{SelectValues, SelectedValues};
use crate::upload_stream::UploadStream;

/// The maximum number of rows in one [`RowBatch`].
pub const MAX_BATCH_ROWS: usize = 1024;
/// Bytes of rows (URLs, headers, bodies, kept columns) after which a source ends a batch early.
pub const MAX_BATCH_BYTES: usize = 1024 * 1024;
/// A URL longer than this is an `invalid_request`; servers refuse far shorter ones.
pub const MAX_URL_BYTES: usize = 64 * 1024;

/// Returns how many rows make a batch, by the mean size of `rows` rows in `bytes` bytes.
pub fn rows_of_a_batch(bytes: u64, rows: u64) -> usize {
    let row_bytes = bytes / rows.max(1);
    (MAX_BATCH_BYTES / usize::try_from(row_bytes).unwrap_or(usize::MAX).max(1)).clamp(1, MAX_BATCH_ROWS)
}

/// One row of the input, identified by its ordinal. Small on purpose: most rows are only a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// 0-based position in the input.
    pub ordinal: u64,
    /// As written in the input, not yet parsed. Invalid UTF-8 was replaced, and `defect` says so.
    pub url: Box<str>,
    /// The fields that most rows do not have.
    pub extra: Option<Box<RowExtra>>,
    /// The receiver of its outcome; `None`: it goes to the sink.
    pub reply_to: Option<Arc<ReplyTo>>,
    /// `None`: its first attempt is yet to come, or has not been redirected.
    pub progress: Option<Box<RowProgress>>,
}

/// The progress of a row so far, which is no part of the input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowProgress {
    /// Its earlier attempts, if there were any.
    before: Option<Before>,
    /// The redirect chain of its attempt, if it was redirected.
    chain: Option<Box<RedirectChain>>,
    /// Whether a server has refused its HEAD.
    head_was_refused: bool,
    /// What its last request has, beside the row, if a caller waits for the row; `None`: no request was sent.
    sent: Option<SentHeaders>,
}

/// The headers of a request that are not its row's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SentHeaders {
    /// The version of the run's headers.
    version: u64,
    /// The cookies that servers have set.
    cookies: Option<HeaderValue>,
    /// The length of a body that is read while it is sent, once it is known whether it has a known length.
    #[expect(clippy::option_option, reason = "no body that was read while it was sent, or one without a known length")]
    upload_length: Option<Option<u64>>,
}

/// Headers of a request: names and values in the order of the input, repeats kept.
pub type RowHeaders = Vec<(Box<str>, Box<[u8]>)>;

/// Headers that are credentials: names and values.
pub(crate) type RowCredentials = Vec<(Box<str>, Secret<Box<[u8]>>)>;

/// The optional columns of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowExtra {
    /// `None`: the job's default method.
    pub method: Option<Box<str>>,
    /// They replace the job's default headers of the same name.
    pub headers: RowHeaders,
    /// Headers from columns that are credentials: they are sent where the job's credentials are.
    pub credentials: RowCredentials,
    /// `None`: the job's default body.
    pub body: Option<RowBody>,
    /// The media type of that body, unless a header has it.
    pub body_type: Option<Arc<str>>,
    /// The columns to carry into the result, encoded by `KeptCodec::encode`.
    pub kept: Option<Box<[u8]>>,
    /// Why the source could not make a request of this row (a ragged line, broken UTF-8, headers that are not an object):
    /// the row becomes an `invalid_request` for this reason, and the job continues.
    pub defect: Option<Reason>,
    /// Its use of a limit on costs, from a column, or the length of a body with files. `None`: it uses 1.
    pub cost: Option<u64>,
    /// The file for its body, if it is saved.
    pub save_as: Option<Arc<SaveAs>>,
    /// Options of the run that this row overrides.
    pub own: Option<Box<OwnOptions>>,
}

/// Options of a single row. `None` or `false`: the option of the run applies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnOptions {
    pub timeout: Option<Duration>,
    pub connect_timeout: Option<Duration>,
    pub retrying: OwnRetrying,
    pub max_body_size: Option<u64>,
    pub redirects: Option<RedirectPolicy>,
    pub max_redirects: Option<u32>,
    /// No header of the run that is a credential is sent.
    pub without_credentials: bool,
    /// The names of headers of the run that are not sent.
    pub without_headers: Vec<Box<str>>,
    /// The stream for its body, which replaces the body of its outcome.
    pub stream: Option<Arc<BodyStream>>,
}

impl OwnOptions {
    /// Returns whether the run's header of this name is not sent.
    pub fn is_without_header(&self, name: &str) -> bool {
        self.without_headers.iter().any(|removed| removed.eq_ignore_ascii_case(name))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.without_headers.iter().map(|name| size_of_val(name) + name.len()).sum::<usize>()
    }
}

/// Options of a single row that decide whether it is retried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnRetrying {
    pub retries: Option<u16>,
    pub total_timeout: Option<TotalTimeout>,
    /// The longest pause that its host may request while the row waits for it.
    pub max_pause: Option<Duration>,
}

/// When the total timeout of a row passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TotalTimeout {
    /// So long after its first attempt has begun.
    After(Duration),
    /// At this time, whether or not an attempt has begun: a caller waits for the row.
    At(Instant),
}

impl OwnRetrying {
    /// Returns how often the row is retried.
    pub(crate) fn retries(&self, rules: &Retrying) -> u16 {
        self.retries.unwrap_or(rules.retries)
    }

    /// Returns when the total timeout passes of a row whose first attempt began at `first`; `timeout`: that of the run.
    pub fn ends_at(&self, first: Instant, timeout: Option<Duration>) -> Option<Instant> {
        match self.total_timeout {
            Some(TotalTimeout::At(at)) => Some(at),
            Some(TotalTimeout::After(timeout)) => Some(first + timeout),
            None => timeout.map(|timeout| first + timeout),
        }
    }
}

/// The body of a row's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowBody {
    Bytes(Bytes),
    /// Pieces, in the order in which they are sent.
    Pieces(Arc<[BodyPiece]>),
    /// Bytes that the caller makes while they are sent.
    Stream(Arc<UploadStream>),
}

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyPiece {
    Bytes(Bytes),
    /// The contents of a file at the time of sending.
    File(Box<Path>),
    /// The contents of a file that a row has named: it is below this directory, and no link leads to it.
    FileBelow(Arc<Path>, Box<Path>),
    /// A range of an open file.
    OpenFile(Arc<OpenFile>),
}

impl RowBody {
    /// Returns how many bytes of it are in memory.
    pub(crate) fn bytes_in_memory(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Pieces(pieces) => pieces.iter().map(BodyPiece::bytes_in_memory).sum(),
            Self::Stream(_) => size_of::<UploadStream>(),
        }
    }
}

impl BodyPiece {
    fn bytes_in_memory(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(path) | Self::FileBelow(_, path) => path.as_os_str().len(),
            Self::OpenFile(file) => size_of::<OpenFile>() + file.name.len(),
        }
    }
}

impl<T: Into<Bytes>> From<T> for RowBody {
    fn from(bytes: T) -> Self {
        Self::Bytes(bytes.into())
    }
}

/// Attempts of a row that have ended, and were retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    pub attempts: u16,
    /// When the first one began.
    pub first: Instant,
    /// One of them was refused for its credentials, and was retried for that.
    pub was_refused: bool,
}

impl RowExtra {
    /// Returns whether the request differs from the run's own in nothing but the URL.
    pub fn has_only_own_url(&self) -> bool {
        let Self { method, headers, credentials, body, body_type: _, kept: _, defect, cost: _, save_as: _, own } = self;
        let has_own = !headers.is_empty() || !credentials.is_empty() || body.is_some();
        let is_without_some = |own: &OwnOptions| own.without_credentials || !own.without_headers.is_empty();
        method.is_none() && !has_own && defect.is_none() && !own.as_deref().is_some_and(is_without_some)
    }

    fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        let credentials = self.credentials.iter().map(|(name, value)| name.len() + value.expose().len() + 32);
        let body = self.body.as_ref().map_or(0, RowBody::bytes_in_memory);
        let kept = self.kept.as_ref().map_or(0, |kept| kept.len());
        let save_as = self.save_as.as_ref().map_or(0, |save_as| save_as.bytes());
        let own = self.own.as_ref().map_or(0, |own| own.bytes());
        size_of::<RowExtra>() + headers + credentials.sum::<usize>() + body + kept + save_as + own
    }
}

impl RowProgress {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.chain.as_ref().map_or(0, |chain| chain.bytes())
    }
}

impl Row {
    pub fn new(ordinal: u64, url: impl Into<Box<str>>) -> Self {
        Self { ordinal, url: url.into(), extra: None, reply_to: None, progress: None }
    }

    /// Returns the results of earlier attempts, if there were any.
    pub fn before(&self) -> Option<Before> {
        self.progress.as_ref().and_then(|progress| progress.before)
    }

    pub(crate) fn set_before(&mut self, before: Before) {
        self.progress.get_or_insert_default().before = Some(before);
    }

    /// Sets its method, which replaces that of the run.
    pub fn set_method(&mut self, method: &str) {
        self.extra.get_or_insert_default().method = Some(method.into());
    }

    /// Counts a HEAD that a server has refused as an attempt of its own, which is no retry.
    pub fn count_refused_head(&mut self) {
        self.progress.get_or_insert_default().head_was_refused = true;
    }

    /// Returns its redirect chain, if it was redirected or a server has refused its HEAD.
    pub fn chain(&self) -> Option<&RedirectChain> {
        self.progress.as_ref().and_then(|progress| progress.chain.as_deref())
    }

    /// Returns the options of the run that this row overrides.
    pub fn own(&self) -> Option<&OwnOptions> {
        self.extra.as_ref().and_then(|extra| extra.own.as_deref())
    }

    /// Returns its own options that decide whether it is retried.
    pub fn own_retrying(&self) -> OwnRetrying {
        let own = self.own().map_or_else(OwnRetrying::default, |own| own.retrying);
        match self.reply_to.as_ref().and_then(|reply_to| reply_to.call) {
            Some(CallLimits { ends_at, max_pause }) => {
                OwnRetrying { total_timeout: Some(TotalTimeout::At(ends_at)), max_pause: Some(max_pause), ..own }
            }
            None => own,
        }
    }

    /// Returns whether it is not retried, unlike other rows of the run.
    pub(crate) fn has_no_retries(&self) -> bool {
        self.own().is_some_and(|own| own.retrying.retries == Some(0))
    }

    /// Records what its next attempt waits for, or that its request was sent, for a caller that waits.
    pub fn record(&self, stage: CallStage) {
        if let Some(reply_to) = &self.reply_to {
            reply_to.progress.record(stage, self.attempts_before() + 1);
        }
    }

    /// Records that it waits for its next attempt, or for the next request of its attempt.
    pub(crate) fn record_wait(&self) {
        if let Some(reply_to) = &self.reply_to {
            reply_to.progress.record(CallStage::Waiting, self.attempts_begun());
        }
    }

    /// Returns the stream for its body; `None`: the body is kept.
    pub fn stream(&self) -> Option<&Arc<BodyStream>> {
        self.own().and_then(|own| own.stream.as_ref())
    }

    /// Returns whether its body can't be sent any more; see [`UploadStream::is_consumed`].
    pub fn is_body_consumed(&self) -> bool {
        let body = self.extra.as_ref().and_then(|extra| extra.body.as_ref());
        matches!(body, Some(RowBody::Stream(stream)) if stream.is_consumed())
    }

    /// Returns whether its next request needs a body that can't be sent any more.
    pub fn needs_consumed_body(&self) -> bool {
        self.is_body_consumed() && self.chain().is_none_or(|chain| chain.method.is_none())
    }

    /// Returns whether its body can be sent only once.
    pub fn has_single_use_body(&self) -> bool {
        let body = self.extra.as_ref().and_then(|extra| extra.body.as_ref());
        matches!(body, Some(RowBody::Stream(stream)) if !stream.is_rewindable())
    }

    /// Returns whether its request has none of the run's credentials, or another `authorization`.
    pub fn replaces_credentials(&self) -> bool {
        let replaces = |extra: &RowExtra| {
            extra.own.as_ref().is_some_and(|own| own.without_credentials || own.is_without_header(AUTHORIZATION))
                || extra.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION))
        };
        self.extra.as_deref().is_some_and(replaces)
    }

    /// Returns the receiver of its outcome, if it follows the attempts of the row.
    pub fn follower(&self) -> Option<&Arc<ReplyTo>> {
        self.reply_to.as_ref().filter(|reply_to| reply_to.waits_since.is_some())
    }

    /// Returns a copy to be shown: without its receiver, and without a body that is read while it is sent.
    #[must_use]
    pub fn to_shown(&self) -> Self {
        let mut row = Self { reply_to: None, ..self.clone() };
        if let Some(extra) = &mut row.extra {
            extra.body.take_if(|body| !matches!(body, RowBody::Bytes(_)));
            if let Some(own) = &mut extra.own {
                own.stream = None;
            }
        }
        row
    }

    /// Returns whether a caller waited for its outcome, and does not any more.
    pub fn is_unwanted(&self) -> bool {
        self.reply_to.as_ref().is_some_and(|reply_to| !reply_to.is_waited_for())
    }

    /// Returns the URL of its next request: its own, or the last one of its redirects.
    pub fn target(&self) -> &str {
        self.chain().map_or(&self.url, |chain| &chain.url)
    }

    /// Returns the redirects that were kept of it.
    pub fn hops(&self) -> &[Hop] {
        self.chain().map_or(&[], |chain| &chain.hops)
    }

    /// Takes its redirect chain: the next request is the row's own again.
    pub fn remove_chain(&mut self) -> Option<Box<RedirectChain>> {
        self.progress.as_mut().and_then(|progress| progress.chain.take())
    }

    /// Sets its redirect chain, whose last request is yet to be sent.
    pub fn set_chain(&mut self, chain: Box<RedirectChain>) {
        let progress = self.progress.get_or_insert_default();
        (progress.chain, progress.sent) = (Some(chain), None);
    }

    /// Returns what its last request has if a caller waits for the row: the version of the run's headers, and the cookies that
    /// servers have set. `None`: no request was sent.
    pub fn sent_headers(&self) -> Option<(u64, Option<&HeaderValue>)> {
        self.sent().map(|sent| (sent.version, sent.cookies.as_ref()))
    }

    fn sent(&self) -> Option<&SentHeaders> {
        self.progress.as_ref().and_then(|progress| progress.sent.as_ref())
    }

    /// Returns the length of the body of its last request, if that is read while it is sent, and if a caller waits for the row.
    /// `None`: nothing was sent.
    pub fn upload_length(&self) -> Option<Option<u64>> {
        self.sent().and_then(|sent| sent.upload_length)
    }

    /// Notes the version of the run's headers and the cookies with which its request is sent.
    pub fn note_headers(&mut self, version: u64, cookies: Option<HeaderValue>) {
        if self.reply_to.is_some() {
            self.progress.get_or_insert_default().sent = Some(SentHeaders { version, cookies, upload_length: None });
        }
    }

    /// Notes the length of the body of its request, which is read while it is sent.
    pub fn note_upload_length(&mut self, length: Option<u64>) {
        if let Some(sent) = self.progress.as_mut().and_then(|progress| progress.sent.as_mut()) {
            sent.upload_length = Some(length);
        }
    }

    /// Takes the reservation of its redirect chain, which then has none.
    pub fn remove_chain_memory(&mut self) -> Reservation {
        let chain = self.progress.as_mut().and_then(|progress| progress.chain.as_mut());
        chain.map(|chain| mem::take(&mut chain.memory.0)).unwrap_or_default()
    }

    /// Returns when its first attempt began, if one began before the current one.
    pub fn first_began(&self) -> Option<Instant> {
        let earlier = self.chain().and_then(|chain| chain.earlier).map(|earlier| earlier.began);
        self.before().map(|before| before.first).or(earlier)
    }

    /// Returns the number of attempts before the next one.
    pub fn attempts_before(&self) -> u16 {
        let refused_head = self.progress.as_ref().is_some_and(|progress| progress.head_was_refused);
        self.before().map_or(0, |before| before.attempts) + u16::from(refused_head)
    }

    /// Returns the number of attempts that have begun, while it waits: one of them may continue at the host of a redirect.
    pub fn attempts_begun(&self) -> u16 {
        self.attempts_before() + u16::from(self.chain().is_some_and(|chain| chain.earlier.is_some()))
    }

    /// Returns about how much memory it needs.
    pub fn bytes(&self) -> usize {
        size_of::<Row>()
            + self.url.len()
            + self.extra.as_ref().map_or(0, |extra| extra.bytes())
            + self.progress.as_ref().map_or(0, |progress| progress.bytes())
    }
}

/// Consecutive rows of a source.
pub type RowBatch = Vec<Row>;

/// Receives the outcomes of rows that a caller submits one by one. Called from the threads of workers: nothing here may block.
pub trait OutcomeReceiver: Send + Sync {
    /// Takes the outcome of the row of this number, and whether the row failed.
    fn receive(&self, number: u64, outcome: Outcome, failed: bool);

    /// Reports that the row of this number will have no outcome: its run has ended.
    fn lost(&self, number: u64);

    /// Takes an attempt that has ended at the row of this number, if the receiver follows attempts.
    fn attempt_ended(&self, number: u64, attempt: Box<AttemptRecord>);

    /// Returns whether the caller still waits. Rows without a waiting caller are not requested any more.
    fn waits(&self) -> bool;

    /// Returns what is selected from the responses to its rows; `None`: what the run selects.
    fn selection(&self) -> Option<&Arc<dyn SelectValues>>;
}

/// The destination of a row's outcome. The receiver is notified exactly once, whatever becomes of the row.
pub struct ReplyTo {
    receiver: Arc<dyn OutcomeReceiver>,
    number: u64,
    was_notified: AtomicBool,
    /// `Some`: the receiver waits for this row alone.
    call: Option<CallLimits>,
    progress: CallProgress,
    /// Since when the row waits for its next attempt; `None`: the receiver does not follow its attempts.
    waits_since: Option<Mutex<Instant>>,
}

impl ReplyTo {
    /// Creates the reply for a row; `number` identifies the row to the receiver. `call`: its limits, if it is one. If it is
    /// `followed`, the receiver gets its attempts.
    pub fn new(receiver: Arc<dyn OutcomeReceiver>, number: u64, call: Option<CallLimits>, followed: bool) -> Arc<Self> {
        Arc::new(Self {
            receiver,
            number,
            was_notified: AtomicBool::new(false),
            call,
            progress: CallProgress::default(),
            waits_since: followed.then(|| Mutex::new(clock::now())),
        })
    }

    /// Returns what the row waits for, as far as its attempts have recorded it.
    pub fn progress(&self) -> &CallProgress {
        &self.progress
    }

    /// Gives the receiver an attempt that has ended, with how long the row has waited for it.
    pub fn end_attempt(&self, mut attempt: Box<AttemptRecord>) {
        let Some(waits_since) = &self.waits_since else { return };
        let since = mem::replace(&mut *waits_since.lock().unwrap_or_else(PoisonError::into_inner), clock::now());
        attempt.waited = attempt.started.saturating_duration_since(since);
        self.receiver.attempt_ended(self.number, attempt);
    }

    /// Gives the receiver the outcome of its row, unless the receiver was notified before.
    fn send(&self, outcome: Outcome, failed: bool) {
        if !self.was_notified.swap(true, Ordering::Relaxed) {
            self.receiver.receive(self.number, outcome, failed);
        }
    }

    /// Returns what is selected from the response to the row; `None`: what the run selects.
    pub fn selection(&self) -> Option<&Arc<dyn SelectValues>> {
        self.receiver.selection()
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.receiver.waits()
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if !*self.was_notified.get_mut() {
            self.receiver.lost(self.number);
        }
    }
}

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTo").field("number", &self.number).finish_non_exhaustive()
    }
}

impl PartialEq for ReplyTo {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for ReplyTo {}

/// The outcome of one row.
#[derive(Debug)]
pub struct Outcome {
    pub row: Row,
    /// The method of the request: the row's, or the job's default.
    pub method: Box<str>,
    /// Attempts made; 0 if nothing could be sent.
    pub attempts: u16,
    pub started_at_us: i64,
    pub elapsed_us: u64,
    /// The remote address of the last connection, if one was established.
    pub remote_addr: Option<Arc<str>>,
    pub response: Option<Response>,
    /// The values selected from the response, if there are any.
    pub selected: Option<Box<SelectedValues>>,
    pub failure: Option<Failure>,
}

/// An attempt that has ended, for a caller that follows the attempts of its row.
#[derive(Debug)]
pub struct AttemptRecord {
    /// The row when the attempt ended, with its redirect chain, without its receiver and a body that is read while it is sent.
    pub row: Row,
    /// From 1.
    pub number: u16,
    pub started: Instant,
    pub started_at_us: i64,
    pub elapsed: Duration,
    /// How long the row has waited before, since it was submitted or since its last attempt.
    pub waited: Duration,
    pub status: Option<u16>,
    pub version: Option<Version>,
    pub failure: Option<Failure>,
    pub remote_addr: Option<Arc<str>>,
    /// A connection was made for its last request.
    pub is_new_connection: bool,
    /// The time until the next attempt, at the earliest; `None`: it is the last one.
    pub retry_in: Option<Duration>,
}

/// A reference to an [`Outcome`], whose response may still lie in the memory that it was read into.
#[derive(Debug, Clone, Copy)]
pub struct OutcomeRef<'a> {
    pub row: &'a Row,
    pub method: &'a str,
    pub attempts: u16,
    pub started_at_us: i64,
    pub elapsed_us: u64,
    pub remote_addr: Option<&'a str>,
    pub response: Option<ResponseRef<'a>>,
    pub selected: Option<&'a SelectedValues>,
    pub failure: Option<&'a Failure>,
}

impl Outcome {
    pub fn as_ref(&self) -> OutcomeRef<'_> {
        OutcomeRef {
            row: &self.row,
            method: &self.method,
            attempts: self.attempts,
            started_at_us: self.started_at_us,
            elapsed_us: self.elapsed_us,
            remote_addr: self.remote_addr.as_deref(),
            response: self.response.as_ref().map(Response::as_ref),
            selected: self.selected.as_deref(),
            failure: self.failure.as_ref(),
        }
    }

    /// Gives the outcome to the caller that waits for it. Returns it if there is no caller: then it is for the sink.
    pub fn reply(mut self, failed: bool) -> Option<Self> {
        let Some(reply_to) = self.row.reply_to.take() else { return Some(self) };
        reply_to.send(self, failed);
        None
    }

    /// Returns the length of the body, 0 if there is none.
    pub fn body_len(&self) -> usize {
        self.response.as_ref().and_then(|response| response.body.as_ref()).map_or(0, |body| body.bytes.len())
    }

    /// Returns whether other tasks may wait for the memory that it reserves.
    pub fn holds_short_memory(&self) -> bool {
        let Some(response) = &self.response else { return false };
        response.memory.is_short() || response.body.as_ref().is_some_and(|body| body.reservation.is_short())
    }

    /// Releases its reservations of memory for responses.
    pub fn release_memory(&mut self) {
        let Some(response) = &mut self.response else { return };
        drop(mem::take(&mut response.memory));
        if let Some(body) = &mut response.body {
            drop(mem::take(&mut body.reservation));
        }
    }
}

impl OutcomeRef<'_> {
    /// Returns about how much memory it needs.
    pub fn bytes(&self) -> usize {
        let response =
            self.response.map_or(0, |response| response.headers.bytes() + response.body.map_or(0, <[u8]>::len));
        self.row.bytes() + response + self.selected.map_or(0, SelectedValues::bytes)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Outcome {
    /// Returns a row with this response.
    pub fn for_tests(ordinal: u64, status: u16, body: Option<Vec<u8>>) -> Self {
        let response = Response {
            status,
            version: http::Version::HTTP_11,
            headers: crate::headers::Headers::default(),
            memory: Reservation::default(),
            ttfb_us: 1,
            body_encoding: None,
            body_truncated: false,
            received_bytes: body.as_ref().map_or(0, |body| body.len() as u64),
            saved: None,
            body: body.map(|bytes| crate::response::Body { bytes, ..Default::default() }),
        };
        Self {
            row: Row::new(ordinal, "http://127.0.0.1/"),
            method: "GET".into(),
            attempts: 1,
            started_at_us: 0,
            elapsed_us: 1,
            remote_addr: Some("127.0.0.1:80".into()),
            response: Some(response),
            selected: None,
            failure: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_rows_are_read_at_a_time_as_make_a_batch() {
        let cases =
            [(1024, 0, 0), (1024, 100, 50), (1024, 1 << 30, 1 << 20), (102, 10_240_000, 1000), (1, 1 << 40, 1000)];
        for (expected, bytes, rows) in cases {
            assert_eq!(expected, rows_of_a_batch(bytes, rows), "{bytes} bytes in {rows} rows");
        }
    }
}
