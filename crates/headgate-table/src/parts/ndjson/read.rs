//! Reads an NDJSON part back.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use arrow_array::RecordBatch;
use headgate_core::row::{MAX_BATCH_BYTES, MAX_BATCH_ROWS};
use memchr::memchr;

use super::decode::LineDecoder;
use crate::parts::checksum::BUFFER_BYTES;
use crate::parts::read_error::ReadError;

pub(in crate::parts) struct NdjsonBatches {
    lines: BufReader<File>,
    decoder: LineDecoder,
}

impl NdjsonBatches {
    pub(in crate::parts) fn new(file: File, decoder: LineDecoder) -> Self {
        Self { lines: BufReader::with_capacity(BUFFER_BYTES, file), decoder }
    }

    pub(in crate::parts) fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        let mut bytes = 0;
        while bytes < MAX_BATCH_BYTES || self.decoder.is_within_row() {
            let buffer = self.lines.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let line = &buffer[..memchr(b'\n', buffer).map_or(buffer.len(), |end| end + 1)];
            // This is less than the line only if the line has several rows, which headgate does not write.
            let length = self.decoder.push(line).map_err(|error| error.to_string())?;
            self.lines.consume(length);
            bytes += length;
            if self.decoder.rows() == MAX_BATCH_ROWS && !self.decoder.is_within_row() {
                break;
            }
        }
        Ok(self.decoder.take().map_err(|error| error.to_string())?)
    }
}
