//! One commit: the part files that it adds, those that it removes, and the rows that are done.

use std::collections::BTreeMap;
use std::ops;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use headgate_core::live::Settings;
use headgate_core::origin::Origin;
use headgate_core::target;
use headgate_table::parts::name::{PartKind, PartName};
use headgate_table::source::compared::InputThen;
use serde::{Deserialize, Deserializer, Serialize};

use super::done_rows::DoneRows;
use super::reservations::BudgetUse;
use super::tried_rows::TriedRows;

/// The number of runs that a commit lists. Older runs are only counted.
const MAX_RUNS: usize = 32;

/// The rows of the input: from `first` up to, but not including, `end`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowRange {
    pub first: u64,
    /// `None` means that the end of the input has not been reached.
    pub end: Option<u64>,
}

/// A finished part file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    #[serde(deserialize_with = "part_name")]
    pub name: String,
    pub rows: u64,
    pub bytes: u64,
    /// The checksum of all bytes of the file.
    pub crc32: u32,
}

impl PartRecord {
    pub(super) fn kind(&self) -> PartKind {
        PartName::parse(&self.name).map_or(PartKind::Succeeded, |name| name.kind)
    }
}

/// The file of a part that was replaced, which stays for readers that began before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReplacedFile {
    #[serde(deserialize_with = "part_name")]
    pub(super) name: String,
    /// When it was replaced, in milliseconds since 1970.
    pub(super) at_ms: u64,
}

/// Refuses a name that is not that of a part file: it is used as a path, so the commit must be damaged.
fn part_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(String::deserialize(deserializer)?)
}

fn part_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.into_iter().map(checked).collect()
}

fn checked<E: serde::de::Error>(name: String) -> Result<String, E> {
    let is_part = PartName::parse(&name).is_some();
    if is_part { Ok(name) } else { Err(E::custom(format!("it names {name:?}, which is not the name of a part"))) }
}

/// The totals of all runs of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub succeeded: u64,
    pub failed: u64,
    /// Failed rows by error kind, or by status as `status:503`.
    pub errors: BTreeMap<String, u64>,
    /// The number of part files.
    pub parts: u64,
    /// The total size of the part files.
    pub bytes: u64,
}

/// One run of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// `fetch` or `retry`.
    pub command: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    pub committed_at: String,
    /// The rows that this run finished.
    pub rows: u64,
    /// `true` if the run ended in order, without a crash.
    pub ended: bool,
    /// Why the run stopped by itself, if it did.
    #[serde(default)]
    pub stopped_by: Option<String>,
    /// That was because its rows failed: the next run begins with a probe.
    #[serde(default)]
    pub by_failures: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub number: u64,
    pub headgate_version: String,
    pub range: RowRange,
    /// The number of rows of a trial, from the first; `None`: the job reads all of its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rows: Option<u64>,
    /// The number of rows that are done.
    pub done: u64,
    /// All rows below the watermark are done.
    pub watermark: u64,
    /// The done rows above the watermark: a Roaring bitmap (64-bit, portable format) as base64.
    pub above: String,
    /// Rows that were left undone, with their attempts, which count in their outcomes.
    #[serde(default, skip_serializing_if = "TriedRows::is_empty")]
    pub(super) tried: TriedRows,
    pub adds: Vec<PartRecord>,
    #[serde(deserialize_with = "part_names")]
    pub removes: Vec<String>,
    /// Whether the added parts have exactly the rows of the removed ones.
    #[serde(default, skip_serializing_if = "ops::Not::not")]
    pub merges: bool,
    /// Parts that this or an earlier commit removed from the results, whose files stay for a while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) replaced: Vec<ReplacedFile>,
    /// All current part files, if the commit is a checkpoint. The commits before a checkpoint are no longer needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<PartRecord>>,
    /// A checksum over all current part files, which proves that a list of them is complete.
    pub parts_sum: String,
    /// The number of the next part file. No number is used twice.
    pub next_part: u64,
    /// The number of the next part file of failed rows. No number is used twice.
    pub next_failed: u64,
    /// The number of the next archive of saved bodies. It is not reused if a user has removed earlier archives.
    #[serde(default)]
    pub next_archive: u64,
    pub totals: Totals,
    /// The requests of all runs.
    #[serde(default)]
    pub requests: BudgetUse,
    /// What rows have cost, in all runs.
    #[serde(default)]
    pub cost: BudgetUse,
    /// Every row of the input or of the trial is done, small part files are merged, and every part file is in the output
    /// directory.
    pub finished: bool,
    /// The number of runs before those in `runs`.
    pub earlier_runs: u64,
    pub runs: Vec<RunRecord>,
    /// The hosts that responded most recently, as URLs without a path, the most recent one last. A later run uses them to
    /// find out whether the network works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub responders: Vec<String>,
    /// The options that were set during the last run that was no retry. A retry inherits them.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub set: Settings,
    /// Describes what was read of the input, up to the last done row and a few more. `None`: the input is a pattern or can't
    /// be read again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputThen>,
}

impl Commit {
    /// Returns the state before the first commit.
    pub(super) fn zero() -> Self {
        Self { next_part: 1, next_failed: 1, ..Self::default() }
    }

    pub fn done_rows(&self) -> Result<DoneRows, String> {
        let above = BASE64_STANDARD.decode(&self.above).map_err(|error| error.to_string())?;
        DoneRows::new(self.watermark, &above).map_err(|error| error.to_string())
    }

    /// Returns the number of rows of the job, if it is known: those of the input, or of a trial.
    pub(crate) fn end(&self) -> Option<u64> {
        self.range.end.or(self.max_rows)
    }

    /// Returns the number of rows of a trial, which continues with more rows; `None`: this is no trial.
    pub(crate) fn trial_rows(&self) -> Option<u64> {
        self.max_rows.filter(|_| self.range.end.is_none())
    }

    /// Returns whether no row is left to do for a run that reads at most `max_rows` rows.
    pub(super) fn is_over(&self, max_rows: Option<u64>) -> bool {
        self.finished && self.trial_rows().is_none_or(|_| max_rows.is_some_and(|rows| rows <= self.watermark))
    }

    /// Returns the names of files that no longer belong to the results, and may be there.
    pub(super) fn replaced_names(&self) -> impl Iterator<Item = &String> {
        self.removes.iter().chain(self.replaced.iter().map(|file| &file.name))
    }

    pub(super) fn responders(&self) -> impl Iterator<Item = Origin> {
        self.responders.iter().filter_map(|url| Some(target::parse(url).ok()?.origin))
    }

    pub(super) fn set_done_rows(&mut self, done_rows: &DoneRows) -> std::io::Result<()> {
        self.done = done_rows.rows_done();
        self.watermark = done_rows.watermark();
        self.above = BASE64_STANDARD.encode(done_rows.above_bytes()?);
        Ok(())
    }

    /// Returns whether the last run stopped by itself because its rows failed.
    pub(crate) fn had_failed(&self) -> bool {
        self.runs.last().is_some_and(|run| run.by_failures)
    }

    /// Adds a run that begins now, and drops the oldest one if there are more than [`MAX_RUNS`].
    pub(super) fn begin_run(&mut self, run: RunRecord) {
        if self.runs.len() == MAX_RUNS {
            self.runs.remove(0);
            self.earlier_runs += 1;
        }
        self.runs.push(run);
    }
}

#[cfg(test)]
mod tests {
    use super::super::record;
    use super::*;

    fn commit() -> Commit {
        let mut done_rows = DoneRows::default();
        done_rows.add(&[0, 1, 7]).expect("each once");
        let part = PartRecord { name: "part-00000001.parquet".into(), rows: 3, bytes: 400, crc32: 7 };
        let mut commit = Commit { number: 1, adds: vec![part], ..Commit::zero() };
        commit.set_done_rows(&done_rows).expect("memory");
        commit
    }

    #[test]
    fn a_commit_is_read_as_it_was_written() {
        let commit = commit();
        let bytes = record::encode(&commit).expect("JSON");
        assert_eq!(Ok(commit.clone()), record::decode(&bytes));
        assert_eq!(Ok((2, 3)), commit.done_rows().map(|done_rows| (done_rows.watermark(), done_rows.rows_done())));
    }

    #[test]
    fn the_runs_in_a_commit_are_bounded() {
        let mut commit = Commit::zero();
        for index in 0..40 {
            let started_at = index.to_string();
            commit.begin_run(RunRecord {
                command: "fetch".into(),
                committed_at: started_at.clone(),
                started_at,
                rows: 0,
                ended: false,
                stopped_by: None,
                by_failures: false,
            });
        }
        assert_eq!((8, 32, "8"), (commit.earlier_runs, commit.runs.len(), commit.runs[0].started_at.as_str()));
    }
}
