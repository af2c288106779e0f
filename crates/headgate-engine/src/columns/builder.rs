//! Outcomes one at a time from the exchange, columns of them ([`OutcomeBatch`]) for the sink.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder as _, BinaryBuilder, BooleanBufferBuilder, Int16Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, BooleanArray, ListArray, RecordBatch, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, Fields, SchemaRef};
use http::Version;

use super::kept::KeptCodec;
use super::schema::{header_fields, headers_item, schema};
use crate::model::headers::HeadersRef;
use crate::model::memory::{MemoryBudget, Reservation};
use crate::model::outcome::OutcomeRef;

/// Rows after which a batch goes to the sink.
pub const BATCH_ROWS: usize = 1024;
/// Bytes of rows and responses after which a batch goes to the sink.
pub const BATCH_BYTES: usize = 1024 * 1024;
/// Headers that a batch has room for from the start.
const HEADERS_ROOM: usize = BATCH_ROWS * 8;

/// Outcomes as columns.
#[derive(Debug)]
pub struct OutcomeBatch {
    pub records: RecordBatch,
    /// Which rows were given up; `None`: no row was.
    pub failed: Option<BooleanArray>,
    /// The memory of the bodies in `records`, given back when the batch is dropped.
    pub reservation: Reservation,
}

/// Gathers outcomes into an [`OutcomeBatch`]. One for each worker.
pub struct OutcomeBuilder {
    schema: SchemaRef,
    kept_codec: Option<KeptCodec>,
    columns: Columns,
    rows: usize,
    bytes: usize,
    memory: MemoryBudget,
    reservation: Reservation,
}

struct Columns {
    row: Int64Builder,
    url: StringBuilder,
    method: StringBuilder,
    status: Int16Builder,
    error: StringBuilder,
    error_message: StringBuilder,
    attempts: Int16Builder,
    final_url: StringBuilder,
    headers: HeadersBuilder,
    body: BinaryBuilder,
    body_bytes: Int64Builder,
    started_at: TimestampMicrosecondBuilder,
    elapsed_us: Int64Builder,
    ttfb_us: Int64Builder,
    http_version: StringBuilder,
    remote_addr: StringBuilder,
    kept: KeptRows,
    failed: BooleanBufferBuilder,
    any_failed: bool,
}

impl Columns {
    fn new() -> Self {
        Self {
            row: Int64Builder::new(),
            url: StringBuilder::new(),
            method: StringBuilder::new(),
            status: Int16Builder::new(),
            error: StringBuilder::new(),
            error_message: StringBuilder::new(),
            attempts: Int16Builder::new(),
            final_url: StringBuilder::new(),
            headers: HeadersBuilder::new(),
            body: BinaryBuilder::new(),
            body_bytes: Int64Builder::new(),
            started_at: TimestampMicrosecondBuilder::new().with_timezone("UTC"),
            elapsed_us: Int64Builder::new(),
            ttfb_us: Int64Builder::new(),
            http_version: StringBuilder::new(),
            remote_addr: StringBuilder::new(),
            kept: KeptRows::default(),
            failed: BooleanBufferBuilder::new(BATCH_ROWS),
            any_failed: false,
        }
    }
}

/// The column of headers. arrow's `ListBuilder<StructBuilder>` asks for the type of its parts at every value, which
/// made it the dearest column.
struct HeadersBuilder {
    /// Where each row's headers end.
    ends: Vec<i32>,
    present: BooleanBufferBuilder,
    names: StringBuilder,
    values: BinaryBuilder,
}

/// Kept columns of the rows, as [`KeptCodec`] encodes them.
#[derive(Default)]
struct KeptRows {
    bytes: Vec<u8>,
    /// Of each row that has some.
    ranges: Vec<Option<Range<usize>>>,
}

impl KeptRows {
    fn push(&mut self, row: Option<&[u8]>) {
        self.ranges.push(row.map(|row| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(row);
            start..self.bytes.len()
        }));
    }

    fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.ranges.iter().map(|range| range.clone().map(|range| &self.bytes[range]))
    }
}

impl HeadersBuilder {
    fn new() -> Self {
        Self {
            ends: Vec::with_capacity(BATCH_ROWS + 1),
            present: BooleanBufferBuilder::new(BATCH_ROWS),
            names: StringBuilder::with_capacity(HEADERS_ROOM, HEADERS_ROOM * 10),
            values: BinaryBuilder::with_capacity(HEADERS_ROOM, HEADERS_ROOM * 15),
        }
    }

    fn append(&mut self, headers: Option<HeadersRef<'_>>) {
        if let Some(headers) = headers {
            headers.for_each(|name, value| {
                self.names.append_value(name);
                self.values.append_value(value);
            });
        }
        self.ends.push(self.names.len() as i32);
        self.present.append(headers.is_some());
    }

    fn finish(&mut self) -> Result<ListArray, ArrowError> {
        let offsets = OffsetBuffer::new(std::iter::once(0).chain(self.ends.drain(..)).collect());
        let columns: Vec<ArrayRef> = vec![Arc::new(self.names.finish()), Arc::new(self.values.finish())];
        let pairs = StructArray::try_new(header_fields(), columns, None)?;
        let nulls = NullBuffer::new(self.present.finish());
        ListArray::try_new(Arc::new(headers_item()), offsets, Arc::new(pairs), Some(nulls))
    }
}

impl OutcomeBuilder {
    /// # Errors
    /// A kept field has a type that cannot be carried.
    pub fn new(kept: &Fields, memory: MemoryBudget) -> Result<Self, ArrowError> {
        Ok(Self {
            schema: schema(kept),
            kept_codec: if kept.is_empty() { None } else { Some(KeptCodec::new(kept)?) },
            columns: Columns::new(),
            rows: 0,
            bytes: 0,
            reservation: memory.reservation(),
            memory,
        })
    }

    /// What was set aside for what it holds.
    pub fn reservation(&mut self) -> &mut Reservation {
        &mut self.reservation
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// Sets memory aside for what is pushed next, if there is room now.
    pub fn try_set_aside(&mut self, bytes: u64) -> bool {
        let set_aside = self.reservation.try_grow(bytes);
        self.reservation.settle();
        set_aside
    }

    /// Takes over the memory that was set aside for what is pushed.
    pub fn absorb(&mut self, reservation: Reservation) {
        self.reservation.absorb(reservation);
    }

    /// Adds a row; `failed`: it was given up. Its memory is for [`OutcomeBuilder::try_set_aside`] or
    /// [`OutcomeBuilder::absorb`].
    pub fn push(&mut self, outcome: OutcomeRef<'_>, failed: bool) {
        self.bytes += outcome.row.bytes() + outcome.answer.map_or(0, |answer| answer.headers.bytes());
        let columns = &mut self.columns;
        columns.row.append_value(outcome.row.ordinal as i64);
        columns.url.append_value(&outcome.row.url);
        columns.method.append_value(outcome.method);
        columns.error.append_option(outcome.failure.map(|failure| failure.kind.name()));
        columns.error_message.append_option(outcome.failure.map(|failure| &failure.message));
        columns.attempts.append_value(outcome.attempts as i16);
        columns.final_url.append_null();
        columns.started_at.append_value(outcome.started_at_us);
        columns.elapsed_us.append_value(outcome.elapsed_us as i64);
        columns.failed.append(failed);
        columns.any_failed |= failed;

        columns.headers.append(outcome.answer.map(|answer| answer.headers));
        if let Some(answer) = outcome.answer {
            columns.status.append_value(answer.status as i16);
            columns.body_bytes.append_value(answer.body_bytes as i64);
            columns.ttfb_us.append_value(answer.ttfb_us as i64);
            columns.http_version.append_value(version_name(answer.version));
            columns.remote_addr.append_value(answer.remote_addr);
            self.bytes += answer.body.map_or(0, <[u8]>::len);
            columns.body.append_option(answer.body);
        } else {
            columns.status.append_null();
            columns.body.append_null();
            columns.body_bytes.append_value(0);
            columns.ttfb_us.append_null();
            columns.http_version.append_null();
            columns.remote_addr.append_null();
        }
        if self.kept_codec.is_some() {
            columns.kept.push(outcome.row.extra.as_ref().and_then(|extra| extra.kept.as_deref()));
        }
        self.rows += 1;
    }

    /// What was gathered so far; the builder is empty afterwards.
    ///
    /// # Errors
    /// Kept columns that were not made by this job's source, or more than 2 GiB of text in one batch.
    pub fn take(&mut self) -> Result<OutcomeBatch, ArrowError> {
        self.rows = 0;
        self.bytes = 0;
        let mut columns = std::mem::replace(&mut self.columns, Columns::new());
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(columns.row.finish()),
            Arc::new(columns.url.finish()),
            Arc::new(columns.method.finish()),
            Arc::new(columns.status.finish()),
            Arc::new(columns.error.finish()),
            Arc::new(columns.error_message.finish()),
            Arc::new(columns.attempts.finish()),
            Arc::new(columns.final_url.finish()),
            Arc::new(columns.headers.finish()?),
            Arc::new(columns.body.finish()),
            Arc::new(columns.body_bytes.finish()),
            Arc::new(columns.started_at.finish()),
            Arc::new(columns.elapsed_us.finish()),
            Arc::new(columns.ttfb_us.finish()),
            Arc::new(columns.http_version.finish()),
            Arc::new(columns.remote_addr.finish()),
        ];
        if let Some(codec) = &self.kept_codec {
            arrays.extend(codec.decode(columns.kept.iter())?);
        }
        let failed = columns.any_failed.then(|| BooleanArray::new(columns.failed.finish(), None));
        let reservation = std::mem::replace(&mut self.reservation, self.memory.reservation());
        let records = RecordBatch::try_new(self.schema.clone(), arrays)?;
        Ok(OutcomeBatch { records, failed, reservation })
    }
}

fn version_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_3 => "HTTP/3",
        _ => "HTTP/1.1",
    }
}
