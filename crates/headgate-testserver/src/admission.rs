//! Whether and when a request is answered, by the rules of the server.

use std::sync::Arc;
use std::time::Instant;

use crate::answer::Answer;
use crate::asked::Asked;
use crate::in_progress::InProgress;
use crate::limits::api::Api;
use crate::limits::capacity::Capacity;
use crate::rules::Rules;
use crate::statistics::{Limited, WorkerCounters};

/// What the rules say of a request.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It may go on, with what it takes until its end.
    Enters,
    /// It may go on when it has a place.
    Waits(Arc<Capacity>),
    /// What it is answered instead.
    Refused(Answer),
}

pub(crate) fn admit(
    counters: &WorkerCounters,
    in_progress: &mut InProgress,
    rules: &Rules,
    asked: &Asked,
    body: &[u8],
) -> Admission {
    let refusal = rules.api.as_ref().and_then(|api| enter(counters, in_progress, api, asked, body));
    match (refusal, &rules.capacity) {
        (Some(answer), _) => Admission::Refused(answer),
        (None, None) => Admission::Enters,
        (None, Some(capacity)) if !rules.refuses => Admission::Waits(capacity.clone()),
        (None, Some(capacity)) => {
            let Some(place) = capacity.try_place() else {
                counters.limited(Limited::Capacity);
                return Admission::Refused(Answer::new(503, "the server does as much at once as it can\n"));
            };
            in_progress.held().place = Some(place);
            Admission::Enters
        }
    }
}

fn enter(
    counters: &WorkerCounters,
    in_progress: &mut InProgress,
    api: &Arc<Api>,
    asked: &Asked,
    body: &[u8],
) -> Option<Answer> {
    match api.ask(asked, asked.tokens(body), Instant::now()) {
        Ok(slot) => {
            if slot.is_repeated {
                counters.limited(Limited::RepeatedAfterAnswer);
            }
            in_progress.held().slot = Some(slot);
            None
        }
        Err(refusal) => {
            counters.limited(refusal.cause);
            Some(refusal.answer())
        }
    }
}
