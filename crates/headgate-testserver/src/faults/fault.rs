//! A fault: a row of a table.

use std::io;

/// A fault at `/fault/NAME`.
#[derive(Debug)]
pub(crate) struct Fault {
    pub name: &'static str,
    /// One line, shown at `/`.
    pub description: &'static str,
    pub(crate) steps: &'static [FaultStep],
}

/// A step of a fault. After a fault whose last step is not `Hang`, `Close`, `Cut` or `Reset`, the connection serves the next
/// request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FaultStep {
    Send(&'static [u8]),
    /// Sends bytes that are created for each request, because they are large.
    Make(fn() -> io::Result<Vec<u8>>),
    Times(usize, &'static [u8]),
    Forever(&'static [u8]),
    /// Sends one byte a second.
    Drip(&'static [u8]),
    /// Gives the client time to read the bytes so far before the next step.
    Pause,
    /// Waits for the first bytes of the next request.
    AwaitNext,
    /// Sends nothing more until the client closes.
    Hang,
    Close,
    /// Closes the TCP connection; with TLS, without a `close_notify` alert.
    Cut,
    /// Closes with a TCP reset.
    Reset,
    /// Sends frames of HTTP/2 for the stream with this ID. From here on, other streams of the connection get no response.
    Frames(fn(u32) -> Vec<u8>),
    FramesForever(fn(u32) -> Vec<u8>),
    /// Resets this stream of HTTP/2 with this error code; other streams continue.
    ResetStream(u32),
    /// Sends trailers, each with its line end.
    Trailers(&'static str),
    /// Sends an interim response of HTTP/2 with this status.
    Interim(u16),
    /// Sends a GOAWAY frame of HTTP/2, and responds to the open streams.
    GoAway,
}

/// The scope of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Bytes of HTTP/1.1; over HTTP/2, as far as they can be converted.
    Bytes,
    /// A stream of HTTP/2.
    Stream,
    /// A connection of HTTP/2.
    Connection,
}

impl Fault {
    pub(crate) fn scope(&self) -> Scope {
        let has = |matches: fn(&FaultStep) -> bool| self.steps.iter().any(matches);
        if has(|step| matches!(step, FaultStep::Frames(_) | FaultStep::FramesForever(_))) {
            Scope::Connection
        } else if self.name.starts_with("h2-") {
            Scope::Stream
        } else {
            Scope::Bytes
        }
    }
}

impl FaultStep {
    pub(crate) fn ends_connection(self) -> bool {
        matches!(self, FaultStep::Hang | FaultStep::Close | FaultStep::Cut | FaultStep::Reset)
    }

    /// Returns whether the client may have the complete response before the step ends.
    pub(crate) fn may_complete(self, rest: &[FaultStep]) -> bool {
        let is_finite =
            !matches!(self, FaultStep::Forever(_) | FaultStep::FramesForever(_) | FaultStep::Drip(_) | FaultStep::Hang);
        is_finite
            && rest.iter().all(|step| {
                matches!(
                    step,
                    FaultStep::Pause
                        | FaultStep::AwaitNext
                        | FaultStep::Close
                        | FaultStep::Cut
                        | FaultStep::Reset
                        | FaultStep::ResetStream(_)
                        | FaultStep::Trailers(_)
                )
            })
    }
}
