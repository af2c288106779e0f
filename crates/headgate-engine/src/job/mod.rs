//! What makes a run durable: the job's directory, its commits, and what goes on from them.
//!
//! `storage` is the seam to the disk; `record`, `commit`, `parts`, `log`, `done_rows` and `manifest` are what is written down;
//! `results` compares it with what is there; `directory` is the order in which that happens; `writer` and `sink` bring outcomes
//! there; `retry` asks failed rows again; `control` is what was set of a job that
//! runs, `set` sets it; `status` looks.

mod asked_headers;
mod commit;
mod commit_schedule;
pub mod control;
pub mod credential_scope;
mod directory;
mod done_rows;
mod lock;
mod log;
pub mod look;
mod manifest;
mod open;
mod part_format;
mod parts;
mod place;
mod record;
mod records;
mod results;
pub mod retry;
mod saved;
pub mod set;
mod shards;
mod sink;
pub mod status;
pub mod storage;
mod template_hashes;
mod value_hash;
mod watched;
mod writer;

pub use self::commit::Commit;
pub use self::done_rows::DoneRows;
pub use self::manifest::job_options;
pub use self::open::{OpenJob, RunningJob};
pub(crate) use self::saved::save_places_of;
pub(crate) use self::sink::no_rows_for;
pub use self::watched::Watched;
pub use self::writer::{MonotonicClock, TrackedInput};
