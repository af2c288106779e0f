//! Outcomes as columns: which columns there are, how they are gathered, and how kept columns are carried.

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
