//! One part file: its name and checksum; writing it in each format, copying it into another, and reading it back. And how
//! Delta tables describe parts.

pub mod checksum;
pub mod delta;
pub mod name;
pub mod ndjson;
pub mod parquet;
pub mod paths;
pub mod read;
mod read_error;
pub mod time;
pub mod writer;

#[cfg(test)]
mod tests;
