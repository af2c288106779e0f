//! How long a server may keep an exchange waiting, beside the time for the whole attempt.
//!
//! Pure: who makes an exchange says how far it has come and when it last moved, and has its lane's `Deadline` watch what
//! follows from that.

use std::time::{Duration, Instant};

use crate::model::error::{ErrorKind, Failure};
use crate::model::message::OptionName;
use crate::model::options::RequestOptions;

/// How far an exchange has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The request is not written whole.
    Sending,
    /// It is, and no byte of an answer has come.
    Waiting,
    /// Some of the answer has come.
    Receiving,
}

/// What a run's servers are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseTimeouts {
    /// From the end of the request to the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// Between two reads or writes; also for the first byte, where nothing else is said of it.
    pub idle: Option<Duration>,
}

/// When it ends unless something happens, and the option that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub at: Instant,
    pub option: OptionName,
}

impl ResponseTimeouts {
    pub fn new(request: &RequestOptions) -> Self {
        Self { first_byte: request.first_byte_timeout, idle: request.idle_timeout }
    }

    /// Whether it ever ends.
    pub fn is_bounded(&self) -> bool {
        self.first_byte.is_some() || self.idle.is_some()
    }

    /// Until when an exchange is waited for that came so far, and moved last at `moved`.
    pub fn limit(&self, progress: Progress, moved: Instant) -> Option<Limit> {
        let (time, option) = match (progress, self.first_byte) {
            (Progress::Waiting, Some(time)) => (time, OptionName::FirstByteTimeoutS),
            _ => (self.idle?, OptionName::IdleTimeoutS),
        };
        Some(Limit { at: moved + time, option })
    }
}

/// Why an exchange ended at the time that `option` sets; `is_sending`: there was more of the request to be sent, and nothing of
/// an answer; `has_head`: the head of one.
pub fn timed_out(option: OptionName, is_sending: bool, has_head: bool) -> Failure {
    let message = match option {
        OptionName::FirstByteTimeoutS => "the first byte of an answer did not come in time",
        OptionName::IdleTimeoutS if is_sending => "the server took nothing of the request for too long",
        OptionName::IdleTimeoutS if has_head => "the body was not complete, and nothing came for too long",
        OptionName::IdleTimeoutS => "nothing came from the server for too long",
        OptionName::DeadlineS if has_head => "the body was not complete by the deadline of the row",
        OptionName::DeadlineS => "no answer came by the deadline of the row",
        _ if has_head => "the body was not complete in time",
        _ => "no answer came in time",
    };
    Failure::new(ErrorKind::Timeout, message).with_option(option)
}

/// Why a body ended that was taken while it came, at the time that `option` sets for its next piece.
pub fn came_no_more(option: OptionName) -> Failure {
    Failure::new(ErrorKind::Timeout, "the body was not complete, and nothing came for too long").with_option(option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_has_a_time_of_its_own_and_whatever_moves_has_the_other() {
        let (first_byte, idle) = (Some(Duration::from_secs(60)), Some(Duration::from_secs(5)));
        let moved = Instant::now();
        for (expected, first_byte, idle) in [
            ([None, None, None], None, None),
            ([Some(5), Some(60), Some(5)], first_byte, idle),
            ([Some(5), Some(5), Some(5)], None, idle),
            ([None, Some(60), None], first_byte, None),
        ] {
            let timeouts = ResponseTimeouts { first_byte, idle };
            let limits = [Progress::Sending, Progress::Waiting, Progress::Receiving].map(|progress| {
                let limit = timeouts.limit(progress, moved)?;
                let its_own = progress == Progress::Waiting && first_byte.is_some();
                let option = if its_own { OptionName::FirstByteTimeoutS } else { OptionName::IdleTimeoutS };
                assert_eq!(option, limit.option);
                Some((limit.at - moved).as_secs())
            });
            assert_eq!((expected, expected != [None; 3]), (limits, timeouts.is_bounded()));
        }
    }
}
