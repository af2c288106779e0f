//! What says whether one more may start now: decisions only, time and sizes are passed in.

pub mod machine;
pub mod memory;
pub mod rows;
pub mod window;
