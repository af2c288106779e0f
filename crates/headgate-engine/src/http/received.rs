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
        redirects: Redirects,
        limits: &ResponseLimits,
        decoder: &Decoder,
        deadline: &mut Deadline,
    ) -> Kept {
        let Self { body, cut, failure } = self;
        let truncated = cut && failure.is_none();
        let mut kept = Kept { body: Some(body), truncated, failure, ..Kept::default() };
        // Nobody reads the body of a redirect that is followed.
        if limits.no_body || redirects.lead_on(head.status, &head.headers) {
            return Kept { body: None, truncated: false, ..kept };
        }
        if head.encoded
            && let Some(body) = kept.body.take_if(|body| !body.bytes.is_empty())
        {
            let codings = Codings::of(&head.headers);
            let is_left = limits.raw || head.status == PARTIAL_CONTENT || kept.failure.is_some();
            if is_left {
                kept.body_encoding = codings.names();
                kept.body = Some(body);
            } else {
                let undo = Undo { max_bytes: limits.max_body_bytes, truncates: limits.truncate_body, is_cut: cut };
                let undone = decoder.decode(codings, body, undo, deadline).await;
                kept = Kept {
                    body: Some(undone.body),
                    body_encoding: undone.left,
                    truncated: undone.truncated,
                    saved: None,
                    failure: undone.failure,
                };
            }
        }
        if kept.failure.is_some() {
            kept.body = kept.body.filter(|body| !body.bytes.is_empty());
        }
        if let Some(body) = &mut kept.body {
            body.reservation.settle();
        }
        kept
    }
}
