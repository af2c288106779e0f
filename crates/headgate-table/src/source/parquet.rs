//! `.parquet`: row group by row group, only the columns that are used.
//!
//! Text and binary columns are read as arrow's views, whatever type the file states. A view points into the page it came
//! from, so that a large value in a dictionary is not copied for each row.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, new_empty_array};
use arrow_schema::{DataType, Fields, SchemaRef};
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::SourceOptions;
use headgate_core::row::{Row, RowBatch, rows_of_a_batch};
use headgate_core::source_size::SourceSize;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use twox_hash::XxHash3_128;

use super::batches::Rows;
use super::chunk::{Chunk, ReadColumns};
use super::columns::UsedColumns;
use super::content::Passing;
use super::fingerprint::{self, Fingerprint};
use super::input_error::InputError;
use super::keep;
use super::opened::{Opened, OpenedFile};
use super::parquet_footer::{self, ENCRYPTED, has_encryption};
use super::parquet_pages::{Refusal, RowGroupPages};
use super::partition::Partition;
use super::stored;
use crate::columns::kept::KeptCodec;

/// A skip of at most this many record batches reads them, which costs less than opening the row group anew.
const NEAR_BATCHES: u64 = 16;

pub(super) struct Parquet {
    opened: Arc<Opened>,
    size: SourceSize,
    metadata: ArrowReaderMetadata,
    partition: Partition,
    /// The columns of the file, and those of its directories.
    schema: SchemaRef,
    used: ReadColumns,
    /// The row group and its row from which to continue: the row after the current record batch.
    group: usize,
    group_row: u64,
    /// Hash of the columns of the row group that are used, once computed.
    group_hash: Option<u128>,
    /// Reads on from there, once it is open.
    reader: Option<(ParquetRecordBatchReader, Arc<RowGroupPages>)>,
    /// A batch of the row group has at most this many rows: the pages of more rows would exceed their bound.
    max_rows: usize,
    max_page_size: u64,
    /// The current record batch.
    chunk: Option<Chunk>,
    /// Its next row, and the first row without its kept columns.
    at: usize,
    kept_from: usize,
    kept_bytes: usize,
    kept_fields: Fields,
    codec: Option<KeptCodec>,
}

/// Why reading can't continue.
enum ReadError {
    Damaged(String),
    Refused(Refusal),
}

impl From<String> for ReadError {
    fn from(reason: String) -> Self {
        Self::Damaged(reason)
    }
}

impl Parquet {
    pub(super) fn open(opened: Arc<Opened>, options: &SourceOptions, partition: Partition) -> Result<Self, JobError> {
        let name = options.input.as_str();
        let error = |reason: String| JobError::input(format!("{name}: {reason}"));
        let (as_stored, bytes) = parquet_footer::read(name, &opened)?;
        let damaged = |cause| error(parquet_footer::damaged(opened.file(), bytes, &cause));
        let stored = as_stored.schema();
        let fields = stored::fields(stored, as_stored.parquet_schema());
        let with_views = ArrowReaderOptions::new().with_schema(stored::with_views(&fields, stored));
        let metadata = ArrowReaderMetadata::try_new(as_stored.metadata().clone(), with_views).map_err(damaged)?;

        let own = stored.fields().iter().map(|field| field.name().as_str());
        let names: Vec<&str> = partition.columns(own).collect();
        let columns = UsedColumns::find(options, &keep::names(options, &names), names.into_iter())?;
        let used = ReadColumns::new(columns, Some(&metadata));
        let fields: Vec<_> = fields.iter().cloned().chain(partition.fields(&DataType::Utf8)).collect();
        let schema = partition.after(metadata.schema());
        let kept_fields: Fields = used.columns.kept.iter().map(|index| fields[*index].clone()).collect();
        let kept_fields = stored::kept(&kept_fields);
        let codec = keep::codec(name, &kept_fields)?;
        let rows = u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or_default();
        let size = SourceSize { rows: Some(rows), bytes: Some(bytes), bytes_read: 0 };

        // A column of an unsupported type is an error before the first row.
        let empty: Vec<ArrayRef> =
            used.roots.iter().map(|index| new_empty_array(schema.field(*index).data_type())).collect();
        Chunk::new(&used, &schema, &empty, 0).map_err(error)?;
        Ok(Self {
            opened,
            size,
            metadata,
            partition,
            schema,
            used,
            group: 0,
            group_row: 0,
            group_hash: None,
            reader: None,
            max_rows: usize::MAX,
            max_page_size: options.max_page_size,
            chunk: None,
            at: 0,
            kept_from: 0,
            kept_bytes: 0,
            kept_fields,
            codec,
        })
    }

    /// Advances to the next record batch, after `rows` rows.
    fn read_chunk(&mut self, rows: u64) -> Result<(), JobError> {
        let chunk = self.next_chunk();
        let at_end = !matches!(chunk, Ok(Some(_)));
        let groups = self.metadata.metadata().num_row_groups();
        let (name, group) = (&self.opened.name, (self.group + 1).min(groups));
        // What was read, or failed to be, may not be of the file that was opened.
        self.opened
            .check_unchanged(at_end)
            .map_err(|error| self.cannot_be_read(&error, &format!(", after {rows} rows")))?;
        self.chunk = chunk.map_err(|reason| {
            let reason = match reason {
                ReadError::Refused(refusal) => return JobError::input(refusal.message(name, group)),
                ReadError::Damaged(reason) => reason,
            };
            if has_encryption(self.opened.file(), self.size.bytes.unwrap_or_default()) {
                return JobError::input(format!("{name}: {ENCRYPTED}"));
            }
            JobError::input(message!(
                "{name}: damaged: it can't be read beyond row group {group} of {groups}, after {rows} rows ({reason}); get an intact copy and start over with ",
                OptionName::IfExists.set("overwrite")
            ))
        })?;
        self.at = 0;
        self.kept_from = 0;
        Ok(())
    }

    /// Skips up to `count` rows of the current record batch, and returns how many it had.
    fn skip_in_chunk(&mut self, count: u64, passing: Option<&mut Passing>) -> Result<u64, JobError> {
        let left = self.chunk.as_ref().map_or(0, |chunk| chunk.rows() - self.at);
        let skipped = left.min(usize::try_from(count).unwrap_or(usize::MAX));
        self.pass(skipped as u64, passing)?;
        self.at += skipped;
        self.kept_from = self.at;
        Ok(skipped as u64)
    }

    /// Passes rows of the current row group, all of which have the hash of the whole group.
    fn pass(&mut self, rows: u64, passing: Option<&mut Passing>) -> Result<(), JobError> {
        let Some(passing) = passing.filter(|_| rows > 0) else { return Ok(()) };
        let hash = match self.group_hash {
            Some(hash) => hash,
            None => *self.group_hash.insert(self.hash_group()?),
        };
        (0..rows).for_each(|_| passing.add(hash));
        Ok(())
    }

    /// Returns the hash of the bytes, in the current row group, of the columns that identify rows.
    fn hash_group(&self) -> Result<u128, JobError> {
        let group = self.metadata.metadata().row_group(self.group);
        let used = group.columns().iter().enumerate().filter(|(leaf, _)| self.used.known_by.leaf_included(*leaf));
        let hash = used.map(|(_, column)| column.byte_range()).try_fold(0_u128, |hash, (start, length)| {
            Ok(hash.rotate_left(1) ^ fingerprint::hash(self.opened.file(), start, length)?)
        });
        // Otherwise the hash could be one of other bytes than those that were read.
        hash.and_then(|hash| self.opened.check_unchanged(false).map(|()| hash))
            .map_err(|error| self.cannot_be_read(&error, ""))
    }

    /// Returns the error of a job whose input can't be read further, or was changed.
    fn cannot_be_read(&self, error: &io::Error, after: &str) -> JobError {
        let groups = self.metadata.metadata().num_row_groups();
        let (name, group) = (&self.opened.name, (self.group + 1).min(groups));
        let position = format!("in row group {group} of {groups}{after}");
        InputError::changed(error, name, &position)
            .unwrap_or_else(|| JobError::input(format!("{name}: can't be read further ({error}), {position}")))
    }

    /// Returns the next record batch that has rows, or `None` at the end of the file.
    fn next_chunk(&mut self) -> Result<Option<Chunk>, ReadError> {
        loop {
            if self.is_at_end() {
                return Ok(None);
            }
            let max_rows = self.rows_at_a_time();
            let Some((reader, pages)) = &mut self.reader else {
                self.reader = Some(self.open_group()?);
                continue;
            };
            pages.begin_batch(max_rows);
            let batch = match (reader.next().transpose(), pages.take_refusal()) {
                (Ok(batch), None) => batch,
                (_, Some(Refusal::Batch { .. })) if max_rows > 1 => {
                    self.max_rows = max_rows / 2;
                    self.reader = None;
                    continue;
                }
                (_, Some(refusal)) => return Err(ReadError::Refused(refusal)),
                (Err(error), None) => return Err(ReadError::Damaged(error.to_string())),
            };
            let rows = batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
            self.group_row += rows;
            // Skipping counts rows by the footer: their ordinals must be the same when they are read.
            let by_footer = self.group_rows();
            if self.group_row > by_footer || batch.is_none() && self.group_row < by_footer {
                return Err(format!("it doesn't have the {by_footer} rows that its footer states").into());
            }
            match batch {
                Some(batch) if rows > 0 => {
                    return Ok(Some(self.chunk_of(&batch)?));
                }
                Some(_) => {}
                None => self.end_group(),
            }
        }
    }

    fn chunk_of(&self, batch: &RecordBatch) -> Result<Chunk, String> {
        let own = self.metadata.schema().fields().len();
        let from_directories = self.used.roots.iter().filter_map(|root| root.checked_sub(own));
        let mut from_directories = from_directories.map(|at| self.partition.array(at, batch.num_rows())).peekable();
        if from_directories.peek().is_none() {
            return Chunk::new(&self.used, &self.schema, batch.columns(), batch.num_rows());
        }
        let columns: Vec<ArrayRef> = batch.columns().iter().cloned().chain(from_directories).collect();
        Chunk::new(&self.used, &self.schema, &columns, batch.num_rows())
    }

    /// Opens a reader of the current row group, from the current row on.
    fn open_group(&self) -> Result<(ParquetRecordBatchReader, Arc<RowGroupPages>), ReadError> {
        let pages = RowGroupPages::new(self.metadata.metadata().row_group(self.group), self.max_page_size);
        let file = pages.of(OpenedFile(self.opened.clone()));
        let mut reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_row_groups(vec![self.group])
            .with_projection(self.used.projection.clone())
            .with_batch_size(self.rows_at_a_time());
        // An offset of 0 would also make it use a selection of rows.
        if self.group_row > 0 {
            reader = reader.with_offset(usize::try_from(self.group_row).unwrap_or(usize::MAX));
        }
        match (reader.build(), pages.take_refusal()) {
            (Ok(reader), None) => Ok((reader, pages)),
            (_, Some(refusal)) => Err(ReadError::Refused(refusal)),
            (Err(error), None) => Err(ReadError::Damaged(error.to_string())),
        }
    }

    fn rows_at_a_time(&self) -> usize {
        let group = self.metadata.metadata().row_group(self.group);
        let leaves = group.columns().iter().enumerate();
        let used = leaves.filter(|(leaf, _)| self.used.projection.leaf_included(*leaf));
        let bytes = used.map(|(_, column)| u64::try_from(column.uncompressed_size()).unwrap_or_default()).sum();
        rows_of_a_batch(bytes, self.group_rows()).min(self.max_rows)
    }

    /// Returns whether all row groups were read; if so, the whole file counts as read.
    fn is_at_end(&mut self) -> bool {
        let at_end = self.group == self.metadata.metadata().num_row_groups();
        if at_end {
            self.size.bytes_read = self.size.bytes.unwrap_or_default();
        }
        at_end
    }

    /// Returns the number of rows of the current row group, by the footer.
    fn group_rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().row_group(self.group).num_rows()).unwrap_or_default()
    }

    fn end_group(&mut self) {
        let group = self.metadata.metadata().row_group(self.group);
        self.size.bytes_read += u64::try_from(group.compressed_size()).unwrap_or_default();
        self.reader = None;
        self.max_rows = usize::MAX;
        self.group += 1;
        self.group_row = 0;
        self.group_hash = None;
    }
}

impl Rows for Parquet {
    fn next_row(&mut self, ordinal: u64, passing: Option<&mut Passing>) -> Result<Option<Row>, JobError> {
        if self.ends_batch() {
            self.read_chunk(ordinal)?;
        }
        self.pass(u64::from(self.chunk.is_some()), passing)?;
        let Some(chunk) = &self.chunk else { return Ok(None) };
        self.kept_bytes += chunk.kept_bytes(self.at);
        let row = chunk.row(ordinal, self.at, self.used.columns.templates.as_ref());
        self.at += 1;
        Ok(Some(row))
    }

    /// Skips rows. Whole row groups are skipped by the footer alone. Within a group, near rows are reached by reading on, as
    /// a reader begins at the start of the group each time that it is opened; far ones by skipping whole pages.
    fn skip(&mut self, ordinal: u64, count: u64, mut passing: Option<&mut Passing>) -> Result<u64, JobError> {
        let mut left = count - self.skip_in_chunk(count, passing.as_deref_mut())?;
        while left > 0 && !self.is_at_end() {
            let in_group = self.group_rows() - self.group_row;
            if left < in_group && self.reader.is_some() && left <= NEAR_BATCHES * self.rows_at_a_time() as u64 {
                self.read_chunk(ordinal + (count - left))?;
                left -= self.skip_in_chunk(left, passing.as_deref_mut())?;
                continue;
            }
            let rows = left.min(in_group);
            match passing.as_deref_mut() {
                Some(passing) if !passing.wants_unread() => passing.skip_unread(rows),
                passing => self.pass(rows, passing)?,
            }
            left -= rows;
            if rows == in_group {
                self.end_group();
            } else {
                self.reader = None;
                self.group_row += rows;
            }
        }
        Ok(count - left)
    }

    /// Returns a hash of the names and types of the columns that identify rows.
    fn header(&self) -> u128 {
        let columns = self.metadata.parquet_schema().columns().iter().enumerate();
        let used = columns.filter(|(leaf, _)| self.used.known_by.leaf_included(*leaf));
        let texts = used.map(|(_, column)| {
            let (path, physical) = (column.path(), column.physical_type());
            format!("{path} {physical} {} {}", column.max_def_level(), column.max_rep_level())
        });
        XxHash3_128::oneshot(texts.collect::<Vec<_>>().join("\n").as_bytes())
    }

    fn known_together(&self, rows: Range<u64>) -> Range<u64> {
        let mut end = 0;
        let mut together = rows.clone();
        for group in self.metadata.metadata().row_groups() {
            let start = end;
            end += u64::try_from(group.num_rows()).unwrap_or_default();
            if start <= rows.start {
                together.start = start;
            }
            if end >= rows.end {
                together.end = end;
                break;
            }
        }
        together
    }

    fn set_first_row(&mut self, rows: u64) {
        self.used.columns.set_first_row(rows);
    }

    fn size(&self) -> SourceSize {
        self.size
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.opened.fingerprint()
    }

    fn note(&self) -> Option<Message> {
        self.opened.note()
    }

    /// Returns whether the batch ends here: it has the kept columns of one record batch only.
    fn ends_batch(&self) -> bool {
        self.chunk.as_ref().is_none_or(|chunk| chunk.rows() == self.at)
    }

    fn kept_fields(&self) -> Fields {
        self.kept_fields.clone()
    }

    fn keep_as(&mut self, fields: &Fields) -> Result<(), JobError> {
        self.codec = keep::codec(&self.opened.name, fields)?;
        self.kept_fields = fields.clone();
        Ok(())
    }

    fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    fn attach_kept(&mut self, batch: &mut RowBatch) -> Result<(), JobError> {
        let (Some(codec), Some(chunk)) = (&self.codec, &self.chunk) else { return Ok(()) };
        let columns = chunk.kept.iter().map(|column| column.slice(self.kept_from, self.at - self.kept_from));
        keep::attach_as((&self.opened.name, &self.kept_fields, codec), columns, batch)?;
        self.kept_from = self.at;
        self.kept_bytes = 0;
        Ok(())
    }
}
