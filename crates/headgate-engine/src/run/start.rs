//! A run of a source and a sink that somebody brings.

use super::checks::{check_request, check_run};
use super::handle::Run;
use super::launch::{Begun, Launch, SINK_TICK};
use crate::engine::Engine;
use crate::job::DoneRows;
use crate::model::error::JobError;
use crate::model::options::{RequestOptions, RunOptions};
use crate::queue::window::Window;
use crate::sink::Sink;
use crate::source::Source;

/// What a run is made of.
pub struct Passage {
    pub source: Box<dyn Source>,
    pub sink: Box<dyn Sink>,
    pub request: RequestOptions,
    pub run: RunOptions,
}

impl Run {
    /// Brings the rows of a source through the engine into a sink.
    ///
    /// # Errors
    /// `Usage`: an option that cannot be, naming it, or more in flight than this process may have files open. Nothing was
    /// read or sent then.
    pub fn start(engine: &Engine, passage: Passage) -> Result<Self, JobError> {
        let Passage { source, sink, request, run } = passage;
        check_run(&run)?;
        check_request(&request)?;
        let room = engine.reserve(run.concurrency)?;
        let launch = Launch {
            size: source.size(),
            kept: source.kept_fields(),
            source: Some(source),
            done: DoneRows::default(),
            // Nothing is remembered of each row: there is no need to hold back those that come after a slow one.
            window: Window::new(u64::MAX, 0),
            input_is_pipe: false,
            output_is_pipe: false,
            output: String::new(),
            tick: SINK_TICK,
            request,
            run,
            notes: Vec::new(),
        };
        launch.begin(engine, room, |_| Ok(Begun::Running { sink, state: None }))
    }
}
