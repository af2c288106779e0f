//! Who is asked for names, and how: `/etc/resolv.conf` (resolv.conf(5)), as far as it concerns us.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::http::dial::names::hosts::Hosts;

const RESOLV_CONF: &str = "/etc/resolv.conf";
const PORT: u16 = 53;
/// As many servers as the C library asks.
const MAX_SERVERS: usize = 3;
/// Domains that a short name is tried in.
const MAX_SEARCH: usize = 16;
/// The bounds that the C library sets.
const MAX_NDOTS: usize = 15;
const MAX_TIMEOUT_S: u64 = 30;
const MAX_ATTEMPTS: usize = 5;

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
    /// The system's configuration. What cannot be read is as if it were empty, as for the C library.
    pub fn of_system() -> Self {
        Self { hosts: Hosts::of_system(), ..Self::parse(&fs::read_to_string(RESOLV_CONF).unwrap_or_default()) }
    }

    /// The system's configuration, with another server.
    #[must_use]
    pub fn with_server(self, server: SocketAddr) -> Self {
        Self { servers: vec![server], ..self }
    }

    fn parse(text: &str) -> Self {
        let mut config = Self { servers: Vec::new(), ..Self::default() };
        for line in text.lines().filter(|line| !line.starts_with(['#', ';'])) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => config.servers.extend(words.next().and_then(server)),
                // The last line of either counts.
                Some("search" | "domain") => config.search = words.take(MAX_SEARCH).filter_map(domain).collect(),
                Some("options") => words.for_each(|word| config.option(word)),
                _ => {}
            }
        }
        config.servers.truncate(MAX_SERVERS);
        if config.servers.is_empty() {
            config.servers = Self::default().servers;
        }
        config
    }

    fn option(&mut self, word: &str) {
        let Some((name, value)) = word.split_once(':') else { return };
        let Ok(value) = value.parse::<u64>() else { return };
        match name {
            "ndots" => self.ndots = value.min(MAX_NDOTS as u64) as usize,
            "timeout" => self.timeout = Duration::from_secs(value.clamp(1, MAX_TIMEOUT_S)),
            "attempts" => self.attempts = value.clamp(1, MAX_ATTEMPTS as u64) as usize,
            _ => {}
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

/// An address, of IPv6 maybe with its interface: `fe80::1%2`.
fn server(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address, PORT));
    }
    let (address, interface) = text.split_once('%')?;
    let index = match interface.parse::<u32>() {
        Ok(index) => index,
        Err(_) => fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).ok()?.trim().parse().ok()?,
    };
    Some(std::net::SocketAddrV6::new(address.parse().ok()?, PORT, 0, index).into())
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
            "# nameserver 9.9.9.9\n;nameserver 9.9.9.9\nnameserver 10.0.0.1\nnameserver nonsense\nnameserver ::1\n\
             nameserver fe80::1%7\nnameserver 10.0.0.4\ndomain old.example\nsearch Corp.Example. lab.example\n\
             options ndots:99 timeout:0 attempts:3 rotate edns0 timeout:x\n",
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
        assert_eq!(Config::default(), Config::parse(""));
        assert_eq!(Config::default(), Config::parse("nameserver\nsearch\noptions\nnameserver x%y\n"));
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
