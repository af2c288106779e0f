//! Who is asked for names, and how: `/etc/resolv.conf` (resolv.conf(5)), as far as it concerns us. `resolv_conf` reads it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use resolv_conf::ScopedIp;

use crate::http::dial::names::hosts::Hosts;

const PORT: u16 = 53;
/// As many servers as the C library asks.
const MAX_SERVERS: usize = 3;
/// Domains that a short name is tried in.
const MAX_SEARCH: usize = 16;
/// The bounds that the C library sets.
const MAX_NDOTS: u32 = 15;
const MAX_TIMEOUT_S: u32 = 30;
const MAX_ATTEMPTS: u32 = 5;

/// How names are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// In order of preference; at least one.
    pub servers: Vec<SocketAddr>,
    /// Domains that a name with few dots is tried in.
    pub search: Vec<Box<str>>,
    /// A name with so many dots is tried as it is first.
    pub ndots: usize,
    /// How long the last server asked has to answer.
    pub timeout: Duration,
    /// How often each server is asked.
    pub attempts: usize,
    pub hosts: Hosts,
}

impl Default for Config {
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

impl Config {
    /// Of the text of a file. What makes no sense is passed over, as the C library does it: now and then there are new options.
    pub fn parse(text: &[u8]) -> Self {
        let (parsed, _passed_over) = resolv_conf::Config::parse_with_errors(text);
        let mut servers: Vec<SocketAddr> = parsed.nameservers.iter().filter_map(server).take(MAX_SERVERS).collect();
        if servers.is_empty() {
            servers = Self::default().servers;
        }
        Self {
            servers,
            search: parsed.get_last_search_or_domain().filter_map(|text| domain(text)).take(MAX_SEARCH).collect(),
            ndots: parsed.ndots.min(MAX_NDOTS) as usize,
            timeout: Duration::from_secs(parsed.timeout.clamp(1, MAX_TIMEOUT_S).into()),
            attempts: parsed.attempts.clamp(1, MAX_ATTEMPTS) as usize,
            hosts: Hosts::default(),
        }
    }

    /// The names that may be meant by `name`, in the order in which they are tried.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        let mut candidates: Vec<String> = Vec::new();
        if !name.ends_with('.') {
            candidates.extend(self.search.iter().map(|domain| format!("{name}.{domain}")));
        }
        let is_tried_first = name.matches('.').count() >= self.ndots;
        candidates.insert(if is_tried_first { 0 } else { candidates.len() }, name.to_owned());
        candidates
    }
}

/// An address of IPv6 may have an interface, by number or name: `fe80::1%2`. `None`: there is none of that name.
fn server(address: &ScopedIp) -> Option<SocketAddr> {
    Some(match address {
        ScopedIp::V6(address, Some(interface)) => SocketAddrV6::new(*address, PORT, 0, index_of(interface)?).into(),
        address => SocketAddr::new(address.into(), PORT),
    })
}

fn index_of(interface: &str) -> Option<u32> {
    let number = interface.parse().ok();
    number.or_else(|| fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).ok()?.trim().parse().ok())
}

fn domain(text: &str) -> Option<Box<str>> {
    let domain = text.trim_matches('.');
    (!domain.is_empty()).then(|| domain.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_that_concern_us_are_read_and_bounded() {
        let config = Config::parse(
            b"# nameserver 9.9.9.9\n;nameserver 9.9.9.9\nnameserver 10.0.0.1\nnameserver nonsense\nnameserver ::1\n\
             nameserver fe80::1%7\nnameserver 10.0.0.4\ndomain old.example\nsearch Corp.Example. lab.example\n\
             options ndots:99 timeout:0 attempts:3 rotate edns0 timeout:x made-up\nmade up\n\xff\n",
        );
        let expected = Config {
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
    fn without_a_configuration_the_server_of_this_machine_is_asked() {
        assert_eq!(Config::default(), Config::parse(b""));
        assert_eq!(Config::default(), Config::parse(b"nameserver\nsearch\noptions\nnameserver x%y\n"));
    }

    #[test]
    fn a_name_with_few_dots_is_tried_in_the_search_domains_first() {
        let config = Config { search: vec!["a.example".into(), "b.example".into()], ..Config::default() };
        for (expected, name) in [
            (vec!["www.a.example", "www.b.example", "www"], "www"),
            (vec!["www.test", "www.test.a.example", "www.test.b.example"], "www.test"),
            (vec!["www."], "www."),
        ] {
            assert_eq!(expected, config.candidates(name));
        }
    }
}
