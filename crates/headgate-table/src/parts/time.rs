//! Points in time as text: RFC 3339 in UTC, to the microsecond.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::temporal_conversions::timestamp_s_to_datetime;
use arrow_array::{Array as _, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};

pub(crate) const UTC_OFFSET: &str = "+00:00";

/// Converts points in time of any zone to UTC, and returns other columns unchanged. Formatting named zones (even
/// `UTC`) would need a time zone database.
pub fn in_utc(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Timestamp(unit, Some(_)) => cast(column, &DataType::Timestamp(*unit, Some(UTC_OFFSET.into()))),
        _ => Ok(Arc::clone(column)),
    }
}

/// Returns the current time, such as `2026-05-14T09:30:00.000000Z`.
pub fn now_text() -> io::Result<String> {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let mut time = TimeText::new();
    time.format(elapsed.as_micros() as i64).map(str::to_owned).ok_or_else(|| io::Error::other("the clock is wrong"))
}

/// Formats points in time, most of which are in the same second, as those of one batch are.
pub(super) struct TimeText {
    second: Option<i64>,
    text: String,
    /// The length of the beginning of `text` that is the same for the whole second: `2026-05-14T09:30:00`.
    second_length: usize,
}

impl TimeText {
    pub(super) fn new() -> Self {
        Self { second: None, text: String::new(), second_length: 0 }
    }

    /// Returns a text such as `2026-05-14T09:30:00.000000Z`, or `None` for a time beyond the calendar.
    pub(super) fn format(&mut self, micros: i64) -> Option<&str> {
        let second = micros.div_euclid(1_000_000);
        if self.second != Some(second) {
            let moment = timestamp_s_to_datetime(second)?;
            self.text.clear();
            // chrono promises ISO 8601 for `Debug`.
            write!(self.text, "{moment:?}").ok()?;
            self.second = Some(second);
            self.second_length = self.text.len();
        }
        let mut fraction = *b".000000Z";
        let mut rest = micros.rem_euclid(1_000_000);
        for digit in fraction[1..7].iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        self.text.truncate(self.second_length);
        self.text.extend(fraction.map(char::from));
        Some(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_written_in_full_on_either_side_of_the_epoch() {
        let mut time = TimeText::new();
        assert_eq!(Some("1970-01-01T00:00:00.000000Z"), time.format(0));
        assert_eq!(Some("2026-05-14T09:30:00.000042Z"), time.format(1_778_751_000_000_042));
        assert_eq!(Some("2026-05-14T09:30:00.999999Z"), time.format(1_778_751_000_999_999));
        assert_eq!(Some("1969-12-31T23:59:59.999999Z"), time.format(-1));
    }

    #[test]
    fn a_time_beyond_the_calendar_has_no_text() {
        let mut time = TimeText::new();
        assert_eq!(None, time.format(i64::MAX));
        assert_eq!(Some("1970-01-01T00:00:00.000001Z"), time.format(1));
    }
}
