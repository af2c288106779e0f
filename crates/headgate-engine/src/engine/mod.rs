//! What outlives a run.

pub mod failure;
pub mod machine;
