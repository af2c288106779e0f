//! One result file: its name, how it is written in each format, summed up, copied into another, and read back.

pub(crate) mod checksum;
pub(crate) mod name;
pub(crate) mod ndjson;
pub(crate) mod parquet;
pub(crate) mod paths;
pub mod read;
pub(crate) mod time;
pub(crate) mod writer;

#[cfg(test)]
mod tests;
