//! Selects failed rows by cause: `timeout`, `status:503`, `status:5xx`. `timeout` includes `connect_timeout`.

use std::str::FromStr;

use headgate_core::error::ErrorKind;
use headgate_core::failed_by::status_of;

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    Error(ErrorKind),
    Status(u16),
    /// `status:5xx`.
    StatusClass(u16),
}

impl Only {
    /// Returns whether a failure with this cause matches one of `only`. If `only` is empty, every failure matches except an
    /// invalid request, which would fail again.
    pub(super) fn any(only: &[Self], kind: &str) -> bool {
        only.is_empty() && kind != ErrorKind::InvalidRequest.name() || only.iter().any(|only| only.matches(kind))
    }

    fn matches(self, kind: &str) -> bool {
        let status = || status_of(kind).and_then(|status| status.parse::<u16>().ok());
        match self {
            // A user who retries timeouts means these, too.
            Self::Error(ErrorKind::Timeout) if kind == ErrorKind::ConnectTimeout.name() => true,
            Self::Error(error) => error.name() == kind,
            Self::Status(wanted) => status() == Some(wanted),
            Self::StatusClass(class) => status().is_some_and(|status| status / 100 == class),
        }
    }
}

impl FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("names an empty kind: write kinds such as timeout,status:503".into());
        }
        let error = ErrorKind::ALL.iter().find(|kind| kind.name() == text).map(|kind| Self::Error(*kind));
        error.or_else(|| status(status_of(text)?)).ok_or_else(|| {
            let kinds: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
            let kinds = kinds.join(", ");
            format!("names '{text}', which is none of {kinds}, status:503, status:5xx")
        })
    }
}

fn status(text: &str) -> Option<Only> {
    match text.as_bytes() {
        [class @ b'1'..=b'5', b'x', b'x'] => Some(Only::StatusClass(u16::from(class - b'0'))),
        [b'1'..=b'9', _, _] => text.parse().ok().map(Only::Status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_statuses_are_distinguished() {
        let timeout: Only = "timeout".parse().expect("a kind");
        let unavailable: Only = "status:503".parse().expect("a status");
        let class: Only = "status:5xx".parse().expect("a class of statuses");
        assert_eq!([true, false, false], [timeout, unavailable, class].map(|only| only.matches("timeout")));
        assert_eq!([false, true, true], [timeout, unavailable, class].map(|only| only.matches("status:503")));
        assert_eq!([false, false, true], [timeout, unavailable, class].map(|only| only.matches("status:500")));
        assert_eq!([true, false, false], [timeout, unavailable, class].map(|only| only.matches("connect_timeout")));
        let connect_timeout: Only = "connect_timeout".parse().expect("a kind");
        assert_eq!([true, false], ["connect_timeout", "timeout"].map(|kind| connect_timeout.matches(kind)));
        assert!(Only::any(&[], "anything"));
        assert!(!Only::any(&[], "invalid_request"));
        assert!(Only::any(&[Only::Error(ErrorKind::InvalidRequest)], "invalid_request"));
        assert!(!Only::any(&[timeout], "connect"));
    }

    #[test]
    fn an_unknown_kind_of_failure_is_refused_with_the_known_ones() {
        for text in ["timeouts", "503", "status:", "status:50", "status:5xxx", "status:xxx"] {
            let error = text.parse::<Only>().expect_err(text);
            assert!(error.starts_with(&format!("names '{text}', which is none of invalid_request, ")), "{error}");
        }
        assert!("".parse::<Only>().expect_err("empty").starts_with("names an empty kind"));
    }
}
