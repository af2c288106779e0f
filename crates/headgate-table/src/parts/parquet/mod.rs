//! Parts as Parquet.

mod body;
mod copy;
mod pages;
pub(crate) mod read;
pub mod write;
