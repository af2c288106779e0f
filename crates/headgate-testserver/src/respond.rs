//! Responds to requests, over HTTP/1.1 and HTTP/2 alike.

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;

use crate::answer::{Answer, ReadyAnswer, TEXT_FIELDS, length_fields};
use crate::faults::Fault;
use crate::helpers::{self, Call};
use crate::in_progress::InProgress;
use crate::limits::api::tokens;
use crate::received::Received;
use crate::reply::{Content, Framing, Reply};
use crate::route::Route;
use crate::rules::Rules;
use crate::statistics::Limited;
use crate::worker::Worker;

/// Where the answer to a request goes: a connection of HTTP/1.1, or a stream of HTTP/2. The only error is that the client has
/// gone, or gave the stream up.
pub(crate) trait Respond {
    fn in_progress(&mut self) -> &mut InProgress;

    fn is_head(&self) -> bool;

    /// Returns the framing of a body for which `meant` was intended.
    fn framing(&self, meant: Framing) -> Framing;

    /// Waits for something, unless the client goes away meanwhile.
    async fn while_there<T>(&mut self, something: impl Future<Output = T>) -> io::Result<T>;

    async fn send_ready(&mut self, answer: &ReadyAnswer) -> io::Result<()>;

    async fn send_answer(&mut self, answer: &Answer) -> io::Result<()>;

    /// Sends a head, which is all of the answer or is followed by a body.
    async fn begin(&mut self, status: u16, fields: &str, framing: Framing, is_all: bool) -> io::Result<()>;

    async fn send_piece(&mut self, piece: Bytes, framing: Framing, is_last: bool) -> io::Result<()>;

    /// Sends what tells the end of a body, unless the head was all.
    async fn finish(&mut self, framing: Framing, is_all: bool) -> io::Result<After>;
}

/// The state of a connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The answer is sent; the connection lasts as the request's head said.
    Answered,
    /// Nothing more is to be done with it.
    Ended,
}

/// The result of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answered {
    Sent(After),
    /// It asks for this fault instead of an answer.
    Asks(&'static Fault),
}

/// Counts a request, and takes from its head what its answer and the rules of the server need.
pub(crate) fn begin(
    worker: &Worker,
    route: Route,
    received: impl FnOnce() -> Received,
) -> (InProgress, Option<Box<Received>>) {
    let mut in_progress = InProgress::not_counted();
    let rules = worker.rules().filter(|_| route.is_counted());
    if route.is_counted() {
        worker.counters().request();
        in_progress = InProgress::begin(worker.server_counters());
    }
    if rules.is_none() && !route.reads_request() {
        return (in_progress, None);
    }
    let arrived = Instant::now();
    let received = Box::new(received());
    if let Some(log) = rules.and_then(|rules| rules.log.as_ref()) {
        in_progress.held().note = Some(log.note(&received, arrived));
    }
    (in_progress, Some(received))
}

/// Returns whether the body of such a request is needed.
pub(crate) fn keeps_body(worker: &Worker, route: Route) -> bool {
    route.reads_request() || worker.rules().is_some_and(Rules::reads_bodies)
}

/// Answers a request that was read whole.
pub(crate) async fn answer(
    to: &mut impl Respond,
    worker: &Worker,
    mut route: Route,
    mut received: Received,
) -> io::Result<Answered> {
    if let Some(rules) = worker.rules().filter(|_| route.is_counted())
        && let Some(refusal) = admit(to, worker, rules, &received).await?
    {
        send(to, worker, &refusal).await?;
        return Ok(Answered::Sent(After::Answered));
    }
    if let (true, Some(path)) = (route.is_robots(), worker.robots()) {
        route = Route::of(path);
        received.target = path.to_owned();
    }
    if let Route::Fault(index, fault) = route {
        worker.counters().fault(index);
        return Ok(Answered::Asks(fault));
    }
    let reply = reply(worker, route, &received).unwrap_or_else(helpers::not_found);
    send_reply(to, worker, reply).await.map(Answered::Sent)
}

/// The reply of any route that is no fault. `None`: it is mistyped.
fn reply(worker: &Worker, route: Route, received: &Received) -> Option<Reply> {
    match route {
        Route::Default => Some(Reply { delay: worker.draw_delay(), content: Content::Default }),
        Route::Helper(helper) => {
            let argument = received.path_after(helper.name);
            (helper.reply)(&Call { worker, received, argument: &argument })
        }
        Route::Fault(..) | Route::Unknown => None,
    }
}

/// # Errors
/// `InvalidInput`: the path whose answer `/robots.txt` is to get has none of its own.
pub(crate) fn check_robots(worker: &Worker) -> io::Result<()> {
    let Some(path) = worker.robots() else { return Ok(()) };
    let (route, received) = (Route::of(path), Received { target: path.to_owned(), ..Received::default() });
    let is_fault = matches!(route, Route::Fault(..));
    if !route.is_robots() && (is_fault || reply(worker, route, &received).is_some()) {
        return Ok(());
    }
    let mistake = format!("robots {path}: must be another path that the server answers, such as /status/503");
    Err(io::Error::new(io::ErrorKind::InvalidInput, mistake))
}

/// Has the rules let a request through, which may take time. Returns what it is answered instead.
async fn admit(
    to: &mut impl Respond,
    worker: &Worker,
    rules: &Rules,
    received: &Received,
) -> io::Result<Option<Answer>> {
    if let Some(api) = &rules.api {
        match api.ask(received, tokens(received), Instant::now()) {
            Ok(slot) => {
                if slot.is_repeated {
                    worker.counters().limited(Limited::RepeatedAfterAnswer);
                }
                to.in_progress().held().slot = Some(slot);
            }
            Err(refusal) => {
                worker.counters().limited(refusal.cause);
                return Ok(Some(refusal.answer()));
            }
        }
    }
    let Some(capacity) = &rules.capacity else { return Ok(None) };
    let place = if rules.refuses {
        let Some(place) = capacity.try_place() else {
            worker.counters().limited(Limited::Capacity);
            return Ok(Some(Answer::new(503, "the server does as much at once as it can\n")));
        };
        place
    } else {
        to.while_there(capacity.wait_for_place()).await??
    };
    to.in_progress().held().place = Some(place);
    Ok(None)
}

/// Sends an answer that is held whole in memory.
pub(crate) async fn send(to: &mut impl Respond, worker: &Worker, answer: &Answer) -> io::Result<()> {
    worker.begins(to.in_progress(), answer.status);
    to.in_progress().end();
    to.send_answer(answer).await
}

/// Sends the default answer after the configured delay.
pub(crate) async fn send_default(to: &mut impl Respond, worker: &Worker) -> io::Result<()> {
    let delay = worker.draw_delay();
    if !delay.is_zero() {
        to.while_there(sleep(delay)).await?;
    }
    send_default_now(to, worker).await
}

async fn send_default_now(to: &mut impl Respond, worker: &Worker) -> io::Result<()> {
    let answer = worker.default_answer();
    worker.begins(to.in_progress(), answer.status);
    to.in_progress().end();
    to.send_ready(answer).await
}

async fn send_reply(to: &mut impl Respond, worker: &Worker, reply: Reply) -> io::Result<After> {
    if !reply.delay.is_zero() {
        to.while_there(sleep(reply.delay)).await?;
    }
    match reply.content {
        Content::Default => send_default_now(to, worker).await?,
        Content::Whole(answer) => send(to, worker, &answer).await?,
        Content::Text { bytes, framing } => {
            let framing = to.framing(framing);
            let fields = if framing == Framing::Length { length_fields(bytes) } else { TEXT_FIELDS.to_owned() };
            let head = (200, &*fields, framing);
            return send_pieces(to, worker, head, worker.content().pieces(bytes), Duration::ZERO).await;
        }
        Content::Drip { answer, pieces, pause } => {
            let head = (answer.status, &*answer.fields, Framing::Length);
            return send_pieces(to, worker, head, answer.pieces(pieces), pause).await;
        }
    }
    Ok(After::Answered)
}

async fn send_pieces(
    to: &mut impl Respond,
    worker: &Worker,
    (status, fields, framing): (u16, &str, Framing),
    pieces: impl Iterator<Item = Bytes>,
    pause: Duration,
) -> io::Result<After> {
    let mut pieces = pieces.peekable();
    let is_all = to.is_head() || framing == Framing::Length && pieces.peek().is_none();
    worker.begins(to.in_progress(), status);
    if is_all {
        to.in_progress().end();
    }
    to.begin(status, fields, framing, is_all).await?;
    while !is_all && let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        if is_last && framing == Framing::Length {
            to.in_progress().end();
        }
        to.send_piece(piece, framing, is_last).await?;
        if !is_last && !pause.is_zero() {
            to.while_there(sleep(pause)).await?;
        }
    }
    to.in_progress().end();
    to.finish(framing, is_all).await
}
