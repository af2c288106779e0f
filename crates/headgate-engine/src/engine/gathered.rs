//! Outcomes of a share that wait to go to the sink, a batch at a time.

use std::cell::RefCell;

use arrow_schema::Fields;

use crate::columns::builder::{OutcomeBatch, OutcomeBuilder};
use crate::http::h1::allowance::Allowance;
use crate::message;
use crate::model::error::JobError;
use crate::model::memory::{MemoryBudget, Reservation};
use crate::model::message::OptionName;
use crate::model::outcome::OutcomeRef;

pub(super) struct Gathered {
    builder: RefCell<OutcomeBuilder>,
    sending: tokio::sync::Mutex<()>,
}

impl Gathered {
    /// # Errors
    /// `Input`: a kept column has a type that cannot be carried.
    pub(super) fn new(kept: &Fields, memory: MemoryBudget) -> Result<Self, JobError> {
        let builder = OutcomeBuilder::new(kept, memory)
            .map_err(|error| JobError::input(message!(OptionName::Keep, ": {error}")))?;
        Ok(Self { builder: RefCell::new(builder), sending: tokio::sync::Mutex::new(()) })
    }

    /// Takes over the memory that was set aside for an outcome that is pushed.
    pub(super) fn absorb(&self, reservation: Reservation) {
        self.builder.borrow_mut().absorb(reservation);
    }

    /// Adds an outcome; `failed`: its row was given up. Whether a batch is full.
    pub(super) fn push(&self, outcome: OutcomeRef<'_>, failed: bool) -> bool {
        let mut builder = self.builder.borrow_mut();
        builder.push(outcome, failed);
        builder.is_full()
    }

    /// Whether nothing may be added before [`Gathered::send`] has sent what there is.
    pub(super) fn is_full(&self) -> bool {
        self.builder.borrow().is_full()
    }

    /// Takes over from an allowance what was set aside for an outcome that is pushed.
    pub(super) fn draw(&self, allowance: &Allowance, bytes: u64) {
        allowance.give(self.builder.borrow_mut().reservation(), bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.builder.borrow().is_empty()
    }

    /// Sends what there is; waits while the sink is behind. At most one batch waits: lanes that end meanwhile add their outcome
    /// to the next one and wait in line, so what is held is a batch and an outcome a lane.
    ///
    /// # Errors
    /// Nothing can be kept any more: for this reason, or because the sink has failed or its reader has gone.
    ///
    /// Cancelling it loses the batch that it sends.
    pub(super) async fn send(
        &self,
        sink: &async_channel::Sender<OutcomeBatch>,
        only_if_full: bool,
    ) -> Result<(), Option<JobError>> {
        let _in_line = self.sending.lock().await;
        let batch = {
            let mut builder = self.builder.borrow_mut();
            if builder.is_empty() || only_if_full && !builder.is_full() {
                return Ok(());
            }
            builder.take()
        };
        let batch = batch.map_err(|error| JobError::internal(format!("results cannot be put in columns: {error}")))?;
        sink.send(batch).await.map_err(|_| None)
    }
}
