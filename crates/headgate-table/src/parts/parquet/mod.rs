//! Parts as Parquet.

mod body;
mod copy;
mod file;
mod pages;
pub(crate) mod read;
pub mod write;
