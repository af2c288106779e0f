//! Outcomes as columns: which there are, how they are gathered, and how kept ones get there.

pub mod builder;
pub mod kept;
pub mod schema;
