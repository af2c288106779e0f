//! Parts as Parquet.

mod copy;
mod pages;
pub(crate) mod read;
pub(crate) mod write;
