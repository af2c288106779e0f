//! Parts as lines: one object a line, its keys the columns of a result in their order.

pub(crate) mod decode;
pub mod encode;
pub(in crate::parts) mod keys;
pub(crate) mod read;
pub mod write;
