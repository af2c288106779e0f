//! One look-up of a name: in which domains, both families, and how long the answer holds.

use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use crate::http::dial::names::answer::{NO_ADDRESS, NO_SUCH_NAME, Settled};
use crate::http::dial::names::config::Config;
use crate::http::dial::names::message::{Family, Question, Reply};
use crate::http::dial::names::servers::{Servers, Unanswered};

/// Addresses of one name that are kept, of each family.
const MAX_ADDRESSES_BY_FAMILY: usize = 8;
/// How long addresses of the other family may come after those of the first (RFC 8305 section 3 has 50 ms; a name is asked
/// for once for many requests here, so that we can afford to wait for a slow server).
const OTHER_FAMILY_WAIT: Duration = Duration::from_millis(250);

/// What is known of a name in one domain.
enum Known {
    Addresses(Settled),
    None(Settled),
}

/// Looks a name up, in the search domains too. IPv6 comes first if so `prefer`red.
pub async fn look_up(servers: &Servers, config: &Config, name: &str, prefer: Family) -> Settled {
    let mut first = None;
    for candidate in config.candidates(name) {
        match look_up_one(servers, &candidate, prefer).await {
            Ok(Known::Addresses(settled)) => return settled,
            Ok(Known::None(settled)) => first = first.or(Some(settled)),
            // Who does not answer now would cost the time of each domain.
            Err(unanswered) => return Settled::none(unanswered, None),
        }
    }
    first.unwrap_or_else(|| Settled::none("not a name that can be looked up", None))
}

async fn look_up_one(servers: &Servers, name: &str, prefer: Family) -> Result<Known, Unanswered> {
    let (Some(v4), Some(v6)) = (Question::new(name, Family::V4), Question::new(name, Family::V6)) else {
        return Ok(Known::None(Settled::none("not a name that can be looked up", None)));
    };
    let mut v4 = pin!(servers.ask(v4));
    let mut v6 = pin!(servers.ask(v6));
    let (v4, v6) = tokio::select! {
        v4 = &mut v4 => match v4 {
            Ok(Reply::NoName { .. }) => (Some(v4), None),
            Ok(Reply::Addresses { .. }) => (Some(v4), timeout(OTHER_FAMILY_WAIT, v6).await.ok()),
            _ => (Some(v4), Some(v6.await)),
        },
        v6 = &mut v6 => match v6 {
            Ok(Reply::NoName { .. }) => (None, Some(v6)),
            // Where IPv6 leads nowhere, these addresses alone are none.
            Ok(Reply::Addresses { .. }) if prefer == Family::V6 => (timeout(OTHER_FAMILY_WAIT, v4).await.ok(), Some(v6)),
            _ => (Some(v4.await), Some(v6)),
        },
    };
    conclude(if prefer == Family::V6 { [v6, v4] } else { [v4, v6] })
}

/// From the replies for both families, the preferred one first; `None`: it was not waited for.
fn conclude(replies: [Option<Result<Reply, Unanswered>>; 2]) -> Result<Known, Unanswered> {
    let mut found: Vec<IpAddr> = Vec::new();
    let mut lifetime = Duration::MAX;
    let mut none = None;
    let mut unanswered = None;
    for reply in replies.into_iter().flatten() {
        match reply {
            Ok(Reply::Addresses { addresses, lifetime: own }) => {
                lifetime = lifetime.min(own);
                found.extend(addresses.into_iter().take(MAX_ADDRESSES_BY_FAMILY));
            }
            // There is nothing of the other family either.
            Ok(Reply::NoName { lifetime }) => return Ok(Known::None(Settled::none(NO_SUCH_NAME, lifetime))),
            Ok(Reply::NoAddress { lifetime }) => none = Some(Settled::none(NO_ADDRESS, lifetime)),
            Ok(Reply::Truncated | Reply::Failed(_)) => {}
            Err(why) => unanswered = Some(why),
        }
    }
    match (unanswered, none) {
        _ if !found.is_empty() => Ok(Known::Addresses(Settled::found(found, lifetime))),
        (None, Some(none)) => Ok(Known::None(none)),
        (unanswered, _) => Err(unanswered.unwrap_or_else(|| "no name server has answered".into())),
    }
}

#[cfg(test)]
mod tests;
