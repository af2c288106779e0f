//! Correct redirects; broken ones are faults.

use super::call::Call;
use crate::plan::{PlannedContent, ResponsePlan};
use crate::received::Received;
use crate::response::{FullResponse, is_value};

const MAX_REDIRECTS: u32 = 1_000_000;
const REDIRECTS: std::ops::RangeInclusive<u16> = 300..=399;
const FOUND: u16 = 302;

/// The form of a URL in `Location`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    /// An absolute path.
    Path,
    /// A relative path.
    Relative,
    /// An absolute URL.
    Absolute,
}

/// Returns the first of as many redirects as the argument says.
pub(super) fn next(call: &Call<'_>, reference: Reference) -> Option<ResponsePlan> {
    let count: u32 = call.number().filter(|count| *count <= MAX_REDIRECTS)?;
    let Some(next) = count.checked_sub(1) else {
        return Some(ResponsePlan { delay: call.worker.draw_delay(), content: PlannedContent::Default });
    };
    let location = match reference {
        Reference::Path => format!("/redirect/{next}"),
        Reference::Relative => next.to_string(),
        Reference::Absolute => format!("{}/absolute-redirect/{next}", call.received.origin()),
    };
    Some(found(&location).into())
}

pub(super) fn to(received: &Received) -> FullResponse {
    let status = received.parameter("status_code").map_or(Some(FOUND), |code| code.parse().ok());
    let location = received.parameter("url").filter(|url| is_value(url));
    match (status.filter(|status| REDIRECTS.contains(status)), location) {
        (Some(status), Some(location)) => found(&location).with_status(status),
        _ => FullResponse::new(400, "url must be there, and status_code within 300..399\n"),
    }
}

pub(super) fn found(location: &str) -> FullResponse {
    FullResponse::new(FOUND, "").with_field("Location", location)
}
