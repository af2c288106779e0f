//! The body of one exchange on its way into a file, as its lane sees it.

use std::sync::Arc;
use std::time::Instant;

use super::extension::extension;
use super::saver::Saver;
use super::trouble::NotSaved;
use super::writing::{End, Writing};
use crate::http::deadline::{Deadline, OwnWait};
use crate::http::decode::pool::Length;
use crate::http::decode::streamed::can_be_undone;
use crate::http::decode::{Codings, Undo};
use crate::http::h1::head::Head;
use crate::http::received::{Kept, PARTIAL_CONTENT, Received};
use crate::http::reply::ResponseLimits;
use crate::model::error::{Failure, JobError};
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
    /// Bytes of it that were handed over.
    handed_over: u64,
    /// Why no more can be written.
    error: Option<JobError>,
}

/// What becomes of the codings of a body.
enum Coded {
    /// They are undone, by this.
    Undone(Codings),
    /// They stay, or there are none.
    Left(Option<Box<str>>),
}

impl Saving {
    /// Of the next exchange of a row; `None`: its body is not to be saved.
    pub fn of(saver: &Arc<Saver>, row: &Row) -> Option<Box<Self>> {
        let save_as = row.extra.as_ref()?.save_as.clone()?;
        let (saver, url) = (saver.clone(), row.target().into());
        Some(Box::new(Self { saver, save_as, ordinal: row.ordinal, url, writing: None, handed_over: 0, error: None }))
    }

    /// Whether the body of this answer is saved.
    pub fn takes(&self, head: &Head, limits: &ResponseLimits) -> bool {
        self.saver.wants(head.status) && !limits.no_body
    }

    pub fn handed_over(&self) -> u64 {
        self.handed_over
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
        self.handed_over += taken.len() as u64;
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

    /// Writes the rest, and claims the name; or removes what was written, where the body is not whole.
    ///
    /// Cancelling it does the latter.
    pub async fn end(
        mut self: Box<Self>,
        received: Received,
        head: &Head,
        limits: &ResponseLimits,
        deadline: &mut Deadline,
    ) -> Kept {
        let Received { body, cut, failure } = received;
        if let Some(error) = self.error.take() {
            return Kept { saved: Some(Err(error)), ..Kept::default() };
        }
        let is_empty = self.handed_over == 0 && body.bytes.is_empty();
        let coded = failure.map_or_else(|| coded(head, limits, is_empty), Err);
        let writing = self.writing.take();
        let coded = match coded {
            Ok(coded) => coded,
            Err(failure) => {
                if writing.is_some() {
                    self.in_pool(Length::Short, deadline, move |_, _| drop(writing)).await;
                }
                return Kept { failure: Some(failure), ..Kept::default() };
            }
        };
        let (codings, body_encoding) = match coded {
            Coded::Undone(codings) => (Some(codings), None),
            Coded::Left(names) => (None, names),
        };
        let writing = writing.unwrap_or_else(|| self.begin());
        let length = if codings.is_some() { Length::Long } else { Length::Short };
        let undo = Undo { max_bytes: limits.max_body_bytes, truncates: limits.truncate_body, is_cut: cut };
        let end = End {
            save_as: self.save_as.clone(),
            extension: extension(&head.headers, &self.url),
            codings: codings.map(|codings| (codings, undo)),
        };
        let finish = move |by: Instant, is_wanted: &dyn Fn() -> bool| {
            let finished = writing.finish(&body.bytes, &end, (by, is_wanted));
            // In the thread as well, not under the lane's feet.
            drop(body);
            finished
        };
        match self.in_pool(length, deadline, finish).await {
            Ok((claim, is_cut)) => {
                Kept { body_encoding, truncated: cut || is_cut, saved: Some(Ok(claim)), ..Kept::default() }
            }
            Err(NotSaved::Failed(failure)) => Kept { failure: Some(failure), ..Kept::default() },
            Err(NotSaved::Disk(error)) => Kept { saved: Some(Err(error)), ..Kept::default() },
        }
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
        let (by, since) = (deadline.at(), Instant::now());
        let work = move |begun: Instant, is_wanted: &dyn Fn() -> bool| {
            work(by + begun.saturating_duration_since(since), is_wanted)
        };
        let done = self.saver.pool.done(length, work).await;
        deadline.excuse(OwnWait::Disk, since.elapsed());
        done
    }
}

/// As in a column, codings stay where that is wanted, or the body is no whole one.
fn coded(head: &Head, limits: &ResponseLimits, is_empty: bool) -> Result<Coded, Failure> {
    if !head.encoded || is_empty {
        return Ok(Coded::Left(None));
    }
    let codings = Codings::of(&head.headers);
    let is_left = limits.raw || head.status == PARTIAL_CONTENT || !can_be_undone(&codings)?;
    Ok(if is_left { Coded::Left(codings.names()) } else { Coded::Undone(codings) })
}
