//! Any order of writing, waiting, crashing and resuming, checked against a model: two sets of rows.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use headgate_core::options::Format;
use headgate_engine::testing::RunningJob;
use headgate_table::sink::{Ending, Sink};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::check::{check_finished, check_readable};
use crate::harness::{Bench, ROWS};
use crate::power::PowerLoss;
use crate::storage::Recorder;

const COMMIT_EVERY_S: u64 = 10;

#[derive(Debug, Clone)]
enum Action {
    /// Writes rows, chosen from those that are not done.
    Write(Vec<Index>),
    /// Advances the time by this many seconds.
    Wait(u64),
    /// Kills the process after this many more steps.
    Crash(usize),
    /// Kills the process now, with a power loss.
    LosePower(u64),
    /// Ends the run in an orderly way, and starts another.
    Interrupt,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => proptest::collection::vec(any::<Index>(), 1..6).prop_map(Action::Write),
        2 => (1..2 * COMMIT_EVERY_S).prop_map(Action::Wait),
        2 => (0_usize..16).prop_map(Action::Crash),
        1 => any::<u64>().prop_map(Action::LosePower),
        1 => Just(Action::Interrupt),
    ]
}

fn now() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// A job and its expected state.
struct Model {
    bench: Bench,
    power: Arc<PowerLoss>,
    disk: Recorder,
    sink: Option<Box<dyn Sink>>,
    /// Seconds since the test began.
    clock: Arc<AtomicU64>,
    /// Rows that the sink reported as committed.
    committed: BTreeSet<u64>,
    /// Rows written since then.
    pending: BTreeSet<u64>,
    pending_since: Option<u64>,
    /// The number of commits of this run: the first ones come early.
    commits: u32,
}

impl Model {
    fn new() -> Self {
        let mut bench = Bench::new(Format::Ndjson);
        bench.options.sink.commit_interval = Some(Duration::from_secs(COMMIT_EVERY_S));
        let mut model = Self {
            bench,
            power: PowerLoss::new(),
            disk: Recorder::new(),
            sink: None,
            clock: Arc::default(),
            committed: BTreeSet::new(),
            pending: BTreeSet::new(),
            pending_since: None,
            commits: 0,
        };
        model.resume();
        model
    }

    /// Starts the next run, and checks what it knows of earlier runs.
    fn resume(&mut self) {
        self.sink = None;
        self.disk = Recorder::on(&self.power, None);
        let job = self.bench.open(&self.disk).unwrap();
        let done: BTreeSet<u64> = (0..ROWS).filter(|row| !job.is_new() && job.done_rows().is_done(*row)).collect();
        // The commit that was interrupted counts completely or not at all.
        let with_pending: BTreeSet<u64> = &self.committed | &self.pending;
        assert!(done == self.committed || done == with_pending, "{done:?}: {:?} {:?}", self.committed, self.pending);
        assert_eq!(done, check_readable(&self.bench).into_keys().collect());
        let clock = self.clock.clone();
        let clock = Box::new(move || now() + Duration::from_secs(clock.load(Ordering::SeqCst)));
        let RunningJob { sink, .. } = self.bench.start(job, clock).unwrap();
        self.sink = Some(sink);
        self.committed = done;
        self.pending = BTreeSet::new();
        self.pending_since = None;
        self.commits = 0;
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Write(picks) => {
                let mut left = self.remaining();
                let count = picks.len().min(left.len());
                let rows: Vec<u64> =
                    picks[..count].iter().map(|pick| left.swap_remove(pick.index(left.len()))).collect();
                self.write(&rows);
            }
            Action::Wait(seconds) => {
                self.clock.fetch_add(*seconds, Ordering::SeqCst);
                let ticked = self.sink.as_mut().unwrap().tick();
                self.update(ticked.is_ok(), false);
            }
            Action::Crash(steps) => self.disk.crash_after(*steps),
            Action::LosePower(seed) => {
                self.sink = None;
                self.power.lose(&self.bench.out(), *seed);
                self.resume();
            }
            Action::Interrupt => {
                self.finish_run(None);
            }
        }
    }

    fn write(&mut self, rows: &[u64]) {
        if !rows.is_empty() {
            self.pending.extend(rows);
            self.pending_since.get_or_insert(self.clock.load(Ordering::SeqCst));
            let written = self.sink.as_mut().unwrap().write(self.bench.batch(rows));
            self.update(written.is_ok(), false);
        }
    }

    /// Finishes the run, and returns whether every row was done; a crash may have come before.
    fn finish_run(&mut self, input_rows: Option<u64>) -> bool {
        let finished = self.sink.as_mut().unwrap().finish(&Ending {
            input_rows,
            undone: &[],
            stopped: &|| input_rows.is_none(),
            stopped_by: None,
            by_failures: false,
        });
        let ended = self.update(finished.is_ok(), true) && self.committed.len() as u64 == ROWS;
        self.resume();
        ended
    }

    fn remaining(&self) -> Vec<u64> {
        (0..ROWS).filter(|row| !self.committed.contains(row) && !self.pending.contains(row)).collect()
    }

    /// Updates the expected state after an operation of the sink, and returns whether that succeeded.
    fn update(&mut self, is_ok: bool, commits: bool) -> bool {
        let since = self.pending_since.map(|since| self.clock.load(Ordering::SeqCst) - since);
        if !is_ok {
            self.resume();
        } else if commits || since.is_some_and(|since| since >= COMMIT_EVERY_S.min(2_u64.saturating_pow(self.commits)))
        {
            self.committed.append(&mut self.pending);
            self.pending_since = None;
            self.commits += 1;
        }
        is_ok
    }

    fn finish(mut self) {
        loop {
            self.write(&self.remaining());
            // A scheduled crash may still happen.
            if self.finish_run(Some(ROWS)) {
                break;
            }
        }
        drop(self.sink.take());
        check_finished(&self.bench);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn committed_rows_stay_and_each_row_ends_once_in_any_order_of_events(
        actions in proptest::collection::vec(action(), 1..24)
    ) {
        let mut model = Model::new();
        for action in &actions {
            model.act(action);
        }
        model.finish();
    }
}
