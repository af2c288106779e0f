//! What a user finds in the output: the files, their columns, and what is said when they can't be written.

#![allow(clippy::unwrap_used)]

mod columns;
mod directory;
mod faults;
mod lines;
mod memory;
mod outcomes;
mod parts;
mod preview;
