//! A first look at results, for a person: a few rows, every value as short text.

mod ndjson;
mod parquet;
mod read;
mod table;
mod text;

pub use self::read::preview;
pub use self::table::Preview;
