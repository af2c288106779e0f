//! THE loop of a connection of HTTP/1.1: read a head, answer it, take the next.

use std::io;
use std::rc::Rc;

use bytes::Buf;
use tokio::net::TcpStream;

use crate::answer::{Answer, Persistence};
use crate::body::{self, BodyError};
use crate::connection::{Connection, rare};
use crate::exchange::Exchange;
use crate::faults::Scope;
use crate::faults::play::play;
use crate::http2;
use crate::received::Received;
use crate::request::{self, Framing, Rejection};
use crate::respond::{After, Answered, answer, begin, keeps_body, send, send_default};
use crate::route::Route;
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
        // A client that asks for something that can't be had is told so by TLS.
        let Ok(stream) = rare(tls.accept(stream)).await else { return };
        if tls::is_http2(stream.get_ref().1.alpn_protocol()) {
            let connection = Connection::new(Socket::Right(Box::new(stream)), worker.counters());
            return rare(http2::serve(connection, worker)).await;
        }
        Socket::Right(Box::new(stream))
    } else {
        Socket::Left(stream)
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
        let is_secure = connection.is_secure();
        let head = &connection.buffer[..request.head_bytes];
        let (in_progress, received) = begin(worker, request.route, || Received::of(head, is_secure));
        connection.buffer.advance(request.head_bytes);
        let mut exchange = Exchange { connection: &mut *connection, request: &request, in_progress };
        let after = if let (Route::Default, Framing::Empty, None) = (request.route, request.body, &received) {
            send_default(&mut exchange, worker).await?;
            After::Answered
        } else {
            rare(answer_unusual(exchange, worker, received)).await?
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

/// Everything but the default answer to a request without a body, of a server without rules.
async fn answer_unusual(
    mut exchange: Exchange<'_, '_>,
    worker: &Worker,
    received: Option<Box<Received>>,
) -> io::Result<After> {
    let route = exchange.request.route;
    let mut received = received.map(|received| *received).unwrap_or_default();
    received.body = match body::read(exchange.connection, exchange.request, keeps_body(worker, route)).await {
        Ok(body) => body,
        Err(BodyError::Gone(error)) => return Err(error),
        Err(BodyError::Rejected(rejection)) => {
            exchange.in_progress.answers(rejection.status);
            exchange.in_progress.end();
            reject(exchange.connection, worker, rejection).await?;
            return Ok(After::Ended);
        }
    };
    match answer(&mut exchange, worker, route, received).await? {
        Answered::Sent(after) => Ok(after),
        Answered::Asks(fault) if fault.scope() == Scope::Bytes => {
            play(exchange.connection, &mut exchange.in_progress, fault, 0).await
        }
        Answered::Asks(_) => {
            send(&mut exchange, worker, &Answer::new(501, HTTP_2_ONLY)).await?;
            Ok(After::Answered)
        }
    }
}

/// Says what is wrong with a request, and ends the connection.
async fn reject(connection: &mut Connection<'_>, worker: &Worker, rejection: Rejection) -> io::Result<()> {
    let answer = Answer::new(rejection.status, format!("{}\n", rejection.reason));
    worker.counters().response(answer.status);
    connection.send(answer.head(Persistence::Close).chain(&answer.body[..])).await?;
    connection.close().await
}
