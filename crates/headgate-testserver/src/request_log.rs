//! A file with a line for each request, by which one can prove what a client did, and when.
//!
//! A line is `MICROSECONDS STATUS HOST TARGET`, with tabs between: the time when the whole head had come, since the server
//! was started and by a clock that never goes back; the status of the answer, or `-` if there was none (a fault, or a
//! client that has gone); the `Host` field; the target. It is written when the answer is, so lines are nearly but not
//! quite in the order of their times. What is not on the disk yet is written when `/stats` is asked for and when the
//! server stops. The file grows with the number of requests: it is for tests and rehearsals.

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

/// A request that will be a line when this ends.
#[derive(Debug)]
pub(crate) struct Note {
    log: Arc<RequestLog>,
    micros: u128,
    host: Box<str>,
    target: Box<str>,
    pub status: Option<u16>,
}

impl RequestLog {
    /// In place of a file of that name.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path).map_err(|error| {
            io::Error::new(error.kind(), format!("can't write the log {}: {error}", path.display()))
        })?;
        Ok(Self { started: Instant::now(), file: Mutex::new(BufWriter::with_capacity(BUFFER_BYTES, file)) })
    }

    pub fn note(self: &Arc<Self>, received: &Received, arrived: Instant) -> Note {
        let micros = arrived.saturating_duration_since(self.started).as_micros();
        Note {
            log: self.clone(),
            micros,
            host: received.host().into(),
            target: received.target.as_str().into(),
            status: None,
        }
    }

    /// Writes what is still in memory.
    pub fn flush(&self) -> io::Result<()> {
        self.file().flush()
    }

    fn file(&self) -> MutexGuard<'_, BufWriter<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let Self { micros, host, target, .. } = self;
        // A value of a field may contain tabs.
        let host = host.replace('\t', " ");
        let status = self.status.map_or("-".to_owned(), |status| status.to_string());
        // A full disk shows in the file: no request fails for it.
        let _ = writeln!(self.log.file(), "{micros}\t{status}\t{host}\t{target}");
    }
}
