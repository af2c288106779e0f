//! The outcome of one row.

use std::mem;
use std::sync::Arc;

use http::Version;

use crate::error::Failure;
use crate::headers::{Headers, HeadersRef};
use crate::memory::Reservation;
use crate::row::Row;
use crate::saved::Saved;
use crate::selected::Selected;

/// The outcome of one row.
#[derive(Debug)]
pub struct Outcome {
    pub row: Row,
    /// The method of the request: the row's, or the job's default.
    pub method: Box<str>,
    /// Attempts made; 0 if nothing could be sent.
    pub attempts: u16,
    pub started_at_us: i64,
    pub elapsed_us: u64,
    /// The remote address of the last connection, if one was established.
    pub remote_addr: Option<Arc<str>>,
    pub response: Option<Response>,
    /// The values selected from the response, if there are any.
    pub selected: Option<Box<Selected>>,
    pub failure: Option<Failure>,
}

/// The part of a response that arrived.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub version: Version,
    pub headers: Headers,
    /// The reservation for `headers`: it stays if the body has failed.
    pub memory: Reservation,
    pub ttfb_us: u64,
    /// Decoded, unless `body_encoding` says otherwise; as far as it arrived. `None`: it was not read.
    pub body: Option<Body>,
    /// The content encodings that `body` still has.
    pub body_encoding: Option<Box<str>>,
    /// `body` is the beginning of a longer one.
    pub body_truncated: bool,
    /// As received, before decoding.
    pub body_bytes: u64,
    /// The file that has the body in place of `body`.
    pub saved: Option<Box<Saved>>,
}

/// A reference to an [`Outcome`], whose response may still lie in the memory that it was read into.
#[derive(Debug, Clone, Copy)]
pub struct OutcomeRef<'a> {
    pub row: &'a Row,
    pub method: &'a str,
    pub attempts: u16,
    pub started_at_us: i64,
    pub elapsed_us: u64,
    pub remote_addr: Option<&'a str>,
    pub response: Option<ResponseRef<'a>>,
    pub selected: Option<&'a Selected>,
    pub failure: Option<&'a Failure>,
}

/// A reference to a [`Response`].
#[derive(Debug, Clone, Copy)]
pub struct ResponseRef<'a> {
    pub status: u16,
    pub version: Version,
    pub headers: HeadersRef<'a>,
    pub ttfb_us: u64,
    pub body: Option<&'a [u8]>,
    pub body_encoding: Option<&'a str>,
    pub body_truncated: bool,
    pub body_bytes: u64,
    pub saved: Option<&'a Saved>,
}

#[cfg(any(test, feature = "testing"))]
impl Outcome {
    /// Returns a row with this response.
    pub fn for_tests(ordinal: u64, status: u16, body: Option<Vec<u8>>) -> Self {
        let response = Response {
            status,
            version: Version::HTTP_11,
            headers: Headers::default(),
            memory: Reservation::default(),
            ttfb_us: 1,
            body_encoding: None,
            body_truncated: false,
            body_bytes: body.as_ref().map_or(0, |body| body.len() as u64),
            saved: None,
            body: body.map(|bytes| Body { bytes, ..Body::default() }),
        };
        Self {
            row: Row::new(ordinal, "http://127.0.0.1/"),
            method: "GET".into(),
            attempts: 1,
            started_at_us: 0,
            elapsed_us: 1,
            remote_addr: Some("127.0.0.1:80".into()),
            response: Some(response),
            selected: None,
            failure: None,
        }
    }
}

impl Outcome {
    pub fn as_ref(&self) -> OutcomeRef<'_> {
        OutcomeRef {
            row: &self.row,
            method: &self.method,
            attempts: self.attempts,
            started_at_us: self.started_at_us,
            elapsed_us: self.elapsed_us,
            remote_addr: self.remote_addr.as_deref(),
            response: self.response.as_ref().map(Response::as_ref),
            selected: self.selected.as_deref(),
            failure: self.failure.as_ref(),
        }
    }

    /// Returns the length of the body, 0 if there is none.
    pub fn body_len(&self) -> usize {
        self.response.as_ref().and_then(|response| response.body.as_ref()).map_or(0, |body| body.bytes.len())
    }

    /// Returns whether other tasks may wait for the memory that it reserves.
    pub fn holds_short_memory(&self) -> bool {
        let Some(response) = &self.response else { return false };
        response.memory.is_short() || response.body.as_ref().is_some_and(|body| body.reservation.is_short())
    }

    /// Releases its reservations of memory for responses.
    pub fn release_memory(&mut self) {
        let Some(response) = &mut self.response else { return };
        drop(mem::take(&mut response.memory));
        if let Some(body) = &mut response.body {
            drop(mem::take(&mut body.reservation));
        }
    }
}

impl OutcomeRef<'_> {
    /// Returns about how much memory it needs.
    pub fn bytes(&self) -> usize {
        let response =
            self.response.map_or(0, |response| response.headers.bytes() + response.body.map_or(0, <[u8]>::len));
        self.row.bytes() + response + self.selected.map_or(0, Selected::bytes)
    }
}

impl Response {
    fn as_ref(&self) -> ResponseRef<'_> {
        ResponseRef {
            status: self.status,
            version: self.version,
            headers: HeadersRef::Kept(&self.headers),
            ttfb_us: self.ttfb_us,
            body: self.body.as_ref().map(|body| &body.bytes[..]),
            body_encoding: self.body_encoding.as_deref(),
            body_truncated: self.body_truncated,
            body_bytes: self.body_bytes,
            saved: self.saved.as_deref(),
        }
    }
}

impl ResponseRef<'_> {
    /// Copies the response; `memory` is the reservation for the copy.
    pub fn to_response(&self, memory: Reservation) -> Response {
        Response {
            status: self.status,
            version: self.version,
            headers: self.headers.to_headers(),
            memory,
            ttfb_us: self.ttfb_us,
            body: self.body.map(|body| Body { bytes: body.to_vec(), ..Body::default() }),
            body_encoding: self.body_encoding.map(Box::from),
            body_truncated: self.body_truncated,
            body_bytes: self.body_bytes,
            saved: self.saved.cloned().map(Box::new),
        }
    }
}

/// A complete body, with its reservation.
#[derive(Debug, Default)]
pub struct Body {
    pub bytes: Vec<u8>,
    pub reservation: Reservation,
}
