//! A fault as a row of a table.

use std::io;

/// A way to misbehave, at `/fault/NAME`.
#[derive(Debug)]
pub(crate) struct Fault {
    pub name: &'static str,
    /// One line, shown at `/`.
    pub description: &'static str,
    pub(super) steps: &'static [Step],
}

/// What the server does, one thing after the other. A fault whose last step is none of `Hang`, `Close` and `Reset` leaves
/// the connection to the next request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
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

impl Step {
    pub(super) fn ends_connection(self) -> bool {
        matches!(self, Step::Hang | Step::Close | Step::Reset)
    }

    /// Whether a client may take the answer for complete before the step is done.
    pub(super) fn may_complete(self, rest: &[Step]) -> bool {
        let is_finite = matches!(self, Step::Send(_) | Step::Make(_) | Step::Times(..) | Step::Close | Step::Reset);
        is_finite && rest.iter().all(|step| matches!(step, Step::Pause | Step::AwaitNext | Step::Close | Step::Reset))
    }
}
