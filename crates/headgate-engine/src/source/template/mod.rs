//! Requests that are made of columns: templates, in which `{column}` stands for the value of a row, encoded for its place.
//!
//! `parse` takes a text apart, `bound` finds its columns in an input and puts requests together, and each place has a file
//! of its own that says how a value gets there unharmed: `url`, `header`, `json`, `form`, `multipart`, `path`, `since`.

pub(super) mod bound;
pub(super) mod cell;
pub(super) mod cell_column;
mod checksum;
mod form;
mod header;
mod json;
#[cfg(any(test, fuzzing))]
pub mod laws;
mod multipart;
pub mod parse;
mod path;
mod percent;
mod since;
mod url;

#[cfg(test)]
mod tests;
