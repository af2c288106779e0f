//! What a hostile or broken server may do, each by name. A fault is a row of a table: its name, a line for people, and
//! the steps that the server takes instead of an answer.
//!
//! Every fault that waits ends when the client closes or the server stops; one that sends without end sends as fast
//! as the client reads, from one small block of memory.

mod connection;
mod content;
mod framing;
mod head;

use std::io;
use std::time::Duration;

use crate::connection::Connection;
use crate::exchange::{After, Exchange};

/// A way to misbehave, at `/fault/NAME`.
#[derive(Debug)]
pub(crate) struct Fault {
    pub name: &'static str,
    /// One line, shown at `/`.
    pub description: &'static str,
    steps: &'static [Step],
}

/// What the server does, one thing after the other. A fault whose last step is none of `Hang`, `Close` and `Reset` leaves
/// the connection to the next request.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send(&'static [u8]),
    /// Send what is made when it is asked for, because it is large.
    Make(fn() -> io::Result<Vec<u8>>),
    Times(usize, &'static [u8]),
    Forever(&'static [u8]),
    /// Send one byte a second.
    Drip(&'static [u8]),
    /// Let the client read what it was sent so far before the next step takes it by surprise.
    Pause,
    /// Wait for the first bytes of the next request.
    AwaitNext,
    /// Send nothing more, until the client closes.
    Hang,
    Close,
    /// Close with a TCP reset.
    Reset,
}

const DRIP_INTERVAL: Duration = Duration::from_secs(1);
/// A reset may overtake what was sent before it; nothing tells us when the client has read that.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of repeated pieces that are sent at once.
const BLOCK_BYTES: usize = 16 * 1024;

const TABLES: [&[Fault]; 4] = [connection::FAULTS, framing::FAULTS, head::FAULTS, content::FAULTS];

/// Every fault, in the order of the list at `/`.
pub(crate) fn all() -> impl Iterator<Item = &'static Fault> {
    TABLES.into_iter().flatten()
}

/// The fault of that name, and its place in [`all`].
pub(crate) fn find(name: &str) -> Option<(usize, &'static Fault)> {
    all().enumerate().find(|(_, fault)| fault.name == name)
}

impl Step {
    fn ends_connection(self) -> bool {
        matches!(self, Step::Hang | Step::Close | Step::Reset)
    }

    /// Whether a client may take the answer for complete before the step is done.
    fn may_complete(self, rest: &[Step]) -> bool {
        let is_finite = matches!(self, Step::Send(_) | Step::Make(_) | Step::Times(..) | Step::Close | Step::Reset);
        is_finite && rest.iter().all(|step| matches!(step, Step::Pause | Step::AwaitNext | Step::Close | Step::Reset))
    }
}

/// Answers by the steps of `fault`.
pub(crate) async fn play(mut exchange: Exchange<'_, '_>, fault: &Fault) -> io::Result<After> {
    let mut steps = fault.steps;
    while let Some((step, rest)) = steps.split_first() {
        if step.may_complete(rest) {
            exchange.in_progress.end();
        }
        take(exchange.connection, *step).await?;
        if step.ends_connection() {
            return Ok(After::Ended);
        }
        steps = rest;
    }
    Ok(After::Answered)
}

async fn take(connection: &mut Connection<'_>, step: Step) -> io::Result<()> {
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
        Step::Forever(bytes) => {
            let block = bytes.repeat((BLOCK_BYTES / bytes.len()).max(1));
            loop {
                connection.send(&block[..]).await?;
            }
        }
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
        Step::Reset => connection.reset(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own_and_says_what_it_does() {
        let names: BTreeSet<&str> = all().map(|fault| fault.name).collect();
        assert_eq!(all().count(), names.len());
        for fault in all() {
            assert!(fault.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
            assert!(!fault.description.is_empty(), "{}", fault.name);
            let ends = fault.steps.iter().position(|step| step.ends_connection());
            assert!(ends.is_none_or(|index| index + 1 == fault.steps.len()), "{}: steps after the end", fault.name);
        }
    }
}
