//! What is promised of names, kept before a real name server.

#![allow(clippy::unwrap_used)]

mod answers;
mod bounds;
mod harness;
mod servers;
