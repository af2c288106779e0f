//! The promises of the DNS resolver, tested with a real name server.

#![allow(clippy::unwrap_used)]

mod answers;
mod bounds;
mod harness;
mod servers;
