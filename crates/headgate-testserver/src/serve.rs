//! The only loop of an HTTP/1.1 connection: it reads a request, responds, and reads the next.

use std::io;
use std::rc::Rc;

use bytes::Buf;
use tokio::net::TcpStream;

use crate::body::{self, BodyError};
use crate::connection::{ServerConnection, boxed};
use crate::exchange::Http1Exchange;
use crate::faults::Scope;
use crate::faults::play::play;
use crate::http2;
use crate::received::Received;
use crate::request::{self, Rejection, RequestFraming};
use crate::respond::{After, Handled, keeps_body, respond, send, send_default, start_request};
use crate::response::{FullResponse, Persistence};
use crate::route::RequestRoute;
use crate::socket::Socket;
use crate::tls;
use crate::worker::ServerWorker;

/// The beginning of the HTTP/2 connection preface, which resembles a request line (RFC 9113 section 3.4).
const HTTP_2_PREFACE: &[u8] = b"PRI * HTTP/2";
const HTTP_2_ONLY: &str = "this fault is one of HTTP/2\n";

/// Serves one connection until it ends.
pub(crate) async fn connection(stream: TcpStream, worker: &Rc<ServerWorker>) {
    let _open = worker.counters().open();
    // If this fails, the socket is dead, and its first use fails, too.
    let _ = stream.set_nodelay(true);
    let socket = if let Some(tls) = worker.tls() {
        // If the handshake fails, TLS has sent the client an alert.
        let Ok(stream) = boxed(tls.accept(stream)).await else { return };
        if tls::is_http2(stream.get_ref().1.alpn_protocol()) {
            let connection = ServerConnection::new(Socket::Right(Box::new(stream)), worker.counters());
            return boxed(http2::serve(connection, worker)).await;
        }
        Socket::Right(Box::new(stream))
    } else {
        Socket::Left(stream)
    };
    let mut connection = ServerConnection::new(socket, worker.counters());
    // The only error is that the client has disconnected.
    if let Ok(Served::SpeaksHttp2) = serve_requests(&mut connection, worker).await {
        boxed(http2::serve(connection, worker)).await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    UntilClosed,
    SpeaksHttp2,
}

async fn serve_requests<'worker>(
    connection: &mut ServerConnection<'worker>,
    worker: &'worker ServerWorker,
) -> io::Result<Served> {
    loop {
        let request = match request::parse(&connection.buffer) {
            Ok(Some(request)) => request,
            Ok(None) => {
                connection.fill().await?;
                continue;
            }
            Err(_) if worker.http2().is_some() && connection.buffer.starts_with(HTTP_2_PREFACE) => {
                return Ok(Served::SpeaksHttp2);
            }
            Err(rejection) => {
                boxed(reject(connection, worker, rejection)).await?;
                return Ok(Served::UntilClosed);
            }
        };
        let is_secure = connection.is_secure();
        let head = &connection.buffer[..request.head_bytes];
        let (in_progress, received) = start_request(worker, request.route, || Received::of(head, is_secure));
        connection.buffer.advance(request.head_bytes);
        let mut exchange = Http1Exchange { connection: &mut *connection, request: &request, in_progress };
        let after =
            if let (RequestRoute::Default, RequestFraming::Empty, None) = (request.route, request.body, &received) {
                send_default(&mut exchange, worker).await?;
                After::Sent
            } else {
                boxed(respond_unusual(exchange, worker, received)).await?
            };
        match after {
            After::Closed => return Ok(Served::UntilClosed),
            After::Sent if request.persistence == Persistence::Close => {
                boxed(connection.close()).await?;
                return Ok(Served::UntilClosed);
            }
            After::Sent => {}
        }
    }
}

/// Responds to all requests except those without a body that get the default response from a server without rules.
async fn respond_unusual(
    mut exchange: Http1Exchange<'_, '_>,
    worker: &ServerWorker,
    received: Option<Box<Received>>,
) -> io::Result<After> {
    let route = exchange.request.route;
    let mut received = received.map(|received| *received).unwrap_or_default();
    received.body = match body::read(exchange.connection, exchange.request, keeps_body(worker, route)).await {
        Ok(body) => body,
        Err(BodyError::Disconnected(error)) => return Err(error),
        Err(BodyError::Rejected(rejection)) => {
            exchange.in_progress.record_response(rejection.status);
            exchange.in_progress.end();
            reject(exchange.connection, worker, rejection).await?;
            return Ok(After::Closed);
        }
    };
    match respond(&mut exchange, worker, route, received).await? {
        Handled::Sent(after) => Ok(after),
        Handled::Fault(fault) if fault.scope() == Scope::Bytes => {
            play(exchange.connection, &mut exchange.in_progress, fault, 0).await
        }
        Handled::Fault(_) => {
            send(&mut exchange, worker, &FullResponse::new(501, HTTP_2_ONLY)).await?;
            Ok(After::Sent)
        }
    }
}

/// Responds to an invalid request, and closes the connection.
async fn reject(connection: &mut ServerConnection<'_>, worker: &ServerWorker, rejection: Rejection) -> io::Result<()> {
    let response = FullResponse::new(rejection.status, format!("{}\n", rejection.reason));
    worker.counters().response(response.status);
    connection.send(response.head(Persistence::Close).chain(&response.body[..])).await?;
    connection.close().await
}
