//! Previews of results for the user: a few rows, with every value as short text.

mod ndjson;
mod parquet;
mod read;
mod table;
mod text;

pub use self::read::preview;
pub use self::table::Preview;
