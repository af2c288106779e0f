//! The configuration of the resolver: the options of `/etc/resolv.conf` (resolv.conf(5)) that we support. `resolv_conf`
//! parses the file.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use resolv_conf::ScopedIp;

use crate::dial::dns::hosts::Hosts;

const PORT: u16 = 53;
/// The C library uses as many servers.
const MAX_SERVERS: usize = 3;
/// The bound of search domains, in which a short name is tried.
const MAX_SEARCH_DOMAINS: usize = 16;
/// The bounds that the C library sets.
const MAX_NDOTS: u32 = 15;
const MAX_TIMEOUT_S: u32 = 30;
const MAX_ATTEMPTS: u32 = 5;

/// How hostnames are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolverConfig {
    /// In order of preference; at least one.
    pub servers: Vec<SocketAddr>,
    /// Domains that a name with few dots is tried in.
    pub search: Vec<Box<str>>,
    /// A name with at least this many dots is tried unchanged first.
    pub ndots: usize,
    /// How long the last query waits for its response.
    pub timeout: Duration,
    /// How often a query is sent to each server.
    pub attempts: usize,
    pub hosts: Hosts,
}

impl Default for ResolverConfig {
    fn default() -> Self {
        Self {
            servers: vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT)],
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
            hosts: Hosts::default(),
        }
    }
}

impl ResolverConfig {
    /// Parses the text of the file. Like the C library, it skips invalid lines and unknown options, since new options appear.
    pub fn parse(text: &[u8]) -> Self {
        let (parsed, _skipped) = resolv_conf::Config::parse_with_errors(text);
        let mut servers: Vec<SocketAddr> =
            parsed.nameservers.iter().filter_map(server_address).take(MAX_SERVERS).collect();
        if servers.is_empty() {
            servers = Self::default().servers;
        }
        Self {
            servers,
            search: parsed
                .get_last_search_or_domain()
                .filter_map(|text| search_domain(text))
                .take(MAX_SEARCH_DOMAINS)
                .collect(),
            ndots: parsed.ndots.min(MAX_NDOTS) as usize,
            timeout: Duration::from_secs(parsed.timeout.clamp(1, MAX_TIMEOUT_S).into()),
            attempts: parsed.attempts.clamp(1, MAX_ATTEMPTS) as usize,
            hosts: Hosts::default(),
        }
    }

    /// Returns the names that `name` may stand for, in the order in which they are tried.
    pub(crate) fn candidates(&self, name: &str) -> Vec<String> {
        let mut candidates: Vec<String> = Vec::new();
        if !name.ends_with('.') {
            candidates.extend(self.search.iter().map(|domain| format!("{name}.{domain}")));
        }
        let is_tried_first = name.matches('.').count() >= self.ndots;
        candidates.insert(if is_tried_first { 0 } else { candidates.len() }, name.to_owned());
        candidates
    }
}

/// Returns the socket address of a DNS server. An IPv6 address may have an interface, by number or name: `fe80::1%2`;
/// `None` if there is no such interface.
fn server_address(address: &ScopedIp) -> Option<SocketAddr> {
    Some(match address {
        ScopedIp::V6(address, Some(interface)) => SocketAddrV6::new(*address, PORT, 0, index_of(interface)?).into(),
        address => SocketAddr::new(address.into(), PORT),
    })
}

fn index_of(interface: &str) -> Option<u32> {
    let number = interface.parse().ok();
    number.or_else(|| fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).ok()?.trim().parse().ok())
}

fn search_domain(text: &str) -> Option<Box<str>> {
    let domain = text.trim_matches('.');
    (!domain.is_empty()).then(|| domain.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_options_are_parsed_and_bounded() {
        let config = ResolverConfig::parse(
            b"# nameserver 9.9.9.9\n;nameserver 9.9.9.9\nnameserver 10.0.0.1\nnameserver nonsense\nnameserver ::1\n\
             nameserver fe80::1%7\nnameserver 10.0.0.4\ndomain old.example\nsearch Corp.Example. lab.example\n\
             options ndots:99 timeout:0 attempts:3 rotate edns0 timeout:x made-up\nmade up\n\xff\n",
        );
        let expected = ResolverConfig {
            servers: ["10.0.0.1:53", "[::1]:53", "[fe80::1%7]:53"].map(|text| text.parse().expect("an address")).into(),
            search: vec!["corp.example".into(), "lab.example".into()],
            ndots: 15,
            timeout: Duration::from_secs(1),
            attempts: 3,
            hosts: Hosts::default(),
        };
        assert_eq!(expected, config);
    }

    #[test]
    fn the_default_is_a_dns_server_on_this_machine() {
        assert_eq!(ResolverConfig::default(), ResolverConfig::parse(b""));
        assert_eq!(ResolverConfig::default(), ResolverConfig::parse(b"nameserver\nsearch\noptions\nnameserver x%y\n"));
    }

    #[test]
    fn a_name_with_few_dots_is_tried_in_the_search_domains_first() {
        let config =
            ResolverConfig { search: vec!["a.example".into(), "b.example".into()], ..ResolverConfig::default() };
        for (expected, name) in [
            (vec!["www.a.example", "www.b.example", "www"], "www"),
            (vec!["www.test", "www.test.a.example", "www.test.b.example"], "www.test"),
            (vec!["www."], "www."),
        ] {
            assert_eq!(expected, config.candidates(name));
        }
    }
}
