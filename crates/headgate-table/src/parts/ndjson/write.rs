//! Writes an NDJSON part.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use headgate_core::error::JobError;
use headgate_core::files::storage::Storage;
use memchr::memchr_iter;

use super::decode::LineDecoder;
use super::encode::LineEncoder;
use crate::parts::checksum::{BUFFER_BYTES, Checksummed, FinishedPart, open_verified};
use crate::parts::writer::PartWriter;

/// The writer of an NDJSON part.
pub struct NdjsonPart {
    out: BufWriter<Checksummed>,
    encoder: Arc<LineEncoder>,
}

impl NdjsonPart {
    /// Returns an encoder for parts, if their columns can be read back.
    ///
    /// # Errors
    /// `Usage`: an input column to keep has a type that JSON can't hold, or that can't be read back from JSON.
    pub fn checked_encoder(schema: &SchemaRef) -> Result<Arc<LineEncoder>, JobError> {
        let encoder = LineEncoder::new(schema)?;
        LineDecoder::new(schema)?;
        Ok(Arc::new(encoder))
    }

    pub fn new(file: File, encoder: Arc<LineEncoder>) -> Self {
        Self { out: BufWriter::with_capacity(BUFFER_BYTES, Checksummed::new(file)), encoder }
    }
}

impl PartWriter for NdjsonPart {
    fn write(&mut self, records: &RecordBatch) -> io::Result<()> {
        self.encoder.write(records, &mut self.out)
    }

    fn bytes(&self) -> u64 {
        self.out.get_ref().bytes() + self.buffered_bytes()
    }

    fn buffered_bytes(&self) -> u64 {
        self.out.buffer().len() as u64
    }

    fn append(&mut self, storage: &dyn Storage, part: &Path, crc32: u32) -> io::Result<u64> {
        let mut lines = BufReader::with_capacity(BUFFER_BYTES, open_verified(storage, part, crc32)?);
        let mut rows = 0;
        loop {
            let bytes = lines.fill_buf()?;
            if bytes.is_empty() {
                return Ok(rows);
            }
            rows += memchr_iter(b'\n', bytes).count() as u64;
            self.out.write_all(bytes)?;
            let length = bytes.len();
            lines.consume(length);
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<FinishedPart> {
        self.out.flush()?;
        self.out.get_ref().finished()
    }
}
