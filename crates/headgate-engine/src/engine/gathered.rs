//! Outcomes of a share that wait to go to the sink, a batch at a time.
//!
//! What is held is a batch that grows, one that is sent, and an outcome of each lane that waits in line: a lane that finds no
//! room adds its outcome when it has its turn.

use std::cell::RefCell;

use arrow_schema::ArrowError;
use headgate_core::error::JobError;
use headgate_core::memory::MemoryBudget;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::row::{Outcome, OutcomeRef};
use headgate_http::h1::read_reservation::ReadReservation;
use headgate_table::columns::builder::{OutcomeBatch, OutcomeBuilder};
use headgate_table::columns::result::ResultColumns;

pub(super) struct Gathered {
    /// `None`: the sink wants no results.
    builder: Option<RefCell<OutcomeBuilder>>,
    sink: async_channel::Sender<OutcomeBatch>,
    sending: tokio::sync::Mutex<()>,
}

/// What there is of the batch after an outcome was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Batch {
    HasRoom,
    /// It is to be sent to the sink.
    Full,
}

/// Why no result can be kept any more; `None`: the sink has failed, or its reader has closed the stream.
pub(super) type NothingIsKept = Option<JobError>;

impl Gathered {
    /// Gathers results with these columns; `None`: the sink needs no results.
    ///
    /// # Errors
    /// `Input`: a kept column has a type that can't be carried.
    pub(super) fn new(
        columns: Option<&ResultColumns>,
        memory: MemoryBudget,
        sink: async_channel::Sender<OutcomeBatch>,
    ) -> Result<Self, JobError> {
        let builder = columns.map(|columns| OutcomeBuilder::new(columns, memory)).transpose();
        let builder = builder.map_err(|error| JobError::input(message!(OptionName::Keep, ": {error}")))?;
        Ok(Self { builder: builder.map(RefCell::new), sink, sending: tokio::sync::Mutex::new(()) })
    }

    /// Returns whether an outcome of this many bytes can be pushed, or none are collected.
    pub(super) fn has_room(&self, bytes: impl FnOnce() -> usize) -> bool {
        self.builder.as_ref().is_none_or(|builder| builder.borrow().has_capacity_for(bytes()))
    }

    /// Adds an outcome that fits; `failed`: its row failed.
    pub(super) fn push(&self, outcome: OutcomeRef<'_>, failed: bool) -> Batch {
        self.add(|builder| builder.push(outcome, failed))
    }

    /// Adds an outcome as [`Gathered::push`] does, with the memory that is reserved for it.
    pub(super) fn push_owned(&self, outcome: Outcome, failed: bool) -> Batch {
        self.add(|builder| builder.push_owned(outcome, failed))
    }

    fn add(&self, add: impl FnOnce(&mut OutcomeBuilder)) -> Batch {
        let Some(builder) = &self.builder else { return Batch::HasRoom };
        let mut builder = builder.borrow_mut();
        add(&mut builder);
        if builder.is_full() { Batch::Full } else { Batch::HasRoom }
    }

    /// Takes over from a read reservation what was reserved for an outcome that is pushed.
    pub(super) fn draw(&self, read_reservation: &ReadReservation, bytes: u64) {
        if let Some(builder) = &self.builder {
            read_reservation.transfer(builder.borrow_mut().reservation(), bytes);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.builder.as_ref().is_none_or(|builder| builder.borrow().is_empty())
    }

    /// Adds an outcome as soon as it fits, and sends full batches. It waits while the sink is behind.
    ///
    /// # Errors
    /// Nothing can be kept any more.
    ///
    /// Cancelling it loses the outcome, and the batch that it sends.
    pub(super) async fn push_in_turn(&self, outcome: Outcome, failed: bool) -> Result<(), NothingIsKept> {
        let Some(builder) = &self.builder else { return Ok(()) };
        let _in_line = self.sending.lock().await;
        let bytes = outcome.as_ref().bytes();
        let batch = {
            let mut builder = builder.borrow_mut();
            let batch = (!builder.has_capacity_for(bytes)).then(|| builder.finish_batch());
            // At once, before another lane fills the next batch.
            builder.push_owned(outcome, failed);
            batch
        };
        if let Some(batch) = batch {
            self.send_batch(batch).await?;
        }
        self.send_gathered(builder, true).await
    }

    /// Sends what there is; waits while the sink is behind.
    ///
    /// # Errors
    /// Nothing can be kept any more.
    ///
    /// Cancelling it loses the batch that it sends.
    pub(super) async fn send(&self, only_if_full: bool) -> Result<(), NothingIsKept> {
        let Some(builder) = &self.builder else { return Ok(()) };
        let _in_line = self.sending.lock().await;
        self.send_gathered(builder, only_if_full).await
    }

    async fn send_gathered(&self, builder: &RefCell<OutcomeBuilder>, only_if_full: bool) -> Result<(), NothingIsKept> {
        let batch = {
            let mut builder = builder.borrow_mut();
            if builder.is_empty() || only_if_full && !builder.is_full() {
                return Ok(());
            }
            builder.finish_batch()
        };
        self.send_batch(batch).await
    }

    async fn send_batch(&self, batch: Result<OutcomeBatch, ArrowError>) -> Result<(), NothingIsKept> {
        let batch = batch.map_err(|error| JobError::internal(format!("results can't be put in columns: {error}")))?;
        self.sink.send(batch).await.map_err(|_| None)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use arrow_array::cast::AsArray as _;
    use arrow_array::types::Int64Type;
    use headgate_table::columns::builder::BATCH_BYTES;
    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    fn with_body(ordinal: u64, bytes: usize) -> Outcome {
        Outcome::for_tests(ordinal, 200, Some(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn a_batch_stays_small_however_many_lanes_finish_while_the_sink_is_slow() {
        const LANES: u64 = 100;
        let (sink, batches) = async_channel::bounded(1);
        let gathered = Rc::new(
            Gathered::new(Some(&ResultColumns::default()), MemoryBudget::new(0), sink).expect("nothing is kept"),
        );
        let lane = |gathered: Rc<Gathered>, ordinal| async move {
            // Three sizes: several fit into a batch, just too large for that, and small.
            let outcome = with_body(ordinal, [600_000, BATCH_BYTES, 10][ordinal as usize % 3]);
            if gathered.has_room(|| outcome.as_ref().bytes()) {
                if gathered.push_owned(outcome, false) == Batch::Full {
                    gathered.send(true).await.expect("the sink is there");
                }
            } else {
                gathered.push_in_turn(outcome, false).await.expect("the sink is there");
            }
        };
        let run = async move {
            let lanes: Vec<_> = (0..LANES).map(|ordinal| spawn_local(lane(gathered.clone(), ordinal))).collect();
            let all = async {
                for lane in lanes {
                    lane.await.expect("nothing panics");
                }
                gathered.send(false).await.expect("the sink is there");
                drop(gathered);
            };
            let taking = async {
                let mut taken = Vec::new();
                while let Ok(OutcomeBatch { records, .. }) = batches.recv().await {
                    let bodies = records.column_by_name("body").expect("bodies").as_binary::<i32>();
                    assert!(bodies.values().len() < 2 * BATCH_BYTES, "{}", bodies.values().len());
                    taken.extend(records.column(0).as_primitive::<Int64Type>().values().iter().copied());
                }
                taken
            };
            tokio::join!(all, taking).1
        };
        let mut taken = LocalSet::new().run_until(run).await;
        taken.sort_unstable();
        assert_eq!((0..LANES as i64).collect::<Vec<_>>(), taken);
    }

    #[tokio::test]
    async fn a_sink_without_results_gets_none() {
        let (sink, batches) = async_channel::bounded(1);
        let gathered = Gathered::new(None, MemoryBudget::new(0), sink).expect("nothing is kept");
        for ordinal in 0..10 {
            assert!(gathered.has_room(|| 2 * BATCH_BYTES));
            assert_eq!(Batch::HasRoom, gathered.push_owned(with_body(ordinal, BATCH_BYTES), false));
        }
        assert_eq!(Ok(()), gathered.send(false).await);
        assert!(gathered.is_empty() && batches.is_empty());
    }
}
