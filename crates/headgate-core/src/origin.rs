//! The destination of a request.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::limits::HostBy;

/// A host: scheme, hostname and port. What limits, pauses and connections belong to.
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

impl HostName {
    /// Returns the address, if the hostname is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Domain(_) => None,
            Self::V4(address) => Some((*address).into()),
            Self::V6(address) => Some((*address).into()),
        }
    }
}

impl fmt::Display for HostName {
    /// Writes an IPv6 address without brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domain(name) => name.fmt(f),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority())
    }
}

impl Origin {
    /// Returns the key of the host in limits of each host; the address of a hostname is not known here.
    pub fn key(&self, by: HostBy) -> Box<str> {
        match by {
            HostBy::Name | HostBy::Address => self.name.to_string().into(),
            HostBy::Origin => self.to_string().into(),
        }
    }

    /// Returns the URL of the host, without a path.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.https { "https" } else { "http" }, self.authority())
    }

    pub fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    /// Returns the value of the `host` header: without the port if it is the scheme's own (RFC 9110 section 7.2).
    pub fn authority(&self) -> String {
        let name = match &self.name {
            HostName::Domain(name) => name.to_string(),
            HostName::V4(address) => address.to_string(),
            HostName::V6(address) => format!("[{address}]"),
        };
        if self.port == if self.https { 443 } else { 80 } { name } else { format!("{name}:{}", self.port) }
    }
}
