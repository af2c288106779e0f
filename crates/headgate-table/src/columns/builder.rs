//! Gathers the outcomes of a worker, one at a time, into batches of columns ([`OutcomeBatch`]) for the sink.

use std::mem;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Int16Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::cast::AsArray as _;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBufferBuilder, Buffer, OffsetBuffer};
use arrow_schema::{ArrowError, SchemaRef};
use headgate_core::memory::{MemoryBudget, Reservation};
use headgate_core::response::{Body, ResponseRef};
use headgate_core::row::{Outcome, OutcomeRef};
use headgate_core::url_user::without_user;
use http::Version;

use super::kept::KeptCodec;
use super::pairs::PairsBuilder;
use super::refill::{BATCH_ROWS, Refill as _};
use super::repeated::RepeatedText;
use super::result::ResultColumns;
use super::saved::SavedBuilder;
use super::schema::{header_fields, hop_fields, own_fields};
use super::selected::SelectedColumns;

/// The size of rows and responses at which a batch goes to the sink.
pub const BATCH_BYTES: usize = 1024 * 1024;

/// Outcomes as columns.
#[derive(Debug)]
pub struct OutcomeBatch {
    pub records: RecordBatch,
    /// Whether each row failed; `None`: no row failed.
    pub failed: Option<BooleanArray>,
    /// The reservation for the bodies in `records`, released when the batch is dropped.
    pub reservation: Reservation,
}

/// Gathers outcomes into an [`OutcomeBatch`]. Each worker has its own.
pub struct OutcomeBuilder {
    schema: SchemaRef,
    /// The indices of the result's own columns that are omitted.
    omitted: Vec<usize>,
    kept_codec: Option<KeptCodec>,
    columns: ColumnBuilders,
    rows: usize,
    bytes: usize,
    /// The body of the only row, if it is too large to be copied.
    large_body: Option<Vec<u8>>,
    /// The rows that failed.
    failed: Vec<usize>,
    memory: MemoryBudget,
    reservation: Reservation,
}

#[derive(Default)]
struct ColumnBuilders {
    has_headers: bool,
    has_body: bool,
    row: Int64Builder,
    url: StringBuilder,
    method: RepeatedText,
    status: Int16Builder,
    error: RepeatedText,
    error_message: RepeatedText,
    error_detail: RepeatedText,
    attempts: Int16Builder,
    final_url: RepeatedText,
    redirects: PairsBuilder<Int16Builder, StringBuilder>,
    headers: PairsBuilder<StringBuilder, BinaryBuilder>,
    body: BinaryBuilder,
    received_bytes: Int64Builder,
    body_encoding: RepeatedText,
    body_truncated: BooleanBuilder,
    started_at: TimestampMicrosecondBuilder,
    elapsed_us: Int64Builder,
    ttfb_us: Int64Builder,
    http_version: RepeatedText,
    remote_addr: RepeatedText,
    /// `None`: bodies are not saved.
    saved: Option<Box<SavedBuilder>>,
    selected: Option<SelectedColumns>,
    /// The bytes of [`KeptCodec::encode`].
    kept: BinaryBuilder,
}

impl ColumnBuilders {
    fn new(columns: &ResultColumns) -> Self {
        Self {
            has_headers: columns.has("headers"),
            has_body: columns.has("body"),
            saved: columns.saved.then(Box::default),
            selected: columns.selection.as_ref().map(|selection| SelectedColumns::new(&selection.fields())),
            ..Self::default()
        }
    }

    fn push(&mut self, outcome: OutcomeRef<'_>) {
        self.row.append_value(outcome.row.ordinal as i64);
        self.url.append_value(without_user(&outcome.row.url));
        self.method.push(Some(outcome.method));
        self.error.push(outcome.failure.map(|failure| failure.kind.name()));
        let reason = outcome.failure.map(|failure| &failure.reason);
        self.error_message.push(reason.map(|reason| &reason.message[..]));
        self.error_detail.push(reason.and_then(|reason| reason.detail.as_deref()));
        self.attempts.append_value(outcome.attempts as i16);
        let chain = outcome.row.chain().filter(|chain| chain.count > 0);
        self.final_url.push(chain.map(|chain| without_user(&chain.url)).as_deref());
        for hop in outcome.row.hops() {
            self.redirects.first.append_value(hop.status as i16);
            self.redirects.second.append_value(&hop.location);
        }
        self.redirects.end_row(!outcome.row.hops().is_empty());
        if self.has_headers {
            if let Some(response) = outcome.response {
                response.headers.for_each(|name, value| {
                    self.headers.first.append_value(name);
                    self.headers.second.append_value(value);
                });
            }
            self.headers.end_row(outcome.response.is_some());
        }
        if self.has_body {
            self.body.append_option(outcome.response.and_then(|response| response.body));
        }
        self.received_bytes.append_value(outcome.response.map_or(0, |response| response.received_bytes as i64));
        self.body_encoding.push(outcome.response.and_then(|response| response.body_encoding));
        self.body_truncated.append_value(outcome.response.is_some_and(|response| response.body_truncated));
        self.started_at.append_value(outcome.started_at_us);
        self.elapsed_us.append_value(outcome.elapsed_us as i64);
        self.remote_addr.push(outcome.remote_addr);
        if let Some(saved) = &mut self.saved {
            saved.push(outcome.response.and_then(|response| response.saved));
        }
        if let Some(selected) = &mut self.selected {
            selected.push(outcome.selected);
        }
        if let Some(ResponseRef { status, ttfb_us, version, .. }) = outcome.response {
            self.status.append_value(status as i16);
            self.ttfb_us.append_value(ttfb_us as i64);
            self.http_version.push(Some(version_name(version)));
        } else {
            self.status.append_null();
            self.ttfb_us.append_null();
            self.http_version.push(None);
        }
    }

    /// Returns the columns, in the order of the schema.
    fn finish_batch(
        &mut self,
        failed: &BooleanArray,
        large_body: Option<Vec<u8>>,
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            self.row.finish_batch(),
            self.url.finish_batch(),
            self.method.finish_batch(),
            self.status.finish_batch(),
            Arc::new(failed.clone()),
            self.error.finish_batch(),
            self.error_message.finish_batch(),
            self.error_detail.finish_batch(),
            self.attempts.finish_batch(),
            self.final_url.finish_batch(),
            self.redirects.finish_batch(hop_fields())?,
            self.headers.finish_batch(header_fields())?,
            match large_body {
                Some(body) => {
                    self.body = BinaryBuilder::new();
                    Arc::new(only_value(body)?)
                }
                None => self.body.finish_batch(),
            },
            self.received_bytes.finish_batch(),
            self.body_encoding.finish_batch(),
            Arc::new(self.body_truncated.finish()),
            Arc::new(
                self.started_at.finish_batch().as_primitive::<TimestampMicrosecondType>().clone().with_timezone("UTC"),
            ),
            self.elapsed_us.finish_batch(),
            self.ttfb_us.finish_batch(),
            self.http_version.finish_batch(),
            self.remote_addr.finish_batch(),
        ])
    }
}

/// Returns a column of one row, which takes over the memory of its value.
fn only_value(mut value: Vec<u8>) -> Result<BinaryArray, ArrowError> {
    value.shrink_to_fit();
    BinaryArray::try_new(OffsetBuffer::from_lengths([value.len()]), Buffer::from_vec(value), None)
}

impl OutcomeBuilder {
    /// Creates a builder for results with these columns.
    ///
    /// # Errors
    /// A kept field has an unsupported type.
    pub fn new(columns: &ResultColumns, memory: MemoryBudget) -> Result<Self, ArrowError> {
        let kept = &columns.kept;
        let own = own_fields();
        let is_omitted = |index: &usize| !columns.has(own[*index].name());
        Ok(Self {
            schema: columns.schema(),
            omitted: (0..own.len()).filter(is_omitted).collect(),
            kept_codec: if kept.is_empty() { None } else { Some(KeptCodec::new(kept)?) },
            columns: ColumnBuilders::new(columns),
            rows: 0,
            bytes: 0,
            large_body: None,
            failed: Vec::new(),
            reservation: memory.reservation(),
            memory,
        })
    }

    /// Returns the reservation for the bodies of the gathered rows.
    pub fn reservation(&mut self) -> &mut Reservation {
        &mut self.reservation
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns how many more rows fill the batch.
    pub fn missing_rows(&self) -> usize {
        BATCH_ROWS.saturating_sub(self.rows)
    }

    /// Returns whether the batch should go to the sink, also because other responses wait for its memory.
    pub fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES || self.reservation.is_overdrawn()
    }

    /// Returns whether an outcome of `bytes` may be pushed (see [`OutcomeRef::bytes`]): one that fills a batch gets one of its
    /// own. So no batch has more than twice [`BATCH_BYTES`], or more than one row.
    pub fn has_capacity_for(&self, bytes: usize) -> bool {
        self.is_empty() || !self.is_full() && bytes < BATCH_BYTES
    }

    /// Adds a row as [`OutcomeBuilder::push`] does, with its reservation. A large body is not copied if its row is the
    /// first.
    pub fn push_owned(&mut self, mut outcome: Outcome, failed: bool) {
        if let Some(response) = &mut outcome.response {
            self.reservation.absorb(mem::take(&mut response.memory));
        }
        let body = outcome.response.as_mut().and_then(|response| response.body.as_mut());
        if let Some(Body { bytes: body, reservation }) = body {
            self.reservation.absorb(mem::take(reservation));
            if self.rows == 0 && body.len() >= BATCH_BYTES {
                self.bytes += body.len();
                self.large_body = Some(mem::take(body));
            }
        }
        self.push(outcome.as_ref(), failed);
    }

    /// Adds a row; `failed`: it failed. The caller adds its reservation to [`OutcomeBuilder::reservation`].
    pub fn push(&mut self, outcome: OutcomeRef<'_>, failed: bool) {
        self.bytes += outcome.bytes();
        self.columns.push(outcome);
        if self.kept_codec.is_some() {
            self.columns.kept.append_option(outcome.row.extra.as_ref().and_then(|extra| extra.kept.as_deref()));
        }
        if failed {
            self.failed.push(self.rows);
        }
        self.rows += 1;
    }

    /// Returns the rows gathered so far; the builder is empty afterwards.
    ///
    /// # Errors
    /// Kept columns were not made by this job's source.
    pub fn finish_batch(&mut self) -> Result<OutcomeBatch, ArrowError> {
        let rows = mem::take(&mut self.rows);
        self.bytes = 0;
        let reservation = mem::replace(&mut self.reservation, self.memory.reservation());
        let failed = mask(rows, &mem::take(&mut self.failed));
        let mut arrays = self.columns.finish_batch(&failed, self.large_body.take())?;
        for index in self.omitted.iter().rev() {
            arrays.remove(*index);
        }
        if let Some(saved) = &mut self.columns.saved {
            arrays.extend(saved.finish_batch());
        }
        if let Some(selected) = &mut self.columns.selected {
            arrays.extend(selected.finish_batch());
        }
        if let Some(codec) = &self.kept_codec {
            arrays.extend(codec.decode(self.columns.kept.finish_batch().as_binary::<i32>())?);
        }
        let records = RecordBatch::try_new(self.schema.clone(), arrays)?;
        let failed = failed.has_true().then_some(failed);
        Ok(OutcomeBatch { records, failed, reservation })
    }
}

fn mask(rows: usize, set: &[usize]) -> BooleanArray {
    let mut bits = BooleanBufferBuilder::new(rows);
    bits.append_n(rows, false);
    for row in set {
        bits.set_bit(*row, true);
    }
    BooleanArray::new(bits.finish(), None)
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
