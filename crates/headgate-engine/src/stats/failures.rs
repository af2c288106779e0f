//! Rows that failed, counted by why: the kind of error, or the status of an answer that counts as a failure.

use std::collections::BTreeMap;

use http::StatusCode;

use crate::model::error::{ErrorKind, Failure};
use crate::model::failed_by::status_key;
use crate::model::message::OptionName;
use crate::model::outcome::{AnswerRef, OutcomeRef};
use crate::model::reason::Reason;
use crate::model::url_user::without_user;

/// Status codes there can be: three digits.
pub const STATUS_CODES: usize = 1000;
/// Statuses of which an example is kept; a server may answer with any.
const MAX_STATUS_EXAMPLES: usize = 16;

/// The first failure of a kind, as an example of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FailureExample {
    pub row: u64,
    pub url: Box<str>,
    pub message: Box<str>,
    /// What of it is this row's alone.
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

/// Counters, and an example for each kind and for some statuses: of constant size.
#[derive(Debug, Clone)]
pub struct Failures {
    kinds: [u64; ErrorKind::ALL.len()],
    kind_examples: [Option<FailureExample>; ErrorKind::ALL.len()],
    statuses: Box<[u64; STATUS_CODES]>,
    status_examples: BTreeMap<u16, FailureExample>,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            kinds: [0; ErrorKind::ALL.len()],
            kind_examples: std::array::from_fn(|_| None),
            statuses: Box::new([0; STATUS_CODES]),
            status_examples: BTreeMap::new(),
        }
    }
}

impl Failures {
    /// Counts a row that failed. An answer that broke off is of the kind of its error, whatever its status.
    pub fn record(&mut self, outcome: OutcomeRef<'_>) {
        match (outcome.failure, outcome.answer) {
            (Some(failure), _) => self.record_kind(outcome, failure),
            (None, Some(answer)) => self.record_status(outcome, answer),
            (None, None) => {}
        }
    }

    fn record_kind(&mut self, outcome: OutcomeRef<'_>, failure: &Failure) {
        self.kinds[failure.kind as usize] += 1;
        self.kind_examples[failure.kind as usize]
            .get_or_insert_with(|| FailureExample::new(outcome, &failure.reason, failure.option));
    }

    fn record_status(&mut self, outcome: OutcomeRef<'_>, answer: AnswerRef<'_>) {
        let status = answer.status % STATUS_CODES as u16;
        self.statuses[usize::from(status)] += 1;
        if self.wants_example_of(status) {
            let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
            let message = format!("the server answered {status} {}", reason.unwrap_or_default());
            self.status_examples
                .insert(status, FailureExample::new(outcome, &message.trim_end().to_owned().into(), None));
        }
    }

    fn wants_example_of(&self, status: u16) -> bool {
        self.status_examples.len() < MAX_STATUS_EXAMPLES && !self.status_examples.contains_key(&status)
    }

    pub fn add(&mut self, other: &Failures) {
        for (mine, theirs) in self.kinds.iter_mut().zip(other.kinds) {
            *mine += theirs;
        }
        for (mine, theirs) in self.kind_examples.iter_mut().zip(&other.kind_examples) {
            if mine.is_none() {
                mine.clone_from(theirs);
            }
        }
        for (mine, theirs) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *mine += theirs;
        }
        for (status, example) in &other.status_examples {
            if self.wants_example_of(*status) {
                self.status_examples.insert(*status, example.clone());
            }
        }
    }

    /// Rows by why they failed: a kind of error, or `status:503`.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let kinds = ErrorKind::ALL.iter().zip(self.kinds).filter(|(_, count)| *count > 0);
        let statuses = self.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        let kinds = kinds.map(|(kind, count)| (kind.name().to_owned(), count));
        kinds.chain(statuses.map(|(status, count)| (status_key(status as u16), *count))).collect()
    }

    /// A row for each kind of error that occurred, and for statuses.
    pub fn examples(&self) -> BTreeMap<String, FailureExample> {
        let kinds = ErrorKind::ALL.iter().zip(&self.kind_examples);
        let kinds = kinds.filter_map(|(kind, example)| Some((kind.name().to_owned(), example.clone()?)));
        let statuses = self.status_examples.iter().map(|(status, row)| (status_key(*status), row.clone()));
        kinds.chain(statuses).collect()
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    use crate::model::outcome::Outcome;

    fn answered(ordinal: u64, status: u16) -> Outcome {
        Outcome::for_tests(ordinal, status, None)
    }

    fn timed_out(ordinal: u64, status: u16) -> Outcome {
        let failure = Failure::new(ErrorKind::Timeout, "too late").with_option(OptionName::TimeoutS);
        Outcome { failure: Some(failure), ..answered(ordinal, status) }
    }

    fn failures(outcomes: &[Outcome]) -> Failures {
        let mut failures = Failures::default();
        for outcome in outcomes {
            failures.record(outcome.as_ref());
        }
        failures
    }

    #[test]
    fn rows_are_counted_by_why_they_were_given_up_with_the_first_as_an_example() {
        let mut all = failures(&[answered(3, 503), timed_out(4, 503), answered(5, 503), answered(6, 599)]);
        all.add(&failures(&[answered(1, 503), timed_out(2, 200), answered(7, 429)]));

        let counts = [("status:429", 1), ("status:503", 3), ("status:599", 1), ("timeout", 2)];
        assert_eq!(BTreeMap::from(counts.map(|(key, count)| (key.to_owned(), count))), all.counts());
        let examples = [
            ("status:429", 7, "the server answered 429 Too Many Requests", None),
            ("status:503", 3, "the server answered 503 Service Unavailable", None),
            ("status:599", 6, "the server answered 599", None),
            ("timeout", 4, "too late", Some(OptionName::TimeoutS)),
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
        let outcomes: Vec<Outcome> = (100..1000).map(|status| answered(u64::from(status), status)).collect();
        let mut all = failures(&outcomes[..450]);
        all.add(&failures(&outcomes[450..]));
        assert_eq!((900, MAX_STATUS_EXAMPLES), (all.counts().len(), all.examples().len()));
    }
}
