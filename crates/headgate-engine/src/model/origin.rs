//! Whom a request is for.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A host: scheme, name and port. What limits, pauses and connections belong to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub https: bool,
    pub name: HostName,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostName {
    /// In lower case and ASCII (punycode).
    Domain(Box<str>),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl fmt::Display for HostName {
    /// As in a URL: an IPv6 address in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domain(name) => f.write_str(name),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Origin {
    /// `https://example.com:443`: the port always.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", if self.https { "https" } else { "http" }, self.name, self.port)
    }
}

impl Origin {
    /// The value of the `host` header: without the port where it is the scheme's own (RFC 9110 section 7.2).
    pub fn authority(&self) -> String {
        let name = self.name.to_string();
        if self.port == if self.https { 443 } else { 80 } { name } else { format!("{name}:{}", self.port) }
    }
}
