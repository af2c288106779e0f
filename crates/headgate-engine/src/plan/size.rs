//! The number of rows, and how many of them are left to be done.

use headgate_core::options::SourceOptions;
use headgate_table::source::Source;
use serde::Serialize;

use super::sample::InputSample;

#[derive(Debug, Serialize)]
pub struct Size {
    /// `None`: the number is unknown without reading all of the input.
    pub rows: Option<u64>,
    /// If not exact, the number is estimated from the size of the file and that of its first rows.
    pub rows_exact: bool,
    /// The number of sampled rows, from the first.
    pub rows_read: u64,
    /// The size of the file as it is stored.
    pub bytes: Option<u64>,
    pub compressed: bool,
    /// Rows that an earlier run has done.
    pub done: u64,
    pub left: Option<u64>,
    /// Rows that are left and can be sent, if the rest is like the sampled rows.
    pub requests_left: Option<u64>,
}

impl Size {
    /// Computes the size of the source, as far as its rows are read.
    pub(super) fn of(source: &dyn Source, sample: &InputSample, requested: &SourceOptions, done: u64) -> Self {
        let known = source.size();
        let is_compressed = source.fingerprint().is_some_and(|fingerprint| fingerprint.is_compressed());
        let head = requested.max_rows.unwrap_or(u64::MAX);
        let exact = if sample.is_all { Some(sample.read) } else { known.rows.map(|rows| rows.min(head)) };
        let estimate = || match (known.bytes, sample.row_bytes) {
            (Some(bytes), Some(row_bytes)) if !is_compressed => {
                let rows = (bytes as f64 / row_bytes).round() as u64;
                Some(rows.max(sample.read).min(head))
            }
            _ => None,
        };
        let rows = exact.or_else(estimate);
        let left = rows.map(|rows| rows.saturating_sub(done));
        let requests_left = left.map(|left| match sample.read {
            0 => 0,
            _ if sample.invalid.count() == 0 => left,
            read => (left as f64 * sample.valid() as f64 / read as f64).round() as u64,
        });
        Self {
            rows,
            rows_exact: exact.is_some(),
            rows_read: sample.read,
            bytes: known.bytes,
            compressed: is_compressed,
            done,
            left,
            requests_left,
        }
    }
}
