//! Redirects as they should be; broken ones are faults.

use crate::answer::{Answer, is_value};
use crate::asking::Asking;
use crate::route::Reference;

const REDIRECTS: std::ops::RangeInclusive<u16> = 300..=399;
const FOUND: u16 = 302;

pub(super) fn next(asking: &Asking, reference: Reference, count: u32) -> Answer {
    let next = count.saturating_sub(1);
    let location = match reference {
        Reference::Path => format!("/redirect/{next}"),
        Reference::Relative => next.to_string(),
        Reference::Absolute => format!("{}/absolute-redirect/{next}", asking.origin()),
    };
    found(&location)
}

pub(super) fn to(asking: &Asking) -> Answer {
    let status = asking.parameter("status_code").map_or(Some(FOUND), |code| code.parse().ok());
    let location = asking.parameter("url").filter(|url| is_value(url));
    match (status.filter(|status| REDIRECTS.contains(status)), location) {
        (Some(status), Some(location)) => found(&location).with_status(status),
        _ => Answer::new(400, "url must be there, and status_code within 300..399\n"),
    }
}

pub(super) fn found(location: &str) -> Answer {
    Answer::new(FOUND, "").with_field("Location", location)
}
