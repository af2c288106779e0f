//! The end of a job: small parts are merged, and then it is finished.

use std::io;
use std::mem;

use headgate_core::error::{JobError, cause};
use headgate_core::message;
use headgate_table::parts::name::{PartKind, PartName};
use headgate_table::parts::read::ways_on;

use super::{Change, JobWriter, MAX_FAILED_ROWS};
use crate::job::commit::PartRecord;
use crate::job::done_rows::DoneRows;

/// A part of less than this share of the size of a full one is small: 32 MiB of 128.
const SMALL_SHARE: u64 = 4;

impl JobWriter {
    /// The last commits of a run: of what is left and, if every row of the input is done, of small parts merged.
    pub(in crate::job) fn end(
        &mut self,
        done_rows: &DoneRows,
        input_rows: Option<u64>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), JobError> {
        let is_complete = input_rows == Some(done_rows.watermark());
        if is_complete && self.is_empty() {
            // A job without rows leaves a table without rows, so that `OUT/*.parquet` is always something to read.
            self.open(PartKind::Answered)?;
        }
        let last = |finished| Change { input_rows, run_ended: true, finished, removes: Vec::new() };
        self.commit(done_rows, &last(false))?;
        if !is_complete {
            return Ok(());
        }
        let merged = self.merge(done_rows, stopped);
        self.watched.begin_merge(0);
        // Only when all parts are in their places: a reader who finds the job finished finds all rows.
        if merged? { self.commit(done_rows, &last(true)) } else { Ok(()) }
    }

    /// Merges small parts of each kind: they are written anew, and a commit for each part that is full removes those it is
    /// made of; so there need be room for one more part, and whoever is stopped goes on from there. `false`: it was told to
    /// stop.
    fn merge(&mut self, done_rows: &DoneRows, stopped: &dyn Fn() -> bool) -> Result<bool, JobError> {
        let is_small = |part: &&PartRecord| part.bytes < self.max_bytes / SMALL_SHARE;
        // By number, and so about in the order of the input.
        let parts: Vec<_> = self.parts.iter().filter(is_small).cloned().collect();
        let mut removes = Vec::new();
        for kind in [PartKind::Answered, PartKind::Failed] {
            let of_kind = |part: &&PartRecord| PartName::parse(&part.name).is_some_and(|name| name.kind == kind);
            let has_few_rows =
                |part: &&PartRecord| kind == PartKind::Answered || part.rows < MAX_FAILED_ROWS / SMALL_SHARE;
            let parts: Vec<_> = parts.iter().filter(of_kind).filter(has_few_rows).cloned().collect();
            if parts.len() < 2 {
                continue;
            }
            self.watched.begin_merge(parts.len());
            for part in parts {
                if stopped() {
                    self.give_up();
                    return Ok(false);
                }
                if self.is_full_with(kind, &part) {
                    let removes = mem::take(&mut removes);
                    self.commit(done_rows, &Change { removes, run_ended: true, ..Change::default() })?;
                }
                self.append(kind, &part)?;
                self.watched.merged_part();
                removes.push(part);
            }
        }
        if !removes.is_empty() {
            self.commit(done_rows, &Change { removes, run_ended: true, ..Change::default() })?;
        }
        Ok(true)
    }

    /// Whether the open part has no room for another one.
    fn is_full_with(&self, kind: PartKind, part: &PartRecord) -> bool {
        self.series(kind).open.as_ref().is_some_and(|open| {
            open.writer.bytes() >= self.max_bytes || kind == PartKind::Failed && open.rows + part.rows > MAX_FAILED_ROWS
        })
    }

    fn append(&mut self, kind: PartKind, part: &PartRecord) -> Result<(), JobError> {
        let path = self.directory.path_of(&part.name);
        let directory = self.directory.opened().clone();
        let open = self.open(kind)?;
        match open.writer.append(&directory, &path, part.crc32) {
            Ok(rows) => {
                open.rows += rows;
                Ok(())
            }
            Err(error) => {
                self.give_up();
                let (shown, cause) = (path.display(), cause(&error));
                let refused = message!("can't merge {shown} with others: ");
                Err(JobError::output(match error.downcast::<JobError>() {
                    // It says what to do.
                    Ok(damaged) => message!(refused, damaged.message),
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        message!(refused, "{cause}; ", ways_on())
                    }
                    Err(_) => message!(refused, "{cause}; all rows are done, and the same command tries again"),
                }))
            }
        }
    }
}
