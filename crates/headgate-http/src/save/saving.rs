//! Saves the body of one exchange, from the lane's point of view.

use std::sync::Arc;
use std::time::Instant;

use headgate_core::clock;
use headgate_core::error::{Failure, JobError};
use headgate_core::response::Body;
use headgate_core::row::Row;
use headgate_core::saved::SaveAs;

use super::errors::SaveError;
use super::extension::extension;
use super::saver::Saver;
use super::writer::{BodyWriter, FinishOptions};
use crate::deadline::{Deadline, OwnWait};
use crate::decode::pool::WorkLength;
use crate::decode::{ContentEncodings, DecodeOptions};
use crate::h1::head::Head;
use crate::reply::{PARTIAL_CONTENT, Reply, ResponseLimits};

/// The smallest chunk that is passed to a thread, except for the last.
pub(crate) const CHUNK_BYTES: usize = 128 * 1024;

/// Saves the body of an exchange, if its response is one whose body is saved.
#[derive(Debug)]
pub struct Saving {
    saver: Arc<Saver>,
    save_as: Arc<SaveAs>,
    ordinal: u64,
    url: Box<str>,
    /// `None` if nothing is written yet.
    writer: Option<BodyWriter>,
    /// The error after which nothing more can be written.
    error: Option<JobError>,
}

impl Saving {
    /// Creates the state for the next exchange of a row, or returns `None` if its body is not to be saved.
    pub fn of(saver: &Arc<Saver>, row: &Row) -> Option<Box<Self>> {
        let save_as = row.extra.as_ref()?.save_as.clone()?;
        let (saver, url) = (saver.clone(), row.target().into());
        Some(Box::new(Self { saver, save_as, ordinal: row.ordinal, url, writer: None, error: None }))
    }

    /// Returns whether the body of this response is saved.
    pub(crate) fn applies_to(&self, head: &Head, limits: &ResponseLimits) -> bool {
        self.saver.is_saved(head.status) && !limits.no_body
    }

    /// Returns whether the rest of the body is not needed, since it can't be written.
    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Writes the received bytes, and returns the emptied buffer in `bytes`. The time for it extends the deadline, since it is
    /// not the server's fault.
    ///
    /// Cancelling it removes what was written.
    pub async fn write(&mut self, bytes: &mut Vec<u8>, deadline: &mut Deadline) {
        let mut writer = self.writer.take().unwrap_or_else(|| self.new_writer());
        let mut chunk = std::mem::take(bytes);
        let work = move |_: Instant, _: &dyn Fn() -> bool| {
            let written = writer.write(&chunk);
            chunk.clear();
            (writer, chunk, written)
        };
        let (writer, emptied, written) = self.run_in_pool(WorkLength::Short, deadline, work).await;
        *bytes = emptied;
        self.writer = Some(writer);
        self.error = written.err();
    }

    /// Writes the rest of a complete or truncated body, claims its name, and completes the reply.
    ///
    /// Cancelling it removes what was written.
    pub async fn finish(
        mut self: Box<Self>,
        body: Body,
        options: DecodeOptions,
        reply: Reply,
        limits: &ResponseLimits,
        deadline: &mut Deadline,
    ) -> Reply {
        if let Some(error) = self.error.take() {
            return Reply { saved: Some(Err(error)), ..reply };
        }
        let is_empty = self.writer.is_none() && body.bytes.is_empty();
        let (encodings, body_encoding) = match encodings_to_decode(&reply.head, limits, is_empty) {
            Ok(encodings) => encodings,
            Err(failure) => return self.abandon(failure, reply, deadline).await,
        };
        let writer = self.writer.take().unwrap_or_else(|| self.new_writer());
        let length = if encodings.is_some() { WorkLength::Long } else { WorkLength::Short };
        let finish_options = FinishOptions {
            save_as: self.save_as.clone(),
            extension: extension(&reply.head.headers, &self.url),
            encodings: encodings.map(|encodings| (encodings, options)),
        };
        let finish = move |by: Instant, is_wanted: &dyn Fn() -> bool| {
            let finished = writer.finish(&body.bytes, &finish_options, (by, is_wanted));
            // Dropped in the thread, so that the lane does not wait for it.
            drop(body);
            finished
        };
        match self.run_in_pool(length, deadline, finish).await {
            Ok((claim, is_truncated)) => {
                let (truncated, saved) = (options.is_cut || is_truncated, Some(Ok(claim)));
                Reply { body_encoding, truncated, saved, ..reply }
            }
            Err(SaveError::Failed(failure)) => Reply { failure: Some(failure), ..reply },
            Err(SaveError::Disk(error)) => Reply { saved: Some(Err(error)), ..reply },
        }
    }

    /// Removes what was written of a body that failed, and completes the reply.
    pub async fn abandon(mut self: Box<Self>, failure: Failure, reply: Reply, deadline: &mut Deadline) -> Reply {
        if let Some(error) = self.error.take() {
            return Reply { saved: Some(Err(error)), ..reply };
        }
        if let Some(writer) = self.writer.take() {
            self.run_in_pool(WorkLength::Short, deadline, move |_, _| drop(writer)).await;
        }
        Reply { failure: Some(failure), ..reply }
    }

    fn new_writer(&self) -> BodyWriter {
        BodyWriter::new(self.saver.paths.clone(), self.ordinal)
    }

    /// Runs work in a thread, and waits for it.
    async fn run_in_pool<T: Send + 'static>(
        &self,
        length: WorkLength,
        deadline: &mut Deadline,
        work: impl FnOnce(Instant, &dyn Fn() -> bool) -> T + Send + 'static,
    ) -> T {
        let since = clock::now();
        let (result, _) = self.saver.pool.run(length, deadline.at(), work).await;
        deadline.excuse(OwnWait::Disk, clock::elapsed(since));
        result
    }
}

/// Returns the encodings to decode, or the names of those that stay. As in a column, they stay if the user wants the raw body,
/// or the body is a partial one.
fn encodings_to_decode(
    head: &Head,
    limits: &ResponseLimits,
    is_empty: bool,
) -> Result<(Option<ContentEncodings>, Option<Box<str>>), Failure> {
    if !head.encoded || is_empty {
        return Ok((None, None));
    }
    let encodings = ContentEncodings::of(&head.headers);
    let stay = limits.raw || head.status == PARTIAL_CONTENT || !encodings.can_be_decoded()?;
    Ok(if stay { (None, encodings.names()) } else { (Some(encodings), None) })
}
