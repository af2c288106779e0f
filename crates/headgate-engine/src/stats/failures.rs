//! Failed rows, counted by cause: the kind of error, or the status of a response that counts as a failure.

use std::collections::BTreeMap;

use headgate_core::error::ErrorKind;
use headgate_core::failed_by::status_key;
use headgate_core::message::OptionName;
use headgate_core::reason::Reason;
use headgate_core::response::ResponseRef;
use headgate_core::row::OutcomeRef;
use headgate_core::url_user::without_user;
use http::StatusCode;

/// The number of status codes: they have three digits.
pub(crate) const STATUS_CODES: usize = 1000;
/// The maximum number of statuses that have an example: a server may send any status.
const MAX_STATUS_EXAMPLES: usize = 16;

/// The first failure of a kind, as an example of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FailureExample {
    pub row: u64,
    pub url: Box<str>,
    pub message: Box<str>,
    /// The part of the message that differs from row to row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<str>>,
    /// The option that can help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<OptionName>,
}

impl FailureExample {
    fn new(outcome: OutcomeRef<'_>, reason: &Reason, option: Option<OptionName>) -> Self {
        let Reason { message, detail } = reason;
        let url = without_user(&outcome.row.url).into();
        Self { row: outcome.row.ordinal, url, message: (&**message).into(), detail: detail.clone(), option }
    }
}

/// Counters, and an example for each kind and for some statuses: of bounded size.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failures(BTreeMap<Cause, Failed>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Kind(ErrorKind),
    Status(u16),
}

#[derive(Debug, Clone, Default)]
struct Failed {
    rows: u64,
    example: Option<FailureExample>,
}

impl Cause {
    fn key(self) -> String {
        match self {
            Self::Kind(kind) => kind.name().to_owned(),
            Self::Status(status) => status_key(status),
        }
    }
}

impl Failures {
    /// Counts a row that failed. An incomplete response counts as its error, whatever its status.
    pub(crate) fn record(&mut self, outcome: OutcomeRef<'_>) {
        let cause = match (outcome.failure, outcome.response) {
            (Some(failure), _) => Cause::Kind(failure.kind),
            (None, Some(response)) => Cause::Status(response.status % STATUS_CODES as u16),
            (None, None) => return,
        };
        let wants_example = self.wants_example_of(cause);
        let failed = self.0.entry(cause).or_default();
        failed.rows += 1;
        if wants_example {
            failed.example = Some(match outcome.failure {
                Some(failure) => FailureExample::new(outcome, &failure.reason, failure.option),
                None => FailureExample::new(outcome, &reason_of(outcome.response), None),
            });
        }
    }

    fn wants_example_of(&self, cause: Cause) -> bool {
        let has_example = self.0.get(&cause).is_some_and(|failed| failed.example.is_some());
        let is_status = |cause: &Cause| matches!(cause, Cause::Status(_));
        let statuses = || self.0.iter().filter(|(cause, failed)| is_status(cause) && failed.example.is_some()).count();
        !has_example && (!is_status(&cause) || statuses() < MAX_STATUS_EXAMPLES)
    }

    pub(crate) fn add(&mut self, other: &Failures) {
        for (cause, theirs) in &other.0 {
            let wants_example = self.wants_example_of(*cause);
            let mine = self.0.entry(*cause).or_default();
            mine.rows += theirs.rows;
            if wants_example {
                mine.example.clone_from(&theirs.example);
            }
        }
    }

    /// Returns the number of rows by cause: a kind of error, or `status:503`.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(cause, failed)| (cause.key(), failed.rows)).collect()
    }

    /// Returns an example for each kind of error that occurred, and for some statuses.
    pub(crate) fn examples(&self) -> BTreeMap<String, FailureExample> {
        self.0.iter().filter_map(|(cause, failed)| Some((cause.key(), failed.example.clone()?))).collect()
    }
}

fn reason_of(response: Option<ResponseRef<'_>>) -> Reason {
    let status = response.map_or(0, |response| response.status);
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    format!("the server responded with {status} {}", reason.unwrap_or_default()).trim_end().to_owned().into()
}

#[cfg(test)]
mod tests {
    use headgate_core::error::Failure;
    use headgate_core::row::Outcome;

    use super::*;

    fn responded(ordinal: u64, status: u16) -> Outcome {
        Outcome::for_tests(ordinal, status, None)
    }

    fn timed_out(ordinal: u64, status: u16) -> Outcome {
        let failure = Failure::new(ErrorKind::Timeout, "too late").with_option(OptionName::Timeout);
        Outcome { failure: Some(failure), ..responded(ordinal, status) }
    }

    fn failures(outcomes: &[Outcome]) -> Failures {
        let mut failures = Failures::default();
        for outcome in outcomes {
            failures.record(outcome.as_ref());
        }
        failures
    }

    #[test]
    fn failed_rows_are_counted_by_cause_with_the_first_as_an_example() {
        let mut all = failures(&[responded(3, 503), timed_out(4, 503), responded(5, 503), responded(6, 599)]);
        all.add(&failures(&[responded(1, 503), timed_out(2, 200), responded(7, 429)]));

        let counts = [("status:429", 1), ("status:503", 3), ("status:599", 1), ("timeout", 2)];
        assert_eq!(BTreeMap::from(counts.map(|(key, count)| (key.to_owned(), count))), all.counts());
        let examples = [
            ("status:429", 7, "the server responded with 429 Too Many Requests", None),
            ("status:503", 3, "the server responded with 503 Service Unavailable", None),
            ("status:599", 6, "the server responded with 599", None),
            ("timeout", 4, "too late", Some(OptionName::Timeout)),
        ];
        let example = |row, message: &str, option| {
            let (url, message) = ("http://127.0.0.1/".into(), message.into());
            FailureExample { row, url, message, detail: None, option }
        };
        let examples = examples.map(|(key, row, message, option)| (key.to_owned(), example(row, message, option)));
        assert_eq!(BTreeMap::from(examples), all.examples());
    }

    #[test]
    fn every_status_is_counted_and_few_have_an_example() {
        let outcomes: Vec<Outcome> = (100..1000).map(|status| responded(u64::from(status), status)).collect();
        let mut all = failures(&outcomes[..450]);
        all.add(&failures(&outcomes[450..]));
        assert_eq!((900, MAX_STATUS_EXAMPLES), (all.counts().len(), all.examples().len()));
    }
}
