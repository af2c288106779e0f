//! The addresses that connections may be made to.

use std::net::IpAddr;

pub use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use crate::choices::NetworkPolicy;

/// The addresses to which connections are allowed. It belongs to a job: what was refused stays so when the job is resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkOptions {
    pub network: NetworkPolicy,
    /// Networks that may be connected to in any case.
    pub allow_net: Vec<IpNet>,
    /// Networks that may not be connected to, whatever else allows it.
    pub deny_net: Vec<IpNet>,
    /// Ports that may be connected to; empty: any port.
    pub allow_port: Vec<u16>,
}

impl NetworkOptions {
    /// Adds the restrictions of a job to those of a retry.
    pub fn add(&mut self, job: &Self) {
        self.network = self.network.max(job.network);
        self.allow_net.extend(&job.allow_net);
        self.deny_net.extend(&job.deny_net);
        self.allow_port.extend(&job.allow_port);
        self.normalize();
    }

    /// Sorts the lists, so that two that allow the same are equal.
    pub fn normalize(&mut self) {
        self.allow_net.sort_unstable();
        self.allow_net.dedup();
        self.deny_net.sort_unstable();
        self.deny_net.dedup();
        self.allow_port.sort_unstable();
        self.allow_port.dedup();
    }
}

/// Parses a network, as `10.0.0.0/8`, or a single address.
///
/// # Errors
/// Why the text is neither, for the user.
pub fn parse_net(text: &str) -> Result<IpNet, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let net = match bare.split_once('/') {
        // The crate's own parser reads `010.0.0.0` as 10.0.0.0, other parsers read 8.0.0.0.
        Some((address, length)) => {
            address.parse().ok().zip(length.parse().ok()).and_then(|(address, length)| IpNet::new(address, length).ok())
        }
        None => bare.parse::<IpAddr>().ok().map(IpNet::from),
    };
    net.map(|net| net.trunc())
        .ok_or_else(|| format!("`{text}` is not a network: write one such as 10.0.0.0/8 or fd00::/8, or an address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_one_with_a_length_or_an_address() {
        for (expected, text) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.0/8", "10.1.2.3/8"),
            ("127.0.0.1/32", "127.0.0.1"),
            ("fd00::/8", "fd12::/8"),
            ("::1/128", "[::1]"),
        ] {
            assert_eq!(Ok(expected.to_owned()), parse_net(text).map(|net| net.to_string()));
        }
        // CVE-2021-29922: some parsers read a leading zero as octal, so that an ambiguous text is refused here.
        for text in ["", "localhost", "10.0.0.0/33", "010.0.0.0/8", "10.0.0", "::/129", "10.0.0.0/-1"] {
            assert!(parse_net(text).is_err(), "{text}");
        }
    }
}
