//! Stops a run that can't succeed: each worker reports how its rows ended, as long as that can matter.

use std::cell::RefMut;

use headgate_core::message::Message;
use headgate_core::row::OutcomeRef;
use headgate_core::schedule::failure_limit::{EndedRow, FailedWith};
use headgate_core::url_user::without_user;
use headgate_http::request::Preparer;

use crate::engine::share::Share;

struct RowOfShare<'a> {
    outcome: OutcomeRef<'a>,
    share: &'a Share,
}

impl RowOfShare<'_> {
    fn preparer(&self) -> RefMut<'_, Preparer> {
        self.share.preparer.borrow_mut()
    }
}

impl EndedRow for RowOfShare<'_> {
    fn host(&self) -> Box<str> {
        self.preparer().limit_key(self.outcome.row).map(Box::from).unwrap_or_default()
    }

    fn is_of_the_only_host(&self) -> bool {
        let host = self.host();
        let mut preparer = self.preparer();
        self.share.shared.scheduler.rows.all_queued(|row| preparer.limit_key(row).is_none_or(|other| *other == *host))
    }

    fn example(&self) -> String {
        let OutcomeRef { row, response, failure, .. } = self.outcome;
        let why = match (failure, response) {
            (Some(failure), _) => failure.to_string(),
            (None, Some(response)) => format!("status {}", response.status),
            (None, None) => String::new(),
        };
        format!("row {}: {}: {why}", row.ordinal, without_user(&row.url))
    }
}

impl Share {
    /// Counts how a row ended, and stops the run if that was one failure too many.
    pub(super) fn apply_failure_limit(&self, outcome: OutcomeRef<'_>, failed: bool) {
        let limit = &self.shared.failure_limit;
        if limit.is_settled() {
            return;
        }
        let with = match (outcome.failure, outcome.response) {
            (Some(failure), _) => Some(FailedWith::Kind(failure.kind)),
            (None, response) => response.map(|response| FailedWith::Status(response.status)),
        };
        let row = RowOfShare { outcome, share: self };
        if let Some(why) = limit.count(with.filter(|_| failed), &row) {
            self.stop_run(why);
        }
    }

    /// Stops the run for this reason.
    pub(super) fn stop_run(&self, why: Message) {
        if self.shared.failure_limit.note_stop(why) {
            self.shared.scheduler.stop_in_order();
        }
    }
}
