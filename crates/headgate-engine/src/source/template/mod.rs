//! Requests that are made of columns: templates, in which `{column}` stands for the value of a row, encoded for its place.

pub mod parse;
