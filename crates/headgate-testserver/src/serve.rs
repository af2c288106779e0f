//! THE loop of a connection: read a head, answer it, take the next.

use std::io;
use std::time::Instant;

use bytes::Buf;
use tokio::net::TcpStream;

use crate::admission;
use crate::answer::{Answer, Persistence};
use crate::asked::Asked;
use crate::body::{self, BodyError};
use crate::connection::{Connection, rare};
use crate::exchange::{After, Exchange};
use crate::faults::play::play;
use crate::helpers;
use crate::in_progress::InProgress;
use crate::request::{self, Framing, Rejection, Request};
use crate::route::Route;
use crate::rules::Rules;
use crate::worker::Worker;

/// Serves one connection to its end.
pub(crate) async fn connection(stream: TcpStream, worker: &Worker) {
    let _open = worker.counters().open();
    // If this fails the socket is dead, and its first use says so.
    let _ = stream.set_nodelay(true);
    let mut connection = Connection::new(stream, worker.counters());
    // The only error is that the client has gone.
    let _ = answer_all(&mut connection, worker).await;
}

async fn answer_all<'worker>(connection: &mut Connection<'worker>, worker: &'worker Worker) -> io::Result<()> {
    loop {
        let request = match request::parse(&connection.buffer) {
            Ok(Some(request)) => request,
            Ok(None) => {
                connection.fill().await?;
                continue;
            }
            Err(rejection) => return rare(reject(connection, worker, rejection)).await,
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
            After::Ended => return Ok(()),
            After::Answered if request.persistence == Persistence::Close => return rare(connection.close()).await,
            After::Answered => {}
        }
    }
}

/// Counts a request, and takes from its head what the rules of the server need.
fn begin(worker: &Worker, request: &Request, buffer: &[u8]) -> (InProgress, Option<Box<Asked>>) {
    if matches!(request.route, Route::Stats | Route::Capacity(_)) {
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
    let Request { head_bytes, route, .. } = *exchange.request;
    let is_echo = matches!(route, Route::Echo);
    let head = if is_echo { exchange.connection.buffer[..head_bytes].to_vec() } else { Vec::new() };
    exchange.connection.buffer.advance(head_bytes);
    let keeps_body = is_echo || exchange.worker.rules().is_some_and(Rules::reads_bodies);
    let body = match body::read(exchange.connection, exchange.request, keeps_body).await {
        Ok(body) => body,
        Err(BodyError::Gone(error)) => return Err(error),
        Err(BodyError::Rejected(rejection)) => {
            exchange.in_progress.answers(rejection.status);
            exchange.in_progress.end();
            reject(exchange.connection, exchange.worker, rejection).await?;
            return Ok(After::Ended);
        }
    };
    if let (Some(rules), Some(asked)) = (exchange.worker.rules(), &asked)
        && let Some(answer) = admission::admit(&mut exchange, rules, asked, &body).await?
    {
        exchange.send(&answer).await?;
        return Ok(After::Answered);
    }
    match route {
        Route::Fault(index, fault) => {
            exchange.worker.counters().fault(index);
            play(exchange, fault).await
        }
        Route::Echo => {
            exchange.send(&helpers::echo(&head, &body)).await?;
            Ok(After::Answered)
        }
        _ => helpers::answer(exchange).await,
    }
}

/// Says what is wrong with a request, and ends the connection.
async fn reject(connection: &mut Connection<'_>, worker: &Worker, rejection: Rejection) -> io::Result<()> {
    let answer = Answer::new(rejection.status, format!("{}\n", rejection.reason));
    worker.counters().response(answer.status);
    connection.send(answer.head(Persistence::Close).chain(&answer.body[..])).await?;
    connection.close().await
}
