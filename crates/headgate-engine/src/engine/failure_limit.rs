//! Stops a run that can't succeed: each worker reports how its rows ended, as long as that can matter.

use std::cell::RefMut;

use headgate_core::clock;
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::row::OutcomeRef;
use headgate_core::schedule::budget::UsedUp;
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

    fn example(&self) -> Box<str> {
        let OutcomeRef { row, response, failure, .. } = self.outcome;
        let why = match (failure, response) {
            (Some(failure), _) => failure.to_string(),
            (None, Some(response)) => format!("status {}", response.status),
            (None, None) => String::new(),
        };
        format!("row {}: {}: {why}", row.ordinal, without_user(&row.url)).into()
    }
}

impl Share {
    /// Counts how a row ended, and stops the run if that was one failure too many.
    pub(super) fn apply_failure_limit(&self, outcome: OutcomeRef<'_>, failed: bool) {
        let limit = &self.shared.failure_limit;
        if limit.is_settled() && !limit.is_probing() {
            return;
        }
        let with = match (outcome.failure, outcome.response) {
            (Some(failure), _) => Some(FailedWith::Kind(failure.kind)),
            (None, response) => response.map(|response| FailedWith::Status(response.status)),
        };
        let row = RowOfShare { outcome, share: self };
        if let Some(why) = limit.count(with.filter(|_| failed), &row) {
            self.shared.stop_failing_run(why);
        } else if !failed && limit.end_probe() {
            self.shared.scheduler.change_at(clock::now(), |scheduler, _| scheduler.end_probe());
        }
    }

    /// Stops the run because a budget of its job is used up.
    pub(super) fn stop_by_budget(&self, used_up: UsedUp) {
        let why = match used_up {
            UsedUp::Requests { max } => {
                let max = grouped(max);
                message!("the budget of {max} requests is used up (", OptionName::MaxRequests, ")")
            }
            UsedUp::Cost { max, left, next } => {
                let (max, left) = (grouped(max), grouped(left));
                let next = next.map(|next| format!(": the next row costs {}, and {left} are left", grouped(next)));
                let next = next.unwrap_or_default();
                message!("the budget of {max} for costs is used up (", OptionName::MaxCost, "){next}")
            }
        };
        let advice = if self.shared.scheduler.is_resumable() { "; a larger one continues the job" } else { "" };
        self.shared.stop_run(why.with(advice));
    }
}
