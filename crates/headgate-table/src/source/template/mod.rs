//! Requests that are made of columns: templates, in which `{column}` is replaced by the value of a row, encoded for its
//! context.
//!
//! `parse` parses a text, and `bound` finds its columns in an input and assembles requests. Each context has a file that
//! encodes values for it: `url`, `header`, `json`, `form`, `multipart`, `path`, `since`.

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
pub(crate) mod parse;
mod path;
mod percent;
mod since;
mod url;

#[cfg(test)]
mod tests;
