//! The redirect chain of a row, with the cookies set along it.

use std::time::{Duration, Instant};

use crate::cookie_jar::CookieJar;
use crate::memory::Reservation;

/// The redirect chain of a row. It stays with the row while that waits for the limits of another host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedirectChain {
    /// The URL of the next request.
    pub url: Box<str>,
    /// The next request has this method, and no body (RFC 9110 section 15.4).
    pub method: Option<Box<str>>,
    /// The chain has left the origin that the row names: of the user's headers, only harmless ones are still sent.
    pub is_foreign: bool,
    /// A server outside was part of the chain: one whose address is public, or known only to a proxy.
    pub from_outside: bool,
    /// The number of redirects followed.
    pub count: u32,
    /// Hashes of the requests that were sent, which detect a loop; at most one for each redirect, and the first.
    pub visited: Vec<u64>,
    /// The hops that are kept for the result.
    pub hops: Vec<Hop>,
    /// The cookies that servers have set along the chain, if the run keeps them for each row.
    pub cookies: CookieJar,
    /// The part of the attempt before the row waited for the limits of another host.
    pub earlier: Option<Earlier>,
    pub memory: ChainMemory,
}

/// The memory reservation of a redirect chain. A copy of the chain does not share it.
#[derive(Debug, Default)]
pub struct ChainMemory(pub Reservation);

impl Clone for ChainMemory {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for ChainMemory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ChainMemory {}

/// The part of an attempt before the row waited; the time of waiting is not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Earlier {
    pub began: Instant,
    pub took: Duration,
}

/// One redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    pub status: u16,
    /// The target of the redirect.
    pub location: Box<str>,
}

impl RedirectChain {
    pub fn bytes(&self) -> usize {
        let hops: usize = self.hops.iter().map(|hop| size_of::<Hop>() + hop.location.len()).sum();
        let method = self.method.as_ref().map_or(0, |method| method.len());
        size_of::<Self>() + self.url.len() + method + size_of_val(&*self.visited) + hops + self.cookies.bytes()
    }
}
