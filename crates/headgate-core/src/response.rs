//! The part of a response that arrived.

use http::Version;

use crate::headers::{Headers, HeadersRef};
use crate::memory::Reservation;
use crate::saved::Saved;

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
    pub received_bytes: u64,
    /// The file that has the body in place of `body`.
    pub saved: Option<Box<Saved>>,
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
    pub received_bytes: u64,
    pub saved: Option<&'a Saved>,
}

impl Response {
    pub(crate) fn as_ref(&self) -> ResponseRef<'_> {
        ResponseRef {
            status: self.status,
            version: self.version,
            headers: HeadersRef::Kept(&self.headers),
            ttfb_us: self.ttfb_us,
            body: self.body.as_ref().map(|body| &body.bytes[..]),
            body_encoding: self.body_encoding.as_deref(),
            body_truncated: self.body_truncated,
            received_bytes: self.received_bytes,
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
            received_bytes: self.received_bytes,
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
