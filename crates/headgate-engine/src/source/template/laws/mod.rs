//! What holds of requests that are made of columns, whatever the templates and values are. Property tests try to break it,
//! and so do the fuzz targets in `fuzz/`, which call the `hold` of a file here with bytes of their choice.

pub mod form;
mod given;
pub mod header;
pub mod json;
pub(super) mod made;
pub mod multipart;
pub mod save_to;
pub mod url;
