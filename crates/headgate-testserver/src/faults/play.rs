//! Plays a fault instead of a response, step by step.

use std::io;
use std::time::Duration;

use super::fault::{Fault, FaultStep};
use crate::connection::ServerConnection;
use crate::in_progress::InProgress;
use crate::respond::After;

pub(crate) const DRIP_INTERVAL: Duration = Duration::from_secs(1);
/// The pause before a reset, which may overtake bytes that were sent before it. There is no sign when the client has read them.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// The size of a block of repeated bytes.
const BLOCK_BYTES: usize = 16 * 1024;

/// Runs the steps of `fault`; `stream` is the ID of its stream over HTTP/2.
pub(crate) async fn play(
    connection: &mut ServerConnection<'_>,
    in_progress: &mut InProgress,
    fault: &Fault,
    stream: u32,
) -> io::Result<After> {
    let mut steps = fault.steps;
    while let Some((step, rest)) = steps.split_first() {
        if step.may_complete(rest) {
            in_progress.end();
        }
        run_step(connection, *step, stream).await?;
        if step.ends_connection() {
            return Ok(After::Closed);
        }
        steps = rest;
    }
    Ok(After::Sent)
}

/// Runs one step.
pub(crate) async fn run_step(connection: &mut ServerConnection<'_>, step: FaultStep, stream: u32) -> io::Result<()> {
    match step {
        FaultStep::Send(bytes) => connection.send(bytes).await,
        FaultStep::Make(make) => connection.send(&make()?[..]).await,
        FaultStep::Times(count, bytes) => {
            let per_block = (BLOCK_BYTES / bytes.len()).max(1);
            let block = bytes.repeat(per_block.min(count));
            for _ in 0..count / per_block {
                connection.send(&block[..]).await?;
            }
            connection.send(&block[..(count % per_block) * bytes.len()]).await
        }
        FaultStep::Forever(bytes) => send_forever(connection, bytes).await,
        FaultStep::Frames(frames) => connection.send(&frames(stream)[..]).await,
        FaultStep::FramesForever(frames) => send_forever(connection, &frames(stream)).await,
        FaultStep::Drip(bytes) => {
            for byte in bytes.chunks(1) {
                connection.send(byte).await?;
                connection.pause(DRIP_INTERVAL).await?;
            }
            Ok(())
        }
        FaultStep::Pause => connection.pause(PAUSE).await,
        FaultStep::AwaitNext => connection.await_next().await,
        FaultStep::Hang => connection.hang().await,
        FaultStep::Close => connection.close().await,
        FaultStep::Cut => connection.cut().await,
        FaultStep::Reset => connection.reset(),
        // `http2/fault.rs` runs these steps.
        FaultStep::ResetStream(_) | FaultStep::Trailers(_) | FaultStep::Interim(_) | FaultStep::GoAway => Ok(()),
    }
}

async fn send_forever(connection: &mut ServerConnection<'_>, bytes: &[u8]) -> io::Result<()> {
    let block = bytes.repeat((BLOCK_BYTES / bytes.len()).max(1));
    loop {
        connection.send(&block[..]).await?;
    }
}
