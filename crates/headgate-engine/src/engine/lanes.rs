//! The lanes of a worker's share of a run: what each has in flight, and which have nothing to do.
//!
//! A lane would hold its row itself, but a lane that waits can't be looked into; and a caller may want to know which row takes
//! so long, or to cancel it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use headgate_core::call::CallStage;
use headgate_core::clock;
use headgate_core::row::Row;
use headgate_core::schedule::host_queues::HostIndex;
use tokio::task::AbortHandle;

/// The lanes of a worker's share, and the slots that ended lanes have left: as many as there ever were lanes at a time.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    slots: RefCell<Vec<Lane>>,
    /// Lanes that wait for a row; the one that began to wait last comes first, since its memory is warm.
    parked: RefCell<Vec<LaneIndex>>,
    /// The slots of lanes that have ended.
    free: RefCell<Vec<LaneIndex>>,
}

/// Identifies a lane of a worker's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneIndex(u32);

#[derive(Debug, Default)]
struct Lane {
    row: Option<Row>,
    /// The host that its row was started for, if the scheduler counts what is in flight there.
    host: Option<HostIndex>,
    started: Option<Instant>,
    /// A request of the attempt was sent.
    is_sent: bool,
    /// Wakes the lane, where it waits for a row.
    waker: Option<Waker>,
    task: Option<AbortHandle>,
}

/// When an attempt began, and how long it took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) started: Instant,
    pub(super) elapsed: Duration,
}

impl Span {
    /// Returns the span with the earlier part of the attempt, before its row waited for the host of a redirect.
    pub(super) fn whole(self, row: &Row) -> Self {
        match row.chain().and_then(|chain| chain.earlier) {
            None => self,
            Some(earlier) => Self { started: earlier.began, elapsed: earlier.took + self.elapsed },
        }
    }

    /// Returns the span of an attempt that did not begin.
    pub(super) fn none() -> Self {
        Self { started: clock::now(), elapsed: Duration::ZERO }
    }

    /// Returns the span of an attempt that ends now.
    fn since(started: Instant) -> Self {
        Self { started, elapsed: clock::elapsed(started) }
    }
}

impl Lanes {
    /// Adds a lane that begins with this row.
    pub(super) fn enter(&self, row: Row, host: Option<HostIndex>) -> LaneIndex {
        let mut lanes = self.slots.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            lanes.push(Lane::default());
            LaneIndex(lanes.len() as u32 - 1)
        });
        lanes[index.0 as usize].give(row, host);
        index
    }

    /// Sets the task that runs the lane.
    pub(super) fn set_task(&self, index: LaneIndex, task: AbortHandle) {
        self.at(index, |lane| lane.task = Some(task));
    }

    /// Returns whether the lane waits for a row.
    pub(super) fn is_parked(&self, index: LaneIndex) -> bool {
        self.parked.borrow().contains(&index)
    }

    /// Removes a lane that ends, with the row that it may have.
    pub(super) fn remove(&self, index: LaneIndex) {
        self.at(index, |lane| *lane = Lane::default());
        self.parked.borrow_mut().retain(|parked| *parked != index);
        self.free.borrow_mut().push(index);
    }

    /// Returns the number of lanes.
    pub(super) fn len(&self) -> usize {
        self.slots.borrow().len() - self.free.borrow().len()
    }

    pub(super) fn put(&self, index: LaneIndex, row: Row, host: Option<HostIndex>) {
        self.at(index, |lane| lane.give(row, host));
    }

    /// Looks at a lane's row as its attempt begins.
    ///
    /// # Panics
    /// No row was put there.
    pub(super) fn begin<T>(&self, index: LaneIndex, started: Instant, look: impl FnOnce(&mut Row) -> T) -> T {
        self.at(index, |lane| {
            lane.started = Some(started);
            look(lane.row.as_mut().expect("a lane looks at its own row"))
        })
    }

    /// Looks at a lane's row.
    ///
    /// # Panics
    /// No row was put there.
    pub(super) fn look<T>(&self, index: LaneIndex, look: impl FnOnce(&Row) -> T) -> T {
        self.at(index, |lane| look(lane.row.as_ref().expect("a lane looks at its own row")))
    }

    /// Changes a lane's row.
    ///
    /// # Panics
    /// The lane has no row.
    pub(super) fn change(&self, index: LaneIndex, change: impl FnOnce(&mut Row)) {
        self.at(index, |lane| change(lane.row.as_mut().expect("a lane changes its own row")));
    }

    /// Returns the row and leaves the lane without one.
    ///
    /// # Panics
    /// The lane has no row.
    pub(super) fn take(&self, index: LaneIndex) -> Row {
        self.at(index, |lane| lane.row.take()).expect("a lane takes back its own row")
    }

    /// Returns the host that its row was started for.
    pub(super) fn host(&self, index: LaneIndex) -> Option<HostIndex> {
        self.at(index, |lane| lane.host)
    }

    /// Returns the host as [`Lanes::host`] does, once for each row.
    pub(super) fn take_host(&self, index: LaneIndex) -> Option<HostIndex> {
        self.at(index, |lane| lane.host.take())
    }

    /// This lane has nothing to do, until [`Lanes::hand_over`] gives it a row.
    pub(super) fn park(&self, index: LaneIndex) {
        self.parked.borrow_mut().push(index);
    }

    /// Waits for a row to be handed over.
    pub(super) async fn woken(&self, index: LaneIndex) {
        poll_fn(|cx| {
            self.at(index, |lane| {
                if lane.row.is_some() {
                    return Poll::Ready(());
                }
                lane.waker = Some(cx.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }

    /// Gives a row to a lane that waits for one. It comes back where none does.
    pub(super) fn hand_over(&self, row: Row, host: Option<HostIndex>) -> Result<(), Row> {
        let Some(index) = self.parked.borrow_mut().pop() else { return Err(row) };
        self.at(index, |lane| {
            lane.give(row, host);
            if let Some(waker) = lane.waker.take() {
                waker.wake();
            }
        });
        Ok(())
    }

    /// Ends the lanes that have a row in flight of which this holds, and takes the rows from them: with how long it was, if an
    /// attempt had begun.
    pub(super) fn cancel(&self, holds: impl Fn(&Row) -> bool) -> Vec<(Row, Option<Span>)> {
        let mut lanes = self.slots.borrow_mut();
        let cancelled = lanes.iter_mut().filter(|lane| lane.row.as_ref().is_some_and(&holds));
        cancelled.filter_map(|lane| Some((lane.abort()?, lane.started.map(Span::since)))).collect()
    }

    /// Notes that the request of a lane's row was sent.
    pub(super) fn note_sent(&self, index: LaneIndex) {
        self.at(index, |lane| {
            lane.is_sent = true;
            if let Some(row) = &lane.row {
                row.record(CallStage::Sent);
            }
        });
    }

    /// Ends all lanes that have a row in flight, and returns these rows, each with the number of its attempts. They are left
    /// undone.
    pub(super) fn abandon(&self) -> Vec<(u64, u16)> {
        let abandon = |lane: &mut Lane| {
            let (row, is_sent) = (lane.abort()?, lane.is_sent);
            Some((row.ordinal, if is_sent { row.attempts_before() + 1 } else { row.attempts_begun() }))
        };
        self.slots.borrow_mut().iter_mut().filter_map(abandon).collect()
    }

    /// Ends all lanes, whatever they are at.
    pub(super) fn end_all(&self) {
        for task in self.slots.borrow().iter().filter_map(|lane| lane.task.as_ref()) {
            task.abort();
        }
    }

    /// Ends all lanes that wait for a row.
    pub(super) fn end_parked(&self) {
        let lanes = self.slots.borrow();
        for index in self.parked.borrow().iter() {
            if let Some(task) = &lanes[index.0 as usize].task {
                task.abort();
            }
        }
    }

    /// Returns the URL of a row, if it is in flight here. It looks at all lanes.
    pub(super) fn url_of(&self, ordinal: u64) -> Option<Box<str>> {
        let lanes = self.slots.borrow();
        let mut rows = lanes.iter().filter_map(|lane| lane.row.as_ref());
        rows.find(|row| row.ordinal == ordinal).map(|row| row.url.clone())
    }

    fn at<T>(&self, index: LaneIndex, look: impl FnOnce(&mut Lane) -> T) -> T {
        look(&mut self.slots.borrow_mut()[index.0 as usize])
    }
}

impl Lane {
    fn give(&mut self, row: Row, host: Option<HostIndex>) {
        (self.row, self.host, self.started, self.is_sent) = (Some(row), host, None, false);
    }

    /// Ends the lane, if it has a row, and takes it.
    fn abort(&mut self) -> Option<Row> {
        let row = self.row.take()?;
        if let Some(task) = &self.task {
            task.abort();
        }
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ordinal: u64) -> Row {
        Row::new(ordinal, format!("http://{ordinal}/"))
    }

    #[test]
    fn a_row_is_found_while_it_is_in_flight() {
        let lanes = Lanes::default();
        let (first, second) = (lanes.enter(row(7), None), lanes.enter(row(3), None));
        assert_eq!((Some("http://3/".into()), None), (lanes.url_of(3), lanes.url_of(4)));
        assert_eq!(7, lanes.begin(first, Instant::now(), |row| row.ordinal));
        assert_eq!((row(3), None), (lanes.take(second), lanes.url_of(3)));
    }

    #[test]
    fn the_index_of_a_lane_that_has_ended_is_reused_and_has_no_row() {
        let lanes = Lanes::default();
        let index = lanes.enter(row(7), None);
        assert!(!lanes.is_parked(index), "it has a row");
        lanes.remove(index);
        assert_eq!((None, 0), (lanes.url_of(7), lanes.len()));
        assert_eq!(index, lanes.enter(row(8), None));
        assert_ne!(index, lanes.enter(row(9), None));
    }

    #[test]
    fn a_row_is_assigned_to_the_lane_that_became_idle_last() {
        let lanes = Lanes::default();
        let (first, second) = (lanes.enter(row(0), None), lanes.enter(row(1), None));
        for index in [first, second] {
            lanes.take(index);
            lanes.park(index);
        }
        assert_eq!(Ok(()), lanes.hand_over(row(2), None));
        assert_eq!(row(2), lanes.take(second));
        assert_eq!(Ok(()), lanes.hand_over(row(3), None));
        assert_eq!(Err(row(4)), lanes.hand_over(row(4), None), "none waits any more");
        assert!(!lanes.is_parked(first));
    }

    #[test]
    fn a_cancelled_row_is_removed_from_its_lane_once() {
        let lanes = Lanes::default();
        let (index, started) = (lanes.enter(row(5), None), Instant::now());
        lanes.begin(index, started, |_| ());
        let cancel = || lanes.cancel(|row| row.ordinal == 5);
        let cancelled = cancel().pop().map(|(row, span)| (row, span.map(|span| span.started)));
        assert_eq!(Some((row(5), Some(started))), cancelled);
        assert!(cancel().is_empty());
        assert!(lanes.abandon().is_empty());
    }
}
