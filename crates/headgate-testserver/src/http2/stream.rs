//! One stream of HTTP/2: a request on its way to its answer.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::wish::Wish;
use crate::answer::{Answer, ReadyAnswer, field_map};
use crate::body::MAX_BODY_BYTES;
use crate::faults::Fault;
use crate::in_progress::InProgress;
use crate::received::Received;
use crate::reply::Framing;
use crate::respond::{After, Answered, Respond, answer, begin, keeps_body, send};
use crate::route::Route;
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
    received: Option<Box<Received>>,
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
        let (in_progress, received) = begin(&worker, route, || received(request));
        let is_head = request.method() == http::Method::HEAD;
        Self { worker, respond, body: None, in_progress, is_head, wishes, route, received }
    }

    /// Answers, or returns the fault that is asked for instead. The only error is that the client has gone, or gave this
    /// stream up.
    pub async fn answer(&mut self, body: RecvStream) -> io::Result<Option<&'static Fault>> {
        let worker = self.worker.clone();
        let mut received = self.received.take().map(|received| *received).unwrap_or_default();
        let Some(body) = read(body, keeps_body(&worker, self.route)).await? else {
            self.send(&Answer::new(413, "the body of the request is longer than 64 MiB\n")).await?;
            return Ok(None);
        };
        received.body = body;
        let route = self.route;
        match answer(self, &worker, route, received).await? {
            Answered::Sent(_) => Ok(None),
            Answered::Asks(fault) => Ok(Some(fault)),
        }
    }

    pub async fn send(&mut self, answer: &Answer) -> io::Result<()> {
        let worker = self.worker.clone();
        send(self, &worker, answer).await
    }

    fn send_whole(&mut self, status: u16, fields: HeaderMap, body: Bytes) -> io::Result<()> {
        self.send_head(status, fields, self.is_head || body.is_empty())?;
        match &mut self.body {
            Some(stream) => stream.send_data(body, true).map_err(io::Error::other),
            None => Ok(()),
        }
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

    pub fn reset(&mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }
}

impl Respond for Stream {
    fn in_progress(&mut self) -> &mut InProgress {
        &mut self.in_progress
    }

    fn is_head(&self) -> bool {
        self.is_head
    }

    fn framing(&self, _meant: Framing) -> Framing {
        Framing::Length
    }

    async fn while_there<T>(&mut self, something: impl Future<Output = T>) -> io::Result<T> {
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

    async fn send_ready(&mut self, answer: &ReadyAnswer) -> io::Result<()> {
        self.send_whole(answer.status, answer.fields.clone(), answer.body.clone())
    }

    async fn send_answer(&mut self, answer: &Answer) -> io::Result<()> {
        self.send_whole(answer.status, field_map(&answer.fields), answer.body.clone())
    }

    async fn begin(&mut self, status: u16, fields: &str, _framing: Framing, is_all: bool) -> io::Result<()> {
        self.send_head(status, field_map(fields), is_all)
    }

    async fn send_piece(&mut self, piece: Bytes, _framing: Framing, is_last: bool) -> io::Result<()> {
        self.send_data(piece, is_last).await
    }

    async fn finish(&mut self, _framing: Framing, _is_all: bool) -> io::Result<After> {
        Ok(After::Answered)
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

fn received(request: &Request<RecvStream>) -> Received {
    let uri = request.uri();
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let authority = uri.authority().map(|authority| ("host".to_owned(), authority.as_str().into()));
    let fields = request.headers().iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    Received {
        method: request.method().to_string(),
        target: target.to_owned(),
        // Where HTTP/1.1 has it, in the first place.
        fields: authority.into_iter().chain(fields).collect(),
        is_secure: uri.scheme_str() == Some("https"),
        body: Vec::new(),
    }
}
