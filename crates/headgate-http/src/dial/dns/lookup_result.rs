//! The result of a lookup, and for how long it is valid.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use headgate_core::reason::Reason;

/// Lifetimes are whole seconds, and 0 means "for this use only". A hostname that many lanes connect to would then be looked
/// up a thousand times a second.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(1);
/// The bound of a result with addresses: a job of days should notice within the hour that a host has moved.
const LONGEST_LIFETIME: Duration = Duration::from_secs(3600);
/// The bound of a result without an address. RFC 2308 section 5 allows hours; a hostname created meanwhile should be found.
const LONGEST_NEGATIVE_LIFETIME: Duration = Duration::from_secs(300);
/// The lifetime of a failure for which the server names none: long enough to spare each row of a dead host a lookup.
const FAILURE_LIFETIME: Duration = Duration::from_secs(1);

pub(crate) const NO_SUCH_NAME: &str = "the hostname does not exist";
pub(crate) const NO_ADDRESS: &str = "the hostname has no address";
/// Messages of getaddrinfo in the C libraries of Linux and macOS.
const NO_SUCH_NAME_OF_SYSTEM: [&str; 3] =
    ["Name or service not known", "No address associated with hostname", "nodename nor servname provided"];

/// Returns whether the reason says that the hostname has no address; after other failures it may have one.
pub(crate) fn is_lasting(reason: &Reason) -> bool {
    let is_in_message = |text: &&str| reason.message.contains(text);
    [NO_SUCH_NAME, NO_ADDRESS].iter().chain(&NO_SUCH_NAME_OF_SYSTEM).any(is_in_message)
}

/// The addresses of a hostname, at least one, or a readable reason why there are none.
pub(crate) type DnsResult = Result<Arc<[IpAddr]>, Arc<Reason>>;

/// The result of one lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupResult {
    pub result: DnsResult,
    pub lifetime: Duration,
}

impl LookupResult {
    pub fn addresses(addresses: Vec<IpAddr>, lifetime: Duration) -> Self {
        Self { result: Ok(addresses.into()), lifetime: lifetime.clamp(SHORTEST_LIFETIME, LONGEST_LIFETIME) }
    }

    /// Creates the result of a lookup that found no address; `lifetime` is what the server sent, if anything.
    pub(crate) fn no_address(reason: impl Into<Reason>, lifetime: Option<Duration>) -> Self {
        let lifetime =
            lifetime.map_or(FAILURE_LIFETIME, |lifetime| lifetime.clamp(SHORTEST_LIFETIME, LONGEST_NEGATIVE_LIFETIME));
        Self { result: Err(Arc::new(reason.into())), lifetime }
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
            assert_eq!(expected, LookupResult::addresses(vec![[192, 0, 2, 1].into()], lifetime).lifetime);
        }
        for (expected, lifetime) in [
            (FAILURE_LIFETIME, None),
            (second, Some(Duration::ZERO)),
            (second * 7, Some(second * 7)),
            (LONGEST_NEGATIVE_LIFETIME, Some(second * 1_000_000)),
        ] {
            assert_eq!(expected, LookupResult::no_address("there is none", lifetime).lifetime);
        }
    }
}
