//! A run of a source and a sink that the caller provides.

use std::sync::Arc;

use super::checks::check_requests;
use super::handle::Run;
use super::launch::{Begun, Launch, RowsFrom, SINK_TICK};
use super::live::SetBefore;
use crate::columns::result::ResultColumns;
use crate::engine::Engine;
use crate::http::idempotency_key::KeySalt;
use crate::job::DoneRows;
use crate::model::error::JobError;
use crate::model::live::Live;
use crate::model::options::{RequestOptions, RunOptions};
use crate::model::source_size::SourceSize;
use crate::queue::window::Window;
use crate::sink::Sink;
use crate::sink::none::NoneSink;
use crate::source::Source;

/// The parts of a run.
pub struct Passage {
    pub source: Box<dyn Source>,
    pub sink: Box<dyn Sink>,
    /// How far rows may be read beyond the oldest that is done; the sink advances it. `None`: as far as there is room, which
    /// is right where a sink remembers nothing of the rows that it has seen.
    pub window: Option<Arc<Window>>,
    pub request: RequestOptions,
    pub run: RunOptions,
}

impl Run {
    /// Brings the rows of a source through the engine into a sink.
    ///
    /// # Errors
    /// `Usage`: an option that can't be, naming it, or more in flight than this process may have files open. Nothing was
    /// read or sent then.
    pub fn start(engine: &Engine, passage: Passage) -> Result<Self, JobError> {
        let Passage { source, sink, window, request, run } = passage;
        let ends = Ends {
            size: source.size(),
            columns: ResultColumns::of_kept(source.kept_fields()),
            rows: RowsFrom::Source(source),
            window: window.unwrap_or_else(without_window),
            sink,
        };
        ends.begin(engine, request, run)
    }

    /// Begins a run of rows that are fed one by one (see [`Run::feed`]). It goes on until [`Run::end_feeding`].
    ///
    /// # Errors
    /// As [`Run::start`].
    pub fn fed(engine: &Engine, request: RequestOptions, run: RunOptions) -> Result<Self, JobError> {
        Self::fed_for(engine, ResultColumns::default(), request, run)
    }

    /// As [`Run::fed`], for results with these columns: what is made of answers is made of them, and bodies that they go without
    /// are not kept.
    ///
    /// # Errors
    /// As [`Run::start`].
    pub fn fed_for(
        engine: &Engine,
        columns: ResultColumns,
        request: RequestOptions,
        run: RunOptions,
    ) -> Result<Self, JobError> {
        let ends = Ends {
            size: SourceSize::default(),
            columns,
            rows: RowsFrom::Caller,
            window: without_window(),
            sink: Box::new(NoneSink),
        };
        ends.begin(engine, request, run)
    }
}

/// The source of rows and the sink of their outcomes.
struct Ends {
    size: SourceSize,
    columns: ResultColumns,
    rows: RowsFrom,
    window: Arc<Window>,
    sink: Box<dyn Sink>,
}

impl Ends {
    fn begin(self, engine: &Engine, request: RequestOptions, run: RunOptions) -> Result<Run, JobError> {
        check_requests(&request, &run)?;
        let room = engine.reserve(run.concurrency, &request, false)?;
        let asked = Live::new(&run);
        let Self { size, columns, rows, window, sink } = self;
        let launch = Launch {
            size,
            columns,
            rows,
            done: DoneRows::default(),
            window,
            input_is_pipe: false,
            output_is_pipe: false,
            output: String::new(),
            tick: SINK_TICK,
            request,
            run,
            asked,
            set_before: SetBefore::default(),
            save_places: None,
            key_salt: KeySalt::random()?,
            own_engine: false,
            notes: Vec::new(),
        };
        launch.begin(engine, room, |_| Ok(Begun::Running { sink, state: None }))
    }
}

fn without_window() -> Arc<Window> {
    Arc::new(Window::new(u64::MAX, 0))
}
