//! Bodies into files, on their way from the server to the disk.
//!
//! A lane that receives a body hands over what has come, piece by piece, and waits until it is written: so a body takes the
//! memory of one piece, whatever its length, and a disk that is slow slows the server down. Threads of their own write, so
//! that no worker waits for the disk. A file is written under the number of its row, then it claims its name, and what counts
//! for whom is then for the job, whose commit puts it in its place.

pub mod claim;
mod errors;
mod extension;
pub mod places;
pub mod saver;
pub mod saving;
mod writing;
