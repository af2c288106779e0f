//! Runs that continue from call to call. Calls with the same options share a run, with its concurrency, its limits and what
//! it has learned of hosts. All runs with the same engine options share an engine, with its connections.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use headgate_core::error::JobError;
use headgate_core::limits::MaxFailures;
use headgate_core::live::Settings;
use headgate_core::options::{EngineOptions, JobOptions, RequestOptions, RunOptions, SelectionOptions};
use headgate_table::columns::result::ResultColumns;

use super::checks::check;
use super::handle::Run;
use super::named_address::named_address;
use crate::engine::Engine;

/// The number of unused runs that are kept: the most recently used ones.
const MAX_IDLE: usize = 8;
/// The longest time that an unused run may take to end when its concurrency is needed.
const LONGEST_END: Duration = Duration::from_secs(1);

/// The runs of one process.
#[derive(Default)]
pub struct FedRuns {
    /// The most recently used run is the last.
    runs: Mutex<VecDeque<KeptRun>>,
}

struct KeptRun {
    key: RunKey,
    engine: Engine,
    run: Arc<Run>,
    /// Lives as long as a call uses the run.
    in_use: Weak<()>,
}

/// The use of a run by a call: as long as it lives, the run is kept.
pub(crate) struct RunUse {
    runs: Arc<FedRuns>,
    pub run: Arc<Run>,
    in_use: Arc<()>,
}

/// The options that calls sharing a run have in common, compared by value: they hold secrets, which no text key may contain.
#[derive(PartialEq)]
struct RunKey {
    run: RunOptions,
    request: RequestOptions,
    selection: SelectionOptions,
    keeps_bodies: bool,
    engine: EngineOptions,
}

impl FedRuns {
    /// Returns the run for these options, without those of the source and the sink, and for results with these columns.
    ///
    /// # Errors
    /// `Usage`: an invalid option, or a concurrency beyond the number of files that this process may open.
    pub(crate) fn run_for(self: &Arc<Self>, options: &JobOptions, columns: &ResultColumns) -> Result<RunUse, JobError> {
        check(options)?;
        // The caller learns of each failure, and one call must not end the run of another.
        let run = RunOptions {
            max_failures: MaxFailures::Never,
            named_options: Vec::new(),
            given: Settings::new(),
            ..options.run.clone()
        };
        let JobOptions { selection, request, engine, source, .. } = options;
        let named_address = named_address(source).or(request.named_address);
        let request = &RequestOptions { named_address, ..request.clone() };
        let key = RunKey {
            run,
            request: request.clone(),
            // Each call omits columns by itself.
            selection: SelectionOptions { drop: Vec::new(), ..selection.clone() },
            keeps_bodies: columns.has("body"),
            engine: engine.clone(),
        };
        let mut runs = self.runs();
        runs.retain(|kept| !kept.has_ended());
        if let Some(mut kept) = runs.iter().position(|kept| kept.key == key).and_then(|at| runs.remove(at)) {
            let in_use = kept.in_use.upgrade().unwrap_or_default();
            kept.in_use = Arc::downgrade(&in_use);
            let run = kept.run.clone();
            runs.push_back(kept);
            return Ok(RunUse { runs: self.clone(), run, in_use });
        }
        let idle = runs.iter().filter(|kept| kept.is_idle()).count();
        end_idle(&mut runs, (idle + 1).saturating_sub(MAX_IDLE));
        let running = runs.iter().find(|kept| kept.key.engine == *engine).map(|kept| kept.engine.clone());
        let shared_engine = running.map_or_else(|| Engine::start(engine), Ok)?;
        let start = || Run::fed_for(&shared_engine, columns.clone(), request.clone(), key.run.clone());
        let run = match start() {
            Err(_) if runs.iter().any(KeptRun::is_idle) => {
                for run in end_idle(&mut runs, usize::MAX) {
                    run.wait(LONGEST_END);
                }
                start()
            }
            started => started,
        };
        let run = Arc::new(run?);
        let in_use = Arc::default();
        runs.push_back(KeptRun { key, engine: shared_engine, run: run.clone(), in_use: Arc::downgrade(&in_use) });
        Ok(RunUse { runs: self.clone(), run, in_use })
    }

    fn runs(&self) -> MutexGuard<'_, VecDeque<KeptRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunUse {
    /// Abandons the call, whose rows may still wait for the limits of the run. If no other call uses the run, the next call
    /// gets a new one.
    pub(crate) fn abandon(self) {
        let Self { runs, run, in_use } = self;
        let mut runs = runs.runs();
        let is_last = Arc::into_inner(in_use).is_some();
        let at = runs.iter().position(|kept| is_last && Arc::ptr_eq(&kept.run, &run));
        if let Some(kept) = at.and_then(|at| runs.remove(at)) {
            kept.run.end_feeding();
            kept.run.abort();
        }
    }
}

impl KeptRun {
    fn is_idle(&self) -> bool {
        self.in_use.upgrade().is_none()
    }

    fn has_ended(&self) -> bool {
        self.run.wait(Duration::ZERO)
    }
}

/// Ends up to `count` unused runs, the least recently used first, and returns them.
fn end_idle(runs: &mut VecDeque<KeptRun>, mut count: usize) -> Vec<Arc<Run>> {
    let mut ended = Vec::new();
    runs.retain(|kept| {
        if count == 0 || !kept.is_idle() {
            return true;
        }
        count -= 1;
        kept.run.end_feeding();
        ended.push(kept.run.clone());
        false
    });
    ended
}
