//! The first-byte and idle timeouts of an exchange, beside the timeout of the whole attempt.
//!
//! Pure: the exchange passes its phase and when it last moved, and has its lane's `Deadline` observe the resulting limit.

use std::time::{Duration, Instant};

use headgate_core::error::{ErrorKind, Failure};
use headgate_core::message::OptionName;
use headgate_core::options::RequestOptions;

/// The phase of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangePhase {
    /// The request is not completely written.
    Sending,
    /// The request is written, and no byte of a response has come.
    Waiting,
    /// Some of the response has come.
    Receiving,
}

/// The timeouts of a run's responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseTimeouts {
    /// The timeout from the end of the request to the first byte of the response.
    pub first_byte: Option<Duration>,
    /// The timeout between two reads or writes; also for the first byte, unless `first_byte` is set.
    pub idle: Option<Duration>,
}

/// The time at which an exchange times out unless it makes progress, and the option that sets this timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub at: Instant,
    pub option: OptionName,
}

impl ResponseTimeouts {
    pub fn new(request: &RequestOptions) -> Self {
        Self { first_byte: request.first_byte_timeout, idle: request.idle_timeout }
    }

    /// Returns whether there is any timeout.
    pub(crate) fn is_bounded(&self) -> bool {
        self.first_byte.is_some() || self.idle.is_some()
    }

    /// Returns when an exchange in this phase, which last moved at `moved`, times out.
    pub fn limit(&self, phase: ExchangePhase, moved: Instant) -> Option<Limit> {
        let (time, option) = match (phase, self.first_byte) {
            (ExchangePhase::Waiting, Some(time)) => (time, OptionName::FirstByteTimeout),
            _ => (self.idle?, OptionName::IdleTimeout),
        };
        Some(Limit { at: moved + time, option })
    }
}

/// Returns the failure of an exchange that timed out by `option`. `is_sending`: the request was not completely written, and no
/// byte of a response had come; `has_head`: the head of the response had come.
pub(crate) fn timed_out(option: OptionName, is_sending: bool, has_head: bool) -> Failure {
    let message = match option {
        OptionName::FirstByteTimeout => "the first byte of the response did not come in time",
        OptionName::IdleTimeout if is_sending => "the server accepted no bytes of the request for too long",
        OptionName::IdleTimeout if has_head => "the body was not complete, and the server sent nothing for too long",
        OptionName::IdleTimeout => "the server sent nothing for too long",
        OptionName::TotalTimeout if has_head => "the body was not complete when the total timeout passed",
        OptionName::TotalTimeout => "no response came before the total timeout passed",
        _ if has_head => "the body was not complete in time",
        _ => "no response came in time",
    };
    Failure::new(kind_of(option), message).with_option(option)
}

/// Returns the failure of an exchange that timed out by `option` while its server waited for more of the request's body from
/// the caller.
pub(crate) fn caller_timed_out(option: OptionName) -> Failure {
    let message = "the content of the request was not complete in time: the next piece of its iterator did not come";
    Failure::new(kind_of(option), message).with_option(option).of_ours()
}

/// Returns the failure of a body whose caller reads it in pieces, and whose next piece did not come within the timeout of
/// `option`.
pub(crate) fn piece_timed_out(option: OptionName) -> Failure {
    Failure::new(kind_of(option), "the body was not complete, and the server sent nothing for too long")
        .with_option(option)
}

/// Returns the error kind of an exchange that timed out by `option`.
fn kind_of(option: OptionName) -> ErrorKind {
    if option == OptionName::TotalTimeout { ErrorKind::TotalTimeout } else { ErrorKind::Timeout }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_has_its_own_timeout_and_all_other_progress_the_idle_timeout() {
        let (first_byte, idle) = (Some(Duration::from_secs(60)), Some(Duration::from_secs(5)));
        let moved = Instant::now();
        for (expected, first_byte, idle) in [
            ([None, None, None], None, None),
            ([Some(5), Some(60), Some(5)], first_byte, idle),
            ([Some(5), Some(5), Some(5)], None, idle),
            ([None, Some(60), None], first_byte, None),
        ] {
            let timeouts = ResponseTimeouts { first_byte, idle };
            let limits = [ExchangePhase::Sending, ExchangePhase::Waiting, ExchangePhase::Receiving].map(|phase| {
                let limit = timeouts.limit(phase, moved)?;
                let is_first_byte = phase == ExchangePhase::Waiting && first_byte.is_some();
                let option = if is_first_byte { OptionName::FirstByteTimeout } else { OptionName::IdleTimeout };
                assert_eq!(option, limit.option);
                Some((limit.at - moved).as_secs())
            });
            assert_eq!((expected, expected != [None; 3]), (limits, timeouts.is_bounded()));
        }
    }
}
