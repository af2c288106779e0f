//! Partial bodies, and bodies that are sent in parts.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::call::Call;
use crate::config::{MAX_DELAY_S, STATUSES};
use crate::plan::{PlannedContent, ResponseFraming, ResponsePlan};
use crate::response::FullResponse;

/// The bound of a response that is in memory as a whole.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const DRIP_BYTES: u64 = 10;
const DRIP_DURATION: Duration = Duration::from_secs(2);

/// Returns the whole text without a range, or for several ranges, which RFC 9110 section 14.2 allows.
pub(super) fn range(call: &Call<'_>, bytes: u64) -> ResponsePlan {
    let content = call.worker.content();
    let range_text = call.received.field("range");
    let Some(range_text) = range_text
        .as_deref()
        .and_then(|value| value.strip_prefix("bytes="))
        .filter(|range_text| !range_text.contains(','))
    else {
        return ResponsePlan::immediate(PlannedContent::Text { bytes, framing: ResponseFraming::Length });
    };
    let Some(range) = parse_range(range_text, bytes).filter(|range| range.end() - range.start() < MAX_BYTES) else {
        return FullResponse::new(416, "").with_field("Content-Range", &format!("bytes */{bytes}")).into();
    };
    let (first, last) = (*range.start(), *range.end());
    let skipped = content.offset(first);
    let part = content.bytes(skipped + (last - first + 1) as usize).split_off(skipped);
    FullResponse::new(206, part).with_field("Content-Range", &format!("bytes {first}-{last}/{bytes}")).into()
}

/// Parses `first-last`, `first-` or `-length`, and limits the range to the existing bytes.
fn parse_range(range_text: &str, bytes: u64) -> Option<RangeInclusive<u64>> {
    let (first, last) = range_text.trim().split_once('-')?;
    let end = bytes.checked_sub(1)?;
    let range = match (first, last) {
        ("", length) => bytes.saturating_sub(length.parse().ok().filter(|length| *length > 0)?)..=end,
        (first, "") => first.parse().ok()?..=end,
        (first, last) => first.parse().ok()?..=last.parse::<u64>().ok()?.min(end),
    };
    (!range.is_empty()).then_some(range)
}

pub(super) fn drip(call: &Call<'_>) -> ResponsePlan {
    let seconds = |name: &str, default: Duration| match call.received.parameter(name) {
        None => Some(default),
        Some(text) => {
            let seconds =
                text.trim_end_matches('s').parse().ok().filter(|seconds| (0.0..=MAX_DELAY_S).contains(seconds));
            seconds.map(Duration::from_secs_f64)
        }
    };
    let bytes = call.received.parameter("numbytes").map_or(Some(DRIP_BYTES), |text| text.parse().ok());
    let status = call.received.parameter("code").map_or(Some(200), |text| text.parse().ok());
    let (Some(delay), Some(duration), Some(bytes), Some(status)) = (
        seconds("delay", Duration::ZERO),
        seconds("duration", DRIP_DURATION),
        bytes.filter(|bytes| (1..=MAX_BYTES).contains(bytes)),
        status.filter(|status| STATUSES.contains(status)),
    ) else {
        return FullResponse::new(400, "numbytes, duration, delay or code can't be this\n").into();
    };
    let response = FullResponse::new(status, call.worker.content().bytes(bytes as usize));
    // Timers have a resolution of a millisecond.
    let pieces = u128::from(bytes).min(duration.as_millis()).max(1) as usize;
    ResponsePlan { delay, content: PlannedContent::Drip { response, pieces, pause: duration / pieces as u32 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_limited_to_the_existing_bytes() {
        let cases = [
            ("0-0", Some(0..=0)),
            ("2-4", Some(2..=4)),
            ("2-400", Some(2..=9)),
            ("7-", Some(7..=9)),
            ("-3", Some(7..=9)),
            ("-30", Some(0..=9)),
            ("10-", None),
            ("4-2", None),
            ("-0", None),
            ("x-1", None),
        ];
        for (range_text, expected) in cases {
            assert_eq!(expected, parse_range(range_text, 10), "{range_text}");
        }
        assert_eq!(None, parse_range("0-", 0));
    }
}
