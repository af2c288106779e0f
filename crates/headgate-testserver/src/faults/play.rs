//! Plays a fault instead of a response, step by step.

use std::io;
use std::time::Duration;

use super::fault::{Fault, Step};
use crate::connection::Connection;
use crate::in_progress::InProgress;
use crate::respond::After;

pub(crate) const DRIP_INTERVAL: Duration = Duration::from_secs(1);
/// The pause before a reset, which may overtake bytes that were sent before it. There is no sign when the client has read them.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// The size of a block of repeated bytes.
const BLOCK_BYTES: usize = 16 * 1024;

/// Runs the steps of `fault`; `stream` is the ID of its stream over HTTP/2.
pub(crate) async fn play(
    connection: &mut Connection<'_>,
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
pub(crate) async fn run_step(connection: &mut Connection<'_>, step: Step, stream: u32) -> io::Result<()> {
    match step {
        Step::Send(bytes) => connection.send(bytes).await,
        Step::Make(make) => connection.send(&make()?[..]).await,
        Step::Times(count, bytes) => {
            let per_block = (BLOCK_BYTES / bytes.len()).max(1);
            let block = bytes.repeat(per_block.min(count));
            for _ in 0..count / per_block {
                connection.send(&block[..]).await?;
            }
            connection.send(&block[..(count % per_block) * bytes.len()]).await
        }
        Step::Forever(bytes) => send_forever(connection, bytes).await,
        Step::Frames(frames) => connection.send(&frames(stream)[..]).await,
        Step::FramesForever(frames) => send_forever(connection, &frames(stream)).await,
        Step::Drip(bytes) => {
            for byte in bytes.chunks(1) {
                connection.send(byte).await?;
                connection.pause(DRIP_INTERVAL).await?;
            }
            Ok(())
        }
        Step::Pause => connection.pause(PAUSE).await,
        Step::AwaitNext => connection.await_next().await,
        Step::Hang => connection.hang().await,
        Step::Close => connection.close().await,
        Step::Cut => connection.cut().await,
        Step::Reset => connection.reset(),
        // `http2/fault.rs` runs these steps.
        Step::ResetStream(_) | Step::Trailers(_) | Step::Interim(_) | Step::GoAway => Ok(()),
    }
}

async fn send_forever(connection: &mut Connection<'_>, bytes: &[u8]) -> io::Result<()> {
    let block = bytes.repeat((BLOCK_BYTES / bytes.len()).max(1));
    loop {
        connection.send(&block[..]).await?;
    }
}
