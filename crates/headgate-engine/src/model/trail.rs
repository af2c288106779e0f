//! Where redirects have led a row, and what it has picked up on its way.

use std::time::{Duration, Instant};

/// A row that was redirected. It stays with the row while that waits for the limits of another host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trail {
    /// Where it is asked now.
    pub url: Box<str>,
    /// It is asked with this method, and without its body (RFC 9110 section 15.4).
    pub method: Option<Box<str>>,
    /// It has left the origin that it was meant for: credentials are no longer sent.
    pub is_foreign: bool,
    /// How many redirects were followed.
    pub count: u32,
    /// Those that are kept for the result.
    pub hops: Vec<Hop>,
    /// What servers have set on the way, where that is wanted.
    pub cookies: Vec<Cookie>,
    /// Of the attempt, before it waited for the limits of another host.
    pub earlier: Option<Earlier>,
}

/// The part of an attempt before it waited: the waiting is no part of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Earlier {
    pub began: Instant,
    pub took: Duration,
}

/// One redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    pub status: u16,
    /// The URL that it led to.
    pub location: Box<str>,
}

/// What a server has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie {
    pub name: Box<str>,
    pub value: Box<str>,
    /// The host that has set it, or the domain that it is for.
    pub domain: Box<str>,
    /// It is for that very host, and not for those below it.
    pub is_host_only: bool,
    pub path: Box<str>,
    pub is_secure: bool,
}

impl Trail {
    pub fn bytes(&self) -> usize {
        let hops: usize = self.hops.iter().map(|hop| size_of::<Hop>() + hop.location.len()).sum();
        let cookies = self.cookies.iter().map(Cookie::bytes).sum::<usize>();
        size_of::<Self>() + self.url.len() + hops + cookies
    }
}

impl Cookie {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }
}
