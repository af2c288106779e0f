//! Random numbers that are the same for the same seed: what is decided with them can be tested.

pub use fastrand::Rng;
