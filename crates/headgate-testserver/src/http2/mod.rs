//! Serves HTTP/2 with the `h2` crate: each stream gets a response by the same routes as over HTTP/1.1.
//!
//! For a fault of the whole connection, the server detaches the socket from `h2`, and writes the frames of the fault itself.
//! Responses in progress are lost.

mod command;
mod fault;
mod stream;
mod wire;

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection as H2Connection};
use http::Request;
use tokio::sync::mpsc;

use self::command::ConnectionCommand;
use self::stream::ServerStream;
use self::wire::Wire;
use crate::connection::ServerConnection;
use crate::faults::Scope;
use crate::faults::play::{play, run_step};
use crate::in_progress::InProgress;
use crate::request::MAX_HEAD_BYTES;
use crate::route::RequestRoute;
use crate::worker::ServerWorker;

/// The flow-control window of a stream and of the connection.
const WINDOW_BYTES: u32 = 1024 * 1024;
/// The bound of a stream's response bytes that wait to be sent.
const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// Serves one connection until it ends.
pub(crate) async fn serve(connection: ServerConnection<'_>, worker: &Rc<ServerWorker>) {
    let (socket, read) = connection.into_parts();
    let wire = Wire::new(socket, read, worker.clone());
    // The only errors are that the client has disconnected, or does not speak HTTP/2, which `h2` has reported to it.
    let _ = serve_streams(wire, worker).await;
}

async fn serve_streams(wire: Wire, worker: &Rc<ServerWorker>) -> io::Result<()> {
    let mut connection: H2Connection<Wire, Bytes> = Builder::new()
        .max_concurrent_streams(worker.http2().unwrap_or(1))
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .handshake(wire.clone())
        .await
        .map_err(io::Error::other)?;
    let (commands, mut next_command) = mpsc::channel(1);
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            Some(command) = next_command.recv() => match command {
                ConnectionCommand::GoAway => {
                    connection.graceful_shutdown();
                    continue;
                }
                ConnectionCommand::Close(step) => {
                    let Some(mut connection) = take_over(&wire, connection, worker) else { return Ok(()) };
                    return run_step(&mut connection, step, 0).await;
                }
            },
        };
        let Some(accepted) = accepted else { return Ok(()) };
        let (request, respond) = accepted.map_err(io::Error::other)?;
        let route = RequestRoute::of(request.uri().path());
        if let RequestRoute::Fault(index, fault) = route
            && fault.scope() == Scope::Connection
        {
            let Some(mut connection) = take_over(&wire, connection, worker) else { return Ok(()) };
            worker.counters().request();
            worker.counters().fault(index);
            let mut in_progress = InProgress::begin(worker.server_counters());
            play(&mut connection, &mut in_progress, fault, u32::from(respond.stream_id())).await?;
            return Ok(());
        }
        let stream = ServerStream::begin(worker.clone(), respond, &request, route, commands.clone());
        // The only error is that the client has disconnected.
        tokio::task::spawn_local(async move { _ = respond_or_play(stream, request).await });
    }
}

async fn respond_or_play(mut stream: ServerStream, request: Request<RecvStream>) -> io::Result<()> {
    match stream.respond(request.into_body()).await? {
        Some(fault) => fault::play(stream, fault).await,
        None => Ok(()),
    }
}

/// Detaches the socket from `h2`, and returns it as a connection.
fn take_over<'worker>(
    wire: &Wire,
    connection: H2Connection<Wire, Bytes>,
    worker: &'worker ServerWorker,
) -> Option<ServerConnection<'worker>> {
    let socket = wire.take()?;
    drop(connection);
    Some(ServerConnection::new(socket, worker.counters()))
}
