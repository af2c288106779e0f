//! What a helper is told of a request.

use std::str::FromStr;

use crate::received::Received;
use crate::worker::Worker;

/// Encoding is done in one piece, in memory, while the other connections of the worker wait.
const MAX_ENCODED_BYTES: usize = 16 * 1024 * 1024;

/// A request for a helper.
pub(crate) struct Call<'a> {
    pub worker: &'a Worker,
    pub received: &'a Received,
    /// What the path has behind the name.
    pub argument: &'a str,
}

impl Call<'_> {
    pub fn number<T: FromStr>(&self) -> Option<T> {
        self.argument.parse().ok()
    }

    /// So many bytes, if they may be encoded.
    pub fn text(&self, bytes: &str) -> Option<Vec<u8>> {
        let bytes = bytes.parse().ok().filter(|bytes| *bytes <= MAX_ENCODED_BYTES)?;
        Some(self.worker.content().bytes(bytes))
    }
}
