//! A connection of HTTP/2, on the `h2` crate: each stream is answered for itself, by the same routes as over HTTP/1.1.
//!
//! A fault of the whole connection takes the socket away from `h2` and writes its frames there itself; the answers that
//! were on their way are lost with it.

mod fault;
mod stream;
mod wire;
mod wish;

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection as H2Connection};
use http::Request;
use tokio::sync::mpsc;

use self::stream::Stream;
use self::wire::Wire;
use self::wish::Wish;
use crate::connection::Connection;
use crate::faults::Scope;
use crate::faults::play::{play, take};
use crate::in_progress::InProgress;
use crate::request::MAX_HEAD_BYTES;
use crate::route::Route;
use crate::worker::Worker;

/// What clients may send unasked, on a stream and in all.
const WINDOW_BYTES: u32 = 1024 * 1024;
/// Of one stream's answer, waiting to be sent.
const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// Serves one connection to its end.
pub(crate) async fn serve(connection: Connection<'_>, worker: &Rc<Worker>) {
    let (socket, read) = connection.into_parts();
    let wire = Wire::new(socket, read, worker.clone());
    // The only error is that the client has gone, or speaks something else, which `h2` has told it.
    let _ = answer_all(wire, worker).await;
}

async fn answer_all(wire: Wire, worker: &Rc<Worker>) -> io::Result<()> {
    let mut connection: H2Connection<Wire, Bytes> = Builder::new()
        .max_concurrent_streams(worker.http2().unwrap_or(1))
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .handshake(wire.clone())
        .await
        .map_err(io::Error::other)?;
    let (wishes, mut next_wish) = mpsc::channel(1);
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            Some(wish) = next_wish.recv() => match wish {
                Wish::GoAway => {
                    connection.graceful_shutdown();
                    continue;
                }
                Wish::End(step) => {
                    let Some(mut connection) = take_over(&wire, connection, worker) else { return Ok(()) };
                    return take(&mut connection, step, 0).await;
                }
            },
        };
        let Some(accepted) = accepted else { return Ok(()) };
        let (request, respond) = accepted.map_err(io::Error::other)?;
        let route = Route::of(request.uri().path());
        if let Route::Fault(index, fault) = route
            && fault.scope() == Scope::Connection
        {
            let Some(mut connection) = take_over(&wire, connection, worker) else { return Ok(()) };
            worker.counters().request();
            worker.counters().fault(index);
            let mut in_progress = InProgress::begin(worker.server_counters());
            play(&mut connection, &mut in_progress, fault, u32::from(respond.stream_id())).await?;
            return Ok(());
        }
        let stream = Stream::begin(worker.clone(), respond, &request, route, wishes.clone());
        // The only error is that the client has gone.
        tokio::task::spawn_local(async move { _ = answer(stream, request).await });
    }
}

async fn answer(mut stream: Stream, request: Request<RecvStream>) -> io::Result<()> {
    match stream.answer(request.into_body()).await? {
        Some(fault) => fault::play(stream, fault).await,
        None => Ok(()),
    }
}

/// Takes the socket, and with it the connection.
fn take_over<'worker>(
    wire: &Wire,
    connection: H2Connection<Wire, Bytes>,
    worker: &'worker Worker,
) -> Option<Connection<'worker>> {
    let socket = wire.take()?;
    drop(connection);
    Some(Connection::new(socket, worker.counters()))
}
