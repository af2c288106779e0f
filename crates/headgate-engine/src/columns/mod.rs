//! Outcomes as columns: which there are, how they are gathered, and how kept ones get there.

pub mod builder;
pub mod kept;
#[cfg(any(test, fuzzing))]
pub mod laws;
mod pairs;
mod repeated;
pub mod result;
mod room;
mod saved;
pub mod schema;
pub mod select;
mod selected;
#[cfg(test)]
mod tests;
