//! What became of one row.

use std::sync::Arc;

use http::Version;

use crate::model::error::Failure;
use crate::model::headers::Headers;
use crate::model::memory::Reservation;
use crate::model::row::Row;

/// What became of one row.
#[derive(Debug)]
pub struct Outcome {
    pub row: Row,
    /// The method that was asked with: the row's, or the job's default.
    pub method: Box<str>,
    /// Attempts made; 0 where nothing could be sent.
    pub attempts: u16,
    pub started_at_us: i64,
    pub elapsed_us: u64,
    pub answer: Option<Answer>,
    pub failure: Option<Failure>,
}

/// What of a response arrived.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub version: Version,
    pub headers: Headers,
    pub remote_addr: Arc<str>,
    pub ttfb_us: u64,
    /// Decoded; `None` where it did not arrive whole.
    pub body: Option<Body>,
    /// As received, before decoding.
    pub body_bytes: u64,
}

/// A whole body, with the memory that was set aside for it.
#[derive(Debug, Default)]
pub struct Body {
    pub bytes: Vec<u8>,
    pub reservation: Reservation,
}
