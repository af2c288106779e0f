//! What was found out about a name, and how long it may be believed.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::model::reason::Reason;

/// Lifetimes are whole seconds, and 0 means "for this use only": but a name that many lanes connect to would be asked for a
/// thousand times a second.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(1);
/// However long an answer may be believed: a job of days should notice a move within the hour.
const LONGEST_LIFETIME: Duration = Duration::from_secs(3600);
/// The same of an answer that there is no address. RFC 2308 section 5 allows hours; a name made meanwhile should be found.
const LONGEST_NEGATIVE_LIFETIME: Duration = Duration::from_secs(300);
/// How long a failure is believed whose server says nothing: long enough not to ask again for each row of a dead host.
const FAILED_FOR: Duration = Duration::from_secs(1);

pub const NO_SUCH_NAME: &str = "there is no such name";
pub const NO_ADDRESS: &str = "the name has no address";
/// As the C libraries of Linux and macOS say it.
const NO_SUCH_NAME_OF_SYSTEM: [&str; 3] =
    ["Name or service not known", "No address associated with hostname", "nodename nor servname provided"];

/// Whether it is known that there is no address, and not merely unknown whether there is one.
pub fn is_lasting(why: &Reason) -> bool {
    let is_known = |text: &&str| why.message.contains(text);
    [NO_SUCH_NAME, NO_ADDRESS].iter().chain(&NO_SUCH_NAME_OF_SYSTEM).any(is_known)
}

/// The addresses of a name, at least one, or why there are none, for a person.
pub type Answer = Result<Arc<[IpAddr]>, Arc<Reason>>;

/// What a look-up came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    pub answer: Answer,
    pub lifetime: Duration,
}

impl Settled {
    pub fn found(addresses: Vec<IpAddr>, lifetime: Duration) -> Self {
        Self { answer: Ok(addresses.into()), lifetime: lifetime.clamp(SHORTEST_LIFETIME, LONGEST_LIFETIME) }
    }

    /// Why there is no address, and for how long if a server said so.
    pub fn none(why: impl Into<Reason>, lifetime: Option<Duration>) -> Self {
        let lifetime =
            lifetime.map_or(FAILED_FOR, |lifetime| lifetime.clamp(SHORTEST_LIFETIME, LONGEST_NEGATIVE_LIFETIME));
        Self { answer: Err(Arc::new(why.into())), lifetime }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_a_floor_and_a_ceiling() {
        let second = Duration::from_secs(1);
        for (expected, lifetime) in [
            (second, Duration::ZERO),
            (second * 7, second * 7),
            (LONGEST_LIFETIME, second * 1_000_000),
            (LONGEST_LIFETIME, Duration::MAX),
        ] {
            assert_eq!(expected, Settled::found(vec![[192, 0, 2, 1].into()], lifetime).lifetime);
        }
        for (expected, lifetime) in [
            (FAILED_FOR, None),
            (second, Some(Duration::ZERO)),
            (second * 7, Some(second * 7)),
            (LONGEST_NEGATIVE_LIFETIME, Some(second * 1_000_000)),
        ] {
            assert_eq!(expected, Settled::none("there is none", lifetime).lifetime);
        }
    }
}
