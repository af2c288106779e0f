//! Finishes a job: merges small parts, and marks the job as finished.

use std::io;
use std::mem;

use headgate_core::error::{JobError, cause};
use headgate_core::message;
use headgate_table::parts::name::{PartKind, PartName};
use headgate_table::parts::read::recovery_advice;
use headgate_table::sink::{Ending, Shortage};

use super::{CommitChange, JobWriter, MAX_FAILED_ROWS};
use crate::job::commit::PartRecord;
use crate::job::done_rows::DoneRows;

/// A part is small if it has less than a quarter of the size of a full one: 32 MiB of 128.
const SMALL_SHARE: u64 = 4;

impl JobWriter {
    /// Makes the last commits of a run: one for the rest of the rows and, if every row of the input or of a trial is done,
    /// those for merged parts. `rows_read`: the number of rows, if all were read.
    pub(in crate::job) fn finish(
        &mut self,
        done_rows: &DoneRows,
        rows_read: Option<u64>,
        ending: &Ending<'_>,
    ) -> Result<(), JobError> {
        let input_rows = self.input_rows(rows_read);
        // An earlier run that was stopped may have done rows after those of the trial.
        let is_complete =
            input_rows.or(self.last.end()) == Some(done_rows.watermark()) && done_rows.end() == done_rows.watermark();
        if is_complete && self.is_empty() {
            // A job without rows has one part without rows, so that `OUT/*.parquet` always matches a file.
            self.open(PartKind::Succeeded)?;
        }
        let stopped_by = ending.stopped_by.map(str::to_owned);
        let last = |finished| CommitChange {
            input_rows,
            run_ended: true,
            stopped_by: stopped_by.clone(),
            by_failures: ending.by_failures,
            finished,
            merges: false,
            removes: Vec::new(),
        };
        self.commit(done_rows, &last(false))?;
        if is_complete {
            let merged = self.merge(done_rows, ending.stopped);
            self.progress.begin_merge(0);
            // Only after all parts are in their places: a reader that finds the job finished finds all rows.
            if merged? {
                self.commit(done_rows, &last(true))?;
            }
        }
        self.wait_for_readers(ending.stopped)
    }

    /// Merges small parts of each kind into new ones. For each full part, a commit adds it and removes the parts that it was
    /// made of. So the disk needs space for only one more part, or less if parts are merged into smaller ones, and a later run
    /// continues after the last commit. Returns `false` if the run was stopped.
    fn merge(&mut self, done_rows: &DoneRows, stopped: &dyn Fn() -> bool) -> Result<bool, JobError> {
        let is_small = |part: &&PartRecord| part.bytes < self.max_bytes / SMALL_SHARE;
        // In the order of their numbers, which is about that of the input.
        let parts: Vec<_> = self.parts.iter().filter(is_small).cloned().collect();
        let mut removes = Vec::new();
        for kind in [PartKind::Succeeded, PartKind::Failed] {
            let of_kind = |part: &&PartRecord| PartName::parse(&part.name).is_some_and(|name| name.kind == kind);
            let has_few_rows =
                |part: &&PartRecord| kind == PartKind::Succeeded || part.rows < MAX_FAILED_ROWS / SMALL_SHARE;
            let parts: Vec<_> = parts.iter().filter(of_kind).filter(has_few_rows).cloned().collect();
            if parts.len() < 2 {
                continue;
            }
            self.progress.begin_merge(parts.len());
            for part in parts {
                if stopped() {
                    self.discard_uncommitted();
                    return Ok(false);
                }
                // What was merged so far replaces the parts that it was made of, which frees space for more.
                if self.is_full_with(kind, &part) || !removes.is_empty() && self.shortage(part.bytes).is_some() {
                    self.commit_merged(done_rows, mem::take(&mut removes))?;
                }
                if self.shortage(part.bytes).is_some() {
                    // The job needs the space more than readers need what was replaced.
                    self.replaced.expire();
                    self.remove_replaced(0)?;
                }
                if let Some(Shortage { error, .. }) = self.shortage(part.bytes) {
                    self.discard_uncommitted();
                    return Err(error);
                }
                self.append(kind, &part)?;
                self.progress.count_merged_part();
                removes.push(part);
            }
        }
        if !removes.is_empty() {
            self.commit_merged(done_rows, removes)?;
        }
        Ok(true)
    }

    fn commit_merged(&mut self, done_rows: &DoneRows, removes: Vec<PartRecord>) -> Result<(), JobError> {
        self.commit(done_rows, &CommitChange { removes, run_ended: true, merges: true, ..CommitChange::default() })
    }

    /// Returns whether the open part has no room for another part.
    fn is_full_with(&self, kind: PartKind, part: &PartRecord) -> bool {
        self.series(kind).open.as_ref().is_some_and(|open| {
            open.writer.bytes() >= self.max_bytes || kind == PartKind::Failed && open.rows + part.rows > MAX_FAILED_ROWS
        })
    }

    fn append(&mut self, kind: PartKind, part: &PartRecord) -> Result<(), JobError> {
        let path = self.directory.path_of(&part.name);
        let storage = self.directory.storage().clone();
        let open = self.open(kind)?;
        match open.writer.append(storage.as_ref(), &path, part.crc32) {
            Ok(rows) => {
                open.rows += rows;
                Ok(())
            }
            Err(error) => {
                self.discard_uncommitted();
                let (shown, cause) = (path.display(), cause(&error));
                let refused = message!("can't merge {shown} with other part files: ");
                Err(JobError::storage(match error.downcast::<JobError>() {
                    // This message includes the advice.
                    Ok(damaged) => message!(refused, damaged.message),
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        message!(refused, "{cause}; ", recovery_advice())
                    }
                    Err(_) => message!(refused, "{cause}; all rows are done, and the same command tries again"),
                }))
            }
        }
    }
}
