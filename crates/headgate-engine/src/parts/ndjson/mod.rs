//! Parts as lines: one object a line, its keys the columns of a result in their order.

pub(crate) mod decode;
pub(crate) mod encode;
mod keys;
pub(crate) mod read;
pub(crate) mod write;
