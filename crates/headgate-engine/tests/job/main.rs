//! The engine's promises, kept before a real server: what goes in flight, what comes back, and how a job ends.

#![allow(clippy::unwrap_used)]

mod addresses;
mod bodies;
mod bounds;
mod changing_input;
mod considerate;
mod dialing;
mod endings;
mod engine;
mod engine_faults;
mod engine_memory;
mod fail_on;
mod faults;
mod fed;
mod figures;
mod grouping;
mod harness;
mod http2;
mod http2_again;
mod http2_frames;
mod keep_alive;
mod memory;
mod names;
mod own_ends;
mod proxies;
mod redirects;
mod requests;
mod responses;
mod robots;
mod rows;
mod saved;
mod scripted;
mod selected;
mod slow_output;
mod stand_in;
mod stopping;
mod streamed;
mod tls;
mod tls_options;
mod uploads;
mod window;
