//! Responds to requests, over HTTP/1.1 and HTTP/2 alike.

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;

use crate::faults::{Fault, table};
use crate::helpers::{self, Call};
use crate::in_progress::InProgress;
use crate::limits::api::tokens;
use crate::plan::{PlannedContent, ResponseFraming, ResponsePlan};
use crate::received::Received;
use crate::response::{EncodedResponse, FullResponse, TEXT_FIELDS, length_fields};
use crate::route::RequestRoute;
use crate::rules::ServerRules;
use crate::statistics::Limited;
use crate::worker::ServerWorker;

/// The fault that cuts a response off.
const CUT_OFF: &str = "content-length-too-long";

/// Sends the response to a request: over a connection of HTTP/1.1, or a stream of HTTP/2. The only error is that the client
/// has closed the connection or reset the stream.
pub(crate) trait Responder {
    fn in_progress(&mut self) -> &mut InProgress;

    fn is_head(&self) -> bool;

    /// Returns the framing to use instead of `preferred`.
    fn framing(&self, preferred: ResponseFraming) -> ResponseFraming;

    /// Waits for a future, unless the client disconnects.
    async fn while_connected<T>(&mut self, something: impl Future<Output = T>) -> io::Result<T>;

    async fn send_encoded(&mut self, response: &EncodedResponse) -> io::Result<()>;

    async fn send_response(&mut self, response: &FullResponse) -> io::Result<()>;

    /// Sends the headers, which are followed by a body unless they are the complete response.
    async fn send_headers(
        &mut self,
        status: u16,
        fields: &str,
        framing: ResponseFraming,
        is_complete: bool,
    ) -> io::Result<()>;

    async fn send_chunk(&mut self, piece: Bytes, framing: ResponseFraming, is_last: bool) -> io::Result<()>;

    /// Ends the body, if there is one.
    async fn finish(&mut self, framing: ResponseFraming, is_complete: bool) -> io::Result<After>;
}

/// The state of a connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The response is sent. Whether the connection stays open depends on the request.
    Sent,
    /// The connection is closed.
    Closed,
}

/// The result of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Handled {
    Sent(After),
    /// The request selects this fault, which the caller plays.
    Fault(&'static Fault),
}

/// What a request gets that the rules of the server don't admit.
#[derive(Debug)]
enum Refused {
    Response(FullResponse),
    /// Half of a body.
    CutOff,
}

/// Counts a request, and reads from it what its response and the rules of the server need.
pub(crate) fn start_request(
    worker: &ServerWorker,
    route: RequestRoute,
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
        in_progress.guards().log = Some(log.entry(&received, arrived));
    }
    (in_progress, Some(received))
}

/// Returns whether the body of a request is needed.
pub(crate) fn keeps_body(worker: &ServerWorker, route: RequestRoute) -> bool {
    route.reads_request() || worker.rules().is_some_and(ServerRules::reads_bodies)
}

/// Responds to a complete request.
pub(crate) async fn respond(
    to: &mut impl Responder,
    worker: &ServerWorker,
    mut route: RequestRoute,
    mut received: Received,
) -> io::Result<Handled> {
    if let Some(rules) = worker.rules().filter(|_| route.is_counted())
        && let Some(refusal) = admit(to, worker, rules, &received).await?
    {
        return match refusal {
            Refused::Response(response) => {
                send(to, worker, &response).await?;
                Ok(Handled::Sent(After::Sent))
            }
            Refused::CutOff => {
                Ok(table::find(CUT_OFF).map_or(Handled::Sent(After::Sent), |(_, fault)| Handled::Fault(fault)))
            }
        };
    }
    if let (true, Some(path)) = (route.is_robots(), worker.robots()) {
        route = RequestRoute::of(path);
        received.target = path.to_owned();
    }
    if let RequestRoute::Fault(index, fault) = route {
        worker.counters().fault(index);
        return Ok(Handled::Fault(fault));
    }
    let plan = plan(worker, route, &received).unwrap_or_else(helpers::not_found);
    send_planned(to, worker, plan).await.map(Handled::Sent)
}

/// Returns the response to a request that is not for a fault, or `None` if its path is mistyped.
fn plan(worker: &ServerWorker, route: RequestRoute, received: &Received) -> Option<ResponsePlan> {
    match route {
        RequestRoute::Default => Some(ResponsePlan { delay: worker.draw_delay(), content: PlannedContent::Default }),
        RequestRoute::Helper(helper) => {
            let argument = received.path_after(helper.name);
            (helper.plan)(&Call { worker, received, argument: &argument })
        }
        RequestRoute::Fault(..) | RequestRoute::Unknown => None,
    }
}

/// Checks that the server has a response for the path that replaces `/robots.txt`.
///
/// # Errors
/// `InvalidInput`: it has none.
pub(crate) fn check_robots(worker: &ServerWorker) -> io::Result<()> {
    let Some(path) = worker.robots() else { return Ok(()) };
    let (route, received) = (RequestRoute::of(path), Received { target: path.to_owned(), ..Received::default() });
    let is_fault = matches!(route, RequestRoute::Fault(..));
    if !route.is_robots() && (is_fault || plan(worker, route, &received).is_some()) {
        return Ok(());
    }
    let mistake = format!("robots {path}: must be another path to which the server responds, such as /status/503");
    Err(io::Error::new(io::ErrorKind::InvalidInput, mistake))
}

/// Waits until the rules admit a request, or returns what refuses it.
async fn admit(
    to: &mut impl Responder,
    worker: &ServerWorker,
    rules: &ServerRules,
    received: &Received,
) -> io::Result<Option<Refused>> {
    if let Some(api) = &rules.api {
        match api.admit(received, tokens(received), Instant::now()) {
            Ok(slot) => {
                if slot.is_repeated {
                    worker.counters().limited(Limited::RetriedAfterResponse);
                }
                to.in_progress().guards().slot = Some(slot);
            }
            Err(refusal) => {
                worker.counters().limited(refusal.cause);
                return Ok(Some(match refusal.cause {
                    Limited::CutFirst => Refused::CutOff,
                    _ => Refused::Response(refusal.response()),
                }));
            }
        }
    }
    let Some(capacity) = &rules.capacity else { return Ok(None) };
    let permit = if rules.refuses {
        let Some(permit) = capacity.try_acquire() else {
            worker.counters().limited(Limited::Capacity);
            let response = FullResponse::new(503, "the server does as much at once as it can\n");
            return Ok(Some(Refused::Response(response)));
        };
        permit
    } else {
        to.while_connected(capacity.acquire()).await??
    };
    to.in_progress().guards().capacity = Some(permit);
    Ok(None)
}

/// Sends a response that is in memory as a whole.
pub(crate) async fn send(to: &mut impl Responder, worker: &ServerWorker, response: &FullResponse) -> io::Result<()> {
    worker.record_response(to.in_progress(), response.status);
    to.in_progress().end();
    to.send_response(response).await
}

/// Sends the default response after the configured delay.
pub(crate) async fn send_default(to: &mut impl Responder, worker: &ServerWorker) -> io::Result<()> {
    let delay = worker.draw_delay();
    if !delay.is_zero() {
        to.while_connected(sleep(delay)).await?;
    }
    send_default_now(to, worker).await
}

async fn send_default_now(to: &mut impl Responder, worker: &ServerWorker) -> io::Result<()> {
    let response = worker.default_response();
    worker.record_response(to.in_progress(), response.status);
    to.in_progress().end();
    to.send_encoded(response).await
}

async fn send_planned(to: &mut impl Responder, worker: &ServerWorker, plan: ResponsePlan) -> io::Result<After> {
    if !plan.delay.is_zero() {
        to.while_connected(sleep(plan.delay)).await?;
    }
    match plan.content {
        PlannedContent::Default => send_default_now(to, worker).await?,
        PlannedContent::Whole(response) => send(to, worker, &response).await?,
        PlannedContent::Text { bytes, framing } => {
            let framing = to.framing(framing);
            let fields = if framing == ResponseFraming::Length { length_fields(bytes) } else { TEXT_FIELDS.to_owned() };
            let head = (200, &*fields, framing);
            return send_pieces(to, worker, head, worker.content().pieces(bytes), Duration::ZERO).await;
        }
        PlannedContent::Drip { response, pieces, pause } => {
            let head = (response.status, &*response.fields, ResponseFraming::Length);
            return send_pieces(to, worker, head, response.pieces(pieces), pause).await;
        }
    }
    Ok(After::Sent)
}

async fn send_pieces(
    to: &mut impl Responder,
    worker: &ServerWorker,
    (status, fields, framing): (u16, &str, ResponseFraming),
    pieces: impl Iterator<Item = Bytes>,
    pause: Duration,
) -> io::Result<After> {
    let mut pieces = pieces.peekable();
    let is_complete = to.is_head() || framing == ResponseFraming::Length && pieces.peek().is_none();
    worker.record_response(to.in_progress(), status);
    if is_complete {
        to.in_progress().end();
    }
    to.send_headers(status, fields, framing, is_complete).await?;
    while !is_complete && let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        if is_last && framing == ResponseFraming::Length {
            to.in_progress().end();
        }
        to.send_chunk(piece, framing, is_last).await?;
        if !is_last && !pause.is_zero() {
            to.while_connected(sleep(pause)).await?;
        }
    }
    to.in_progress().end();
    to.finish(framing, is_complete).await
}
