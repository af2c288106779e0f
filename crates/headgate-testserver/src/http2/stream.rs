//! One stream of HTTP/2: a request on its way to its answer.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::wish::Wish;
use crate::admission::{Admission, admit};
use crate::answer::{Answer, field_map};
use crate::asked::Asked;
use crate::asking::Asking;
use crate::body::MAX_BODY_BYTES;
use crate::faults::Fault;
use crate::helpers;
use crate::in_progress::InProgress;
use crate::reply::{Content, Reply};
use crate::route::Route;
use crate::rules::Rules;
use crate::worker::Worker;

#[derive(Debug)]
pub(super) struct Stream {
    pub worker: Rc<Worker>,
    pub respond: SendResponse<Bytes>,
    pub in_progress: InProgress,
    pub is_head: bool,
    /// There is one when a head was sent that isn't all.
    pub body: Option<SendStream<Bytes>>,
    pub wishes: mpsc::Sender<Wish>,
    route: Route,
    asked: Option<Box<Asked>>,
}

impl Stream {
    /// Counts a request, and takes from its head what the rules of the server need.
    pub fn begin(
        worker: Rc<Worker>,
        respond: SendResponse<Bytes>,
        request: &Request<RecvStream>,
        route: Route,
        wishes: mpsc::Sender<Wish>,
    ) -> Self {
        let (mut in_progress, mut asked) = (InProgress::not_counted(), None);
        if route.is_counted() {
            worker.counters().request();
            in_progress = InProgress::begin(worker.server_counters());
            if let Some(rules) = worker.rules() {
                let arrived = Instant::now();
                let of_it = Box::new(asked_of(request));
                if let Some(log) = &rules.log {
                    in_progress.held().note = Some(log.note(&of_it, arrived));
                }
                asked = Some(of_it);
            }
        }
        let is_head = request.method() == http::Method::HEAD;
        Self { worker, respond, body: None, in_progress, is_head, wishes, route, asked }
    }

    /// Answers, or gives the fault that is asked for instead. The only error is that the client has gone, or gave this
    /// stream up.
    pub async fn answer(&mut self, request: Request<RecvStream>) -> io::Result<Option<&'static Fault>> {
        let (parts, body) = request.into_parts();
        let mut route = self.route;
        let reads_request = route.reads_request();
        let mut asking = if reads_request { asking_of(&parts) } else { Asking::default() };
        let keeps_body = reads_request || self.worker.rules().is_some_and(Rules::reads_bodies);
        let Some(body) = read(body, keeps_body).await? else {
            self.send(&Answer::new(413, "the body of the request is longer than 64 MiB\n"))?;
            return Ok(None);
        };
        asking.body = body;
        if let (Some(rules), Some(asked)) = (self.worker.clone().rules(), self.asked.take()) {
            match admit(self.worker.counters(), &mut self.in_progress, rules, &asked, &asking.body) {
                Admission::Enters => {}
                Admission::Waits(capacity) => {
                    let place = self.while_there(capacity.wait_for_place()).await??;
                    self.in_progress.held().place = Some(place);
                }
                Admission::Refused(answer) => {
                    self.send(&answer)?;
                    return Ok(None);
                }
            }
        }
        helpers::look_up(&self.worker, &mut route, &mut asking);
        if let Route::Fault(index, fault) = route {
            self.worker.counters().fault(index);
            return Ok(Some(fault));
        }
        let reply = helpers::reply(&self.worker, route, &asking)?;
        self.send_reply(reply).await?;
        Ok(None)
    }

    async fn send_reply(&mut self, reply: Reply) -> io::Result<()> {
        if !reply.delay.is_zero() {
            self.pause(reply.delay).await?;
        }
        match reply.content {
            Content::Default => {
                let worker = self.worker.clone();
                let answer = worker.default_answer();
                self.send_whole(answer.status, answer.fields.clone(), answer.body.clone())
            }
            Content::Whole(answer) => self.send(&answer),
            Content::Text { bytes, framing: _ } => {
                let worker = self.worker.clone();
                let fields = [("content-type", "text/plain"), ("content-length", &bytes.to_string())];
                let pieces = worker.content().pieces(bytes);
                self.send_pieces(200, field_map(fields.into_iter()), pieces, Duration::ZERO).await
            }
            Content::Drip { answer, pieces, pause } => {
                let fields = field_map(answer.fields());
                self.send_pieces(answer.status, fields, answer.pieces(pieces), pause).await
            }
        }
    }

    pub fn send(&mut self, answer: &Answer) -> io::Result<()> {
        self.send_whole(answer.status, field_map(answer.fields()), answer.body.clone())
    }

    fn send_whole(&mut self, status: u16, fields: HeaderMap, body: Bytes) -> io::Result<()> {
        let is_all = self.is_head || body.is_empty();
        self.worker.begins(&mut self.in_progress, status);
        self.in_progress.end();
        self.send_head(status, fields, is_all)?;
        if let Some(stream) = &mut self.body {
            stream.send_data(body, true).map_err(io::Error::other)?;
        }
        Ok(())
    }

    async fn send_pieces(
        &mut self,
        status: u16,
        fields: HeaderMap,
        pieces: impl Iterator<Item = Bytes>,
        pause: Duration,
    ) -> io::Result<()> {
        let mut pieces = pieces.peekable();
        let is_all = self.is_head || pieces.peek().is_none();
        self.worker.begins(&mut self.in_progress, status);
        self.send_head(status, fields, is_all)?;
        if is_all {
            return Ok(());
        }
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none();
            if is_last {
                self.in_progress.end();
            }
            self.send_data(piece, is_last).await?;
            if !is_last && !pause.is_zero() {
                self.pause(pause).await?;
            }
        }
        Ok(())
    }

    pub fn send_head(&mut self, status: u16, fields: HeaderMap, is_all: bool) -> io::Result<()> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
        *response.headers_mut() = fields;
        let stream = self.respond.send_response(response, is_all).map_err(io::Error::other)?;
        self.body = (!is_all).then_some(stream);
        Ok(())
    }

    /// Sends all of `bytes` as fast as the client takes them.
    pub async fn send_data(&mut self, mut bytes: Bytes, is_last: bool) -> io::Result<()> {
        let Some(stream) = &mut self.body else { return Ok(()) };
        while !bytes.is_empty() {
            stream.reserve_capacity(bytes.len());
            let capacity = poll_fn(|context| stream.poll_capacity(context)).await;
            let capacity = capacity.ok_or(io::ErrorKind::ConnectionAborted)?.map_err(io::Error::other)?;
            let piece = bytes.split_to(capacity.min(bytes.len()));
            stream.send_data(piece, is_last && bytes.is_empty()).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Waits, unless the client goes away meanwhile.
    pub async fn pause(&mut self, duration: Duration) -> io::Result<()> {
        self.while_there(sleep(duration)).await
    }

    /// Waits for something, unless the client goes away meanwhile, or gives this stream up.
    pub async fn while_there<T>(&mut self, something: impl Future<Output = T>) -> io::Result<T> {
        let mut something = pin!(something);
        let given_up = poll_fn(|context| match &mut self.body {
            Some(body) => body.poll_reset(context),
            None => self.respond.poll_reset(context),
        });
        tokio::select! {
            biased;
            done = &mut something => Ok(done),
            _ = given_up => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    pub fn reset(&mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }
}

/// Reads to the end of the body; `None`: it is too long. Where it need not be kept, what is returned is empty.
async fn read(mut body: RecvStream, keep: bool) -> io::Result<Option<Vec<u8>>> {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(io::Error::other)?;
        body.flow_control().release_capacity(piece.len()).map_err(io::Error::other)?;
        bytes += piece.len() as u64;
        if bytes > MAX_BODY_BYTES {
            return Ok(None);
        }
        if keep {
            kept.extend_from_slice(&piece);
        }
    }
    Ok(Some(kept))
}

fn asked_of(request: &Request<RecvStream>) -> Asked {
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    Asked::new(target, |name| match name {
        "host" if authority.is_some() => authority,
        name => request.headers().get(name).map(http::HeaderValue::as_bytes),
    })
}

fn asking_of(parts: &Parts) -> Asking {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let authority = parts.uri.authority().map(|authority| ("host".to_owned(), authority.as_str().into()));
    let fields = parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    Asking {
        method: parts.method.to_string(),
        target: target.to_owned(),
        // Where HTTP/1.1 has it, in the first place.
        fields: authority.into_iter().chain(fields).collect(),
        is_secure: parts.uri.scheme_str() == Some("https"),
        body: Vec::new(),
    }
}
