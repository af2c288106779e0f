//! Durable jobs: the directory of a job, its commits, and how a run resumes from them.
//!
//! The interface to the disk is [`Storage`](headgate_core::files::storage::Storage). `record`, `commit`, `parts`, `log`,
//! `done_rows` and `manifest` are the stored state, and `results` compares it with the files. `directory` applies commits in
//! order, and `delta` describes them for readers of Delta tables. `writer` and `sink` write outcomes. `retry` retries failed
//! rows. `control` has the settings of a running job, `set` changes them, `status` reports on a job, and `report` on what it
//! did over time. `clean` and `verify` are commands for jobs that were interrupted or damaged.

pub mod clean;
mod commit;
mod commit_schedule;
pub(crate) mod control;
pub mod credential_scope;
mod delta;
mod digest;
mod directory;
mod done_rows;
mod free_space;
mod header_record;
pub(crate) mod heartbeat;
mod lock;
mod log;
pub(crate) mod look;
mod manifest;
mod open;
mod output_name;
mod part_format;
mod parts;
mod process;
mod record;
mod records;
mod replaced;
pub mod report;
mod reservations;
mod results;
pub(crate) mod retry;
mod saved;
mod saved_bodies;
mod series;
pub mod set;
mod shards;
mod sink;
pub mod status;
mod template_hashes;
mod tried_rows;
mod value_hash;
pub mod verify;
mod watched;
mod writer;

pub use self::commit::Commit;
pub use self::done_rows::DoneRows;
pub(crate) use self::free_space::min_free;
pub use self::manifest::job_options;
pub use self::open::{OpenJob, RunningJob};
pub(crate) use self::saved::save_places;
pub(crate) use self::sink::no_rows_for;
pub(crate) use self::watched::JobProgress;
pub use self::writer::MonotonicClock;
pub(crate) use self::writer::TrackedInput;
