//! The body of one exchange on its way into a file, as its lane sees it.

use std::sync::Arc;
use std::time::Instant;

use super::errors::NotSaved;
use super::extension::extension;
use super::saver::Saver;
use super::writing::{End, Writing};
use crate::http::deadline::{Deadline, OwnWait};
use crate::http::decode::pool::Length;
use crate::http::decode::{ContentEncodings, Undo};
use crate::http::h1::head::Head;
use crate::http::reply::{PARTIAL_CONTENT, Reply, ResponseLimits};
use crate::model::error::{Failure, JobError};
use crate::model::outcome::Body;
use crate::model::row::Row;
use crate::model::saved::SaveAs;

/// What is handed over at a time, at the least.
pub const PIECE_BYTES: usize = 128 * 1024;

/// A body that is saved, if its answer is one whose body is.
#[derive(Debug)]
pub struct Saving {
    saver: Arc<Saver>,
    save_as: Arc<SaveAs>,
    ordinal: u64,
    url: Box<str>,
    /// What of it is written; `None`: nothing is.
    writing: Option<Writing>,
    /// Why no more can be written.
    error: Option<JobError>,
}

impl Saving {
    /// Of the next exchange of a row; `None`: its body is not to be saved.
    pub fn of(saver: &Arc<Saver>, row: &Row) -> Option<Box<Self>> {
        let save_as = row.extra.as_ref()?.save_as.clone()?;
        let (saver, url) = (saver.clone(), row.target().into());
        Some(Box::new(Self { saver, save_as, ordinal: row.ordinal, url, writing: None, error: None }))
    }

    /// Whether the body of this answer is saved.
    pub fn takes(&self, head: &Head, limits: &ResponseLimits) -> bool {
        self.saver.wants(head.status) && !limits.no_body
    }

    /// Whether the rest of the body need not come, since it can't be written.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Writes what has come, and gives the memory back. That it takes its time is not the server's fault.
    ///
    /// Cancelling it removes what was written.
    pub async fn hand_over(&mut self, bytes: &mut Vec<u8>, deadline: &mut Deadline) {
        let mut writing = self.writing.take().unwrap_or_else(|| self.begin());
        let mut taken = std::mem::take(bytes);
        let work = move |_: Instant, _: &dyn Fn() -> bool| {
            let written = writing.write(&taken);
            taken.clear();
            (writing, taken, written)
        };
        let (writing, given_back, written) = self.in_pool(Length::Short, deadline, work).await;
        *bytes = given_back;
        self.writing = Some(writing);
        self.error = written.err();
    }

    /// Writes the rest of a body that came whole or was cut off, and claims the name; completes the reply.
    ///
    /// Cancelling it removes what was written.
    pub async fn end(
        mut self: Box<Self>,
        body: Body,
        undo: Undo,
        reply: Reply,
        limits: &ResponseLimits,
        deadline: &mut Deadline,
    ) -> Reply {
        if let Some(error) = self.error.take() {
            return Reply { saved: Some(Err(error)), ..reply };
        }
        let is_empty = self.writing.is_none() && body.bytes.is_empty();
        let (encodings, body_encoding) = match to_undo(&reply.head, limits, is_empty) {
            Ok(encodings) => encodings,
            Err(failure) => return self.abandon(failure, reply, deadline).await,
        };
        let writing = self.writing.take().unwrap_or_else(|| self.begin());
        let length = if encodings.is_some() { Length::Long } else { Length::Short };
        let end = End {
            save_as: self.save_as.clone(),
            extension: extension(&reply.head.headers, &self.url),
            encodings: encodings.map(|encodings| (encodings, undo)),
        };
        let finish = move |by: Instant, is_wanted: &dyn Fn() -> bool| {
            let finished = writing.finish(&body.bytes, &end, (by, is_wanted));
            // In the thread as well, so that the lane does not wait for it.
            drop(body);
            finished
        };
        match self.in_pool(length, deadline, finish).await {
            Ok((claim, is_cut)) => {
                let (truncated, saved) = (undo.is_cut || is_cut, Some(Ok(claim)));
                Reply { body_encoding, truncated, saved, ..reply }
            }
            Err(NotSaved::Failed(failure)) => Reply { failure: Some(failure), ..reply },
            Err(NotSaved::Disk(error)) => Reply { saved: Some(Err(error)), ..reply },
        }
    }

    /// Removes what was written of a body that failed; completes the reply.
    pub async fn abandon(mut self: Box<Self>, failure: Failure, reply: Reply, deadline: &mut Deadline) -> Reply {
        if let Some(error) = self.error.take() {
            return Reply { saved: Some(Err(error)), ..reply };
        }
        if let Some(writing) = self.writing.take() {
            self.in_pool(Length::Short, deadline, move |_, _| drop(writing)).await;
        }
        Reply { failure: Some(failure), ..reply }
    }

    fn begin(&self) -> Writing {
        Writing::new(self.saver.places.clone(), self.ordinal)
    }

    /// Has a thread do this, and waits for it.
    async fn in_pool<T: Send + 'static>(
        &self,
        length: Length,
        deadline: &mut Deadline,
        work: impl FnOnce(Instant, &dyn Fn() -> bool) -> T + Send + 'static,
    ) -> T {
        let since = Instant::now();
        let (done, _) = self.saver.pool.run(length, deadline.at(), work).await;
        deadline.excuse(OwnWait::Disk, since.elapsed());
        done
    }
}

/// Returns the encodings of a body to undo, and the names of those that stay. As in a column, they stay where that is wanted, or
/// the body is no whole one.
fn to_undo(
    head: &Head,
    limits: &ResponseLimits,
    is_empty: bool,
) -> Result<(Option<ContentEncodings>, Option<Box<str>>), Failure> {
    if !head.encoded || is_empty {
        return Ok((None, None));
    }
    let encodings = ContentEncodings::of(&head.headers);
    let stay = limits.raw || head.status == PARTIAL_CONTENT || !encodings.can_be_undone()?;
    Ok(if stay { (None, encodings.names()) } else { (Some(encodings), None) })
}
