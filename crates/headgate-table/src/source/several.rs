//! The rows of several files, one file after another, with consecutive ordinals. At most one file is open at a time.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::Fields;
use headgate_core::error::JobError;
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::message::Message;
use headgate_core::row::{Row, RowBatch};
use headgate_core::source_size::SourceSize;

use super::batches::Rows;
use super::content::Passing;
use super::fingerprint::Fingerprint;
use super::surveyed::Surveyed;

pub(super) struct Several {
    files: Arc<Surveyed>,
    /// The ordinal of the first row of each file up to the current one.
    starts: Vec<u64>,
    current: Option<Box<dyn Rows>>,
    /// Bytes of the files before it.
    bytes_before: u64,
    notes: Notes,
}

/// Notes of files that have ended: that of the first, and how many others there are.
#[derive(Default)]
struct Notes {
    first: Option<Message>,
    others: u64,
}

impl Several {
    pub(super) fn new(files: Arc<Surveyed>) -> Self {
        Self { files, starts: vec![0], current: None, bytes_before: 0, notes: Notes::default() }
    }

    /// Returns the index of the current file, which may not be open yet.
    fn at(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the ordinal of its first row.
    fn start(&self) -> u64 {
        self.starts.last().copied().unwrap_or_default()
    }

    fn is_at_end(&self) -> bool {
        self.at() == self.files.len()
    }

    /// Returns the rows of the current file, and opens it if it is not open.
    fn open(&mut self, passing: Option<&mut Passing>) -> Result<&mut Box<dyn Rows>, JobError> {
        if let Some(rows) = self.current.take() {
            return Ok(self.current.insert(rows));
        }
        let (mut rows, counts) = self.files.open(self.at())?;
        rows.set_first_row(self.start());
        if let Some(passing) = passing {
            passing.begin_file(counts);
        }
        Ok(self.current.insert(rows))
    }

    fn file_at(&self, row: u64) -> usize {
        let before = self.starts.partition_point(|start| *start <= row);
        before.saturating_sub(1).min(self.files.len() - 1)
    }
}

impl Rows for Several {
    fn next_row(&mut self, ordinal: u64, mut passing: Option<&mut Passing>) -> Result<Option<Row>, JobError> {
        if self.is_at_end() {
            return Ok(None);
        }
        let local = ordinal - self.start();
        let Some(mut row) = self.open(passing.as_deref_mut())?.next_row(local, passing)? else { return Ok(None) };
        row.ordinal = ordinal;
        if let Some(defect) = row.extra.as_mut().and_then(|extra| extra.defect.as_mut()) {
            *defect = defect.clone().at(self.files.path(self.at()));
        }
        Ok(Some(row))
    }

    fn has_next_file(&self) -> bool {
        self.at() + 1 < self.files.len()
    }

    fn end_file(&mut self, next: u64) {
        if let Some(rows) = self.current.take() {
            self.notes.add(rows.note());
        }
        self.bytes_before += self.files.bytes(self.at());
        self.starts.push(next);
    }

    /// Skips rows. Files whose number of rows is known are skipped unopened.
    fn skip(&mut self, ordinal: u64, count: u64, mut passing: Option<&mut Passing>) -> Result<u64, JobError> {
        let mut left = count;
        while left > 0 && !self.is_at_end() {
            let here = ordinal + (count - left);
            let is_unread = passing.as_ref().is_none_or(|passing| !passing.wants_unread());
            let whole = self.files.rows(self.at()).filter(|rows| self.current.is_none() && is_unread && *rows <= left);
            if let Some(rows) = whole {
                if let Some(passing) = &mut passing {
                    passing.skip_unread(rows);
                }
                left -= rows;
                self.end_file(here + rows);
                continue;
            }
            let local = here - self.start();
            let skipped = self.open(passing.as_deref_mut())?.skip(local, left, passing.as_deref_mut())?;
            let has_ended = skipped < left;
            left -= skipped;
            if has_ended {
                self.end_file(here + skipped);
            }
        }
        Ok(count - left)
    }

    fn header(&self) -> u128 {
        self.files.header()
    }

    /// Returns the rows that are known together: a file that has ended is one range.
    fn known_together(&self, rows: Range<u64>) -> Range<u64> {
        let Some(known) = &self.current else { return self.files_of(rows) };
        let start = self.start();
        if rows.start < start {
            return self.files_of(rows);
        }
        let together = known.known_together(rows.start - start..rows.end - start);
        together.start + start..together.end + start
    }

    fn file_of(&self, row: u64) -> Option<String> {
        let count = grouped(self.files.len() as u64);
        Some(format!("{}, of {count} files", self.files.path(self.file_at(row))))
    }

    fn size(&self) -> SourceSize {
        let here = self.current.as_ref().map_or(0, |rows| rows.size().bytes_read);
        SourceSize { bytes_read: self.bytes_before + here, ..self.files.size() }
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        Some(self.files.fingerprint())
    }

    fn note(&self) -> Option<Message> {
        let of_rows = self.notes.with(self.current.as_ref().and_then(|rows| rows.note()));
        let notes: Vec<_> = self.files.note().into_iter().chain(of_rows).collect();
        (!notes.is_empty()).then(|| Message::joined(notes, "; "))
    }

    fn ends_batch(&self) -> bool {
        self.current.as_ref().is_some_and(|rows| rows.ends_batch())
    }

    fn kept_fields(&self) -> Fields {
        self.files.kept_fields().clone()
    }

    fn kept_bytes(&self) -> usize {
        self.current.as_ref().map_or(0, |rows| rows.kept_bytes())
    }

    fn attach_kept(&mut self, batch: &mut RowBatch) -> Result<(), JobError> {
        self.current.as_mut().map_or(Ok(()), |rows| rows.attach_kept(batch))
    }
}

impl Several {
    /// Extends the range to whole files, if their number of rows is known.
    fn files_of(&self, rows: Range<u64>) -> Range<u64> {
        let first = self.file_at(rows.start);
        if self.files.rows(first).is_none() {
            return rows;
        }
        let end = self.starts.get(self.file_at(rows.end - 1) + 1).copied().unwrap_or(rows.end);
        self.starts[first]..end.max(rows.end)
    }
}

impl Notes {
    fn add(&mut self, note: Option<Message>) {
        match note {
            None => {}
            Some(note) if self.first.is_none() => self.first = Some(note),
            Some(_) => self.others += 1,
        }
    }

    /// Returns the note of all files, of which the current one has not ended.
    fn with(&self, current: Option<Message>) -> Option<Message> {
        let others = self.others + u64::from(self.first.is_some() && current.is_some());
        let first = self.first.clone().or(current)?;
        Some(match others {
            0 => first,
            1 => message!(first, "; the same holds for 1 other file"),
            others => {
                let others = grouped(others);
                message!(first, "; the same holds for {others} other files")
            }
        })
    }
}
