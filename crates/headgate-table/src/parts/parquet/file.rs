//! A file as the parquet crate reads it, which returns errors of the system as text.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::parts::read_error::ReadError;

/// A file that remembers the last error of the system. Its clones share this error, and no clone needs a descriptor.
#[derive(Debug, Clone)]
pub(super) struct ReadFile {
    file: Arc<File>,
    error: Arc<Mutex<Option<io::Error>>>,
}

impl ReadFile {
    pub(super) fn new(file: File) -> Self {
        Self { file: Arc::new(file), error: Arc::default() }
    }

    /// Returns the error of the system that is the cause of a problem, or the problem.
    pub(super) fn explain(&self, problem: String) -> ReadError {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(ReadError::Content(problem), ReadError::System)
    }
}

impl Length for ReadFile {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for ReadFile {
    type T = BufReader<Reading>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(Reading { file: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let mut bytes = Vec::with_capacity(length);
        Reading { file: self.clone(), at: start }.take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() != length {
            return Err(ParquetError::EOF(format!("it ends after {} of {length} bytes", bytes.len())));
        }
        Ok(bytes.into())
    }
}

/// Reads a file from a position on.
pub(super) struct Reading {
    file: ReadFile,
    at: u64,
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.file.read_at(buffer, self.at).inspect_err(|error| {
            let same = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
            *self.file.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(same);
        })?;
        self.at += read as u64;
        Ok(read)
    }
}
