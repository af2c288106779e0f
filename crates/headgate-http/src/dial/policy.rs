//! The network policy: the addresses that requests may connect to. URLs from untrusted sources must not reach services that only this
//! machine can reach.
//!
//! The policy checks the address of each connection. An earlier check is no proof, since the next lookup of a hostname may
//! return another address.

use std::net::{IpAddr, SocketAddr};

use headgate_core::error::{ErrorKind, Failure};
use headgate_core::message::OptionName;
use headgate_core::network_options::{NetworkOptions, NetworkPolicy};
use headgate_core::options::RequestOptions;
use headgate_core::reason::Reason;

use crate::dial::special_ranges::{embedded, special};

pub(crate) const REDIRECTED_INSIDE: &str = "a redirect may not lead from outside to an address that is not public";

/// The policy of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    options: NetworkOptions,
    /// An address that the user has named, if it is one that has to be named.
    named: Option<IpAddr>,
}

/// The redirects that the server at the other end of a connection may send and receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// The server's address is public, or unknown behind a proxy. It may not redirect to addresses that are not public.
    pub is_outside: bool,
    /// The server accepts requests that a server outside has redirected.
    pub takes_redirects: bool,
}

impl Remote {
    /// A mock transport.
    pub(super) const MOCK: Self = Self { is_outside: false, takes_redirects: true };
    /// A host whose address only a proxy knows.
    pub(crate) const UNKNOWN: Self = Self { is_outside: true, takes_redirects: true };
}

/// The check of an address before a connection to it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Guard<'a> {
    /// The address of a proxy, which the user has named, is not checked.
    Proxy,
    Host {
        policy: &'a Policy,
        /// A server outside has redirected the request.
        from_outside: bool,
    },
}

impl Guard<'_> {
    /// Returns a failure if this address may not be connected to.
    pub(super) fn objection(&self, to: SocketAddr) -> Option<Failure> {
        match self {
            Self::Proxy => None,
            Self::Host { policy, from_outside } => policy.objection(to, *from_outside),
        }
    }

    /// Keeps the addresses that may be connected to.
    ///
    /// # Errors
    /// `blocked_by_network_policy`: there are none.
    pub(super) fn permitted(&self, mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Failure> {
        let mut refused = None;
        addresses.retain(|address| match self.objection(*address) {
            Some(objection) => {
                refused.get_or_insert(objection);
                false
            }
            None => true,
        });
        match refused {
            Some(objection) if addresses.is_empty() => Err(objection),
            _ => Ok(addresses),
        }
    }
}

impl Policy {
    pub(super) fn new(options: &RequestOptions) -> Self {
        // Naming any other address changes nothing, and then connections can be shared.
        let named =
            options.named_address.filter(|address| special(*address).is_some_and(|special| special.is_trusting));
        Self { options: options.network.clone(), named }
    }

    /// Returns which redirects the server at this address may send and receive.
    pub(super) fn remote(&self, address: SocketAddr) -> Remote {
        Remote { is_outside: special(address.ip()).is_none(), takes_redirects: self.objection(address, true).is_none() }
    }

    /// Returns a failure if this port may not be connected to.
    pub(super) fn port_objection(&self, port: u16) -> Option<Failure> {
        let allowed = &self.options.allow_port;
        let is_allowed = allowed.is_empty() || allowed.contains(&port);
        (!is_allowed).then(|| blocked("the port is not among those that are allowed", &port, OptionName::AllowPort))
    }

    /// Returns a failure if this address may not be connected to; `from_outside`: a server outside has redirected the request.
    fn objection(&self, to: SocketAddr, from_outside: bool) -> Option<Failure> {
        let Self { options: NetworkOptions { network, allow_net, deny_net, .. }, named } = self;
        let address = to.ip();
        let embedded = embedded(address).map(|embedded| embedded.map(IpAddr::V4));
        let shown = || match &embedded {
            Some([first, second]) if first == second => format!("{address}, which embeds {first}"),
            Some([first, second]) => format!("{address}, which embeds {first} and {second}"),
            None => address.to_string(),
        };
        let (whole, parts) = (std::slice::from_ref(&address), embedded.as_ref().map_or(&[][..], |embedded| embedded));
        if let Some(net) = deny_net.iter().find(|net| whole.iter().chain(parts).any(|address| net.contains(address))) {
            return Some(blocked(format!("the address is in a denied network, {net}"), &shown(), OptionName::DenyNet));
        }
        if let Some(objection) = self.port_objection(to.port()) {
            return Some(objection);
        }
        let is_in = |address: &IpAddr| allow_net.iter().any(|net| net.contains(address));
        let special = special(address)?;
        if is_in(&address) || !parts.is_empty() && parts.iter().all(is_in) {
            return None;
        }
        let why = match network {
            NetworkPolicy::Public => "the address is not public",
            NetworkPolicy::Any if from_outside => REDIRECTED_INSIDE,
            NetworkPolicy::Any if special.is_trusting && *named != Some(address) => {
                "the address is refused unless it is named"
            }
            NetworkPolicy::Any => return None,
        };
        Some(blocked(format!("{why}: {}", special.name), &shown(), OptionName::AllowNet))
    }
}

/// Returns a lasting failure of the policy: the next attempt would be refused, too.
pub(crate) fn blocked(why: impl Into<Reason>, what: &impl ToString, option: OptionName) -> Failure {
    let reason = Reason::with(why.into(), what.to_string());
    Failure::new(ErrorKind::BlockedByNetworkPolicy, reason).with_option(option).lasting()
}
