//! A run: the rows of a source go through an engine, and their outcomes into a sink. Source and sink have a thread each, and
//! bounded queues connect them to the workers. So a slow sink slows down the workers, and slow workers slow down the source.

mod batch_input;
pub(crate) mod batches;
pub(crate) mod call;
pub(crate) mod checks;
pub(crate) mod fed_runs;
mod handle;
pub(crate) mod job;
mod job_state;
mod launch;
pub(crate) mod live;
pub(crate) mod named_address;
mod plan;
mod reporter;
mod reread_thread;
mod sink_thread;
mod source_thread;
mod start;
pub(crate) mod user_in_input;
mod weighing;

pub use self::handle::Run;
pub use self::start::Passage;
