//! Random numbers that are the same for the same seed, so that decisions with them can be tested.

pub use fastrand::Rng;
