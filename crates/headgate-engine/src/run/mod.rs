//! One passage of a source through an engine into a sink, each end on a thread of its own, with bounded queues between
//! them. So a slow sink slows the workers, and those the source.

mod batch_input;
pub mod batches;
pub mod checks;
pub mod fed_runs;
mod handle;
pub(crate) mod job;
mod job_state;
mod launch;
pub(crate) mod live;
pub mod named_address;
mod plan;
mod reread_thread;
mod sink_thread;
mod source_thread;
mod start;
mod stop;
pub(crate) mod user_in_input;
mod weighing;

pub use self::handle::Run;
pub use self::start::Passage;
