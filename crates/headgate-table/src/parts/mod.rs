//! One result file: its name, how it is written in each format, summed up, copied into another, and read back.

pub mod checksum;
pub mod name;
pub mod ndjson;
pub mod parquet;
pub mod paths;
pub mod read;
pub mod time;
pub mod writer;

#[cfg(test)]
mod tests;
