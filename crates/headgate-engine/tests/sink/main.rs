//! The output of a job: its files, their columns, and the errors if they can't be written.

#![allow(clippy::unwrap_used)]

mod columns;
mod directory;
mod faults;
mod lines;
mod memory;
mod outcomes;
mod parts;
mod preview;
