//! The words of the engine as plain data: a row, what became of it, what was asked. It knows no Arrow, and of HTTP only
//! the names.

pub mod clock;
pub mod error;
pub(crate) mod failed_by;
pub(crate) mod grouped;
pub mod headers;
pub mod memory;
pub mod message;
pub mod options;
pub mod origin;
pub mod outcome;
pub mod row;
pub mod source_size;
pub mod status_set;
