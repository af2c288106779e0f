//! Selects rows by their outcome: `timeout`, `status:503`, `503`, `5xx`. `timeout` includes every timeout.

use std::str::FromStr;

use headgate_core::error::ErrorKind;
use headgate_core::fail_on::FailOn;
use headgate_core::failed_by::status_of;
use headgate_core::status_set::StatusSet;

/// The error kind, or the statuses, of rows to retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Only {
    Error(ErrorKind),
    /// A code or a class, which rows that succeeded may have, too.
    Statuses(StatusSet),
}

impl Only {
    /// Returns whether a row with this outcome matches one of `only`. If `only` is empty, every failed row matches except an
    /// invalid request, which would fail again.
    pub(super) fn any(only: &[Self], outcome: &str) -> bool {
        only.is_empty() && outcome != ErrorKind::InvalidRequest.name() || only.iter().any(|only| only.matches(outcome))
    }

    /// Returns whether rows that succeeded may match one of `only`, if rows with a status in `fail_on` fail.
    /// `sends_credentials`: the job does.
    pub(super) fn may_match_succeeded(only: &[Self], fail_on: &FailOn, sends_credentials: bool) -> bool {
        let may_succeed = |statuses| fail_on.lacks_some_of(statuses, sends_credentials);
        only.iter().any(|only| matches!(only, Self::Statuses(statuses) if may_succeed(statuses)))
    }

    fn matches(&self, outcome: &str) -> bool {
        match self {
            // A user who retries timeouts means these, too.
            Self::Error(ErrorKind::Timeout) => outcome == "timeout" || outcome.ends_with("_timeout"),
            Self::Error(error) => error.name() == outcome,
            // Rows that were not sent after these statuses.
            Self::Statuses(statuses) if outcome == ErrorKind::Credentials.name() => {
                [401, 403, 407].iter().any(|status| statuses.contains(*status))
            }
            Self::Statuses(statuses) => status_of(outcome)
                .and_then(|status| status.parse().ok())
                .is_some_and(|status| statuses.contains(status)),
        }
    }
}

impl FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("names an empty kind: write kinds and statuses such as timeout,503".into());
        }
        if let Some(kind) = ErrorKind::of_name(text) {
            return Ok(Self::Error(kind));
        }
        let mut statuses = StatusSet::default();
        statuses.set(status_of(text).unwrap_or(text), true).ok_or_else(|| {
            let kinds: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
            format!("names '{text}', which is neither a status such as 503 or 5xx nor one of {}", kinds.join(", "))
        })?;
        Ok(Self::Statuses(statuses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Only {
        text.parse().expect("a kind or a status")
    }

    #[test]
    fn kinds_and_statuses_are_distinguished() {
        let filters = ["timeout", "status:503", "503", "5xx", "connect_timeout"].map(only);
        for (expected, outcome) in [
            ([true, false, false, false, false], "timeout"),
            ([true, false, false, false, true], "connect_timeout"),
            ([true, false, false, false, false], "total_timeout"),
            ([false, true, true, true, false], "status:503"),
            ([false, false, false, true, false], "status:500"),
            ([false; 5], "status:404"),
            ([false; 5], "connect"),
        ] {
            assert_eq!(expected, filters.each_ref().map(|only| only.matches(outcome)), "{outcome}");
        }
        assert!(Only::any(&[], "anything"));
        assert!(!Only::any(&[], "invalid_request"));
        assert!(Only::any(&[only("invalid_request")], "invalid_request"));
        assert!(!Only::any(&[only("timeout")], "connect"));
    }

    #[test]
    fn only_statuses_that_do_not_fail_may_match_succeeded_rows() {
        let fail_on: FailOn = "unauthorized,429,5xx".parse().expect("statuses");
        for (expected, text) in [(false, "timeout"), (false, "503"), (false, "5xx"), (true, "404"), (true, "4xx")] {
            assert_eq!(expected, Only::may_match_succeeded(&[only(text)], &fail_on, false), "{text}");
        }
        assert!(!Only::may_match_succeeded(&[], &fail_on, false));
        assert!(!Only::may_match_succeeded(&[only("401")], &fail_on, true));
        assert!(only("401").matches("credentials") && !only("404").matches("credentials"));
    }

    #[test]
    fn an_unknown_kind_of_failure_is_refused_with_the_known_ones() {
        for text in ["timeouts", "none", "status:", "status:50", "status:5xxx", "status:xxx"] {
            let error = text.parse::<Only>().expect_err(text);
            let start =
                format!("names '{text}', which is neither a status such as 503 or 5xx nor one of invalid_request, ");
            assert!(error.starts_with(&start), "{error}");
        }
        assert!("".parse::<Only>().expect_err("empty").starts_with("names an empty kind"));
    }
}
