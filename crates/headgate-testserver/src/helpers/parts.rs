//! Bodies that come in part, or part by part.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::call::Call;
use crate::answer::Answer;
use crate::config::{MAX_DELAY_S, STATUSES};
use crate::reply::{Content, Framing, Reply};

/// Of an answer that is held whole in memory.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const DRIP_BYTES: u64 = 10;
const DRIP_DURATION: Duration = Duration::from_secs(2);

/// The whole text where no range is asked for, or several are (RFC 9110 section 14.2 allows it).
pub(super) fn range(call: &Call<'_>, bytes: u64) -> Reply {
    let content = call.worker.content();
    let asked = call.received.field("range");
    let Some(asked) =
        asked.as_deref().and_then(|value| value.strip_prefix("bytes=")).filter(|asked| !asked.contains(','))
    else {
        return Reply::at_once(Content::Text { bytes, framing: Framing::Length });
    };
    let Some(range) = of(asked, bytes).filter(|range| range.end() - range.start() < MAX_BYTES) else {
        return Answer::new(416, "").with_field("Content-Range", &format!("bytes */{bytes}")).into();
    };
    let (first, last) = (*range.start(), *range.end());
    let skipped = content.offset(first);
    let part = content.bytes(skipped + (last - first + 1) as usize).split_off(skipped);
    Answer::new(206, part).with_field("Content-Range", &format!("bytes {first}-{last}/{bytes}")).into()
}

/// `first-last`, `first-` or `-length`, as far as there are bytes.
fn of(asked: &str, bytes: u64) -> Option<RangeInclusive<u64>> {
    let (first, last) = asked.trim().split_once('-')?;
    let end = bytes.checked_sub(1)?;
    let range = match (first, last) {
        ("", length) => bytes.saturating_sub(length.parse().ok().filter(|length| *length > 0)?)..=end,
        (first, "") => first.parse().ok()?..=end,
        (first, last) => first.parse().ok()?..=last.parse::<u64>().ok()?.min(end),
    };
    (!range.is_empty()).then_some(range)
}

pub(super) fn drip(call: &Call<'_>) -> Reply {
    let seconds = |name: &str, otherwise: Duration| match call.received.parameter(name) {
        None => Some(otherwise),
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
        return Answer::new(400, "numbytes, duration, delay or code can't be this\n").into();
    };
    let answer = Answer::new(status, call.worker.content().bytes(bytes as usize));
    // A timer is no finer than a millisecond.
    let pieces = u128::from(bytes).min(duration.as_millis()).max(1) as usize;
    Reply { delay, content: Content::Drip { answer, pieces, pause: duration / pieces as u32 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_there_is_of_it() {
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
        for (asked, expected) in cases {
            assert_eq!(expected, of(asked, 10), "{asked}");
        }
        assert_eq!(None, of("0-", 0));
    }
}
