//! Outcomes as columns: the schema of results, the builders of batches, and the codec of kept columns.

pub mod builder;
pub mod kept;
#[cfg(any(test, fuzzing))]
pub mod laws;
mod pairs;
mod refill;
mod repeated;
pub mod result;
mod saved;
pub mod schema;
pub mod select;
mod selected;
#[cfg(test)]
mod tests;
