//! The engine's promises, kept before a real server: what goes in flight, what comes back, and how a job ends.

#![allow(clippy::unwrap_used)]

mod addresses;
mod bodies;
mod bounds;
mod changing_input;
mod considerate;
mod endings;
mod engine;
mod engine_faults;
mod engine_memory;
mod fail_on;
mod faults;
mod figures;
mod grouping;
mod harness;
mod keep_alive;
mod memory;
mod names;
mod own_ends;
mod requests;
mod rows;
mod scripted;
mod slow_output;
mod stopping;
mod tls;
mod window;
