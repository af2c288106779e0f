//! Laws of requests that are made of columns, whatever the templates and values are. Property tests check them, and so do
//! the fuzz targets in `fuzz/`, which call the `hold` of a file here with arbitrary bytes.

pub mod form;
mod fuzz_input;
pub mod header;
pub mod json;
pub(super) mod made;
pub mod multipart;
pub mod save_to;
pub mod url;
