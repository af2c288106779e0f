//! Redirects as they should be; broken ones are faults.

use super::call::Call;
use crate::answer::{Answer, is_value};
use crate::received::Received;
use crate::reply::{Content, Reply};

const MAX_REDIRECTS: u32 = 1_000_000;
const REDIRECTS: std::ops::RangeInclusive<u16> = 300..=399;
const FOUND: u16 = 302;

/// How a `Location` names the next URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    /// By its path.
    Path,
    /// By what differs from the URL before.
    Relative,
    /// By all of it.
    Absolute,
}

/// The first of so many redirects as the argument says.
pub(super) fn next(call: &Call<'_>, reference: Reference) -> Option<Reply> {
    let count: u32 = call.number().filter(|count| *count <= MAX_REDIRECTS)?;
    let Some(next) = count.checked_sub(1) else {
        return Some(Reply { delay: call.worker.draw_delay(), content: Content::Default });
    };
    let location = match reference {
        Reference::Path => format!("/redirect/{next}"),
        Reference::Relative => next.to_string(),
        Reference::Absolute => format!("{}/absolute-redirect/{next}", call.received.origin()),
    };
    Some(found(&location).into())
}

pub(super) fn to(received: &Received) -> Answer {
    let status = received.parameter("status_code").map_or(Some(FOUND), |code| code.parse().ok());
    let location = received.parameter("url").filter(|url| is_value(url));
    match (status.filter(|status| REDIRECTS.contains(status)), location) {
        (Some(status), Some(location)) => found(&location).with_status(status),
        _ => Answer::new(400, "url must be there, and status_code within 300..399\n"),
    }
}

pub(super) fn found(location: &str) -> Answer {
    Answer::new(FOUND, "").with_field("Location", location)
}
