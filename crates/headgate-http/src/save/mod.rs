//! Saves bodies to files while they are received.
//!
//! A lane passes each received chunk to a thread and waits until it is written. So a body takes the memory of one chunk,
//! whatever its length, and a slow disk slows the server down. Separate threads write, so that no worker waits for the disk.
//! A file is first named after the number of its row, then claims its name. A commit of the job moves it to its final path.

pub(crate) mod claim;
mod errors;
mod extension;
pub mod paths;
pub mod saver;
pub mod saving;
mod writer;
