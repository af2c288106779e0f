//! A run of a source and a sink that the caller provides.

use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_core::live::Live;
use headgate_core::options::{RequestOptions, RunOptions};
use headgate_http::idempotency_key::KeySalt;
use headgate_table::columns::result::ResultColumns;
use headgate_table::sink::Sink;
use headgate_table::sink::none::NoneSink;
use headgate_table::source::Source;

use super::checks::check_requests;
use super::handle::Run;
use super::launch::{Launch, RowsFrom, SINK_TICK, StartedOutput};
use super::live::StoredSettings;
use crate::engine::Engine;
use crate::job::DoneRows;
use crate::queue::window::Window;

/// The parts of a run.
pub struct Passage {
    pub source: Box<dyn Source>,
    pub sink: Box<dyn Sink>,
    /// How far rows may be read beyond the oldest unfinished row; the sink advances it. `None`: any distance, for a sink that
    /// does not track which rows are done.
    pub window: Option<Arc<Window>>,
    pub request: RequestOptions,
    pub run: RunOptions,
}

impl Run {
    /// Runs the rows of a source through the engine into a sink.
    ///
    /// # Errors
    /// `Usage`: an invalid option (the message names it), or a concurrency beyond the number of files that this process may
    /// open. Nothing was read or sent then.
    pub fn start(engine: &Engine, passage: Passage) -> Result<Self, JobError> {
        let Passage { source, sink, window, request, run } = passage;
        let endpoints = Endpoints {
            rows_known: source.size().rows,
            columns: ResultColumns::of_kept(source.kept_fields()),
            rows: RowsFrom::Source(source),
            window: window.unwrap_or_else(without_window),
            sink,
        };
        endpoints.begin(engine, request, run)
    }

    /// Begins a run of rows that are fed one by one (see [`Run::feed`]). It continues until [`Run::end_feeding`].
    ///
    /// # Errors
    /// As [`Run::start`].
    pub fn fed(engine: &Engine, request: RequestOptions, run: RunOptions) -> Result<Self, JobError> {
        Self::fed_for(engine, ResultColumns::default(), request, run)
    }

    /// Starts a run as [`Run::fed`] does, for results with these columns: selected columns are included, and bodies that are
    /// omitted are not kept.
    ///
    /// # Errors
    /// As [`Run::start`].
    pub fn fed_for(
        engine: &Engine,
        columns: ResultColumns,
        request: RequestOptions,
        run: RunOptions,
    ) -> Result<Self, JobError> {
        let endpoints = Endpoints {
            rows_known: None,
            columns,
            rows: RowsFrom::Caller,
            window: without_window(),
            sink: Box::new(NoneSink),
        };
        endpoints.begin(engine, request, run)
    }
}

/// The source of rows and the sink of their outcomes.
struct Endpoints {
    rows_known: Option<u64>,
    columns: ResultColumns,
    rows: RowsFrom,
    window: Arc<Window>,
    sink: Box<dyn Sink>,
}

impl Endpoints {
    fn begin(self, engine: &Engine, request: RequestOptions, run: RunOptions) -> Result<Run, JobError> {
        check_requests(&request, &run)?;
        let capacity = engine.reserve(run.concurrency, &request, false)?;
        let named = Live::new(&run);
        let key_salt = run.retrying.idempotency_key.then(KeySalt::random).transpose()?;
        let Self { rows_known, columns, rows, window, sink } = self;
        let launch = Launch {
            rows_known,
            max_rows: None,
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
            named,
            stored_settings: StoredSettings::default(),
            save_places: None,
            key_salt,
            own_engine: false,
            notes: Vec::new(),
        };
        launch.begin(engine, capacity, |_| Ok(StartedOutput::Running { sink, state: None }))
    }
}

fn without_window() -> Arc<Window> {
    Arc::new(Window::new(u64::MAX, 0))
}
