//! A fault as a row of a table.

use std::io;

/// A way to misbehave, at `/fault/NAME`.
#[derive(Debug)]
pub(crate) struct Fault {
    pub name: &'static str,
    /// One line, shown at `/`.
    pub description: &'static str,
    pub(crate) steps: &'static [Step],
}

/// What the server does, one thing after the other. A fault whose last step is none of `Hang`, `Close` and `Reset` leaves
/// the connection to the next request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
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
    /// Close the TCP connection; with TLS, without saying that this is the end.
    Cut,
    /// Close with a TCP reset.
    Reset,
    /// Frames of HTTP/2 for the stream of this number. From here on nothing else answers on this connection.
    Frames(fn(u32) -> Vec<u8>),
    FramesForever(fn(u32) -> Vec<u8>),
    /// End this stream of HTTP/2 with this error; others go on.
    ResetStream(u32),
    /// Fields, each with its line end.
    Trailers(&'static str),
    /// An interim response of HTTP/2 with this status.
    Interim(u16),
    /// Say that this connection of HTTP/2 takes no more streams, and answer those that there are.
    GoAway,
}

/// The scope of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Bytes of HTTP/1.1; over HTTP/2, what of it can be said there.
    Bytes,
    /// A stream of HTTP/2.
    Stream,
    /// A connection of HTTP/2.
    Connection,
}

impl Fault {
    pub fn scope(&self) -> Scope {
        let has = |is_such: fn(&Step) -> bool| self.steps.iter().any(is_such);
        if has(|step| matches!(step, Step::Frames(_) | Step::FramesForever(_))) {
            Scope::Connection
        } else if self.name.starts_with("h2-") {
            Scope::Stream
        } else {
            Scope::Bytes
        }
    }
}

impl Step {
    pub(crate) fn ends_connection(self) -> bool {
        matches!(self, Step::Hang | Step::Close | Step::Cut | Step::Reset)
    }

    /// Returns whether a client may take the response for complete before the step is done.
    pub(crate) fn may_complete(self, rest: &[Step]) -> bool {
        let is_finite = !matches!(self, Step::Forever(_) | Step::FramesForever(_) | Step::Drip(_) | Step::Hang);
        is_finite
            && rest.iter().all(|step| {
                matches!(
                    step,
                    Step::Pause
                        | Step::AwaitNext
                        | Step::Close
                        | Step::Cut
                        | Step::Reset
                        | Step::ResetStream(_)
                        | Step::Trailers(_)
                )
            })
    }
}
