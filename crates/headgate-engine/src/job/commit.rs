//! One commit: which parts count from now on, which do not any more, and which rows are done by that.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Deserializer, Serialize};

use super::done_rows::DoneRows;
use crate::http::target;
use crate::model::origin::Origin;
use crate::parts::name::{PartKind, PartName};
use crate::source::compared::InputThen;

/// Runs that are remembered one by one; of older ones only how many there were.
const MAX_RUNS: usize = 32;

/// The rows that a commit speaks of: from `first` up to `end`, which is not one of them. Today all of the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowRange {
    pub first: u64,
    /// `None`: the end of the input, which has not been reached.
    pub end: Option<u64>,
}

/// A finished part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    #[serde(deserialize_with = "part_name")]
    pub name: String,
    pub rows: u64,
    pub bytes: u64,
    /// Of all its bytes.
    pub crc32: u32,
}

impl PartRecord {
    pub(super) fn is_failed(&self) -> bool {
        PartName::parse(&self.name).is_some_and(|name| name.kind == PartKind::Failed)
    }
}

/// A name that is read is that of a part, or the commit is damaged: it is used as that of a file.
fn part_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(String::deserialize(deserializer)?)
}

fn part_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.into_iter().map(checked).collect()
}

fn checked<E: serde::de::Error>(name: String) -> Result<String, E> {
    let is_ours = PartName::parse(&name).is_some();
    if is_ours { Ok(name) } else { Err(E::custom(format!("it names {name:?}, which is not the name of a part"))) }
}

/// What all runs of a job did together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub answered: u64,
    pub failed: u64,
    /// Rows that failed, by kind of error, or by status as `status:503`.
    pub errors: BTreeMap<String, u64>,
    /// Parts there are, and their bytes.
    pub parts: u64,
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
    /// Rows that it did.
    pub rows: u64,
    /// Whether it came to an orderly end.
    pub ended: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub number: u64,
    pub headgate_version: String,
    pub range: RowRange,
    /// Rows that are done.
    pub done: u64,
    /// All rows below it are done.
    pub watermark: u64,
    /// Those above it: a Roaring bitmap (64-bit, portable format) as base64.
    pub above: String,
    pub adds: Vec<PartRecord>,
    #[serde(deserialize_with = "part_names")]
    pub removes: Vec<String>,
    /// All parts that count, where the commit is a checkpoint: the commits before it are needed no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<PartRecord>>,
    /// Over all parts that count, so that a list of them is known to be whole; empty in format version 2.
    #[serde(default)]
    pub parts_sum: String,
    /// The numbers of the next parts; none is given twice.
    pub next_part: u64,
    pub next_failed: u64,
    /// Likewise of archives of saved bodies, also where somebody has taken those away that there were.
    #[serde(default)]
    pub next_archive: u64,
    pub totals: Totals,
    /// Every row is done, small parts are merged, and every part is in its place.
    pub finished: bool,
    /// Runs before those in `runs`.
    pub earlier_runs: u64,
    pub runs: Vec<RunRecord>,
    /// Hosts that responded most recently, as URLs without a path, the most recent one last: a later run can tell by them
    /// whether the network works. Commits of an older headgate have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub responders: Vec<String>,
    /// What was read, up to the last row that is done, and few more. `None`: the input can't be read again, or is a pattern; or
    /// an older headgate, which knew it by its size and time, has begun the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputThen>,
}

impl Commit {
    /// What there is before the first commit.
    pub(super) fn zero() -> Self {
        Self { next_part: 1, next_failed: 1, ..Self::default() }
    }

    pub fn done_rows(&self) -> Result<DoneRows, String> {
        let above = BASE64_STANDARD.decode(&self.above).map_err(|error| error.to_string())?;
        DoneRows::new(self.watermark, &above).map_err(|error| error.to_string())
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

    /// Adds a run that begins now, forgetting the oldest where there are too many.
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
    fn it_is_read_as_it_was_written() {
        let commit = commit();
        let bytes = record::encode(&commit).expect("JSON");
        assert_eq!(Ok(commit.clone()), record::decode(&bytes));
        assert_eq!(Ok((2, 3)), commit.done_rows().map(|done_rows| (done_rows.watermark(), done_rows.rows_done())));
    }

    #[test]
    fn the_runs_that_are_remembered_are_bounded() {
        let mut commit = Commit::zero();
        for index in 0..40 {
            let started_at = index.to_string();
            commit.begin_run(RunRecord {
                command: "fetch".into(),
                committed_at: started_at.clone(),
                started_at,
                rows: 0,
                ended: false,
            });
        }
        assert_eq!((8, 32, "8"), (commit.earlier_runs, commit.runs.len(), commit.runs[0].started_at.as_str()));
    }
}
