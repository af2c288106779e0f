//! A run as whoever started it sees it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::job_state::JobState;
use super::live::LiveRun;
use super::sink_thread::Done;
use super::stop::Stop;
use crate::columns::select::Selection;
use crate::engine::Assigned;
use crate::engine::bell::Bell;
use crate::engine::failure::FirstFailure;
use crate::engine::inbox::Inbox;
use crate::job::control::Change;
use crate::model::error::JobError;
use crate::model::live::Settings;
use crate::model::message::Message;
use crate::model::row::Row;
use crate::queue::rows::{RowFeeder, RowReceiver};
use crate::stats::bottleneck::merging;
use crate::stats::monitor::Monitor;
use crate::stats::report::{Snapshot, Summary};
use crate::stats::usage::Moment;

/// How long an aborted run may take to write what it has received.
const LONGEST_ABORT: Duration = Duration::from_secs(1);

/// A run that goes on. Dropping it lets it go on to its end.
#[derive(Debug)]
pub struct Run {
    pub(super) stop: Stop,
    pub(super) rows: RowReceiver,
    pub(super) grace: Duration,
    pub(super) failure: Arc<FirstFailure>,
    pub(super) done: Arc<Done>,
    /// Set if nobody takes the results any more.
    pub(super) reader_gone: Arc<OnceLock<()>>,
    /// When it was asked to end at once.
    pub(super) aborted: OnceLock<Instant>,
    /// The workers' part in it; `None`: there was nothing to do.
    pub(super) assigned: Option<Assigned>,
    pub(super) monitor: Mutex<Monitor>,
    /// What the job's directory knows, if it is a run of a job.
    pub(super) state: Option<JobState>,
    /// Where results go, for a person.
    pub(super) output: String,
    pub(super) notes: Arc<Mutex<Vec<Message>>>,
    /// Why it stopped itself, if it did.
    pub(super) stopped_by: Arc<OnceLock<Message>>,
    /// `None`: there was nothing to do.
    pub(super) live: Option<Arc<LiveRun>>,
    /// What rows are fed to; `None`: they come from a source, or none come any more.
    pub(super) feeder: Mutex<Option<RowFeeder>>,
    /// Of the next row that is fed.
    pub(super) next_number: AtomicU64,
    /// Where outcomes of rows that are fed wait to be taken. Those that are gone leave with the next that comes.
    pub(super) inboxes: Mutex<Vec<Weak<Inbox>>>,
}

impl Run {
    /// Has rows asked that nobody reads from a source, each of which says who waits for its outcome. It does not wait: who asks
    /// bounds them. They get consecutive ordinals, of which the first is returned. `None`: the run has ended, and the rows are
    /// dropped.
    pub fn feed(&self, mut rows: Vec<Row>) -> Option<u64> {
        let first = self.next_number.fetch_add(rows.len() as u64, Ordering::Relaxed);
        for (row, ordinal) in rows.iter_mut().zip(first..) {
            row.ordinal = ordinal;
        }
        let feeder = self.feeder.lock().unwrap_or_else(PoisonError::into_inner);
        feeder.as_ref().is_some_and(|feeder| feeder.feed(rows)).then_some(first)
    }

    /// An inbox for outcomes of rows that are fed, whose memory is given back where somebody needs it (see
    /// [`Run::give_memory_back`]). `selection`: as for [`Inbox::selecting`].
    pub fn inbox(&self, bell: Arc<dyn Bell>, selection: Option<Arc<Selection>>) -> Arc<Inbox> {
        let inbox = Inbox::selecting(bell, selection);
        let mut inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        inboxes.retain(|inbox| inbox.strong_count() > 0);
        inboxes.push(Arc::downgrade(&inbox));
        inbox
    }

    /// Lets go of the memory of outcomes that nobody has taken yet. To be called from time to time by whoever waits for a row
    /// of this run: all lanes may wait for that memory, and who should take these outcomes may be the one that waits.
    pub fn give_memory_back(&self) {
        let inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        inboxes.iter().filter_map(Weak::upgrade).for_each(|inbox| inbox.give_memory_back());
    }

    /// No rows are fed any more: the run ends when those that were have their outcomes.
    pub fn end_feeding(&self) {
        drop(self.feeder.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Cancels all rows that nobody waits for any more (see [`Inbox::close`](crate::engine::inbox::Inbox::close)).
    pub fn cancel_unwanted(&self) {
        if let Some(assigned) = &self.assigned {
            assigned.cancel_unwanted();
        }
    }

    /// Cancels a row, whether it waits or is in flight: it fails as `cancelled`. One that has ended, or that the source has not
    /// handed on yet, is left alone. Returns before it is done.
    pub fn cancel(&self, row: u64) {
        if let Some(assigned) = &self.assigned {
            assigned.cancel(&self.rows, row);
        }
    }

    /// Sets options while it goes on, under their names, with their values as text (see [`Settings`]). What is set holds until
    /// the job ends, also in later runs of it that do not name these options.
    ///
    /// # Errors
    /// `Usage`: an option can't be set, or not to that; the run goes on as before. `Output`: the directory of the job can't be
    /// written to.
    pub fn set(&self, set: Settings) -> Result<(), JobError> {
        self.change(&Change { paused: None, set })
    }

    /// Starts nothing more until [`Run::unpause`]; what is in flight goes on. It holds for later runs of the job, too.
    ///
    /// # Errors
    /// `Output`: the directory of the job can't be written to.
    pub fn pause(&self) -> Result<(), JobError> {
        self.change(&Change { paused: Some(true), ..Change::default() })
    }

    /// Goes on after [`Run::pause`].
    ///
    /// # Errors
    /// As [`Run::pause`].
    pub fn unpause(&self) -> Result<(), JobError> {
        self.change(&Change { paused: Some(false), ..Change::default() })
    }

    fn change(&self, change: &Change) -> Result<(), JobError> {
        let live = self.live.as_ref().filter(|_| self.done.at().is_none());
        live.ok_or_else(|| JobError::usage("the run has ended: there is nothing to change"))?.change(change)
    }

    /// Waits for the run to end, for `timeout` at the most. Whether it has ended. After [`Run::abort`] it has after a second,
    /// even if the output can't be written because nobody reads it.
    pub fn wait(&self, timeout: Duration) -> bool {
        let given_up_at = || self.aborted.get().map(|aborted| *aborted + LONGEST_ABORT);
        self.done.wait(timeout, given_up_at) || given_up_at().is_some_and(|at| at <= Instant::now())
    }

    /// Starts nothing new; what is in flight has the grace that was asked for.
    pub fn stop(&self) {
        self.stop.at(Instant::now() + self.grace);
    }

    /// Ends what is in flight, too. What has been received is written.
    pub fn abort(&self) {
        let _ = self.aborted.set(Instant::now());
        self.stop.at(Instant::now());
        self.done.look_again();
    }

    fn monitor(&self) -> MutexGuard<'_, Monitor> {
        let mut monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = &self.live {
            monitor.set_concurrency(live.concurrency());
        }
        monitor
    }

    pub fn snapshot(&self) -> Snapshot {
        let stopping = self.stop.was_asked_for();
        let mut snapshot = self.monitor().snapshot(Instant::now(), stopping);
        if let Some((merged, parts)) = self.state.as_ref().and_then(|state| state.watched.merging()) {
            snapshot.bound_by = merging(merged, parts);
        }
        snapshot
    }

    /// What was done, up to now or to the end. CPU time and memory are those of the whole process.
    pub fn summary(&self) -> Summary {
        let ended = self.done.at().unwrap_or_else(Moment::now);
        let interrupted = self.stop.was_asked_for();
        let mut summary = self.monitor().summary(&ended);
        summary.job = self.state.as_ref().map(|state| state.figures(summary.rows_known));
        summary.output.clone_from(&self.output);
        summary.interrupted = interrupted;
        summary.stopped_by = self.stopped_by.get().cloned();
        summary.reader_gone = self.reader_gone.get().is_some();
        summary.notes.splice(0..0, self.notes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        summary.failure = self.failure.get().as_ref().map(Into::into);
        summary
    }
}
