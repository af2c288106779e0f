//! One stream of HTTP/2: a request and its response.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, StatusCode};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::command::ConnectionCommand;
use crate::body::MAX_BODY_BYTES;
use crate::faults::Fault;
use crate::in_progress::InProgress;
use crate::plan::ResponseFraming;
use crate::received::Received;
use crate::respond::{After, Handled, Responder, keeps_body, respond, send, start_request};
use crate::response::{EncodedResponse, FullResponse, field_map};
use crate::route::RequestRoute;
use crate::worker::ServerWorker;

#[derive(Debug)]
pub(super) struct ServerStream {
    pub worker: Rc<ServerWorker>,
    pub respond: SendResponse<Bytes>,
    pub in_progress: InProgress,
    pub is_head: bool,
    /// The sender of the body, once headers were sent that a body follows.
    pub body: Option<SendStream<Bytes>>,
    pub commands: mpsc::Sender<ConnectionCommand>,
    route: RequestRoute,
    received: Option<Box<Received>>,
}

impl ServerStream {
    /// Counts a request, and reads from its headers what the rules of the server need.
    pub(super) fn begin(
        worker: Rc<ServerWorker>,
        respond: SendResponse<Bytes>,
        request: &Request<RecvStream>,
        route: RequestRoute,
        commands: mpsc::Sender<ConnectionCommand>,
    ) -> Self {
        let (in_progress, received) = start_request(&worker, route, || received(request));
        let is_head = request.method() == http::Method::HEAD;
        Self { worker, respond, body: None, in_progress, is_head, commands, route, received }
    }

    /// Responds, or returns the fault that the request selects. The only error is that the client has disconnected or reset the
    /// stream.
    pub(super) async fn respond(&mut self, body: RecvStream) -> io::Result<Option<&'static Fault>> {
        let worker = self.worker.clone();
        let mut received = self.received.take().map(|received| *received).unwrap_or_default();
        let Some(body) = read(body, keeps_body(&worker, self.route)).await? else {
            self.send(&FullResponse::new(413, "the body of the request is longer than 64 MiB\n")).await?;
            return Ok(None);
        };
        received.body = body;
        let route = self.route;
        match respond(self, &worker, route, received).await? {
            Handled::Sent(_) => Ok(None),
            Handled::Fault(fault) => Ok(Some(fault)),
        }
    }

    pub(super) async fn send(&mut self, response: &FullResponse) -> io::Result<()> {
        let worker = self.worker.clone();
        send(self, &worker, response).await
    }

    fn send_whole(&mut self, status: u16, fields: HeaderMap, body: Bytes) -> io::Result<()> {
        self.send_head(status, fields, self.is_head || body.is_empty())?;
        match &mut self.body {
            Some(stream) => stream.send_data(body, true).map_err(io::Error::other),
            None => Ok(()),
        }
    }

    pub(super) fn send_head(&mut self, status: u16, fields: HeaderMap, is_complete: bool) -> io::Result<()> {
        let mut response = http::Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
        *response.headers_mut() = fields;
        let stream = self.respond.send_response(response, is_complete).map_err(io::Error::other)?;
        self.body = (!is_complete).then_some(stream);
        Ok(())
    }

    /// Sends all of `bytes` as fast as flow control allows.
    pub(super) async fn send_data(&mut self, mut bytes: Bytes, is_last: bool) -> io::Result<()> {
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

    /// Waits for this time, or until the client disconnects or resets the stream.
    pub(super) async fn pause(&mut self, duration: Duration) -> io::Result<()> {
        self.while_connected(sleep(duration)).await
    }

    pub(super) fn reset(&mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }
}

impl Responder for ServerStream {
    fn in_progress(&mut self) -> &mut InProgress {
        &mut self.in_progress
    }

    fn is_head(&self) -> bool {
        self.is_head
    }

    fn framing(&self, _preferred: ResponseFraming) -> ResponseFraming {
        ResponseFraming::Length
    }

    async fn while_connected<T>(&mut self, future: impl Future<Output = T>) -> io::Result<T> {
        let mut future = pin!(future);
        let reset = poll_fn(|context| match &mut self.body {
            Some(body) => body.poll_reset(context),
            None => self.respond.poll_reset(context),
        });
        tokio::select! {
            biased;
            output = &mut future => Ok(output),
            _ = reset => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    async fn send_encoded(&mut self, response: &EncodedResponse) -> io::Result<()> {
        self.send_whole(response.status, response.fields.clone(), response.body.clone())
    }

    async fn send_response(&mut self, response: &FullResponse) -> io::Result<()> {
        self.send_whole(response.status, field_map(&response.fields), response.body.clone())
    }

    async fn send_headers(
        &mut self,
        status: u16,
        fields: &str,
        _framing: ResponseFraming,
        is_complete: bool,
    ) -> io::Result<()> {
        self.send_head(status, field_map(fields), is_complete)
    }

    async fn send_chunk(&mut self, piece: Bytes, _framing: ResponseFraming, is_last: bool) -> io::Result<()> {
        self.send_data(piece, is_last).await
    }

    async fn finish(&mut self, _framing: ResponseFraming, _is_all: bool) -> io::Result<After> {
        Ok(After::Sent)
    }
}

/// Reads to the end of the body, and returns it, or nothing unless `keep` is set; `None` if it is too long.
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
        // The first header, as in most requests of HTTP/1.1.
        fields: authority.into_iter().chain(fields).collect(),
        is_secure: uri.scheme_str() == Some("https"),
        body: Vec::new(),
    }
}
