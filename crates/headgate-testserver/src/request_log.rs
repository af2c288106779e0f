//! A file with a line for each request, which proves what a client did, and when.
//!
//! A line is `MICROSECONDS STATUS HOST TARGET`, separated by tabs: the time when the headers were complete, since the start of
//! the server and by a monotonic clock; the status of the response, or `-` without one (a fault, or a client that has
//! disconnected); the `Host` header; the target. It is written with the response, so lines are nearly but not exactly in the
//! order of their times. The buffer is written to the disk on a request for `/stats` and when the server stops. The file grows
//! with the number of requests: it is for tests and trial runs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::received::Received;

const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct RequestLog {
    started: Instant,
    file: Mutex<BufWriter<File>>,
}

/// The log entry of a request, which is written when it is dropped.
#[derive(Debug)]
pub(crate) struct LogEntry {
    log: Arc<RequestLog>,
    micros: u128,
    host: Box<str>,
    target: Box<str>,
    pub status: Option<u16>,
}

impl RequestLog {
    /// Creates the file, and replaces one that exists.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path).map_err(|error| {
            io::Error::new(error.kind(), format!("can't write the log {}: {error}", path.display()))
        })?;
        Ok(Self { started: Instant::now(), file: Mutex::new(BufWriter::with_capacity(BUFFER_BYTES, file)) })
    }

    pub(crate) fn entry(self: &Arc<Self>, received: &Received, arrived: Instant) -> LogEntry {
        let micros = arrived.saturating_duration_since(self.started).as_micros();
        LogEntry {
            log: self.clone(),
            micros,
            host: received.host().into(),
            target: received.target.as_str().into(),
            status: None,
        }
    }

    /// Writes the buffer to the file.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.file().flush()
    }

    fn file(&self) -> MutexGuard<'_, BufWriter<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LogEntry {
    fn drop(&mut self) {
        let Self { micros, host, target, .. } = self;
        // The value of a header may contain tabs.
        let host = host.replace('\t', " ");
        let status = self.status.map_or("-".to_owned(), |status| status.to_string());
        // If the disk is full, lines are missing from the file, but no request fails.
        let _ = writeln!(self.log.file(), "{micros}\t{status}\t{host}\t{target}");
    }
}
