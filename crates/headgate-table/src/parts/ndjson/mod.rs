//! Parts as NDJSON: one object per line, whose keys are the columns of a result in their order.

pub(crate) mod decode;
pub mod encode;
pub(in crate::parts) mod keys;
pub(crate) mod read;
pub mod write;
