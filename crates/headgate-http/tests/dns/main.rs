//! The promises of the DNS resolver, tested with a real DNS server.

#![allow(clippy::unwrap_used)]

mod bounds;
mod harness;
mod responses;
mod servers;
