//! THE loop of a connection of HTTP/1.1: read a head, answer it, take the next.

use std::io;
use std::rc::Rc;
use std::time::Instant;

use bytes::Buf;
use tokio::net::TcpStream;

use crate::admission::{Admission, admit};
use crate::answer::{Answer, Persistence};
use crate::asked::Asked;
use crate::asking::Asking;
use crate::body::{self, BodyError};
use crate::connection::{Connection, rare};
use crate::exchange::{After, Exchange};
use crate::faults::Scope;
use crate::faults::play::play;
use crate::helpers;
use crate::http2;
use crate::in_progress::InProgress;
use crate::request::{self, Framing, Rejection, Request};
use crate::route::Route;
use crate::rules::Rules;
use crate::socket::Socket;
use crate::tls;
use crate::worker::Worker;

/// What a client of HTTP/2 says first, as far as it looks like a request (RFC 9113 section 3.4).
const PREFACE_HEAD: &[u8] = b"PRI * HTTP/2";
const HTTP_2_ONLY: &str = "this fault is one of HTTP/2\n";

/// Serves one connection to its end.
pub(crate) async fn connection(stream: TcpStream, worker: &Rc<Worker>) {
    let _open = worker.counters().open();
    // If this fails the socket is dead, and its first use says so.
    let _ = stream.set_nodelay(true);
    let socket = if let Some(tls) = worker.tls() {
        // Whoever asks for something that can't be had is told so by TLS.
        let Ok(stream) = rare(tls.accept(stream)).await else { return };
        if tls::is_http2(stream.get_ref().1.alpn_protocol()) {
            let connection = Connection::new(Socket::Tls(Box::new(stream)), worker.counters());
            return rare(http2::serve(connection, worker)).await;
        }
        Socket::Tls(Box::new(stream))
    } else {
        Socket::Plain(stream)
    };
    let mut connection = Connection::new(socket, worker.counters());
    // The only error is that the client has gone.
    if let Ok(Served::SpeaksHttp2) = answer_all(&mut connection, worker).await {
        rare(http2::serve(connection, worker)).await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    ToItsEnd,
    SpeaksHttp2,
}

async fn answer_all<'worker>(connection: &mut Connection<'worker>, worker: &'worker Worker) -> io::Result<Served> {
    loop {
        let request = match request::parse(&connection.buffer) {
            Ok(Some(request)) => request,
            Ok(None) => {
                connection.fill().await?;
                continue;
            }
            Err(_) if worker.http2().is_some() && connection.buffer.starts_with(PREFACE_HEAD) => {
                return Ok(Served::SpeaksHttp2);
            }
            Err(rejection) => {
                rare(reject(connection, worker, rejection)).await?;
                return Ok(Served::ToItsEnd);
            }
        };
        let (in_progress, asked) = begin(worker, &request, &connection.buffer);
        let mut exchange = Exchange { connection: &mut *connection, worker, request: &request, in_progress };
        let after = if let (Route::Default, Framing::Empty, None) = (request.route, request.body, &asked) {
            exchange.connection.buffer.advance(request.head_bytes);
            exchange.send_default().await?;
            After::Answered
        } else {
            rare(answer_unusual(exchange, asked)).await?
        };
        match after {
            After::Ended => return Ok(Served::ToItsEnd),
            After::Answered if request.persistence == Persistence::Close => {
                rare(connection.close()).await?;
                return Ok(Served::ToItsEnd);
            }
            After::Answered => {}
        }
    }
}

/// Counts a request, and takes from its head what the rules of the server need.
fn begin(worker: &Worker, request: &Request, buffer: &[u8]) -> (InProgress, Option<Box<Asked>>) {
    if !request.route.is_counted() {
        return (InProgress::not_counted(), None);
    }
    worker.counters().request();
    let mut in_progress = InProgress::begin(worker.server_counters());
    let Some(rules) = worker.rules() else { return (in_progress, None) };
    let arrived = Instant::now();
    let asked = Box::new(Asked::of(&buffer[..request.head_bytes]));
    if let Some(log) = &rules.log {
        in_progress.held().note = Some(log.note(&asked, arrived));
    }
    (in_progress, Some(asked))
}

/// Everything but the default answer to a request without a body, of a server without rules.
async fn answer_unusual(mut exchange: Exchange<'_, '_>, asked: Option<Box<Asked>>) -> io::Result<After> {
    let Request { head_bytes, mut route, .. } = *exchange.request;
    let head = &exchange.connection.buffer[..head_bytes];
    let is_secure = exchange.connection.is_secure();
    let mut asking = if route.reads_request() { Asking::of(head, is_secure) } else { Asking::default() };
    exchange.connection.buffer.advance(head_bytes);
    let keeps_body = route.reads_request() || exchange.worker.rules().is_some_and(Rules::reads_bodies);
    asking.body = match body::read(exchange.connection, exchange.request, keeps_body).await {
        Ok(body) => body,
        Err(BodyError::Gone(error)) => return Err(error),
        Err(BodyError::Rejected(rejection)) => {
            exchange.in_progress.answers(rejection.status);
            exchange.in_progress.end();
            reject(exchange.connection, exchange.worker, rejection).await?;
            return Ok(After::Ended);
        }
    };
    if let (Some(rules), Some(asked)) = (exchange.worker.rules(), &asked) {
        match admit(exchange.worker.counters(), &mut exchange.in_progress, rules, asked, &asking.body) {
            Admission::Enters => {}
            Admission::Waits(capacity) => {
                let place = exchange.connection.while_there(capacity.wait_for_place()).await??;
                exchange.in_progress.held().place = Some(place);
            }
            Admission::Refused(answer) => {
                exchange.send(&answer).await?;
                return Ok(After::Answered);
            }
        }
    }
    helpers::look_up(exchange.worker, &mut route, &mut asking);
    let Route::Fault(index, fault) = route else {
        let reply = helpers::reply(exchange.worker, route, &asking)?;
        return exchange.send_reply(reply).await;
    };
    exchange.worker.counters().fault(index);
    if fault.scope() == Scope::Bytes {
        return play(exchange.connection, &mut exchange.in_progress, fault, 0).await;
    }
    exchange.send(&Answer::new(501, HTTP_2_ONLY)).await?;
    Ok(After::Answered)
}

/// Says what is wrong with a request, and ends the connection.
async fn reject(connection: &mut Connection<'_>, worker: &Worker, rejection: Rejection) -> io::Result<()> {
    let answer = Answer::new(rejection.status, format!("{}\n", rejection.reason));
    worker.counters().response(answer.status);
    connection.send(answer.head(Persistence::Close).chain(&answer.body[..])).await?;
    connection.close().await
}
