//! The format `none`: for measuring everything but the output.

use std::ops::ControlFlow;

use headgate_core::error::JobError;

use super::Sink;
use crate::columns::builder::OutcomeBatch;

/// Counts nothing and keeps nothing.
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
