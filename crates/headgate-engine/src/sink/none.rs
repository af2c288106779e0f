//! `--format none`: for measuring everything but the output.

use std::ops::ControlFlow;

use super::{Ending, Sink};
use crate::columns::builder::OutcomeBatch;
use crate::model::error::JobError;

pub(super) struct NoneSink;

impl Sink for NoneSink {
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        drop(batch);
        Ok(ControlFlow::Continue(()))
    }

    fn tick(&mut self) -> Result<(), JobError> {
        Ok(())
    }

    fn finish(&mut self, _ending: &Ending) -> Result<(), JobError> {
        Ok(())
    }
}
