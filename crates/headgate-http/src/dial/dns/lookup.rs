//! One lookup of a hostname: its search domains, both address families, and the lifetime of the result.

use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use headgate_core::reason::Reason;
use tokio::time::timeout;

use crate::dial::dns::config::ResolverConfig;
use crate::dial::dns::lookup_result::{LookupResult, NO_ADDRESS, NO_SUCH_NAME};
use crate::dial::dns::message::{AddressFamily, DnsReply, Question};
use crate::dial::dns::servers::Servers;

const INVALID_NAME: &str = "not a hostname that can be looked up";

/// The bound of addresses kept for one hostname, for each family.
const MAX_ADDRESSES_BY_FAMILY: usize = 8;
/// How long a lookup with addresses of one family waits for those of the other. RFC 8305 section 3 has 50 ms. Here one lookup
/// serves many requests, so that it can wait for a slow server.
const OTHER_FAMILY_WAIT: Duration = Duration::from_millis(250);

/// The result for a name in one search domain.
enum CandidateResult {
    Addresses(LookupResult),
    NoAddress(LookupResult),
}

/// Looks a hostname up, also in the search domains. Addresses of the family `prefer` come first.
pub(crate) async fn lookup(
    servers: &Servers,
    config: &ResolverConfig,
    name: &str,
    prefer: AddressFamily,
) -> LookupResult {
    let mut first = None;
    for candidate in config.candidates(name) {
        match lookup_candidate(servers, &candidate, prefer).await {
            Ok(CandidateResult::Addresses(result)) => return result,
            Ok(CandidateResult::NoAddress(result)) => first = first.or(Some(result)),
            // Servers that do not respond now would cost their timeout for each domain.
            Err(reason) => return LookupResult::no_address(reason, None),
        }
    }
    first.unwrap_or_else(|| LookupResult::no_address(INVALID_NAME, None))
}

async fn lookup_candidate(servers: &Servers, name: &str, prefer: AddressFamily) -> Result<CandidateResult, Reason> {
    let (Some(v4), Some(v6)) = (Question::new(name, AddressFamily::V4), Question::new(name, AddressFamily::V6)) else {
        return Ok(CandidateResult::NoAddress(LookupResult::no_address(INVALID_NAME, None)));
    };
    let mut v4 = pin!(servers.query(v4));
    let mut v6 = pin!(servers.query(v6));
    let (v4, v6) = tokio::select! {
        v4 = &mut v4 => match v4 {
            Ok(DnsReply::NoName { .. }) => (Some(v4), None),
            Ok(DnsReply::Addresses { .. }) => (Some(v4), timeout(OTHER_FAMILY_WAIT, v6).await.ok()),
            _ => (Some(v4), Some(v6.await)),
        },
        v6 = &mut v6 => match v6 {
            Ok(DnsReply::NoName { .. }) => (None, Some(v6)),
            // Without a route for IPv6, IPv6 addresses alone are not enough.
            Ok(DnsReply::Addresses { .. }) if prefer == AddressFamily::V6 => (timeout(OTHER_FAMILY_WAIT, v4).await.ok(), Some(v6)),
            _ => (Some(v4.await), Some(v6)),
        },
    };
    merge(if prefer == AddressFamily::V6 { [v6, v4] } else { [v4, v6] })
}

/// Merges the replies for both families, the preferred one first; `None` stands for a reply that was not waited for.
fn merge(replies: [Option<Result<DnsReply, Reason>>; 2]) -> Result<CandidateResult, Reason> {
    let mut found: Vec<IpAddr> = Vec::new();
    let mut lifetime = Duration::MAX;
    let mut no_address = None;
    let mut failure = None;
    for reply in replies.into_iter().flatten() {
        match reply {
            Ok(DnsReply::Addresses { addresses, lifetime: own }) => {
                lifetime = lifetime.min(own);
                found.extend(addresses.into_iter().take(MAX_ADDRESSES_BY_FAMILY));
            }
            // A name that does not exist has no address of the other family either.
            Ok(DnsReply::NoName { lifetime }) => {
                return Ok(CandidateResult::NoAddress(LookupResult::no_address(NO_SUCH_NAME, lifetime)));
            }
            Ok(DnsReply::NoAddress { lifetime }) => {
                no_address = Some(LookupResult::no_address(NO_ADDRESS, lifetime));
            }
            Ok(DnsReply::Truncated | DnsReply::Failed(_)) => {}
            Err(reason) => failure = Some(reason),
        }
    }
    match (failure, no_address) {
        _ if !found.is_empty() => Ok(CandidateResult::Addresses(LookupResult::addresses(found, lifetime))),
        (None, Some(no_address)) => Ok(CandidateResult::NoAddress(no_address)),
        (failure, _) => Err(failure.unwrap_or_else(|| "no DNS server has responded".into())),
    }
}

#[cfg(test)]
mod tests;
