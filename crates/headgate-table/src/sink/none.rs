//! The sink of the format `none`, which measures everything but the output.

use std::ops::ControlFlow;

use headgate_core::error::JobError;

use super::Sink;
use crate::columns::builder::OutcomeBatch;

/// Discards all outcomes.
#[derive(Debug)]
pub struct NoneSink;

impl Sink for NoneSink {
    fn wants_results(&self) -> bool {
        false
    }

    fn write(&mut self, _batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        Ok(ControlFlow::Continue(()))
    }
}
