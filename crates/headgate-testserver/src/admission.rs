//! Whether and when a request is answered, by the rules of the server.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::answer::Answer;
use crate::asked::Asked;
use crate::exchange::Exchange;
use crate::limits::api::Api;
use crate::limits::capacity::Capacity;
use crate::rules::Rules;
use crate::statistics::Limited;

/// Lets a request through when its turn has come, with what it takes until its end; or says what it is answered instead.
pub(crate) async fn admit(
    exchange: &mut Exchange<'_, '_>,
    rules: &Rules,
    asked: &Asked,
    body: &[u8],
) -> io::Result<Option<Answer>> {
    let refusal = rules.api.as_ref().and_then(|api| enter(exchange, api, asked, body));
    match &rules.capacity {
        Some(capacity) if refusal.is_none() => take_place(exchange, capacity, rules.refuses).await,
        _ => Ok(refusal),
    }
}

fn enter(exchange: &mut Exchange<'_, '_>, api: &Arc<Api>, asked: &Asked, body: &[u8]) -> Option<Answer> {
    let counters = exchange.worker.counters();
    match api.ask(asked, asked.tokens(body), Instant::now()) {
        Ok(slot) => {
            if slot.is_repeated {
                counters.limited(Limited::RepeatedAfterAnswer);
            }
            exchange.in_progress.held().slot = Some(slot);
            None
        }
        Err(refusal) => {
            counters.limited(refusal.cause);
            Some(refusal.answer())
        }
    }
}

async fn take_place(
    exchange: &mut Exchange<'_, '_>,
    capacity: &Arc<Capacity>,
    refuses: bool,
) -> io::Result<Option<Answer>> {
    let place = if refuses {
        let Some(place) = capacity.try_place() else {
            exchange.worker.counters().limited(Limited::Capacity);
            return Ok(Some(Answer::new(503, "the server does as much at once as it can\n")));
        };
        place
    } else {
        exchange.connection.while_there(capacity.wait_for_place()).await??
    };
    exchange.in_progress.held().place = Some(place);
    Ok(None)
}
