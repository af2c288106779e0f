//! Outcomes as Arrow columns, sources of rows, part files, and sinks that are not directories. It knows no HTTP client
//! and no jobs.

#![warn(unreachable_pub)]

pub mod columns;
pub mod parts;
#[cfg(test)]
mod seeds;
pub mod sink;
pub mod source;
