//! The arguments of a helper.

use std::str::FromStr;

use crate::received::Received;
use crate::worker::ServerWorker;

/// The bound of bytes to encode: that is done in memory, and blocks the other connections of the worker.
const MAX_ENCODED_BYTES: usize = 16 * 1024 * 1024;

/// A request for a helper.
pub(crate) struct Call<'a> {
    pub worker: &'a ServerWorker,
    pub received: &'a Received,
    /// The part of the path after the name of the helper.
    pub argument: &'a str,
}

impl Call<'_> {
    pub(crate) fn number<T: FromStr>(&self) -> Option<T> {
        self.argument.parse().ok()
    }

    /// Returns this number of bytes of text, unless they are too many to encode.
    pub(crate) fn text(&self, bytes: &str) -> Option<Vec<u8>> {
        let bytes = bytes.parse().ok().filter(|bytes| *bytes <= MAX_ENCODED_BYTES)?;
        Some(self.worker.content().bytes(bytes))
    }
}
