//! What is kept of a body that was received, over whichever version of HTTP.
//!
//! Nothing that came is thrown away: a body that is not whole, or not what its coding says, is kept as it came, and
//! `body_encoding` names what was left undone. A part of a representation (206) is no whole body in its coding either, and
//! is kept so without being a failure.

use crate::http::deadline::Deadline;
use crate::http::decode::{Codings, Decoder, Undo};
use crate::http::h1::head::Head;
use crate::http::redirect::Redirects;
use crate::http::reply::ResponseLimits;
use crate::http::save::claim;
use crate::model::error::Failure;
use crate::model::outcome::Body;

pub const PARTIAL_CONTENT: u16 = 206;

/// A body as it came, as far as it came.
#[derive(Debug)]
pub struct Received {
    pub body: Body,
    /// There is more of it, which was not wanted.
    pub cut: bool,
    /// Why it did not come whole.
    pub failure: Option<Failure>,
}

/// What is kept of it.
#[derive(Debug, Default)]
pub struct Kept {
    pub body: Option<Body>,
    /// The content codings that `body` still has, in the order in which they were applied.
    pub body_encoding: Option<Box<str>>,
    /// `body` is the beginning of a longer one.
    pub truncated: bool,
    /// The file that has it in place of `body`.
    pub saved: Option<claim::Outcome>,
    pub failure: Option<Failure>,
}

impl Received {
    /// Undoes its content codings if that is wanted and can be.
    ///
    /// Cancelling it drops the body.
    pub async fn kept(
        self,
        head: &Head,
        redirects: &Redirects,
        limits: &ResponseLimits,
        decoder: &Decoder,
        deadline: &mut Deadline,
    ) -> Kept {
        let mut kept = match self.unless_decoded(head, redirects, limits) {
            Ok(kept) => kept,
            // Boxed: most bodies have nothing to be undone.
            Err((codings, body, undo)) => {
                let undone = Box::pin(decoder.decode(codings, body, undo, deadline)).await;
                Kept {
                    body: Some(undone.body),
                    body_encoding: undone.left,
                    truncated: undone.truncated,
                    saved: None,
                    failure: undone.failure,
                }
            }
        };
        if kept.failure.is_some() {
            kept.body = kept.body.filter(|body| !body.bytes.is_empty());
        }
        if let Some(body) = &mut kept.body {
            body.reservation.settle();
        }
        kept
    }

    /// What is kept where no coding is undone, or what is to be undone.
    fn unless_decoded(
        self,
        head: &Head,
        redirects: &Redirects,
        limits: &ResponseLimits,
    ) -> Result<Kept, (Codings, Body, Undo)> {
        let Self { body, cut, failure } = self;
        // The body of a redirect that is followed is of no use.
        if limits.no_body || redirects.lead_on(head.status, &head.headers) {
            return Ok(Kept { failure, ..Kept::default() });
        }
        let mut body_encoding = None;
        if head.encoded && !body.bytes.is_empty() {
            let codings = Codings::of(&head.headers);
            if !limits.raw && head.status != PARTIAL_CONTENT && failure.is_none() {
                let undo = Undo { max_bytes: limits.max_body_bytes, truncates: limits.truncate_body, is_cut: cut };
                return Err((codings, body, undo));
            }
            body_encoding = codings.names();
        }
        let truncated = cut && failure.is_none();
        Ok(Kept { body: Some(body), body_encoding, truncated, saved: None, failure })
    }
}
