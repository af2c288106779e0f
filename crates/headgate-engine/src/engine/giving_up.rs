//! A run that can't succeed stops itself: each worker tells how its rows ended, as long as that can matter.

use std::cell::RefMut;
use std::time::{Duration, Instant};

use crate::engine::share::Share;
use crate::http::request::Preparer;
use crate::model::message::Message;
use crate::model::outcome::OutcomeRef;
use crate::model::url_user::without_user;
use crate::queue::rows::RowReceiver;
use crate::schedule::give_up::{Ended, FailedWith};

/// What is in flight then has as long as it takes: attempts have an end of their own.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

struct EndedRow<'a> {
    outcome: OutcomeRef<'a>,
    share: &'a Share,
}

impl EndedRow<'_> {
    fn preparer(&self) -> RefMut<'_, Preparer> {
        self.share.preparer.borrow_mut()
    }

    fn rows(&self) -> &RowReceiver {
        &self.share.shared.rows
    }
}

impl Ended for EndedRow<'_> {
    fn host(&self) -> Box<str> {
        self.preparer().limit_key(self.outcome.row).map(Box::from).unwrap_or_default()
    }

    fn is_of_the_only_host(&self) -> bool {
        let host = self.host();
        let mut preparer = self.preparer();
        self.rows().all_queued(|row| preparer.limit_key(row).is_none_or(|other| *other == *host))
    }

    fn example(&self) -> String {
        let OutcomeRef { row, answer, failure, .. } = self.outcome;
        let why = match (failure, answer) {
            (Some(failure), _) => failure.to_string(),
            (None, Some(answer)) => format!("status {}", answer.status),
            (None, None) => String::new(),
        };
        format!("row {}: {}: {why}", row.ordinal, without_user(&row.url))
    }
}

impl Share {
    /// Tells how a row ended, and stops the run if that was one failure too many.
    pub(super) fn give_up_if_it_has_to(&self, outcome: OutcomeRef<'_>, failed: bool) {
        let give_up = &self.shared.give_up;
        if give_up.is_over() {
            return;
        }
        let with = match (outcome.failure, outcome.answer) {
            (Some(failure), _) => Some(FailedWith::Kind(failure.kind)),
            (None, answer) => answer.map(|answer| FailedWith::Status(answer.status)),
        };
        if give_up.ended(with.filter(|_| failed), &EndedRow { outcome, share: self }) {
            self.drain(Instant::now() + LONGEST);
        }
    }

    /// Stops the run for a reason that no row has.
    pub(super) fn stop_run(&self, why: Message) {
        if self.shared.give_up.stop(why) {
            self.drain(Instant::now() + LONGEST);
        }
    }
}
